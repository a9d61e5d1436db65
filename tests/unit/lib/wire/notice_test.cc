// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/notice.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lib/wire/ipoib.h"
#include "lib/wire/sa_records.h"
#include "tests/support/vectors.h"

namespace ipoib::wire {
namespace {

using nlohmann::json;
using test::Bytes;
using test::number;
using test::octets;
using test::to_hex;

template <class T>
T as(const json& decode, const char* name) {
  return static_cast<T>(number(decode.at(name)));
}
Gid gid_of(const json& decode, const char* name) {
  return parse_gid(decode.at(name).get<std::string>()).value();
}
std::span<const std::byte> attribute(const Bytes& mad) {
  return std::span{mad}.subspan(sizeof(SaHdr));
}

InformInfo inform_info(const json& r) {
  InformInfo i{};
  i.gid = gid_of(r, "gid");
  i.lid_range_begin.set(as<std::uint16_t>(r, "lid_range_begin"));
  i.lid_range_end.set(as<std::uint16_t>(r, "lid_range_end"));
  i.is_generic = as<std::uint8_t>(r, "is_generic");
  i.subscribe = as<std::uint8_t>(r, "subscribe");
  i.type.set(as<std::uint16_t>(r, "type"));
  i.trap_number.set(as<std::uint16_t>(r, "trap_number"));
  i.qpn.set(as<std::uint32_t>(r, "qpn"));
  i.resp_time = as<std::uint8_t>(r, "resp_time_value");
  i.producer_type.set(as<std::uint32_t>(r, "producer_type"));
  return i;
}

void expect_inform_info(const json& hex, const json& record) {
  const Bytes mad = octets(hex);
  InformInfo info{};
  ASSERT_EQ(parse_inform_info(attribute(mad), info), InformError::kNone);
  EXPECT_EQ(info.resp_time_value(), number(record.at("resp_time_value")));
  EXPECT_EQ(to_hex(bytes_of(inform_info(record))),
            to_hex(attribute(mad).first(sizeof(InformInfo))));
  EXPECT_EQ(to_hex(bytes_of(info)), to_hex(attribute(mad).first(sizeof(InformInfo))));
}

TEST(NoticeVectors, InformInfoOfRealExchangesDecodesAndEncodes) {
  int seen = 0;
  const json vectors = test::load_vectors("opensm-sa.json");
  for (const auto& x : vectors.at("exchanges")) {
    if (as<std::uint16_t>(x.at("request_decode"), "attribute_id") !=
        static_cast<std::uint16_t>(Attr::kInformInfo))
      continue;
    SCOPED_TRACE(x.at("name"));
    expect_inform_info(x.at("request"), x.at("request_decode").at("record"));
    expect_inform_info(x.at("response"), x.at("response_decode").at("record"));
    ++seen;
  }
  EXPECT_EQ(seen, 4);
}

TEST(NoticeVectors, InformInfoRecordsOfARealTableDecodeAndEncode) {
  int seen = 0;
  const json vectors = test::load_vectors("opensm-sa.json");
  for (const auto& x : vectors.at("exchanges")) {
    if (x.at("name") != "informinforec-gettable") continue;
    const json& r = x.at("response_decode").at("record");
    InformInfoRecord built{};
    built.subscriber_gid = gid_of(r, "subscriber_gid");
    built.number.set(as<std::uint16_t>(r, "enum"));
    built.inform = inform_info(r.at("informinfo"));
    const Bytes mad = octets(x.at("response"));
    EXPECT_EQ(to_hex(bytes_of(built)), to_hex(attribute(mad).first(sizeof(built))));
    const auto second = read<InformInfoRecord>(attribute(mad), sizeof(built));
    EXPECT_EQ(second->inform.trap_number.host(), 66);
    ++seen;
  }
  EXPECT_EQ(seen, 1);
}

TEST(NoticeVectors, ReportsOfARealAdministratorDecodeAndEncode) {
  const json reports = test::load_vectors("opensm-sa.json").at("reports");
  ASSERT_EQ(reports.size(), 2U);
  for (const auto& report : reports) {
    const json& r = report.at("decode").at("record");
    const Bytes mad = octets(report.at("report"));
    Notice n{};
    ASSERT_EQ(parse_notice(attribute(mad), n), NoticeError::kNone);
    EXPECT_EQ(n.type(), number(r.at("type")));
    EXPECT_EQ(n.gid(), gid_of(r, "data_gid"));

    Notice built =
        make_notice(static_cast<Trap>(as<std::uint16_t>(report, "trap")), gid_of(r, "data_gid"),
                    as<std::uint16_t>(r, "issuer_lid"), gid_of(r, "issuer_gid"));
    EXPECT_TRUE(write(std::as_writable_bytes(std::span{&built, 1}), offsetof(Notice, toggle_count),
                      *read<Be16>(octets(r.at("toggle_count")))));
    built.data_reserved = *read<decltype(built.data_reserved)>(octets(r.at("data_reserved")));
    built.data_rest = *read<decltype(built.data_rest)>(octets(r.at("data_rest")));
    EXPECT_EQ(to_hex(bytes_of(built)), to_hex(attribute(mad).first(sizeof(Notice))));
    EXPECT_EQ(to_hex(bytes_of(n)), to_hex(attribute(mad).first(sizeof(Notice))));
  }
}

const Gid kPort = Gid::of(kDefaultGidPrefix, 0x2c9);
const Gid kGroup = Gid::of(0xff12'401b'ffff'0000, 1);

InformInfo good_inform() {
  InformInfo i{};
  i.lid_range_begin.set(kAllLids);
  i.is_generic = i.subscribe = 1;
  return i;
}

TEST(ParseInformInfo, OddOnesAreNamed) {
  struct Row {
    void (*spoil)(InformInfo&);
    InformError error;
  };
  const Row rows[] = {
      {[](InformInfo&) {}, InformError::kNone},
      {[](InformInfo& i) { i.is_generic = 2; }, InformError::kGeneric},
      {[](InformInfo& i) { i.subscribe = 2; }, InformError::kSubscribe},
      {[](InformInfo& i) { i.gid = kGroup; }, InformError::kGid},
      {[](InformInfo& i) { i.lid_range_begin.set(9), i.lid_range_end.set(8); },
       InformError::kLidRange},
      {[](InformInfo& i) { i.lid_range_begin.set(9); }, InformError::kNone},
      {[](InformInfo& i) { i.lid_range_begin.set(0); }, InformError::kNone},
      {[](InformInfo& i) { i.gid = kPort, i.lid_range_begin.set(9); }, InformError::kNone},
  };
  for (const Row& row : rows) {
    InformInfo in = good_inform();
    row.spoil(in);
    InformInfo out{};
    EXPECT_EQ(parse_inform_info(bytes_of(in), out), row.error);
    EXPECT_EQ(to_hex(bytes_of(out)), to_hex(bytes_of(in)));
  }
  InformInfo out{};
  EXPECT_EQ(parse_inform_info(bytes_of(good_inform()).first(35), out), InformError::kLength);
}

TEST(ParseNotice, OddOnesAreNamed) {
  struct Row {
    void (*spoil)(Notice&);
    NoticeError error;
  };
  const Row rows[] = {
      {[](Notice&) {}, NoticeError::kNone},
      {[](Notice& n) { n.generic_type = kNoticeTypeSubnet; }, NoticeError::kVendor},
      {[](Notice& n) { n.generic_type = 0x85; }, NoticeError::kType},
      {[](Notice& n) { n.producer_type.set(0); }, NoticeError::kProducer},
      {[](Notice& n) { n.data_gid = {}; }, NoticeError::kGid},
      {[](Notice& n) { n.data_gid = kPort; }, NoticeError::kGid},
      {[](Notice& n) { n.trap_number.set(64); }, NoticeError::kGid},
      {[](Notice& n) { n.trap_number.set(128); }, NoticeError::kNone},
      {[](Notice& n) { n.data_reserved.fill(std::byte{0xa5}); }, NoticeError::kNone},
  };
  for (const Row& row : rows) {
    Notice in = make_notice(Trap::kGroupCreated, kGroup, 1, kPort);
    row.spoil(in);
    Notice out{};
    EXPECT_EQ(parse_notice(bytes_of(in), out), row.error);
    EXPECT_EQ(to_hex(bytes_of(out)), to_hex(bytes_of(in)));
  }
  const Notice notice = make_notice(Trap::kGidInService, kPort, 1, kPort);
  Notice out{};
  EXPECT_EQ(parse_notice(bytes_of(notice), out), NoticeError::kNone);
  EXPECT_EQ(parse_notice(bytes_of(notice).first(79), out), NoticeError::kLength);
}

TEST(Notice, GidIsThatOfItsFourTrapsOnly) {
  for (unsigned trap = 0; trap < 300; ++trap) {
    Notice n = make_notice(static_cast<Trap>(trap), kGroup, 1, kPort);
    EXPECT_EQ(n.gid().has_value(), trap >= 64 && trap <= 67) << trap;
    n.generic_type = 3;
    EXPECT_FALSE(n.gid());
  }
}

TEST(NoticeNames, EveryErrorHasItsOwn) {
  std::set<std::string_view> inform, notice;
  for (std::size_t i = 0; i < static_cast<std::size_t>(InformError::kCount); ++i)
    EXPECT_TRUE(inform.insert(inform_error_name(static_cast<InformError>(i))).second);
  for (std::size_t i = 0; i < static_cast<std::size_t>(NoticeError::kCount); ++i)
    EXPECT_TRUE(notice.insert(notice_error_name(static_cast<NoticeError>(i))).second);
  EXPECT_EQ(inform_error_name(InformError::kLidRange), "lid_range");
  EXPECT_EQ(notice_error_name(NoticeError::kGid), "gid");
}

}  // namespace
}  // namespace ipoib::wire
