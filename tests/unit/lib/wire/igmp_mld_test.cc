// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/igmp_mld.h"

#include <gtest/gtest.h>

#include <vector>

#include "lib/wire/igmp.h"
#include "lib/wire/mld.h"
#include "tests/support/addresses.h"

namespace ipoib::wire {
namespace {

using ipoib::test::ip;
using std::chrono::milliseconds;
using std::chrono::seconds;

const IpAddr kHost4 = ip("10.0.0.7");
const IpAddr kHost6 = ip("fe80::7");

/// The parameters of the tests that IGMP and MLD share.
struct Wire {
  const char* name;
  std::vector<std::byte> (*query)(const IpAddr&, const MembershipQuery&);
  std::vector<std::byte> (*report)(const IpAddr&, const MembershipReport&);
  ParsedMembership (*parse)(std::span<const std::byte>);
  IpAddr host;
  IpAddr any;
  IpAddr group;
  std::vector<IpAddr> sources;
  std::size_t headers;  ///< Octets before the message.
  std::size_t address;
};

const Wire kIgmp{"igmp",
                 make_igmp,
                 make_igmp,
                 parse_igmp,
                 kHost4,
                 IpAddr::v4(0),
                 ip("239.1.2.3"),
                 {ip("10.1.0.1"), ip("10.1.0.2")},
                 24,
                 4};
const Wire kMld{"mld",  make_mld, make_mld,        parse_mld,
                kHost6, IpAddr{}, ip("ff1e::123"), {ip("fd00::1"), ip("fd00::2")},
                48,     16};

class Membership : public testing::TestWithParam<const Wire*> {
 protected:
  const Wire& w = *GetParam();

