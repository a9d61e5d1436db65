// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/filter/source_check.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

using table::kNoNeighbour;
using table::NextHopKind;

/// Hosts behind eth0 send to 10.0.0.2 and fd00:a::2 on ib0.
class SourceCheckTest : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    start();
    set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", 7, 1));
    set_neighbour(1, ib_neighbour(kIb0, "fd00:a::2", 8, 2));
    set_neighbour(2, eth_neighbour(kEth0, "192.168.1.9", mac(0x99)));
    set_neighbour(3, eth_neighbour(kEth1, "192.168.2.9", mac(0x98)));
    add_route("172.16.0.0/16", {NextHopKind::kGateway, 0, kEth0, 2});
    add_route("172.17.0.0/16", {NextHopKind::kGateway, 0, kEth1, 3});
    add_route("172.18.0.0/16", {NextHopKind::kBlackhole, 0, table::kNoInterface, kNoNeighbour});
    add_route("172.19.0.0/16", {NextHopKind::kUnreachable, 0, table::kNoInterface, kNoNeighbour});
    add_route("172.23.0.0/16", {NextHopKind::kProhibited, 0, table::kNoInterface, kNoNeighbour});
    // Two paths, by eth1 and eth0, and two by eth1 and ib1. In the third group the gateway behind eth0
    // does not answer.
    set_group("172.20.0.0/16", 100, {kEth1, kEth0}, {kEth0, kEth1});
    set_group("172.21.0.0/16", 200, {kEth1, kIb1}, {kEth1, kIb1});
    set_group("172.22.0.0/16", 300, {kEth1, kEth1}, {kEth0, kEth1});
    add_route("fd00:16::/32", {NextHopKind::kConnected, 0, kEth1, kNoNeighbour});
    loop();
  }
  void set_group(std::string_view prefix, table::NextHopIndex first,
                 const std::vector<table::InterfaceId>& paths,
                 const std::vector<table::InterfaceId>& interfaces) {
    table::NextHopIndex at = first;
    for (const auto iface : paths) hops.set(at++, {NextHopKind::kGateway, 0, iface, kNoNeighbour});
    for (const auto iface : interfaces)
      hops.set(at++, {NextHopKind::kConnected, 0, iface, kNoNeighbour});
    hops.set(at, {});
    add_route(prefix, {NextHopKind::kGroup, 1, kEth1, first});
  }
  void check(SourceCheck how) { entries[kEth0].source_check = how; }
  /// True if a packet with this source is forwarded; otherwise the check has dropped it.
  bool passes(std::string_view source) {
    const auto dropped = drops(kEth0, Drop::kIpSourceCheck);
    if (source.find(':') == std::string_view::npos)
      feed(kEth0, to_eth0(Ip4{.src = source}.bytes()));
    else
      feed(kEth0, to_eth0_6(Ip6{.src = source}.bytes()));
    const bool sent = sent_by_link(kIb0).size() == 1;
    EXPECT_EQ(drops(kEth0, Drop::kIpSourceCheck) - dropped, sent ? 0U : 1U) << source;
    EXPECT_TRUE(punted().empty()) << "no ICMP error goes to a source that may be forged";
    return sent;
  }
};

TEST_F(SourceCheckTest, P05_StrictTakesPacketsFromTheInterfaceOfTheRoute) {
  check(SourceCheck::kStrict);
  for (const char* source :
       {"192.168.1.10", "192.168.1.9", "172.16.0.1", "172.20.0.1", "172.22.0.1", "fd00:1::10"})
    EXPECT_TRUE(passes(source)) << source;
  for (const char* source : {"192.168.2.10", "192.168.2.9", "172.17.0.1", "172.18.0.1",
                             "172.19.0.1", "172.23.0.1", "172.21.0.1", "8.8.8.8", "10.0.0.2",
                             "10.0.255.255", "fd00:b::1", "fd00:16::1", "2001:db8::1", "fd00:a::2"})
    EXPECT_FALSE(passes(source)) << source;
  add_route("0.0.0.0/0", {NextHopKind::kGateway, 0, kEth0, 2});
  loop();
  EXPECT_TRUE(passes("8.8.8.8")) << "the default route counts";
  EXPECT_FALSE(passes("10.1.0.1"));
}

TEST_F(SourceCheckTest, P05_LooseTakesPacketsOfAllSourcesWithARoute) {
  check(SourceCheck::kLoose);
  for (const char* source : {"192.168.1.10", "192.168.2.10", "172.17.0.1", "172.21.0.1", "10.1.0.1",
                             "fd00:1::10", "fd00:16::1"})
    EXPECT_TRUE(passes(source)) << source;
  for (const char* source : {"172.18.0.1", "172.19.0.1", "172.23.0.1", "8.8.8.8", "2001:db8::1"})
    EXPECT_FALSE(passes(source)) << source;
}

TEST_F(SourceCheckTest, P05_OffTakesAllAndEachInterfaceHasItsOwnSetting) {
  entries[kEth1].source_check = SourceCheck::kStrict;
  for (const char* source : {"192.168.2.10", "8.8.8.8", "fd00:16::1", "2001:db8::1"})
    EXPECT_TRUE(passes(source)) << source;
}

/// Packets to the node itself are checked too, except for those that never leave their link.
TEST_F(SourceCheckTest, P05_PacketsToTheNodeAreChecked) {
  check(SourceCheck::kStrict);
  feed(kEth0, to_eth0(Ip4{.src = "8.8.8.8", .dst = "192.168.1.1"}.bytes()));
  feed(kEth0, to_eth0_6(Ip6{.src = "2001:db8::1", .dst = "fd00:1::1"}.bytes()));
  EXPECT_TRUE(punted().empty());
  EXPECT_EQ(drops(kEth0, Drop::kIpSourceCheck), 2U);
  feed(kEth0, to_eth0(Ip4{.src = "192.168.1.10", .dst = "192.168.1.1"}.bytes()));
  feed(kEth0, to_eth0(Ip4{.src = "169.254.3.4", .dst = "192.168.1.1"}.bytes()));
  feed(kEth0, to_eth0_6(Ip6{.src = "fe80::1", .dst = "fd00:1::1"}.bytes()));
  EXPECT_EQ(punted().size(), 3U);
}

/// The others of a burst keep their order.
TEST_F(SourceCheckTest, P05_OnePacketOfABurstIsTakenOut) {
  check(SourceCheck::kStrict);
  for (const char* source : {"192.168.1.10", "192.168.1.11", "8.8.8.8", "192.168.1.12",
                             "192.168.2.1", "192.168.1.13", "8.8.4.4"})
    receive(kEth0, to_eth0(Ip4{.src = source}.bytes()));
  loop();
  const auto sent = sent_by_link(kIb0);
  ASSERT_EQ(sent.size(), 4U);
  for (std::size_t i = 0; i < sent.size(); ++i)
    EXPECT_EQ(std::to_integer<unsigned>(sent[i].bytes.at(sizeof(wire::IpoibHdr) + 15)), 10 + i);
  EXPECT_EQ(drops(kEth0, Drop::kIpSourceCheck), 3U);
}

}  // namespace
}  // namespace ipoib::fwd::test
