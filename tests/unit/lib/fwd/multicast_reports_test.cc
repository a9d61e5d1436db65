// SPDX-License-Identifier: BSD-3-Clause
// The reports of packets to groups to management: sources that no delivery names, and packets that show
// which of several routers forwards a group.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/lib/fwd/multicast_fixture.h"

namespace ipoib::fwd::test {
namespace {

using msg::Up;

class MulticastReports : public Multicast {
 protected:
  /// The reports for the election of forwarders have no limit from before any more.
  void next_interval() {
    for (std::uint32_t i = 0; i < configs[0].punt.heard_again; ++i)
      worker().iterate(rte_rdtsc() + ++hours_ * 3'600 * rte_get_tsc_hz());
  }

  std::uint64_t hours_ = 0;  ///< The clock of the worker is ahead by these.
};

/// A rate limit with an interval that does not end, and a small budget.
class MulticastReportLimits : public Multicast {
 protected:
  static constexpr std::uint32_t kSourcesPerInterval = 7;
  void SetUp() override {
    // NOLINTNEXTLINE(bugprone-parent-virtual-call): Multicast::SetUp() starts the worker
    WorkerFixture::SetUp();
    configs[0].punt.interval_us = 3'600'000'000;
    configs[0].punt.multicast = 2 * kSourcesPerInterval;  // One interface gets half.
    configs[0].punt.heard = 2 * kSourcesPerInterval;
    start();
  }
};

INSTANTIATE_TEST_SUITE_P(, MulticastReports, kStreams, kStreamName);
INSTANTIATE_TEST_SUITE_P(, MulticastReportLimits, kStreams, kStreamName);

TEST_P(MulticastReports, P06_SourcesNobodyNamedAreToldOfOnce) {
  entries[kIb0].multicast_router = true;
  entries[kEth0].multicast_router = true;
  for (int i = 0; i < 3; ++i) feed_link(s.packet());
  Punted told = only_punted();
  EXPECT_EQ(told.message.kind, Up::Kind::kMulticastUnknown);
  EXPECT_EQ(told.message.iface, kIb0);
  EXPECT_EQ(told.message.addr, *wire::parse_ip(s.group));
  EXPECT_EQ(told.message.source, *wire::parse_ip(s.source));
  EXPECT_EQ(told.message.mbuf, nullptr);
  EXPECT_EQ(drops(kIb0, Drop::kIpMulticast), 3U) << "each counted once";

  // A delivery for any source forwards the packet and reports the interface on which it arrived.
  forward(kEth0, kIb1);
  feed_port(s.packet());
  told = only_punted();
  EXPECT_EQ(told.message.iface, kEth0);
  EXPECT_EQ(sent_by_link(kIb1).size(), 1U);
  EXPECT_EQ(all_drops(), 3U);
}

TEST_P(MulticastReports, P06_SourcesThatGoNowhereAreNotToldOf) {
  feed_link(s.packet());
  EXPECT_TRUE(punted().empty()) << "no multicast router's";
  entries[kIb0].multicast_router = true;
  feed_link(s.packet(1));
  feed_link(s.packet_to(s.v6 ? "ff02::77" : "224.0.0.77"));
  Stream near = s;
  near.source = s.v6 ? "fe80::9" : "169.254.0.9";
  feed_link(near.packet());
  EXPECT_TRUE(punted().empty()) << "last hop, or of the link";
  set_delivery(kIb0, s.group, false, 0, s.source);
  feed_link(s.packet());
  EXPECT_TRUE(punted().empty()) << "named";
  Stream other = s;
  other.source = s.v6 ? "fd00:a::8" : "10.0.0.8";
  set_delivery(kIb0, s.group, true, 0);
  feed_link(other.packet());
  EXPECT_EQ(punted()[0].message.kind, Up::Kind::kLocal) << "and nothing more";
  settings.forwarding = false;
  feed_link(other.packet());
  EXPECT_TRUE(punted().empty());
}

/// The reports for the election of forwarders, without those of sources.
std::vector<Punted> heard(const std::vector<Punted>& all) {
  std::vector<Punted> rows;
  std::ranges::copy_if(all, std::back_inserter(rows),
                       [](const Punted& p) { return p.message.kind == Up::Kind::kMulticastHeard; });
  return rows;
}

/// Also if the packet is forwarded to another interface, or its source has a delivery of its own.
TEST_P(MulticastReports, P06_PacketsThatThisNodeStandsByForAreReported) {
  entries[kIb0].multicast_router = true;
  join(kIb1, s.group, kGroupAh);
  struct Row {
    const char* source;
    bool local;
    std::uint64_t out;
  };
  for (const Row& row : {Row{"::", false, 0}, Row{"::", true, 0}, Row{"::", false, bits({kIb1})},
                         Row{s.source, false, bits({kIb1})}}) {
    set_delivery(kIb0, s.group, row.local, row.out, row.source, row.out);
    feed_link(s.packet());
    EXPECT_TRUE(heard(punted()).empty()) << "this node does not stand by";
    sent_by_link(kIb1);
    set_delivery(kIb0, s.group, row.local, row.out, row.source, row.out, true);
    next_interval();
    for (int i = 0; i < 3; ++i) feed_link(s.packet());
    const auto reports = heard(punted());
    ASSERT_EQ(reports.size(), 1U) << "in some intervals";
    EXPECT_EQ(reports[0].message.iface, kIb0);
    EXPECT_EQ(reports[0].message.from, kIb0);
    EXPECT_EQ(reports[0].message.addr, *wire::parse_ip(s.group));
    EXPECT_EQ(reports[0].message.source, *wire::parse_ip(s.source));
    EXPECT_EQ(reports[0].message.mbuf, nullptr);
    EXPECT_EQ(sent_by_link(kIb1).size(), row.out == 0 ? 0U : 3U);
    next_interval();
    feed_link(s.packet());
    EXPECT_EQ(heard(punted()).size(), 1U) << "and again";
    sent_by_link(kIb1);
  }
  next_interval();
  feed_link(s.packet(1));
  EXPECT_TRUE(heard(punted()).empty()) << "its last hop";
}

/// Another router may forward only one of the sources, whether they have deliveries of their own or not.
TEST_P(MulticastReports, P06_EachSourceThatThisNodeStandsByForIsReported) {
  for (const table::InterfaceId iface : {kIb0, kIb1}) entries[iface].multicast_router = true;
  const Stream other{s.group, s.v6 ? "fd00:a::8" : "10.0.0.8", s.routers, s.v6};
  const auto reported = [&](const char* source) {
    const auto reports = heard(punted());
    return reports.size() == 1 && reports[0].message.source == *wire::parse_ip(source);
  };
  for (const bool own_delivery : {false, true}) {
    set_delivery(kIb0, s.group, false, 0, "::", 0, true);
    if (own_delivery) set_delivery(kIb0, s.group, false, bits({kIb1}), other.source, bits({kIb1}));
    for (const table::InterfaceId iface : {kIb0, kIb1}) {
      next_interval();
      for (const Stream& stream : {s, other}) {
        feed_link(stream.packet(), iface);
        const bool forwarded = own_delivery && stream.source == other.source && iface == kIb0;
        EXPECT_EQ(reported(stream.source), !forwarded) << stream.source;
      }
    }
  }
}

/// A source that a route to a prefix of groups names must be reported as before.
TEST_P(MulticastReports, P06_SourcesOfGroupsThatThisNodeStandsByForAreToldOf) {
  entries[kIb0].multicast_router = true;
  set_delivery(kIb0, s.group, false, 0, "::", 0, true);
  feed_link(s.packet());
  const auto all = punted();
  EXPECT_TRUE(std::ranges::any_of(
      all, [](const Punted& p) { return p.message.kind == Up::Kind::kMulticastUnknown; }));
  expect_drop(kIb0, Drop::kIpMulticast);
}

/// The source is on ib0. A packet from it that arrives elsewhere was forwarded there by a router.
TEST_P(MulticastReports, P06_PacketsOfOtherForwardersAreReported) {
  for (const table::InterfaceId iface : {kIb0, kIb1, kEth0}) entries[iface].multicast_router = true;
  const auto feed_stray = [&](bool by_port) {
    next_interval();
    by_port ? feed_port(s.packet()) : feed_link(s.packet(), kIb1);
    const auto reports = heard(punted());
    for (const Punted& p : reports) {
      EXPECT_EQ(p.message.iface, by_port ? kEth0 : kIb1);
      EXPECT_EQ(p.message.from, kIb0);
      EXPECT_EQ(p.message.addr, *wire::parse_ip(s.group));
    }
    return reports.size();
  };
  EXPECT_EQ(feed_stray(false), 0U) << "no delivery";
  set_delivery(kIb0, s.group, false, bits({kIb1}), "::", bits({kIb1}));
  EXPECT_EQ(feed_stray(false), 1U) << "this node forwards it too";
  EXPECT_EQ(feed_stray(true), 0U) << "not there";
  set_delivery(kIb0, s.group, false, bits({kIb1}));
  EXPECT_EQ(feed_stray(false), 0U) << "a static route";
  set_delivery(kIb0, s.group, false, 0, "::", 0, true);
  EXPECT_EQ(feed_stray(false), 1U) << "this node stands by";
  EXPECT_EQ(feed_stray(true), 1U);
  for (const char* const source : {"::", s.source}) {
    set_delivery(kEth0, s.group, true, bits({kIb1}), source, bits({kIb1}));
    EXPECT_EQ(feed_stray(true), 1U) << "whatever delivery the ingress has";
  }
  entries[kEth0].multicast_router = false;
  EXPECT_EQ(feed_stray(true), 0U) << "no multicast router's";
}

/// Routers of a link compare the addresses of the sender and their own.
TEST_P(MulticastReports, P06_ReportsSayWhetherTheOtherForwarderHasTheLowerAddress) {
  for (const table::InterfaceId iface : {kIb0, kIb1, kEth0}) entries[iface].multicast_router = true;
  set_delivery(kIb0, s.group, false, 0, "::", 0, true);
  const auto lower = [&]() -> std::optional<bool> {
    loop();
    const auto reports = heard(punted());
    next_interval();
    if (reports.size() != 1) return std::nullopt;
    return reports[0].message.lower;
  };
  for (const int sender : {0x10, 0xf0, 0xa0}) {
    receive(kEth0, ethernet(group_mac(s.group), mac(static_cast<std::uint8_t>(sender)), s.type(),
                            s.packet()));
    EXPECT_EQ(lower(), sender == 0xa0 ? std::nullopt : std::optional{sender == 0x10}) << sender;
  }
  const auto gid = [](std::uint64_t last) {
    return wire::Gid::of(0xfe80'0000'0000'0000, 0x0002'c903'000a'0b00 + last);
  };
  entries[kIb1].set_gid(gid(5));
  entries[kIb1].ud_queues = ud_queues;
  const std::uint32_t own = ud_queues.front()->qpn();
  for (const auto& [sender, qpn, is_lower] :
       {std::tuple{gid(4), own + 1, true}, std::tuple{gid(6), own - 1, false},
        std::tuple{gid(5), own - 1, true}, std::tuple{gid(5), own + 0x1000, false}}) {
    receive_group(kIb1, on_link(s.packet()), sender, qpn);
    EXPECT_EQ(lower(), is_lower) << sender.guid() << " " << qpn;
  }
  receive_group(kIb1, on_link(s.packet()), gid(5), own);
  EXPECT_EQ(lower(), std::nullopt) << "own packet";
}

/// An interface takes so many groups. Up to eight that share a place in the table take turns; the secret
/// key of the table decides how many do, and more than eight are very rare.
TEST_P(MulticastReports, P06_ReportsOf4096SourcesAreOnTime) {
  entries[kIb0].multicast_router = true;
  set_delivery(kIb0, s.group, false, 0, "::", 0, true);
  std::set<wire::IpAddr> reported;
  std::size_t reports = 0;
  for (std::uint32_t interval = 0; interval < configs[0].punt.heard_again; ++interval) {
    worker().iterate(rte_rdtsc() + ++hours_ * 3'600 * rte_get_tsc_hz());
    for (int i = 0; i < 4'096; ++i) {
      const std::string source =
          s.v6 ? "fd00:a::1:" + std::to_string(i)
               : "10.0." + std::to_string(i / 16) + "." + std::to_string(i % 16 + 100);
      feed_link(Stream{s.group, source.c_str(), s.routers, s.v6}.packet());
      for (const Punted& p : heard(punted())) {
        reported.insert(p.message.source);
        ++reports;
      }
    }
  }
  EXPECT_GE(reported.size(), 4'096U - 16);
  EXPECT_LE(reports, 4'096U * 3 / 2) << "most of them once";
}

/// Any number of groups, and groups that share a place in the table of reports, have their limit.
TEST_P(MulticastReportLimits, P06_ReportsOfForwardersHaveALimit) {
  entries[kIb0].multicast_router = true;
  std::size_t reports = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 1; i <= 60; ++i) {
      const std::string group = (s.v6 ? "ff0e::" : "239.1.2.") + std::to_string(i);
      set_delivery(kIb0, group, false, 0, "::", 0, true);
      feed_link(s.packet_to(group.c_str()));
      reports += heard(punted()).size();
    }
  }
  EXPECT_EQ(reports, kSourcesPerInterval);
}

/// The limit holds for any number of sources.
TEST_P(MulticastReportLimits, P06_SourcesAreToldOfWithinLimits) {
  entries[kIb0].multicast_router = true;
  std::size_t told = 0;
  for (int i = 2; i <= 21; ++i) {
    const std::string source = (s.v6 ? "fd00:a::" : "10.0.0.") + std::to_string(i);
    Stream one = s;
    one.source = source.c_str();
    feed_link(one.packet());
    told += punted().size();
  }
  EXPECT_EQ(told, kSourcesPerInterval);
  EXPECT_EQ(drops(kIb0, Drop::kIpMulticast), 20U);
}

}  // namespace
}  // namespace ipoib::fwd::test
