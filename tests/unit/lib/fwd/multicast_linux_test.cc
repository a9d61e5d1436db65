// SPDX-License-Identifier: BSD-3-Clause
// Packets to groups on interfaces whose multicast router is Linux.
#include <gtest/gtest.h>

#include "tests/unit/lib/fwd/multicast_fixture.h"

namespace ipoib::fwd::test {
namespace {

using msg::Up;
using table::ForLinux;

class MulticastLinux : public Multicast {
 protected:
  void SetUp() override {
    Multicast::SetUp();
    for (InterfaceEntry& entry : entries) entry.linux_multicast = true;
  }
  /// An entry of Linux for the stream on ib0.
  void entry(std::uint64_t out, ForLinux for_linux, bool any_source = false) {
    msg::Down message;
    message.kind = msg::Down::Kind::kDeliverySet;
    message.delivery = {};
    message.delivery.addr = *wire::parse_ip(s.group);
    if (!any_source) message.delivery.source = *wire::parse_ip(s.source);
    message.delivery.in = kIb0;
    message.delivery.out = out;
    message.delivery.for_linux = for_linux;
    send_down(message);
    loop();
  }
  void next_interval(std::uint32_t n = 1) {
    for (std::uint32_t i = 0; i < n; ++i)
      worker().iterate(rte_rdtsc() + ++hours_ * 3'600 * rte_get_tsc_hz());
  }
  /// The number of packets that went to Linux.
  std::size_t copies(bool sample) {
    std::size_t n = 0;
    for (const Punted& p : punted()) {
      EXPECT_EQ(p.message.kind, Up::Kind::kForLinux);
      EXPECT_EQ(p.message.sample, sample);
      EXPECT_EQ(p.message.iface, kIb0);
      EXPECT_EQ(p.bytes, s.packet(64)) << "as it came";
      ++n;
    }
    return n;
  }

  std::uint64_t hours_ = 0;  ///< The clock of the worker is ahead by these.
};

INSTANTIATE_TEST_SUITE_P(, MulticastLinux, kStreams, kStreamName);

/// The kernel then asks its daemon for an entry. It forwards these packets if it gets one.
TEST_P(MulticastLinux, P17_UnknownSourcesGoToLinuxFromTimeToTime) {
  for (int i = 0; i < 3; ++i) feed_link(s.packet());
  EXPECT_EQ(copies(false), 1U);
  EXPECT_EQ(drops(kIb0, Drop::kIpMulticast), 2U);
  next_interval(configs[0].punt.linux_again);
  feed_link(s.packet());
  EXPECT_EQ(copies(false), 1U);
  EXPECT_EQ(all_drops(), 2U);
}

TEST_P(MulticastLinux, P17_PacketsOfTheLinkDoNotGoToLinux) {
  feed_link(s.packet(1));
  feed_link(s.packet_to(s.v6 ? "ff02::77" : "224.0.0.77"));
  Stream near = s;
  near.source = s.v6 ? "fe80::9" : "169.254.0.9";
  feed_link(near.packet());
  EXPECT_TRUE(punted().empty());
  EXPECT_EQ(drops(kIb0, Drop::kIpMulticast), 3U);
}

TEST_P(MulticastLinux, P17_OtherInterfacesSendNothingToLinux) {
  entries[kIb0].linux_multicast = false;
  feed_link(s.packet());
  EXPECT_TRUE(punted().empty());
}

/// The daemon ends an entry whose packets Linux does not see.
TEST_P(MulticastLinux, P17_LinuxGetsASampleOfAForwardedFlow) {
  join(kEth0, s.group, 0);
  entry(bits({kEth0}), ForLinux::kSample);
  for (int i = 0; i < 3; ++i) feed_link(s.packet());
  EXPECT_EQ(sent_by_port(kEth0).size(), 3U) << "the sample, too";
  EXPECT_EQ(copies(true), 1U);
  next_interval();
  feed_link(s.packet());
  EXPECT_EQ(copies(true), 0U) << "management decides when";
  entry(bits({kEth0}), ForLinux::kSample);
  feed_link(s.packet());
  EXPECT_EQ(copies(true), 1U);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_P(MulticastLinux, P17_PrunedFlowsAreSampledAndEndHere) {
  entry(0, ForLinux::kSample);
  for (int i = 0; i < 3; ++i) feed_link(s.packet());
  EXPECT_EQ(copies(true), 1U);
  EXPECT_EQ(drops(kIb0, Drop::kIpMulticast), 3U);
}

/// Linux puts them into registers. It does not forward them on interfaces of the node.
TEST_P(MulticastLinux, P17_PacketsForTheRegisterGoToLinuxAndOn) {
  join(kEth0, s.group, 0);
  join(kIb1, s.group, kGroupAh);
  entry(bits({kEth0}), ForLinux::kAll);
  for (int i = 0; i < 3; ++i) feed_link(s.packet());
  EXPECT_EQ(copies(false), 3U);
  EXPECT_EQ(sent_by_port(kEth0).size(), 3U);
  entry(0, ForLinux::kAll, true);
  entry(bits({kEth0, kIb1}), ForLinux::kSample);
  feed_link(s.packet());
  EXPECT_EQ(copies(true), 1U) << "that of its source comes first";
  EXPECT_EQ(sent_by_port(kEth0).size(), 1U);
  EXPECT_EQ(sent_by_link(kIb1).size(), 1U);
  EXPECT_EQ(all_drops(), 0U);
}

/// After the switch to the shortest path, the packets by the shared tree must not be forwarded. Linux
/// reports the interface to its daemon.
TEST_P(MulticastLinux, P17_PacketsFromTheWrongInterfaceGoToLinuxOnly) {
  join(kEth0, s.group, 0);
  entry(bits({kEth0}), ForLinux::kSample, true);
  entry(0, ForLinux::kNone);
  for (int i = 0; i < 3; ++i) feed_link(s.packet());
  EXPECT_EQ(copies(false), 1U);
  EXPECT_EQ(drops(kIb0, Drop::kIpMulticastRpf), 2U);
  EXPECT_TRUE(sent_by_port(kEth0).empty());
}

TEST_P(MulticastLinux, P17_HostsReportToLinux) {
  const Bytes report = s.v6 ? Ip6{.src = "fe80::9",
                                  .dst = s.group,
                                  .hop_limit = 1,
                                  .body = behind_router_alert(icmp6(131)),
                                  .next_header = 0}
                                  .bytes()
                            : Ip4{.src = "10.0.0.9",
                                  .dst = s.group,
                                  .ttl = 5,
                                  .payload_len = 8,
                                  .protocol = wire::IpProto::kIgmp}
                                  .bytes();
  join(kEth0, s.group, 0);
  feed_link(report);
  EXPECT_EQ(only_punted().message.kind, Up::Kind::kMembership);
  entry(bits({kEth0}), ForLinux::kSample, true);
  feed_link(report);
  EXPECT_EQ(only_punted().message.kind, Up::Kind::kMembership);
  EXPECT_TRUE(sent_by_port(kEth0).empty()) << "of its link";
  EXPECT_EQ(all_drops(), 0U);
}

/// A program of Linux that has joined the group gets each packet once.
TEST_P(MulticastLinux, P17_DeliveredPacketsNeedNoCopy) {
  join(kEth0, s.group, 0);
  msg::Down message;
  message.kind = msg::Down::Kind::kDeliverySet;
  message.delivery = {*wire::parse_ip(s.group), *wire::parse_ip(s.source), kIb0, true};
  message.delivery.out = bits({kEth0});
  message.delivery.for_linux = ForLinux::kAll;
  send_down(message);
  loop();
  feed_link(s.packet());
  EXPECT_EQ(only_punted().message.kind, Up::Kind::kLocal);
  EXPECT_EQ(sent_by_port(kEth0).size(), 1U);
}

/// Packets of strangers to groups without an entry.
class MulticastLinuxLimits : public MulticastLinux {
 protected:
  static constexpr std::uint32_t kPackets = 5;
  void SetUp() override {
    // NOLINTNEXTLINE(bugprone-parent-virtual-call): Multicast::SetUp() starts the worker
    WorkerFixture::SetUp();
    configs[0].punt.interval_us = 3'600'000'000;
    configs[0].punt.for_linux = 2 * kPackets;  // One interface gets half.
    start();
    for (InterfaceEntry& entry : entries) entry.linux_multicast = true;
  }
};

INSTANTIATE_TEST_SUITE_P(, MulticastLinuxLimits, kStreams, kStreamName);

TEST_P(MulticastLinuxLimits, P17_ManySourcesAreLimited) {
  for (int i = 1; i <= 20; ++i) {
    const std::string source = (s.v6 ? "fd00:b::" : "10.0.1.") + std::to_string(i);
    Stream one = s;
    one.source = source.c_str();
    feed_link(one.packet());
  }
  constexpr auto kHalf = (kPackets + 1) / 2;  // Known sources have the other half.
  EXPECT_EQ(punted().size(), kHalf);
  EXPECT_EQ(drops(kIb0, Drop::kIpMulticast), 20U - kHalf);
}

TEST_P(MulticastLinuxLimits, P17_CopiesAreLimitedAndPacketsGoOn) {
  join(kEth0, s.group, 0);
  entry(bits({kEth0}), ForLinux::kAll);
  for (int i = 0; i < 20; ++i) feed_link(s.packet());
  EXPECT_EQ(punted().size(), kPackets);
  EXPECT_EQ(sent_by_port(kEth0).size(), 20U);
  EXPECT_EQ(drops(kIb0, Drop::kPuntRateLimited), 20U - kPackets)
      << "copies that Linux does not get";
  EXPECT_EQ(all_drops(), 20U - kPackets);
}

}  // namespace
}  // namespace ipoib::fwd::test
