// SPDX-License-Identifier: BSD-3-Clause
// A link that shares addresses with links of other nodes: its messages, octet by octet.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/link/ipoib/shared/rendezvous.h"
#include "lib/wire/icmpv6.h"
#include "lib/wire/nd.h"
#include "lib/wire/vrrp.h"
#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kOwnGuid = 0x0002'c903'0000'000a;
constexpr std::uint64_t kOtherGuid = 0x0002'c903'0000'00bb;
constexpr std::uint32_t kOtherQpn = 0x77;

LinkConfig shared_link_config() {
  return SimIpoibLink::config_with([](LinkConfig& config) {
    config.shared.addresses = {ip("10.0.0.100"), ip("fd00::100")};
    config.shared.vrid = 7;
    config.addresses.push_back(prefix("fd00::1/64"));
    config.ip6.enabled = true;
  });
}

struct SharedLink : testing::Test {
  SharedLink() : b{shared_link_config()} {}

  void SetUp() override {
    b.bring_up();
    b.run_for(8s);
    ASSERT_EQ(group().state, "member");
    b.actions.frames.clear();
  }
  [[nodiscard]] SharedGroupInfo group(std::size_t family = 0) const {
    return b.link.shared_groups(b.now).at(family);
  }
  static wire::Gid other() { return wire::Gid::of(wire::kDefaultGidPrefix, kOtherGuid); }
  bool advert(const wire::VrrpAdvertisement& a, const wire::Gid& from) {
    return b.link.on_vrrp(wire::build_vrrp(a), from, kOtherQpn, b.now);
  }
  static wire::VrrpAdvertisement of_other(std::uint8_t priority = 100) {
    return {ip("10.0.0.9"), 7, priority, 100, {ip("10.0.0.100")}};
  }
  /// A host that this node or the other one serves when both are members.
  static std::uint64_t host_of(bool own) {
    const std::vector<std::uint64_t> members{kOwnGuid, kOtherGuid};
    std::uint64_t guid = 0x100;
    while ((rendezvous_winner(guid, members) == kOwnGuid) != own) ++guid;
    return guid;
  }
  [[nodiscard]] std::vector<wire::Arp> arps(bool broadcast, wire::ArpOp op) const {
    std::vector<wire::Arp> found;
    for (const SentFrame& f : b.actions.frames)
      if (const auto arp = f.arp(); arp && f.broadcast() == broadcast && arp->op == op)
        found.push_back(*arp);
    return found;
  }
  [[nodiscard]] std::vector<wire::NdMessage> advertisements6() const {
    std::vector<wire::NdMessage> found;
    for (const SentFrame& f : b.actions.frames) {
      const auto m = wire::parse_nd(wire::LinkKind::kInfiniband, std::span{f.bytes}.subspan(4));
      if (m && m->type == wire::Icmp6Type::kNeighbourAdvertisement) found.push_back(*m);
    }
    return found;
  }
  [[nodiscard]] std::vector<wire::VrrpAdvertisement> adverts() const {
    std::vector<wire::VrrpAdvertisement> found;
    for (const SentFrame& f : b.actions.frames)
      if (const auto a = wire::parse_vrrp(std::span{f.bytes}.subspan(4))) found.push_back(*a);
    return found;
  }
  void solicit(const wire::IpAddr& from, const std::optional<wire::HwAddr>& hw) {
    wire::NdMessage m;
    m.src = from;
    m.dst = wire::solicited_node(ip("fd00::100"));
    m.target = ip("fd00::100");
    m.source_hw = hw;
    b.link.on_nd(wire::build_nd(m, wire::LinkFormat{wire::LinkKind::kInfiniband}), 99, b.now);
    b.run_for(10ms);
  }

  SimIpoibLink b;
};

TEST_F(SharedLink, P18_AdvertisesItselfInEachIntervalFromItsOwnAddress) {
  b.run_for(10s);
  const auto sent = adverts();
  ASSERT_GE(sent.size(), 18U);
  EXPECT_LE(sent.size(), 24U);
  for (const auto& a : sent) {
    const bool v4 = a.source.is_v4();
    EXPECT_TRUE(v4 ? a.source == ip("10.0.0.1") : wire::is_link_local6(a.source));
    EXPECT_EQ(a.addresses, std::vector{v4 ? ip("10.0.0.100") : ip("fd00::100")});
    EXPECT_EQ(a.interval_cs, 100);
    EXPECT_EQ(a.priority, SharedGroup::kPriority);
  }
}

