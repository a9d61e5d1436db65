// SPDX-License-Identifier: BSD-3-Clause
// The packet trace in the CLI and in telemetry.
#include <gtest/gtest.h>

#include "app/cli/cli.h"
#include "app/export/json.h"
#include "app/export/telemetry.h"
#include "tests/support/addresses.h"
#include "tests/support/fake_node.h"

namespace ipoib::app {
namespace {

using ipoib::test::ip;

namespace trace = msg::trace;
using State = mgmt::TraceInfo::State;

/// A packet with one step after another.
struct Traced {
  mgmt::TracedPacket packet;

  explicit Traced(wire::EtherType type = wire::EtherType::kIpv4) {
    packet.lcore = 1;
    packet.in = "eth0";
    packet.since_start = std::chrono::microseconds(1500);
    packet.record.packet.ether_type = static_cast<std::uint16_t>(type);
    packet.record.packet.len = 84;
  }
  Traced& ip_packet(std::string_view src, std::string_view dst, std::uint8_t protocol,
                    std::optional<std::array<std::uint16_t, 2>> upper = {}) {
    trace::Packet& p = packet.record.packet;
    p.has_addresses = true;
    p.src = ip(src);
    p.dst = ip(dst);
    p.protocol = protocol;
    p.hops = 64;
    p.upper = upper;
    return *this;
  }
  Traced& step(const trace::Step& s, const mgmt::TracedPacket::StepNames& names = {}) {
    packet.record.add(s);
    packet.names.push_back(names);
    return *this;
  }
};

struct CliTraceTest : testing::Test {
  std::string text(const std::string& line) { return cli.execute(line); }
  Json json(const std::string& line) { return Json::parse(text(line)); }
  void add(const Traced& traced) { node.trace.rows.push_back(traced.packet); }
  /// The line of one step.
  std::string line_of(const trace::Step& s, const mgmt::TracedPacket::StepNames& names = {}) {
    node.trace.rows = {Traced{}.step(s, names).packet};
    return json("show trace json").at("packets").at(0).at("steps").at(0);
  }
  std::string summary_of(const Traced& traced) {
    node.trace.rows = {traced.packet};
    return json("show trace json").at("packets").at(0).at("packet");
  }

