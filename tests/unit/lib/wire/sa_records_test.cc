// SPDX-License-Identifier: BSD-3-Clause

#include "lib/wire/sa_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "lib/wire/ipoib.h"
#include "tests/support/vectors.h"

namespace ipoib::wire {
namespace {

using nlohmann::json;
using test::Bytes;
using test::number;
using test::octets;
using test::to_hex;

/// as() reads a field that the vectors' decode shows as a decimal or "0x…" number, bare_hex() one
/// that it shows as hexadecimal digits without prefix.
template <class T>
T as(const json& decode, const char* name) {
  return static_cast<T>(number(decode.at(name)));
}
template <class T>
T bare_hex(const json& decode, const char* name) {
  return static_cast<T>(std::stoull(decode.at(name).get<std::string>(), nullptr, 16));
}
Gid gid_of(const json& decode, const char* name) {
  return parse_gid(decode.at(name).get<std::string>()).value();
}
std::uint8_t selected(const json& r, const char* selector, const char* value) {
  return with_selector(static_cast<Selector>(number(r.at(selector))), as<std::uint8_t>(r, value));
}

McMemberRecord member_record(const json& r) {
  McMemberRecord m{};
  m.mgid = gid_of(r, "mgid");
  m.port_gid = gid_of(r, "port_gid");
  m.qkey.set(as<std::uint32_t>(r, "qkey"));
  m.mlid.set(as<std::uint16_t>(r, "mlid"));
  m.mtu = selected(r, "mtu_selector", "mtu");
  m.tclass = as<std::uint8_t>(r, "tclass");
  m.pkey.set(as<std::uint16_t>(r, "pkey"));
  m.rate = selected(r, "rate_selector", "rate");
  m.lifetime = selected(r, "life_selector", "life");
  m.sl_flow_hop =
      McMemberRecord::pack(as<std::uint8_t>(r, "sl"), as<std::uint32_t>(r, "flow_label"),
                           as<std::uint8_t>(r, "hop_limit"));
  m.scope_join = static_cast<std::uint8_t>(number(r.at("scope")) << 4 | number(r.at("join_state")));
  m.proxy_resv = static_cast<std::uint8_t>(number(r.at("proxy_join")) << 7);
  return m;
}
void expect_accessors(const McMemberRecord& m, const json& r) {
  EXPECT_EQ(static_cast<unsigned>(selector_of(m.mtu)), number(r.at("mtu_selector")));
  EXPECT_EQ(value_of(m.mtu), number(r.at("mtu")));
  EXPECT_EQ(static_cast<unsigned>(selector_of(m.rate)), number(r.at("rate_selector")));
  EXPECT_EQ(value_of(m.rate), number(r.at("rate")));
  EXPECT_EQ(m.sl(), number(r.at("sl")));
  EXPECT_EQ(m.flow_label(), number(r.at("flow_label")));
  EXPECT_EQ(m.hop_limit(), number(r.at("hop_limit")));
  EXPECT_EQ(m.scope(), number(r.at("scope")));
  EXPECT_EQ(m.join(), number(r.at("join_state")));
}

PathRecord path_record(const json& r) {
  PathRecord p{};
  p.service_id.set(bare_hex<std::uint64_t>(r, "service_id"));
  p.dgid = gid_of(r, "dgid");
  p.sgid = gid_of(r, "sgid");
  p.dlid.set(as<std::uint16_t>(r, "dlid"));
  p.slid.set(as<std::uint16_t>(r, "slid"));
  p.raw_flow_hop.set(static_cast<std::uint32_t>(number(r.at("raw_traffic")) << 31 |
                                                number(r.at("flow_label")) << 8 |
                                                number(r.at("hop_limit"))));
  p.tclass = as<std::uint8_t>(r, "tclass");
  p.reversible_numb =
      static_cast<std::uint8_t>(number(r.at("reversible")) << 7 | number(r.at("numb_path")));
  p.pkey.set(as<std::uint16_t>(r, "pkey"));
  p.qos_sl.set(static_cast<std::uint16_t>(number(r.at("qos_class")) << 4 | number(r.at("sl"))));
  p.mtu = selected(r, "mtu_selector", "mtu");
  p.rate = selected(r, "rate_selector", "rate");
  p.lifetime = selected(r, "life_selector", "life");
  p.preference = as<std::uint8_t>(r, "preference");
  return p;
}
void expect_accessors(const PathRecord& p, const json& r) {
  EXPECT_EQ(p.sl(), number(r.at("sl")));
  EXPECT_EQ(p.flow_label(), number(r.at("flow_label")));
  EXPECT_EQ(p.hop_limit(), number(r.at("hop_limit")));
}

ClassPortInfo class_port_info(const json& r) {
  ClassPortInfo c{};
  c.base_version = as<std::uint8_t>(r, "base_version");
  c.class_version = as<std::uint8_t>(r, "class_version");
  c.capability_mask.set(as<std::uint16_t>(r, "capability_mask"));
  c.capability2_resp_time.set(static_cast<std::uint32_t>(number(r.at("capability_mask2")) << 5 |
                                                         number(r.at("resp_time_value"))));
  c.redirect_gid = gid_of(r, "redirect_gid");
  c.redirect_tc_sl_fl.set(bare_hex<std::uint32_t>(r, "redirect_tc_sl_fl"));
  c.redirect_lid.set(bare_hex<std::uint16_t>(r, "redirect_lid"));
  c.redirect_pkey.set(bare_hex<std::uint16_t>(r, "redirect_pkey"));
  c.redirect_qp.set(bare_hex<std::uint32_t>(r, "redirect_qp"));
  c.redirect_qkey.set(bare_hex<std::uint32_t>(r, "redirect_qkey"));
  c.trap_gid = gid_of(r, "trap_gid");
  c.trap_tc_sl_fl.set(bare_hex<std::uint32_t>(r, "trap_tc_sl_fl"));
  c.trap_lid.set(bare_hex<std::uint16_t>(r, "trap_lid"));
  c.trap_pkey.set(bare_hex<std::uint16_t>(r, "trap_pkey"));
  c.trap_hl_qp.set(bare_hex<std::uint32_t>(r, "trap_hl_qp"));
  c.trap_qkey.set(bare_hex<std::uint32_t>(r, "trap_qkey"));
  return c;
}
void expect_accessors(const ClassPortInfo& c, const json& r) {
  EXPECT_EQ((c.capability2_resp_time.host() >> 5 >> 12 & 1) != 0,
            r.at("send_only_full_member").get<bool>());
}

/// Number of octets of a record that carry components. The pad between the records of a table has
/// no meaning: each sender fills it as it likes.
template <class Record>
constexpr std::size_t kMeant = sizeof(Record);
template <>
constexpr std::size_t kMeant<McMemberRecord> = 50;  // through proxy_resv
template <>
constexpr std::size_t kMeant<PathRecord> = 58;

template <class Record>
void expect_record(const SaMad& mad, const Record& built, const json& decode) {
  const auto read_back = read<Record>(mad.data);
  ASSERT_TRUE(read_back);
  EXPECT_EQ(to_hex(bytes_of(built).first(kMeant<Record>)),
            to_hex(std::span{mad.data}.first(kMeant<Record>)));
  EXPECT_EQ(to_hex(bytes_of(*read_back)), to_hex(std::span{mad.data}.first(sizeof(Record))));
  expect_accessors(*read_back, decode);
}

SaHdr header(const json& d) {
  SaHdr h{};
  h.mad.base_version = as<std::uint8_t>(d, "base_version");
  h.mad.mgmt_class = as<std::uint8_t>(d, "class");
  h.mad.class_version = as<std::uint8_t>(d, "class_version");
  h.mad.method = as<std::uint8_t>(d, "method");
  h.mad.status.set(as<std::uint16_t>(d, "status"));
  h.mad.tid.set(as<std::uint64_t>(d, "tid"));
  h.mad.attr_id.set(as<std::uint16_t>(d, "attribute_id"));
  const Bytes rmpp = octets(d.at("rmpp"));
  h.rmpp_version = std::to_integer<std::uint8_t>(rmpp.at(0));
  h.rmpp_type = std::to_integer<std::uint8_t>(rmpp.at(1));
  h.rmpp_rtime_flags = std::to_integer<std::uint8_t>(rmpp.at(2));
  h.rmpp_status = std::to_integer<std::uint8_t>(rmpp.at(3));
  h.rmpp_segment = read<Be32>(rmpp, 4).value();
  h.rmpp_len = read<Be32>(rmpp, 8).value();
  h.sm_key.set(as<std::uint64_t>(d, "sm_key"));
  h.attr_offset.set(as<std::uint16_t>(d, "attribute_offset"));
  h.comp_mask.set(as<std::uint64_t>(d, "component_mask"));
  return h;
}

/// Decodes a MAD and checks header and record against the decode in the vectors. Encodes the MAD
/// from that decode alone and compares the octets. Returns true if this product has the type of the
/// record.
bool expect_mad(const json& hex, const json& decode) {
  Bytes payload = octets(hex);
  payload.resize(kMadLen);
  SaMad mad;
  EXPECT_EQ(parse_sa_mad(payload, mad), MadError::kNone);
  EXPECT_EQ(to_hex(bytes_of(mad)), to_hex(payload));
  EXPECT_EQ(to_hex(bytes_of(header(decode))), to_hex(std::span{payload}.first(sizeof(SaHdr))));
  const json& r = decode.at("record");
  switch (static_cast<Attr>(mad.hdr.mad.attr_id.host())) {
    case Attr::kMcMemberRecord: expect_record(mad, member_record(r), r); return true;
    case Attr::kPathRecord: expect_record(mad, path_record(r), r); return true;
    case Attr::kClassPortInfo: expect_record(mad, class_port_info(r), r); return true;
    default: return false;
  }
}

TEST(SaVectors, ExchangesWithARealAdministratorDecodeAndEncode) {
  const json exchanges = test::load_vectors("opensm-sa.json").at("exchanges");
  ASSERT_EQ(exchanges.size(), 46U);
  int records = 0;
  for (const auto& x : exchanges) {
    SCOPED_TRACE(x.at("name"));
    if (x.at("request_decode").contains("record"))
      records += expect_mad(x.at("request"), x.at("request_decode")) ? 1 : 0;
    if (!x.at("response").is_null())
      records += expect_mad(x.at("response"), x.at("response_decode")) ? 1 : 0;
  }
  EXPECT_EQ(records, 67);
}

TEST(SaVectors, ReportsDecode) {
  const json reports = test::load_vectors("opensm-sa.json").at("reports");
  ASSERT_EQ(reports.size(), 2U);
  for (const auto& report : reports)
    EXPECT_FALSE(expect_mad(report.at("report"), report.at("decode")));
}

TEST(SaVectors, RecordsOfATableLieAttributeOffsetApart) {
  const json exchanges = test::load_vectors("opensm-sa.json").at("exchanges");
  const auto table = std::find_if(exchanges.begin(), exchanges.end(), [](const json& x) {
    return x.at("name") == "mcm-gettable-trusted";
  });
  ASSERT_NE(table, exchanges.end());
  SaMad mad;
  ASSERT_EQ(parse_sa_mad(octets(table->at("response")), mad), MadError::kNone);
  const std::size_t stride = std::size_t{mad.hdr.attr_offset.host()} * 8;
  EXPECT_EQ(stride, sizeof(McMemberRecord));
  const auto first = read<McMemberRecord>(mad.data);
  const auto second = read<McMemberRecord>(mad.data, stride);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->mgid, second->mgid);
  EXPECT_NE(first->port_gid, second->port_gid);
  EXPECT_EQ(first->mlid, second->mlid);
}

SaMad good_mad() {
  SaMad mad{};
  mad.hdr.mad.base_version = kMadBaseVersion;
  mad.hdr.mad.mgmt_class = static_cast<std::uint8_t>(MgmtClass::kSubnAdm);
  mad.hdr.mad.class_version = kSaClassVersion;
  return mad;
}

TEST(ParseSaMad, EveryLengthButOneIsNamed) {
  const SaMad mad = good_mad();
  for (std::size_t len = 0; len <= kMadLen + 64; ++len) {
    Bytes payload(len);
    std::copy_n(bytes_of(mad).begin(), std::min(len, kMadLen), payload.begin());
    SaMad out;
    EXPECT_EQ(parse_sa_mad(payload, out), len == kMadLen ? MadError::kNone : MadError::kLength);
  }
}

TEST(ParseSaMad, BadVersionsAndClassesAreNamedAndCanBeAnswered) {
  struct Case {
    std::size_t at;
    std::uint8_t good;
    MadError error;
  };
  for (const auto& c : {Case{0, 1, MadError::kBaseVersion}, Case{1, 3, MadError::kClass},
                        Case{2, 2, MadError::kClassVersion}}) {
    for (unsigned value = 0; value < 256; ++value) {
      SaMad in = good_mad();
      in.hdr.mad.tid.set(0x1234);
      Bytes payload{bytes_of(in).begin(), bytes_of(in).end()};
      payload[c.at] = static_cast<std::byte>(value);
      SaMad out;
      EXPECT_EQ(parse_sa_mad(payload, out), value == c.good ? MadError::kNone : c.error) << value;
      EXPECT_EQ(out.hdr.mad.tid.host(), 0x1234U);
    }
  }
}

TEST(MadNames, EveryErrorHasItsOwn) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < static_cast<std::size_t>(MadError::kCount); ++i)
    EXPECT_TRUE(names.insert(mad_error_name(static_cast<MadError>(i))).second) << i;
  EXPECT_FALSE(names.contains(""));
  EXPECT_EQ(mad_error_name(MadError::kClassVersion), "class_version");
}

TEST(MadNames, EveryStatusHasItsOwn) {
  std::set<std::string_view> names;
  for (const int status : {0x0000, 0x0001, 0x0002, 0x0004, 0x0008, 0x000c, 0x001c, 0x0100, 0x0200,
                           0x0300, 0x0400, 0x0500, 0x0600, 0x0700, 0x0800}) {
    const auto name = status_name(static_cast<std::uint16_t>(status));
    EXPECT_FALSE(name.empty());
    EXPECT_NE(name, "unknown status") << status;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  for (const int status : {0x0003, 0x0010, 0x0301, 0x0900, 0xffff})
    EXPECT_EQ(status_name(static_cast<std::uint16_t>(status)), "unknown status") << status;
}

}  // namespace
}  // namespace ipoib::wire