TEST_F(SharedLink, P18_NeverAnnouncesASharedAddressToAll) {
  SimIpoibLink c{shared_link_config()};
  c.bring_up();
  c.want(ip("fd00::77"));  // Its own addresses are not ready yet.
  c.run_for(20s);
  c.on_port_event(fabric::PortEvent::kLidChange, 5s);
  std::size_t own = 0;
  for (const SentFrame& f : c.actions.frames) {
    const auto arp = f.arp();
    if (arp && f.broadcast()) {
      EXPECT_NE(arp->sender_ip, ip("10.0.0.100").v4_host());
      own += arp->sender_ip == ip("10.0.0.1").v4_host() ? 1 : 0;
    }
    const auto m = wire::parse_nd(wire::LinkKind::kInfiniband, std::span{f.bytes}.subspan(4));
    EXPECT_FALSE(m && (m->target == ip("fd00::100") || m->src == ip("fd00::100")));
  }
  EXPECT_GE(own, 2U) << "the own address is announced";
  EXPECT_TRUE(c.link.is_shared(ip("10.0.0.100")));
  EXPECT_FALSE(c.link.is_shared(ip("10.0.0.1")));
}

TEST_F(SharedLink, P18_AnswersTheHostsThatTheHashGivesToIt) {
  EXPECT_TRUE(advert(of_other(), other()));
  for (const bool own : {true, false}) {
    b.actions.frames.clear();
    const auto host = b.add_host(host_of(own), 0x50, 9);
    b.receive_arp_request(host, "10.0.0.50", "10.0.0.100");
    b.run_for(10ms);
    const auto replies = arps(false, wire::ArpOp::kReply);
    ASSERT_EQ(replies.size(), own ? 1U : 0U);
    for (const auto& reply : replies) EXPECT_EQ(reply.sender_ip, ip("10.0.0.100").v4_host());
    b.receive_arp_request(host, "10.0.0.50", "10.0.0.1");
    b.run_for(10ms);
    EXPECT_EQ(arps(false, wire::ArpOp::kReply).size(), own ? 2U : 1U)
        << "requests for its own address are always answered";
  }
  EXPECT_EQ(group().counters.answered, 1U);
  EXPECT_EQ(group().counters.left, 1U);
  EXPECT_EQ(group().hosts, 2U);
}

TEST_F(SharedLink, P18_HostsOfAMemberThatLeavesAreInformedByUnicast) {
  advert(of_other(), other());
  const auto host = b.add_host(host_of(false), 0x50, 9);
  b.receive_arp_request(host, "10.0.0.50", "10.0.0.100");
  b.run_for(10ms);
  b.actions.frames.clear();
  advert(of_other(wire::kVrrpLeaves), other());
  b.run_for(200ms);
  const auto replies = arps(false, wire::ArpOp::kReply);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].sender_ip, ip("10.0.0.100").v4_host());
  EXPECT_EQ(replies[0].sender_hw.datagram_addr().gid.guid(), kOwnGuid);
  EXPECT_EQ(replies[0].target_ip, ip("10.0.0.50").v4_host());
  EXPECT_TRUE(arps(true, wire::ArpOp::kReply).empty());
}

TEST_F(SharedLink, P18_HostsOfANewMemberAreInformedWithItsAddress) {
  const auto host = b.add_host(host_of(false), 0x50, 9);
  b.receive_arp_request(host, "10.0.0.50", "10.0.0.100");
  const wire::HwAddr hw{host};
  solicit(ip("fd00::50"), hw);
  b.actions.frames.clear();
  advert(of_other(), other());
  advert({ip("fe80::9"), 7, 100, 100, {ip("fd00::100")}}, other());
  b.run_for(200ms);
  const auto replies = arps(false, wire::ArpOp::kReply);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].sender_hw.datagram_addr().gid, other());
  EXPECT_EQ(replies[0].sender_hw.datagram_addr().qpn, kOtherQpn);
  const auto advertised = advertisements6();
  ASSERT_EQ(advertised.size(), 1U);
  EXPECT_EQ(advertised[0].target, ip("fd00::100"));
  EXPECT_EQ(advertised[0].dst, ip("fd00::50"));
  EXPECT_TRUE(advertised[0].override_it && advertised[0].router && !advertised[0].solicited);
  EXPECT_EQ(advertised[0].target_hw->datagram_addr().gid, other());
}

