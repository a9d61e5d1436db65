// SPDX-License-Identifier: BSD-3-Clause
// Which options and extension headers pass: the tables alone, then packets through a worker.
#include "lib/fwd/filter/header_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/wire/igmp.h"
#include "lib/wire/mld.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

using Numbers = std::set<unsigned>;

/// Numbers for which `drop_of` gives this reason.
template <class DropOf>
Numbers with(Drop reason, DropOf drop_of) {
  Numbers numbers;
  for (unsigned i = 0; i < 256; ++i)
    if (drop_of(static_cast<std::uint8_t>(i)) == reason) numbers.insert(i);
  return numbers;
}
Numbers options(const HeaderRules& rules, Drop reason = Drop::kIpOption) {
  return with(reason, [&](std::uint8_t type) { return rules.option(type); });
}
Numbers extensions(const HeaderRules& rules) {
  return with(Drop::kIp6Extension, [&](std::uint8_t header) { return rules.extension(header); });
}
Numbers routing(const HeaderRules& rules) {
  return with(Drop::kIp6Extension, [&](std::uint8_t type) { return rules.routing(type); });
}

const Numbers kOptions{7, 11, 12, 30, 68, 82, 94, 136, 142, 145, 147, 149, 151, 152, 158, 222};

TEST(HeaderRules, P05_DefaultsAreThoseOfTheRfcs) {
  const HeaderRules& rules = HeaderRules::defaults();
  EXPECT_EQ(options(rules), kOptions);
  EXPECT_EQ(options(rules, Drop::kIpSourceRoute), (Numbers{131, 137}));
  EXPECT_EQ(options(rules, Drop::kNone).size(), 256 - kOptions.size() - 2);
  EXPECT_EQ(extensions(rules), (Numbers{253, 254}));
  EXPECT_EQ(routing(rules), (Numbers{0, 1, 3}));
}

TEST(HeaderRules, P05_ChangesOfOptionsAddToTheDefaults) {
  const HeaderRules rules{{.pass_options = {7, 30, 148}, .drop_options = {130, 134, 68}}};
  Numbers expected = kOptions;
  for (const unsigned type : {7U, 30U}) expected.erase(type);
  expected.merge(Numbers{130, 134});
  EXPECT_EQ(options(rules), expected);
  EXPECT_EQ(options(rules, Drop::kIpSourceRoute), (Numbers{131, 137}));
  EXPECT_EQ(extensions(rules), (Numbers{253, 254}));
  EXPECT_EQ(routing(rules), (Numbers{0, 1, 3}));
}

TEST(HeaderRules, P05_ChangesOfExtensionsAddToTheDefaults) {
  const HeaderRules rules{{.pass_extensions = {{254}, {43, std::uint8_t{3}}, {60}},
                           .drop_extensions = {{0}, {50}, {43, std::uint8_t{4}}}}};
  EXPECT_EQ(extensions(rules), (Numbers{0, 50, 253}));
  EXPECT_EQ(routing(rules), (Numbers{0, 1, 4}));
  EXPECT_EQ(options(rules), kOptions);
}

// A type that is named counts more than the header that stands for all types, in either list.
TEST(HeaderRules, P05_TheRoutingHeaderStandsForTheTypesThatAreNotNamed) {
  const HeaderRules closed{
      {.pass_extensions = {{43, std::uint8_t{4}}}, .drop_extensions = {{43, {}}}}};
  EXPECT_EQ(routing(closed).size(), 255U);
  EXPECT_EQ(closed.routing(4), Drop::kNone);
  EXPECT_EQ(closed.extension(43), Drop::kNone) << "the type decides";
  const HeaderRules open{
      {.pass_extensions = {{43, {}}}, .drop_extensions = {{43, std::uint8_t{253}}}}};
  EXPECT_EQ(routing(open), (Numbers{0, 253})) << "source routes never pass";
}

TEST(HeaderRules, P05_SourceRoutesNeverPass) {
  const HeaderRules rules{{.pass_options = {131, 137},
                           .drop_options = {131},
                           .pass_extensions = {{43, std::uint8_t{0}}}}};
  EXPECT_EQ(options(rules, Drop::kIpSourceRoute), (Numbers{131, 137}));
  EXPECT_EQ(rules.routing(0), Drop::kIp6Extension);
}

TEST(HeaderRules, P05_OnlyExtensionHeadersAreNamed) {
  for (const unsigned header : {0U, 43U, 44U, 50U, 51U, 60U, 135U, 139U, 140U, 253U, 254U})
    EXPECT_TRUE(is_ip6_extension(static_cast<std::uint8_t>(header))) << header;
  for (const unsigned header : {1U, 6U, 17U, 58U, 59U, 89U, 132U, 255U})
    EXPECT_FALSE(is_ip6_extension(static_cast<std::uint8_t>(header))) << header;
}