  FakeNode node;
  Cli cli{node.faces};
};

TEST_F(CliTraceTest, StartTakesEachCondition) {
  EXPECT_EQ(text("trace start 5"), "");
  EXPECT_EQ(node.trace.shown.state, State::kRunning);
  EXPECT_EQ(node.trace.shown.request.packets, 5U);
  EXPECT_EQ(text("show trace"), "trace running: 0 of 5 packets\n");
  const std::pair<const char*, const char*> rows[] = {
      {"in eth0", "in eth0"},
      {"src 10.0.0.0/8", "src 10.0.0.0/8"},
      {"dst 10.0.0.2", "dst 10.0.0.2/32"},
      {"dst fd00::2", "dst fd00::2/128"},
      {"src ::/0 dst fd00::/16", "src ::/0 dst fd00::/16"},
      {"proto udp", "proto 17"},
      {"proto icmpv6", "proto 58"},
      {"proto 255", "proto 255"},
      {"port 53", "port 53"},
      {"drop", "drop"},
      {"in ib0 src 10.0.0.1 dst 10.0.0.0/24 proto tcp port 22 drop",
       "in ib0 src 10.0.0.1/32 dst 10.0.0.0/24 proto 6 port 22 drop"},
  };
  for (const auto& [words, shown] : rows) {
    EXPECT_EQ(text(fmt::format("trace start 1000 {}", words)), "");
    EXPECT_EQ(text("show trace"), fmt::format("trace running: 0 of 1000 packets, {}\n", shown));
  }
  EXPECT_EQ(text("trace stop"), "");
  EXPECT_EQ(node.trace.shown.state, State::kStopped);
  EXPECT_EQ(text("trace stop"), "error: no trace is running\n");
  EXPECT_EQ(text("clear trace"), "");
  EXPECT_EQ(text("show trace"), "no trace\n");
}

TEST_F(CliTraceTest, BadInputStartsNothing) {
  const std::pair<const char*, const char*> rows[] = {
      {"trace start 0", "1-1000"},
      {"trace start 1001", "1-1000"},
      {"trace start -1", "1-1000"},
      {"trace start", "end of line"},
      {"trace start 5 in eth7", "eth0"},
      {"trace start 5 in", "name of a link or port"},
      {"trace start 5 src 10.0.0.1/24", "without host bits"},
      {"trace start 5 src 10.0.0.0/33", "without host bits"},
      {"trace start 5 dst host", "without host bits"},
      {"trace start 5 src 10.0.0.0/8 dst fd00::/16", "different IP versions"},
      {"trace start 5 proto sctp", "icmp, igmp, tcp, udp, icmpv6, or 0-255"},
      {"trace start 5 proto 256", "0-255"},
      {"trace start 5 port 0", "1-65535"},
      {"trace start 5 port 65536", "1-65535"},
      {"trace start 5 drop in eth0", "end of line"},
      {"trace clear", "start"},
  };
  for (const auto& [line, wanted] : rows) {
    const std::string answer = text(line);
    EXPECT_TRUE(answer.starts_with("error: ")) << line << ": " << answer;
    EXPECT_NE(answer.find(wanted), std::string::npos) << line << ": " << answer;
    EXPECT_EQ(node.trace.shown.state, State::kNone) << line;
  }
}

TEST_F(CliTraceTest, ShowsThePathOfAPacket) {
  text("trace start 2 in eth0");
  add(Traced{}
          .ip_packet("192.168.1.2", "10.0.0.2", 1, {{8, 0}})
          .step(trace::Entered{trace::Stage::kEthInput})
          .step(trace::Entered{trace::Stage::kIp4Input})
          .step(trace::Routed{table::NextHopKind::kConnected, 1, ip("10.0.0.2")},
                {"ib0", wire::parse_prefix("10.0.0.0/24")})
          .step(trace::Resolved{ip("10.0.0.2"),
                                1,
                                table::NeighbourState::kValid,
                                table::NeighbourMode::kUd,
                                {},
                                0x4a},
                {.iface = "ib0", .lid = 2})
          .step(trace::Sent{1, table::NeighbourMode::kUd}, {"ib0"}));
  add(Traced{}
          .ip_packet("192.168.1.2", "10.0.0.2", 17, {{5000, 53}})
          .step(trace::Dropped{Drop::kIpTtlExceeded})
          .step(trace::Punted{msg::Up::Kind::kIcmpError, 11, 0}));
  node.trace.shown.state = State::kComplete;
  EXPECT_EQ(text("show trace"), R"(trace complete: 2 of 2 packets, in eth0

1: 0.001500 s, worker 0 (lcore 1), in eth0
   192.168.1.2 > 10.0.0.2, icmp 8/0, 84 octets, TTL 64
   - eth_input
   - ip4_input
   - ip4_route: 10.0.0.0/24, connected to ib0
   - neighbour 10.0.0.2 on ib0: valid, UD, LID 2, QPN 0x00004a
   - sent on ib0 by UD

2: 0.001500 s, worker 0 (lcore 1), in eth0
   192.168.1.2 > 10.0.0.2, udp 5000 > 53, 84 octets, TTL 64
   - dropped: ip_ttl_exceeded
   - punted: ICMP error 11/0 to the sender
)");
  const Json shown = json("show trace json");
  EXPECT_EQ(shown.at("state"), "complete");
  EXPECT_EQ(shown.at("filter"), "in eth0");
  EXPECT_EQ(shown.at("limit"), 2);
  EXPECT_EQ(shown.at("recorded"), 2);
  EXPECT_EQ(shown.at("missed"), 0);
  const Json& first = shown.at("packets").at(0);
  EXPECT_EQ(first.at("time_ns"), 1'500'000);
  EXPECT_EQ(first.at("worker"), 0);
  EXPECT_EQ(first.at("lcore"), 1);
  EXPECT_EQ(first.at("in"), "eth0");
  EXPECT_EQ(first.at("verdict"), "sent");
  EXPECT_EQ(first.at("steps").size(), 5U);
  EXPECT_EQ(shown.at("packets").at(1).at("verdict"), "dropped (ip_ttl_exceeded)");
}

TEST_F(CliTraceTest, EachStepHasItsLine) {
  const auto prefix = wire::parse_prefix("10.0.0.0/24");
  using table::NeighbourMode;
  using table::NeighbourState;
  using Hop = table::NextHopKind;
  EXPECT_EQ(line_of(trace::Entered{trace::Stage::kIpoibInput, NeighbourMode::kUc}),
            "ipoib_input: by UC");
  EXPECT_EQ(line_of(trace::Entered{trace::Stage::kInject}), "inject");
  const std::pair<Hop, const char*> hops[] = {
      {Hop::kLocal, "ip4_route: 10.0.0.0/24, an address of this node"},
      {Hop::kLocalDown, "ip4_route: 10.0.0.0/24, an address of this node that is not in use"},
      {Hop::kBroadcast, "ip4_route: 10.0.0.0/24, a broadcast address"},
      {Hop::kGateway, "ip4_route: 10.0.0.0/24, through a gateway on ib0"},
      {Hop::kBlackhole, "ip4_route: 10.0.0.0/24, blackhole"},
      {Hop::kUnreachable, "ip4_route: 10.0.0.0/24, unreachable"},
      {Hop::kProhibited, "ip4_route: 10.0.0.0/24, prohibited"},
  };
  for (const auto& [hop, line] : hops)
    EXPECT_EQ(line_of(trace::Routed{hop, 1, ip("10.0.0.2")}, {"ib0", prefix}), line);
  EXPECT_EQ(line_of(trace::Routed{Hop::kNone, 0xffff, ip("fd00::2")}), "ip6_route: no route");
  const auto neighbour = [&](NeighbourState state, NeighbourMode mode = NeighbourMode::kEthernet) {
    return line_of(trace::Resolved{ip("10.0.0.2"), 1, state, mode, {}, 0x101}, {"ib0"});
  };
  EXPECT_EQ(neighbour(NeighbourState::kFree), "neighbour 10.0.0.2 on ib0: unknown");
  EXPECT_EQ(neighbour(NeighbourState::kIncomplete), "neighbour 10.0.0.2 on ib0: incomplete");
  EXPECT_EQ(neighbour(NeighbourState::kFailed), "neighbour 10.0.0.2 on ib0: failed");
  EXPECT_EQ(neighbour(NeighbourState::kValid),
            "neighbour 10.0.0.2 on ib0: valid, MAC 00:00:00:00:00:00");
  EXPECT_EQ(neighbour(NeighbourState::kValid, NeighbourMode::kRc),
            "neighbour 10.0.0.2 on ib0: valid, RC, own QPN 0x000101");
  EXPECT_EQ(line_of(trace::Delivered{true, 3}, {.out = {"eth0", "ib0"}}),
            "multicast_input: to eth0, ib0, this node");
  EXPECT_EQ(line_of(trace::Delivered{true, 0}), "multicast_input: to this node");
  EXPECT_EQ(line_of(trace::Delivered{false, 1}, {.out = {"eth0"}}), "multicast_input: to eth0");
  EXPECT_EQ(line_of(trace::Delivered{false, 0}), "multicast_input: to no interface");
  EXPECT_EQ(line_of(trace::Merged{3}), "tcp_gro: 3 segments in this packet");
  EXPECT_EQ(line_of(trace::Cut{true, 1500, 4}), "tcp_gso: 4 segments for an MTU of 1500");
  EXPECT_EQ(line_of(trace::Cut{false, 1500, 2}), "ip_output: 2 fragments for an MTU of 1500");
  EXPECT_EQ(line_of(trace::Joined{}), "tcp_gro: part of another packet");
  EXPECT_EQ(line_of(trace::Sent{1, NeighbourMode::kRc, 2, 1}, {"ib0"}),
            "sent on ib0 by RC, 2 packets, the device lost 1 of this burst");
  EXPECT_EQ(line_of(trace::HandedOff{1, 1}, {"ib0"}), "handed off to worker 1 for ib0");
  EXPECT_EQ(line_of(trace::HandedOff{1, table::kNoInterface}), "handed off to worker 1");
  EXPECT_EQ(line_of(trace::Held{ip("10.0.0.9"), 1}, {"ib0"}),
            "held until 10.0.0.9 on ib0 is resolved");
  EXPECT_EQ(line_of(trace::Dropped{Drop::kIbTxFull, 1, 3}, {"ib0"}),
            "dropped: ib_tx_full on ib0, 3 packets");
  EXPECT_EQ(line_of(trace::Consumed{}), "counted and freed by the forward mode");
  using Kind = msg::Up::Kind;
  EXPECT_EQ(line_of(trace::Punted{Kind::kLocal}), "local: delivered to this node");
  EXPECT_EQ(line_of(trace::Punted{Kind::kArp}), "punted: ARP");
  EXPECT_EQ(line_of(trace::Punted{Kind::kNd}), "punted: neighbour discovery");
  EXPECT_EQ(line_of(trace::Punted{Kind::kMembership}), "punted: group membership");
  EXPECT_EQ(line_of(trace::Punted{Kind::kBroadcast}), "punted: broadcast for Linux");
  EXPECT_EQ(line_of(trace::Punted{Kind::kLinkFrame}), "punted: LLDP for Linux");
  EXPECT_EQ(line_of(trace::Punted{Kind::kRedirectWanted}), "punted: redirect to the sender");
}

TEST_F(CliTraceTest, EachPacketHasItsSummary) {
  using wire::EtherType;
  EXPECT_EQ(summary_of(Traced{EtherType::kIpv6}.ip_packet("fd00::1", "fd00::2", 6, {{22, 40'000}})),
            "fd00::1 > fd00::2, tcp 22 > 40000, 84 octets, hop limit 64");
  EXPECT_EQ(summary_of(Traced{EtherType::kIpv6}.ip_packet("fd00::1", "fd00::2", 58, {{135, 0}})),
            "fd00::1 > fd00::2, icmpv6 135/0, 84 octets, hop limit 64");
  EXPECT_EQ(summary_of(Traced{}.ip_packet("10.0.0.1", "10.0.0.2", 89)),
            "10.0.0.1 > 10.0.0.2, protocol 89, 84 octets, TTL 64");
  EXPECT_EQ(summary_of(Traced{}.ip_packet("10.0.0.1", "10.0.0.2", 17)),
            "10.0.0.1 > 10.0.0.2, udp, 84 octets, TTL 64");
  EXPECT_EQ(summary_of(Traced{EtherType::kArp}.ip_packet("10.0.0.1", "10.0.0.2", 1)),
            "10.0.0.1 > 10.0.0.2, arp 1, 84 octets");
  EXPECT_EQ(summary_of(Traced{EtherType{0x1234}}), "EtherType 0x1234, 84 octets");
}

TEST_F(CliTraceTest, TheVerdictNamesEachEndOnce) {
  Traced several;
  several.step(trace::Punted{msg::Up::Kind::kLocal});
  for (int i = 0; i < 2; ++i) several.step(trace::Sent{1, table::NeighbourMode::kUd}, {"ib0"});
  several.packet.record.truncated = true;
  add(several);
  const Json packet = json("show trace json").at("packets").at(0);
  EXPECT_EQ(packet.at("verdict"), "local, sent");
  EXPECT_EQ(packet.at("steps").back(), "further steps are not recorded");
}

TEST_F(CliTraceTest, ManyPacketsComeInPieces) {
  text("trace start 100");
  for (int i = 0; i < 100; ++i)
    add(Traced{}.step(trace::Sent{1, table::NeighbourMode::kUd}, {"ib0"}));
  node.trace.shown.missed = 7;
  EXPECT_EQ(json("show trace json").at("packets").size(), 100U);
  const std::string all = text("show trace");
  EXPECT_NE(all.find("\n100: "), std::string::npos);
  EXPECT_NE(all.find("7 more packets matched"), std::string::npos);
  auto output = cli.run("show trace");
  ASSERT_TRUE(output);
  std::string first;
  EXPECT_TRUE(output->append_piece(first));
  EXPECT_EQ(first.find("\n100: "), std::string::npos);
  text("clear trace");
  EXPECT_FALSE(output->append_piece(first)) << "the packets are gone";
}

TEST_F(CliTraceTest, TelemetryHasThePackets) {
  text("trace start 9 drop");
  for (int i = 0; i < 3; ++i)
    add(Traced{}.step(trace::Sent{1, table::NeighbourMode::kUd}, {"ib0"}));
  const Json all = telemetry_answer(node.faces, "/ipoib/trace", "");
  EXPECT_EQ(all.at("state"), "running");
  EXPECT_EQ(all.at("filter"), "drop");
  EXPECT_EQ(all.at("total"), 3);
  EXPECT_EQ(all.at("entries").at("0").at("steps").at(0), "sent on ib0 by UD");
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/trace", "2").at("entries").size(), 1U);
}

}  // namespace
}  // namespace ipoib::app