TEST_F(SharedLink, P18_SolicitationsAreAnsweredAndThoseOfDetectionOverrideNothing) {
  solicit(ip("fd00::50"), wire::HwAddr{b.add_host(host_of(true), 0x50, 9)});
  auto answers = advertisements6();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_TRUE(answers[0].override_it && answers[0].solicited);
  b.actions.frames.clear();
  solicit(wire::IpAddr{}, std::nullopt);
  answers = advertisements6();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].dst, wire::all_nodes());
  EXPECT_FALSE(answers[0].override_it) << "it would pull the hosts of all members here";
}

TEST_F(SharedLink, P18_TakesOverWhenThePortOfAMemberIsOutOfService) {
  advert(of_other(), other());
  ASSERT_EQ(group().members.size(), 2U);
  b.link.on_report(wire::make_notice(wire::Trap::kGidOutOfService,
                                     wire::Gid::of(wire::kDefaultGidPrefix, 0x123), 1, {}),
                   b.now);
  EXPECT_EQ(group().members.size(), 2U);
  b.link.on_report(wire::make_notice(wire::Trap::kGidOutOfService, other(), 1, {}), b.now);
  EXPECT_EQ(group().members.size(), 1U);
  advert(of_other(), other());
  EXPECT_EQ(group().members.size(), 2U);
}

TEST_F(SharedLink, P18_PacketsOfOtherVirtualRoutersAreForOthers) {
  auto a = of_other();
  a.vrid = 8;
  EXPECT_FALSE(advert(a, other()));
  auto packet = wire::build_vrrp(of_other());
  packet[20] = std::byte{0x21};  // Version 2.
  EXPECT_FALSE(b.link.on_vrrp(packet, other(), kOtherQpn, b.now));
  EXPECT_EQ(group().members.size(), 1U);
  packet = wire::build_vrrp(of_other());
  packet[22] = std::byte{1};
  EXPECT_TRUE(b.link.on_vrrp(packet, other(), kOtherQpn, b.now));
  EXPECT_EQ(group().counters.refused[static_cast<std::size_t>(SharedRefusal::kMalformed)], 1U);
  EXPECT_EQ(group().members.size(), 1U);
}

TEST_F(SharedLink, P18_AClaimIsNotDefendedBeforeAllHosts) {
  const auto host = b.add_host(0x200, 0x50, 9);
  b.receive_arp_request(host, "10.0.0.50", "10.0.0.100");
  b.run_for(10ms);
  b.actions.frames.clear();
  const auto thief = b.add_host(0x300, 0x50, 10);
  b.receive_arp_request(thief, "10.0.0.100", "10.0.0.100");
  b.run_for(100ms);
  EXPECT_TRUE(arps(true, wire::ArpOp::kRequest).empty());
  const auto reminders = arps(false, wire::ArpOp::kReply);
  ASSERT_EQ(reminders.size(), 1U);
  EXPECT_EQ(reminders[0].target_ip, ip("10.0.0.50").v4_host());
  EXPECT_EQ(b.link.counters().address_conflicts, 1U);

  advert(of_other(), other());
  b.receive_arp(wire::ArpOp::kReply, {0, wire::Be24{kOtherQpn}, other()}, "10.0.0.100", {},
                "10.0.0.50");
  EXPECT_EQ(b.link.counters().address_conflicts, 1U) << "a member may answer";
}

TEST_F(SharedLink, P18_LeavesWithPriorityZeroAndSharesAgainAfterListening) {
  b.link.stop(b.now);
  const auto sent = adverts();
  ASSERT_EQ(sent.size(), 2U);
  for (const auto& a : sent) EXPECT_EQ(a.priority, wire::kVrrpLeaves);
  b.run_for(5s);
  b.actions.frames.clear();
  b.start();
  b.run_for(3s);
  EXPECT_TRUE(adverts().empty());
  b.run_for(6s);
  EXPECT_FALSE(adverts().empty());
}

TEST_F(SharedLink, P18_APortThatWasDownListensFirst) {
  b.actions.attr.state = fabric::PortState::kDown;
  b.on_port_event(fabric::PortEvent::kPortDown, 1s);
  EXPECT_EQ(group().state, "down");
  b.actions.attr.state = fabric::PortState::kActive;
  b.on_port_event(fabric::PortEvent::kPortActive, 2s);
  EXPECT_EQ(group().state, "listening");
  b.run_for(10s);
  EXPECT_EQ(group().state, "member");
}

TEST_F(SharedLink, P18_ASharedAddressIsRemovedByConfigurationOnly) {
  const auto removed = b.link.remove_address(prefix("10.0.0.100/32"), b.now);
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, Errc::kRefused);
}

}  // namespace
}  // namespace ipoib::link