  /// Changes one octet of the message and updates its checksum.
  std::vector<std::byte> changed(std::vector<std::byte> p, std::size_t at, std::uint8_t value) {
    std::uint32_t sum = 0;
    const auto word = [&p](std::size_t i) {
      return std::to_integer<std::uint32_t>(p[i]) << 8 | std::to_integer<std::uint32_t>(p[i + 1]);
    };
    const std::size_t i = w.headers + (at & ~std::size_t{1});
    const std::uint32_t before = word(i);
    p[w.headers + at] = std::byte{value};
    // Source: RFC 1624 §3, equation 3.
    sum = (~word(w.headers + 2) & 0xffff) + (~before & 0xffff) + word(i);
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    sum = ~sum & 0xffff;
    p[w.headers + 2] = static_cast<std::byte>(sum >> 8);
    p[w.headers + 3] = static_cast<std::byte>(sum);
    return p;
  }
  MembershipFault fault_of(const std::vector<std::byte>& p) {
    const auto parsed = w.parse(p);
    return parsed ? MembershipFault::kCount : parsed.error();
  }
  MembershipReport report() {
    return {MembershipVersion::kV3,
            {{RecordType::kToExclude, w.group, w.sources},
             {RecordType::kIsInclude, w.group, {}},
             {RecordType::kBlock, w.group, {w.sources[0]}}}};
  }
};

TEST_P(Membership, QueriesReadAsTheyWereMade) {
  const std::vector<MembershipQuery> queries = {
      {MembershipVersion::kV2, w.any, milliseconds(10'000)},
      {MembershipVersion::kV2, w.group, milliseconds(1'000)},
      {MembershipVersion::kV3, w.any, milliseconds(10'000), false, 2, seconds(125), {}},
      {MembershipVersion::kV3, w.group, milliseconds(1'000), true, 7, seconds(20), {}},
      {MembershipVersion::kV3, w.group, milliseconds(1'000), false, 3, seconds(125), w.sources}};
  for (const MembershipQuery& query : queries) {
    const auto parsed = w.parse(w.query(w.host, query));
    ASSERT_TRUE(parsed) << kMembershipFaultNames[static_cast<std::size_t>(parsed.error())];
    EXPECT_EQ(std::get<MembershipQuery>(parsed->message), query);
    EXPECT_EQ(parsed->src, w.host);
    EXPECT_EQ(query.group == w.group, parsed->dst == w.group);
  }
}

TEST_P(Membership, ReportsReadAsTheyWereMade) {
  for (const MembershipReport& report :
       {report(), MembershipReport{MembershipVersion::kV2, {{RecordType::kIsExclude, w.group, {}}}},
        MembershipReport{MembershipVersion::kV2, {{RecordType::kToInclude, w.group, {}}}}}) {
    const auto parsed = w.parse(w.report(w.host, report));
    ASSERT_TRUE(parsed) << kMembershipFaultNames[static_cast<std::size_t>(parsed.error())];
    EXPECT_EQ(std::get<MembershipReport>(parsed->message), report);
  }
}

TEST_P(Membership, EveryShorterPacketIsRefused) {
  const auto whole = w.report(w.host, report());
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_FALSE(w.parse(std::span{whole}.first(n))) << n;
}

TEST_P(Membership, CountsBeyondTheOctetsAreRefused) {
  const auto p = w.report(w.host, report());
  EXPECT_EQ(fault_of(changed(p, 7, 4)), MembershipFault::kRecordCount);
  EXPECT_EQ(fault_of(changed(p, 6, 0xff)), MembershipFault::kRecordCount);
  EXPECT_EQ(fault_of(changed(p, 8 + 2, 0xff)), MembershipFault::kSourceCount);
  const std::size_t last = 8 + 3 * (4 + w.address) + 2 * w.address - (4 + w.address);
  EXPECT_EQ(fault_of(changed(p, last + 1, 1)), MembershipFault::kRecordCount);  // auxiliary data
  const auto q = w.query(w.host, {MembershipVersion::kV3, w.group, milliseconds(1'000), false, 2,
                                  seconds(125), w.sources});
  EXPECT_EQ(fault_of(changed(q, q.size() - w.headers - 2 * w.address - 1, 3)),
            MembershipFault::kSourceCount);
}

TEST_P(Membership, UnknownRecordTypesAreSkipped) {
  const auto parsed = w.parse(changed(w.report(w.host, report()), 8, 9));
  ASSERT_TRUE(parsed);
  const auto& read = std::get<MembershipReport>(parsed->message);
  EXPECT_EQ(read.unknown_records, 1U);
  ASSERT_EQ(read.records.size(), 2U);
  EXPECT_EQ(read.records[1], report().records[2]);
}

TEST_P(Membership, ABadChecksumIsNamed) {
  auto p = w.report(w.host, report());
  p.back() ^= std::byte{1};
  EXPECT_EQ(fault_of(p), MembershipFault::kChecksum);
}

TEST_P(Membership, AQueryForNoGroupIsNamed) {
  const auto q = w.query(w.host, {MembershipVersion::kV2, w.group, milliseconds(1'000)});
  EXPECT_EQ(fault_of(changed(q, w.address == 4 ? 4 : 8, 0x20)), MembershipFault::kQueryGroup);
}

INSTANTIATE_TEST_SUITE_P(Families, Membership, testing::Values(&kIgmp, &kMld),
                         [](const auto& family) { return std::string(family.param->name); });

TEST(Igmp, QueryVersionsAreToldApartByLengthAndCode) {
  auto p = make_igmp(kHost4, MembershipQuery{MembershipVersion::kV1, IpAddr::v4(0)});
  const auto parsed = parse_igmp(p);
  ASSERT_TRUE(parsed);
  const auto& query = std::get<MembershipQuery>(parsed->message);
  EXPECT_EQ(query.version, MembershipVersion::kV1);
  EXPECT_EQ(query.max_response, seconds(10));
  EXPECT_EQ(parsed->dst, ip("224.0.0.1"));
}

TEST(Igmp, VersionOneReportIsRead) {
  const MembershipReport report{MembershipVersion::kV1,
                                {{RecordType::kIsExclude, ip("239.1.1.1"), {}}}};
  const auto parsed = parse_igmp(make_igmp(kHost4, report));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(std::get<MembershipReport>(parsed->message), report);
}

TEST(Igmp, ATtlOfMoreThanOneMayComeFromAnotherLink) {
  auto p = make_igmp(kHost4, MembershipQuery{});
  p[8] = std::byte{2};
  p[10] = std::byte{static_cast<std::uint8_t>(std::to_integer<unsigned>(p[10]) - 1)};
  EXPECT_EQ(parse_igmp(p).error(), MembershipFault::kHopLimit);
}

TEST(Igmp, PacketsCarryTheRouterAlertOption) {
  const auto p = make_igmp(kHost4, MembershipQuery{});
  EXPECT_TRUE(has_router_alert(std::span{p}.subspan(20, 4)).value());
  EXPECT_EQ(internet_checksum(std::span{p}.first(24)), 0);
}

TEST(Igmp, OptionsThatDoNotAddUpAreNamed) {
  const std::array<std::byte, 4> zero_len = {std::byte{0x94}, std::byte{0}};
  const std::array<std::byte, 4> too_long = {std::byte{1}, std::byte{0x94}, std::byte{4}};
  const std::array<std::byte, 4> none = {std::byte{1}, std::byte{1}, std::byte{0}};
  EXPECT_EQ(has_router_alert(zero_len).error(), MembershipFault::kIpHeader);
  EXPECT_EQ(has_router_alert(too_long).error(), MembershipFault::kIpHeader);
  EXPECT_FALSE(has_router_alert(none).value());
}

TEST(Mld, AskForHopLimitSourceAndRouterAlert) {
  const auto good = make_mld(kHost6, MembershipQuery{});
  auto p = good;
  p[7] = std::byte{64};
  EXPECT_EQ(parse_mld(p).error(), MembershipFault::kHopLimit);
  EXPECT_EQ(parse_mld(make_mld(ip("fd00::7"), MembershipQuery{})).error(),
            MembershipFault::kSource);
  EXPECT_EQ(parse_mld(make_mld(IpAddr{}, MembershipQuery{})).error(), MembershipFault::kSource);
  p = good;
  p[42] = std::byte{1};  // PadN in place of the router alert
  EXPECT_EQ(parse_mld(p).error(), MembershipFault::kRouterAlert);
  p = good;
  p[43] = std::byte{9};
  EXPECT_EQ(parse_mld(p).error(), MembershipFault::kIpHeader);
}

TEST(Mld, OtherIcmpv6IsNotMembership) {
  auto p = make_mld(kHost6, MembershipQuery{});
  p[48] = std::byte{135};
  EXPECT_EQ(parse_mld(p).error(), MembershipFault::kNotMembership);
}

TEST(MembershipCode, KnownValues) {
  EXPECT_EQ(decode_float8(0x7f), 127U);
  EXPECT_EQ(decode_float8(0x80), 128U);
  EXPECT_EQ(decode_float8(0xff), 31U << 10);
  EXPECT_EQ(decode_float16(0x7fff), 32'767U);
  EXPECT_EQ(decode_float16(0x8000), 32'768U);
  EXPECT_EQ(decode_float16(0xffff), 8'191U << 10);
}

TEST(MembershipCode, EncodingIsTheLargestNotAbove) {
  for (unsigned code = 0; code < 256; ++code)
    EXPECT_EQ(encode_float8(decode_float8(static_cast<std::uint8_t>(code))), code);
  for (std::uint32_t value : {0U, 127U, 128U, 135U, 136U, 1'000U, 31'743U, 31'744U}) {
    const auto code = encode_float8(value);
    EXPECT_LE(decode_float8(code), value);
    EXPECT_TRUE(code == 0xff || decode_float8(static_cast<std::uint8_t>(code + 1)) > value);
  }
  EXPECT_EQ(encode_float8(0xffff'ffff), 0xff);
  EXPECT_EQ(encode_float16(0xffff'ffff), 0xffff);
  EXPECT_EQ(encode_float16(40'000), 0x8000 | (40'000 >> 3 & 0xfff));
}

TEST(MembershipGroups, KindsAreToldApart) {
  for (const char* group : {"224.0.0.1", "224.0.0.251", "ff02::fb", "ff01::1", "ff12::1"})
    EXPECT_TRUE(is_multicast(ip(group)) && is_link_scope_group(ip(group))) << group;
  for (const char* group : {"224.0.1.1", "239.255.255.255", "ff05::1", "ff1e::1"})
    EXPECT_TRUE(is_multicast(ip(group)) && !is_link_scope_group(ip(group))) << group;
  for (const char* addr : {"10.0.0.1", "240.0.0.1", "fe80::1"})
    EXPECT_FALSE(is_multicast(ip(addr)));
  EXPECT_TRUE(is_source_specific_group(ip("232.1.1.1")));
  EXPECT_TRUE(is_source_specific_group(ip("ff3e::8000:1")));
  EXPECT_FALSE(is_source_specific_group(ip("ff1e::1")));
}

}  // namespace
}  // namespace ipoib::wire