/// A worker whose operator has changed the rules.
class ChangedRules : public WorkerFixture {
 protected:
  void start_with(const HeaderChanges& changes) {
    rules_.emplace(changes);
    for (WorkerConfig& c : configs) c.header_rules = &*rules_;
    start();
    set_neighbour(0, eth_neighbour(kEth0, "192.168.1.10", mac(0x10)));
    set_neighbour(1, eth_neighbour(kEth0, "fd00:1::10", mac(0x10)));
    set_neighbour(2, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    set_neighbour(3, ib_neighbour(kIb0, "fd00:a::2", 7, 0xabcdef));
    loop();
  }
  static Ip4 with_option(std::uint8_t type) {
    return {.options = {std::byte{type}, std::byte{4}, std::byte{0}, std::byte{0}}};
  }
  static Ip6 with_extension(std::uint8_t header, std::uint8_t routing_type = 0) {
    Ip6 packet;
    Bytes extension(8);
    extension[0] = std::byte{packet.next_header};
    extension[2] = std::byte{routing_type};
    packet.body.insert(packet.body.begin(), extension.begin(), extension.end());
    packet.next_header = header;
    return packet;
  }
  bool passes(const Ip4& packet) {
    feed(kEth0, to_eth0(packet.bytes()));
    const auto sent = sent_by_link(kIb0);
    return sent.size() == 1 && sent[0].bytes == to_link(forwarded(packet));
  }
  bool passes(const Ip6& packet) {
    feed(kEth0, to_eth0_6(packet.bytes()));
    const auto sent = sent_by_link(kIb0);
    return sent.size() == 1 && sent[0].bytes == encapsulated(0x86dd, forwarded(packet));
  }

 private:
  std::optional<HeaderRules> rules_;
};

TEST_F(ChangedRules, P05_OptionsPassOrAreDroppedAsTheOperatorSays) {
  start_with({.pass_options = {7, 30}, .drop_options = {130, 148}});
  EXPECT_TRUE(passes(with_option(7)));
  EXPECT_TRUE(passes(with_option(30)));
  EXPECT_TRUE(passes(with_option(134))) << "as by default";
  EXPECT_EQ(all_drops(), 0U);
  EXPECT_FALSE(passes(with_option(130)));
  EXPECT_FALSE(passes(with_option(148)));
  EXPECT_FALSE(passes(with_option(68))) << "as by default";
  EXPECT_EQ(drops(kEth0, Drop::kIpOption), 3U);
  Ip4 group = with_option(130);
  group.dst = "239.1.2.3";
  feed(kEth0, ethernet(kBroadcastMac, mac(0x10), 0x0800, group.bytes()));
  EXPECT_EQ(drops(kEth0, Drop::kIpOption), 4U);
  EXPECT_EQ(all_drops(), 4U);
}

TEST_F(ChangedRules, P05_ExtensionHeadersPassOrAreDroppedAsTheOperatorSays) {
  start_with({.pass_extensions = {{253}, {43, std::uint8_t{4}}},
              .drop_extensions = {{50}, {60}, {0}, {43}}});
  EXPECT_TRUE(passes(with_extension(253)));
  EXPECT_TRUE(passes(with_extension(43, 4)));
  EXPECT_TRUE(passes(with_extension(44))) << "as by default";
  EXPECT_EQ(all_drops(), 0U);
  std::uint64_t n = 0;
  for (const std::uint8_t header : std::initializer_list<std::uint8_t>{50, 60, 0, 254}) {
    EXPECT_FALSE(passes(with_extension(header)));
    EXPECT_EQ(drops(kEth0, Drop::kIp6Extension), ++n) << unsigned{header};
  }
  for (const std::uint8_t type : std::initializer_list<std::uint8_t>{0, 2, 253}) {
    EXPECT_FALSE(passes(with_extension(43, type)));
    EXPECT_EQ(drops(kEth0, Drop::kIp6Extension), ++n) << "routing header " << unsigned{type};
  }
  EXPECT_EQ(all_drops(), n);
}

// The options of IGMP and MLD stay, because packets with a TTL of 1 are not forwarded.
TEST_F(ChangedRules, P05_IgmpAndMldKeepTheirOptions) {
  entries[kEth0].multicast_router = true;
  start_with({.drop_options = {148}, .drop_extensions = {{0}}});
  const wire::MembershipReport report{
      wire::MembershipVersion::kV3,
      {{wire::RecordType::kIsExclude, *wire::parse_ip("239.1.2.3"), {}}}};
  feed(kEth0, ethernet(kBroadcastMac, mac(0x10), 0x0800,
                       wire::make_igmp(*wire::parse_ip("192.168.1.10"), report)));
  EXPECT_EQ(only_punted("IGMP").message.iface, kEth0);
  wire::MembershipReport report6 = report;
  report6.records[0].group = *wire::parse_ip("ff0e::1");
  feed(kEth0, ethernet({std::byte{0x33}, std::byte{0x33}}, mac(0x10), 0x86dd,
                       wire::make_mld(*wire::parse_ip("fe80::10"), report6)));
  EXPECT_EQ(only_punted("MLD").message.iface, kEth0);
  EXPECT_EQ(all_drops(), 0U);
}

}  // namespace
}  // namespace ipoib::fwd::test
