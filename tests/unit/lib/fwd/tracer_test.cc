// SPDX-License-Identifier: BSD-3-Clause
// The packet trace: the path of each kind of packet, the filter and the limit; and that packets
// fare alike with and without it.
#include "lib/fwd/tracer.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/fake_connected_queues.h"
#include "tests/support/tcp_packets.h"
#include "tests/support/worker_fixture.h"
#include "tests/unit/lib/fwd/traces.h"

namespace ipoib::fwd::test {
namespace {

using msg::trace::Filter;
using msg::trace::Session;
using table::NextHopKind;

class Trace : public WorkerFixture {
 protected:
  void start_with_neighbours() {
    start();
    set_neighbour(0, eth_neighbour(kEth0, "192.168.1.10", mac(0x10)));
    set_neighbour(1, eth_neighbour(kEth1, "192.168.2.20", mac(0x20)));
    set_neighbour(2, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    set_neighbour(3, ib_neighbour(kIb0, "fd00:a::2", 7, 0xabcdef));
    loop();
  }
  /// Sets a neighbour of ib0 to which packets go by a connection.
  void set_connected(table::NeighbourIndex index, const char* address, FakeConnectedQueue& queue,
                     std::uint16_t mtu = 2044) {
    table::Neighbour peer = ib_neighbour(kIb0, address, 7, 0xabcdef);
    peer.mode = table::NeighbourMode::kRc;
    peer.mtu = mtu;
    peer.queue = &queue;
    set_neighbour(index, peer);
  }
  void trace(const Filter& filter = {}, std::size_t limit = 100) {
    sessions_.push_back(std::make_unique<Session>(filter, limit));
    set_session(sessions_.back().get());
  }
  void set_session(Session* session) {
    msg::Down message{};
    message.kind = msg::Down::Kind::kTrace;
    message.trace = session;
    for (std::size_t i = 0; i < configs.size(); ++i) send_down(message, i);
    loop();
  }
  Session& session() { return *sessions_.back(); }
  std::vector<Path> paths() { return paths_of(session()); }

  /// Path of the only record of a new trace after the interface has received the frame.
  Path path(const Bytes& frame, table::InterfaceId in = kEth0, bool multicast = false) {
    trace();
    feed(in, frame, multicast);
    const auto all = paths();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? Path{} : all.front();
  }
  Path path4(const Ip4& ip) { return path(to_eth0(ip.bytes())); }
  Path path6(const Ip6& ip) { return path(to_eth0_6(ip.bytes())); }
  Path path_from_ib0(const Ip4& ip) { return path(to_link(ip.bytes()), kIb0); }

 private:
  std::vector<std::unique_ptr<Session>> sessions_;
};

const std::string kTo2 = "route 10.0.0.2 kind 4 to 2";
const std::string kValid2 = "neighbour 10.0.0.2 on 2 state 2 UD abcdef";
const std::string kValid2v6 = "neighbour fd00:a::2 on 2 state 2 UD abcdef";
const std::string kTo1 = "route 192.168.2.20 kind 4 to 1";
const std::string kValid1 = "neighbour 192.168.2.20 on 1 state 2 ethernet 02:00:00:00:00:20";

std::string punted_as(msg::Up::Kind kind) {
  return fmt::format("punted kind {}", static_cast<int>(kind));
}

TEST_F(Trace, ForwardedPacket) {
  start_with_neighbours();
  EXPECT_EQ(path4({}), (Path{"eth_input", "ip4_input", kTo2, kValid2, "sent 2 UD"}));
  const msg::trace::Record& record = *session().record(0);
  EXPECT_EQ(record.in, kEth0);
  EXPECT_EQ(record.worker, 0);
  EXPECT_NE(record.tsc, 0U);
  const msg::trace::Packet& p = record.packet;
  EXPECT_EQ(p.ether_type, 0x0800);
  EXPECT_EQ(wire::to_string(p.src), "192.168.1.10");
  EXPECT_EQ(wire::to_string(p.dst), "10.0.0.2");
  EXPECT_EQ(p.protocol, 17);
  EXPECT_EQ(p.hops, 64) << "as it arrived";
  EXPECT_EQ(p.len, Ip4{}.bytes().size());
  EXPECT_EQ(p.upper, (std::array<std::uint16_t, 2>{0x0001, 0x0203}));
}

TEST_F(Trace, ForwardedPacketOfIpv6) {
  start_with_neighbours();
  EXPECT_EQ(path6({}), (Path{"eth_input", "ip6_input", "route fd00:a::2 kind 4 to 2", kValid2v6,
                             "sent 2 UD"}));
  const msg::trace::Packet& p = session().record(0)->packet;
  EXPECT_EQ(wire::to_string(p.src), "fd00:1::10");
  EXPECT_EQ(p.hops, 64);
  EXPECT_EQ(p.len, Ip6{}.bytes().size());
}

TEST_F(Trace, FromALinkToAPort) {
  start_with_neighbours();
  EXPECT_EQ(path_from_ib0({.src = "10.0.0.2", .dst = "192.168.2.20"}),
            (Path{"ipoib_input UD", "ip4_input", kTo1, kValid1, "sent 1 ethernet"}));
}

TEST_F(Trace, ThroughAGateway) {
  add_route("172.16.0.0/16", {NextHopKind::kGateway, 0, kIb0, 2});
  add_route("fd00:99::/64", {NextHopKind::kGateway, 0, kIb0, 3});
  add_route("172.17.0.0/16", {NextHopKind::kGateway, 0, kIb0, 99});
  start_with_neighbours();
  EXPECT_EQ(path4({.dst = "172.16.0.5"}),
            (Path{"eth_input", "ip4_input", "route 172.16.0.5 kind 5 to 2", kValid2, "sent 2 UD"}));
  EXPECT_EQ(
      path6({.dst = "fd00:99::5"}),
      (Path{"eth_input", "ip6_input", "route fd00:99::5 kind 5 to 2", kValid2v6, "sent 2 UD"}));
  EXPECT_EQ(
      path4({.dst = "172.17.0.5"}),
      (Path{"eth_input", "ip4_input", "route 172.17.0.5 kind 5 to 2", "dropped neighbour_gone"}));
}

TEST_F(Trace, DropsWithAndWithoutAnError) {
  add_route("172.16.0.0/16", {NextHopKind::kBlackhole, 0, table::kNoInterface, 0});
  start_with_neighbours();
  EXPECT_EQ(path4({.ttl = 1}), (Path{"eth_input", "ip4_input", kTo2, kValid2,
                                     "dropped ip_ttl_exceeded", "error 11/0"}));
  EXPECT_EQ(path6({.hop_limit = 1}), (Path{"eth_input", "ip6_input", "route fd00:a::2 kind 4 to 2",
                                           kValid2v6, "dropped ip_ttl_exceeded", "error 3/0"}));
  EXPECT_EQ(path4({.dst = "8.8.8.8"}),
            (Path{"eth_input", "ip4_input", "route 8.8.8.8 kind 0 to 65535", "dropped ip_no_route",
                  "error 3/0"}));
  EXPECT_EQ(path6({.dst = "2001:db8::1"}),
            (Path{"eth_input", "ip6_input", "route 2001:db8::1 kind 0 to 65535",
                  "dropped ip_no_route", "error 1/0"}));
  EXPECT_EQ(
      path4({.dst = "172.16.0.1"}),
      (Path{"eth_input", "ip4_input", "route 172.16.0.1 kind 6 to 65535", "dropped ip_blackhole"}));
  EXPECT_EQ(path4({.checksum_off = 1}), (Path{"eth_input", "dropped ip_checksum"}));
  EXPECT_EQ(path6({.payload_len = 4000}),
            (Path{"eth_input", "ip6_input", "dropped ip6_payload_length"}));
  EXPECT_EQ(path(ethernet(mac(0xbb), mac(0x10), 0x0800, Ip4{}.bytes())),
            (Path{"eth_input", "dropped eth_not_for_us"}));
  EXPECT_EQ(path(ethernet(mac(0xa0), mac(0x10), 0x1234, Bytes(46))),
            (Path{"eth_input", "dropped eth_unknown_type"}));
  EXPECT_EQ(path(Bytes(10)), (Path{"eth_input", "dropped eth_runt"}));
  entries[kIb0].up = false;
  EXPECT_EQ(path4({}),
            (Path{"eth_input", "ip4_input", kTo2, kValid2, "dropped link_down", "error 3/1"}));
  settings.forwarding = false;
  EXPECT_EQ(path4({}), (Path{"eth_input", "ip4_input", "dropped forwarding_stopped"}));
  entries[kEth0].admin_down = true;
  EXPECT_EQ(path4({}), (Path{"dropped interface_down"}));
}

TEST_F(Trace, HeldPacketAndItsRelease) {
  start_with_neighbours();
  const Path held{"eth_input", "ip4_input", "route 10.0.0.9 kind 4 to 2",
                  "neighbour 10.0.0.9 on 2 state 0 ethernet 00:00:00:00:00:00",
                  "held for 10.0.0.9 on 2"};
  EXPECT_EQ(path4({.dst = "10.0.0.9"}), held);
  EXPECT_EQ(path6({.dst = "fd00:a::9"}).back(), "held for fd00:a::9 on 2");
  const Filter from_eth0{.in = kEth0};
  trace(from_eth0);
  set_neighbour(4, ib_neighbour(kIb0, "10.0.0.9", 8, 0x123));
  send_routed(Ip4{.dst = "10.0.0.9", .ttl = 63}.bytes(), kEth0);
  send_routed(Ip4{.dst = "10.0.0.9", .ttl = 63}.bytes());
  loop();
  EXPECT_EQ(paths(), (std::vector<Path>{{"inject", "route 10.0.0.9 kind 4 to 2",
                                         "neighbour 10.0.0.9 on 2 state 2 UD 123", "sent 2 UD"}}))
      << "of this interface only";
  set_neighbour(4, [] {
    table::Neighbour n = ib_neighbour(kIb0, "10.0.0.9", 8, 0x123);
    n.state = table::NeighbourState::kFailed;
    return n;
  }());
  loop();
  EXPECT_EQ(
      path4({.dst = "10.0.0.9"}),
      (Path{"eth_input", "ip4_input", "route 10.0.0.9 kind 4 to 2",
            "neighbour 10.0.0.9 on 2 state 3 UD 123", "dropped neighbour_failed", "error 3/1"}));
}

TEST_F(Trace, PuntedPackets) {
  start_with_neighbours();
  EXPECT_EQ(path4({.dst = "192.168.1.1"}),
            (Path{"eth_input", "ip4_input", "route 192.168.1.1 kind 1 to 0",
                  punted_as(msg::Up::Kind::kLocal)}));
  EXPECT_EQ(path6({.dst = "fd00:1::1"}),
            (Path{"eth_input", "ip6_input", "route fd00:1::1 kind 1 to 0",
                  punted_as(msg::Up::Kind::kLocal)}));
  EXPECT_EQ(path6({.dst = "fd00:1::1", .hop_limit = 255, .body = icmp6(135), .next_header = 58}),
            (Path{"eth_input", "ip6_input", "route fd00:1::1 kind 1 to 0",
                  punted_as(msg::Up::Kind::kNd)}));
  EXPECT_EQ(path6({.dst = "fd00:1::1", .hop_limit = 64, .body = icmp6(135), .next_header = 58}),
            (Path{"eth_input", "ip6_input", "route fd00:1::1 kind 1 to 0", "dropped nd_invalid"}));
  Bytes arp;
  for (const int octet : {0, 1, 8, 0, 6, 4, 0, 1}) arp.push_back(static_cast<std::byte>(octet));
  append(arp, mac(0x10));
  append(arp, wire::Be32{addr("192.168.1.10")});
  append(arp, wire::MacAddr{});
  append(arp, wire::Be32{addr("192.168.1.1")});
  EXPECT_EQ(path(ethernet(kBroadcastMac, mac(0x10), 0x0806, arp)),
            (Path{"eth_input", punted_as(msg::Up::Kind::kArp)}));
  const msg::trace::Packet& p = session().record(0)->packet;
  EXPECT_EQ(wire::to_string(p.src), "192.168.1.10");
  EXPECT_EQ(wire::to_string(p.dst), "192.168.1.1");
  EXPECT_EQ(p.protocol, 1) << "request";
}

TEST_F(Trace, MulticastCopies) {
  start_with_neighbours();
  for (const bool v6 : {false, true}) {
    const char* const group = v6 ? "ff0e::123" : "239.1.2.3";
    set_delivery(kEth0, group, true, 1U << kEth1 | 1U << kIb0 | 1U << kIb1);
    set_neighbour(10, eth_neighbour(kEth1, group, mac(0x77)));
    set_neighbour(11, ib_neighbour(kIb0, group, 50, 0xff'ffff));
    loop();
    const Bytes ip = v6 ? Ip6{.dst = group}.bytes() : Ip4{.dst = group}.bytes();
    const std::uint16_t type = v6 ? 0x86dd : 0x0800;
    const std::string input = v6 ? "ip6_input" : "ip4_input";
    EXPECT_EQ(path(ethernet(wire::group_mac(*wire::parse_ip(group)), mac(0x10), type, ip)),
              (Path{"eth_input", input, "delivery local true out e",
                    punted_as(msg::Up::Kind::kLocal), fmt::format("held for {} on 3", group),
                    fmt::format("neighbour {} on 1 state 2 ethernet 02:00:00:00:00:77", group),
                    fmt::format("neighbour {} on 2 state 2 UD ffffff", group), "sent 1 ethernet",
                    "sent 2 UD"}));
    EXPECT_EQ(
        path(encapsulated(type, ip), kIb0, true),
        (Path{"ipoib_input UD", input, "delivery local false out 0", "dropped ip_multicast"}));
  }
}

TEST_F(Trace, MulticastCopyWithoutAnMbuf) {
  start_with_neighbours();
  set_delivery(kEth0, "239.1.2.3", true, 1U << kEth1);
  set_neighbour(10, eth_neighbour(kEth1, "239.1.2.3", mac(0x77)));
  loop();
  trace();
  receive(kEth0, ethernet(wire::group_mac(*wire::parse_ip("239.1.2.3")), mac(0x10), 0x0800,
                          Ip4{.dst = "239.1.2.3"}.bytes()));
  std::vector<rte_mbuf*> all;
  for (rte_mbuf* taken; (taken = rte_pktmbuf_alloc(pool)) != nullptr;) all.push_back(taken);
  loop();
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
  EXPECT_EQ(
      paths(),
      (std::vector<Path>{{"eth_input", "ip4_input", "delivery local true out 2", "dropped no_mbuf",
                          "neighbour 239.1.2.3 on 1 state 2 ethernet 02:00:00:00:00:77",
                          "sent 1 ethernet"}}));
}

TEST_F(Trace, OverAConnection) {
  FakeConnectedQueue queue{0x101};
  FakeReceiveQueue source;
  connect(kIb0, source);
  start_with_neighbours();
  set_connected(2, "10.0.0.2", queue);
  loop();
  const std::string neighbour = "neighbour 10.0.0.2 on 2 state 2 RC 101";
  EXPECT_EQ(path4({}), (Path{"eth_input", "ip4_input", kTo2, neighbour, "sent 2 RC"}));
  queue.room = 0;
  EXPECT_EQ(path4({}),
            (Path{"eth_input", "ip4_input", kTo2, neighbour, "dropped ib_tx_full on 2"}));

  trace();
  rte_mbuf* const m = mbuf(to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.2.20"}.bytes()));
  fabric::meta_of(m).rx = {};
  fabric::meta_of(m).rx.transport = fabric::Transport::kUc;
  source.incoming.push_back(m);
  loop();
  ASSERT_EQ(paths().size(), 1U);
  EXPECT_EQ(paths()[0].front(), "ipoib_input UC");
  EXPECT_EQ(paths()[0].back(), "sent 1 ethernet");
}

TEST_F(Trace, SegmentsThatGroMerges) {
  FakeConnectedQueue queue{0x101};
  FakeReceiveQueue source;
  connect(kIb0, source);
  entries[kEth0].tcp_offload = true;
  start_with_neighbours();
  set_connected(2, "10.0.0.2", queue, 65'520);
  set_connected(3, "fd00:a::2", queue, 65'520);
  loop();
  for (const bool v6 : {false, true}) {
    trace();
    const std::size_t full = v6 ? 1440 : 1460;
    for (std::uint16_t i = 0; i < 3; ++i) {
      const auto offset = static_cast<std::uint32_t>(i * full);
      const Tcp tcp{.v6 = v6,
                    .seq = 1000 + offset,
                    .payload = pattern(full, offset),
                    .id = static_cast<std::uint16_t>(0x100 + i)};
      receive(kEth0, v6 ? to_eth0_6(tcp.bytes()) : to_eth0(tcp.bytes()));
    }
    loop();
    const auto all = paths();
    ASSERT_EQ(all.size(), 3U);
    const Path before(all[0].begin(), all[0].begin() + 4);
    Path head = before, part = before;
    head.insert(head.end(), {"merged 3", "sent 2 RC"});
    part.emplace_back("joined");
    EXPECT_EQ(all, (std::vector<Path>{head, part, part}));
    EXPECT_EQ(before[1], v6 ? "ip6_input" : "ip4_input");
  }
}

TEST_F(Trace, FragmentsAndSegments) {
  entries[kEth0].mtu = 9000;
  start_with_neighbours();
  Ip4 packet{.src = "10.0.0.2", .dst = "192.168.2.20", .payload_len = 2000};
  EXPECT_EQ(path_from_ib0(packet), (Path{"ipoib_input UD", "ip4_input", kTo1, kValid1,
                                         "fragments mtu 1500 pieces 2", "sent 1 ethernet x2"}));
  packet.flags_offset = wire::Ipv4Hdr::kDontFragment;
  EXPECT_EQ(path_from_ib0(packet), (Path{"ipoib_input UD", "ip4_input", kTo1, kValid1,
                                         "dropped ip_too_big", "error 3/4"}));
}

TEST_F(Trace, SegmentsThatGsoCuts) {
  FakeReceiveQueue source;
  connect(kIb0, source);
  entries[kEth0].tcp_offload = true;
  start_with_neighbours();
  // The packet's addresses are those of a host on eth0 and a host on ib0.
  Tcp tcp{.payload = pattern(1960)};
  Bytes ip = tcp.bytes();
  const auto put = [&ip](std::size_t at, const wire::Be32& value) {
    std::memcpy(&ip[at], &value, sizeof(value));
  };
  put(12, wire::Be32{addr("10.0.0.2")});
  put(16, wire::Be32{addr("192.168.1.10")});
  const wire::Be16 none{};
  std::memcpy(&ip[10], &none, sizeof(none));
  const wire::Be16 sum{wire::internet_checksum(std::span{ip}.first(20))};
  std::memcpy(&ip[10], &sum, sizeof(sum));
  EXPECT_EQ(path(to_link(ip), kIb0),
            (Path{"ipoib_input UD", "ip4_input", "route 192.168.1.10 kind 4 to 0",
                  "neighbour 192.168.1.10 on 0 state 2 ethernet 02:00:00:00:00:10",
                  "segments mtu 1500 pieces 2", "sent 0 ethernet x2"}));
}

TEST_F(Trace, WhatADeviceDoesNotTakeOrLoses) {
  start_with_neighbours();
  links[0].room = 0;
  EXPECT_EQ(path4({}).back(), "dropped ib_tx_full on 2");
  links[0].room = 1;
  links[0].loses = true;
  EXPECT_EQ(path4({}).back(), "sent 2 UD lost 1");
  entries[kEth1].device_stopped = true;
  EXPECT_EQ(path4({.dst = "192.168.2.20"}).back(), "dropped link_down on 1");
}

TEST_F(Trace, RawPacketsOfManagement) {
  start_with_neighbours();
  trace();
  msg::Down message{};
  message.kind = msg::Down::Kind::kSendRaw;
  message.iface = kEth1;
  message.mbuf = mbuf(ethernet(mac(0x20), mac(0xa1), 0x0800, Ip4{}.bytes()));
  send_down(message);
  send_on_interface(Ip4{}.bytes(), kIb0);
  loop();
  EXPECT_EQ(paths(),
            (std::vector<Path>{{"inject", "sent 1 ethernet"}, {"inject", kValid2, "sent 2 UD"}}));
}

TEST_F(Trace, TestModes) {
  settings.mode = ForwardMode::kRxonly;
  start_with_neighbours();
  EXPECT_EQ(path4({}), (Path{"eth_input", "ip4_input", "consumed"}));
  EXPECT_EQ(path6({}), (Path{"eth_input", "ip6_input", "consumed"}));
  settings.mode = ForwardMode::kIo;
  EXPECT_EQ(path4({}), (Path{"io_forward", "sent 1 ethernet"}));
}

TEST_F(Trace, RedirectWanted) {
  start_with_neighbours();
  set_neighbour(5, eth_neighbour(kEth0, "192.168.1.20", mac(0x30)));
  EXPECT_EQ(path4({.dst = "192.168.1.20"}),
            (Path{"eth_input", "ip4_input", "route 192.168.1.20 kind 4 to 0",
                  "neighbour 192.168.1.20 on 0 state 2 ethernet 02:00:00:00:00:30",
                  punted_as(msg::Up::Kind::kRedirectWanted), "sent 0 ethernet"}));
}

// Chains for a device that sends none are copied, and packets that another owner reads too.
TEST_F(Trace, CopiesInAnMbufOfItsOwn) {
  entries[kEth1].max_segments = 1;
  start_with_neighbours();
  trace();
  const Bytes frame = to_eth0(Ip4{.dst = "192.168.2.20", .payload_len = 200}.bytes());
  rte_mbuf* const shared = mbuf(frame, {100, frame.size() - 100});
  rte_mbuf_refcnt_update(shared, 1);
  receive(kEth0, mbuf(frame, {100, frame.size() - 100}));
  feed(kEth0, shared);
  rte_pktmbuf_free(shared);
  ASSERT_EQ(paths().size(), 2U);
  EXPECT_EQ(paths()[0].back(), "sent 1 ethernet");
  EXPECT_EQ(paths()[1], paths()[0]);
}

class TraceHandoff : public Trace {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    share_between_two_workers();
    start_with_neighbours();
  }
};

TEST_F(TraceHandoff, BothWorkersRecord) {
  trace();
  feed(kEth0, to_eth0(Ip4{}.bytes()));
  EXPECT_EQ(paths(), (std::vector<Path>{
                         {"eth_input", "ip4_input", kTo2, kValid2, "handed to worker 1 for 2"},
                         {"handoff_input", "sent 2 UD"}}));
  EXPECT_EQ(session().record(1)->worker, 1);
  EXPECT_EQ(session().record(1)->in, table::kNoInterface);
  EXPECT_EQ(session().record(1)->packet.hops, 63);
}

TEST_F(TraceHandoff, AFullRing) {
  trace();
  settings.burst = 64;
  for (int i = 0; i < 70; ++i) receive(kEth0, to_eth0(Ip4{}.bytes()));
  worker(0).iterate();
  worker(0).iterate();
  const auto all = paths();
  ASSERT_EQ(all.size(), 70U);
  EXPECT_EQ(all[62].back(), "handed to worker 1 for 2");
  for (std::size_t i = 63; i < 70; ++i) EXPECT_EQ(all[i].back(), "dropped handoff_ring_full on 2");
  worker(1).iterate();
}

TEST_F(TraceHandoff, TheLimitIsOfAllWorkers) {
  trace({.src = wire::parse_prefix("192.168.0.0/16")}, 5);
  for (int i = 0; i < 4; ++i) {
    receive(kEth0, to_eth0(Ip4{.dst = "8.8.8.8"}.bytes()));
    receive(kEth1, ethernet(mac(0xa1), mac(0x20), 0x0800,
                            Ip4{.src = "192.168.2.20", .dst = "8.8.8.8"}.bytes()));
  }
  loop();
  ASSERT_EQ(paths().size(), 5U);
  EXPECT_TRUE(session().full());
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(session().record(i)->worker, i < 4 ? 0 : 1);
}

TEST_F(Trace, FilterChoosesPackets) {
  start_with_neighbours();
  const auto prefix = [](const char* text) { return wire::parse_prefix(text); };
  struct Row {
    Filter filter;
    std::vector<std::uint8_t> ttls;  ///< Which of the packets below, by their TTL.
  };
  const Row rows[] = {
      {{}, {11, 12, 13, 14, 15}},
      {{.in = kEth0}, {11, 12, 13, 15}},
      {{.in = kIb0}, {14}},
      {{.in = kEth1}, {}},
      {{.src = prefix("192.168.1.0/24")}, {11, 12, 15}},
      {{.src = prefix("192.168.1.11/32")}, {12}},
      {{.dst = prefix("10.0.0.0/8")}, {11, 12}},
      {{.dst = prefix("fd00::/16")}, {13}},
      {{.src = prefix("0.0.0.0/0")}, {11, 12, 14, 15}},
      {{.src = prefix("::/0")}, {13}},
      {{.protocol = 17}, {11, 13, 14}},
      {{.protocol = 6}, {12, 15}},
      {{.port = 0x0203}, {11, 12, 14}},
      {{.port = 0x5a5a}, {13}},
      {{.port = 1, .dropped_only = true}, {12}},
      {{.in = kEth0, .src = prefix("192.168.1.0/24"), .protocol = 17}, {11}},
      {{.dropped_only = true}, {12, 15}},
  };
  for (const Row& row : rows) {
    trace(row.filter);
    receive(kEth0, to_eth0(Ip4{.ttl = 11}.bytes()));
    receive(kEth0, to_eth0(Ip4{.src = "192.168.1.11",
                               .dst = "10.0.255.255",
                               .ttl = 12,
                               .protocol = wire::IpProto::kTcp}
                               .bytes()));
    receive(kEth0, to_eth0_6(Ip6{.hop_limit = 13}.bytes()));
    receive(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.2.20", .ttl = 14}.bytes()));
    // A later fragment has no ports.
    feed(kEth0,
         to_eth0(Ip4{
             .dst = "172.16.0.1", .ttl = 15, .flags_offset = 100, .protocol = wire::IpProto::kTcp}
                     .bytes()));
    std::vector<std::uint8_t> ttls;
    for (std::size_t i = 0; i < paths().size(); ++i)
      ttls.push_back(session().record(i)->packet.hops);
    std::sort(ttls.begin(), ttls.end());
    EXPECT_EQ(ttls, row.ttls) << "row " << &row - rows;
  }
}

TEST_F(Trace, TheLimitEndsIt) {
  start_with_neighbours();
  trace({}, 3);
  for (int i = 0; i < 5; ++i) receive(kEth0, to_eth0(Ip4{.ttl = 10}.bytes()));
  loop();
  feed(kEth0, to_eth0(Ip4{}.bytes()));
  EXPECT_EQ(paths().size(), 3U);
  EXPECT_TRUE(session().full());
  EXPECT_EQ(session().missed(), 0U);
  EXPECT_EQ(sent_by_link(kIb0).size(), 6U);
}

TEST_F(Trace, AnotherOneReplacesIt) {
  start_with_neighbours();
  trace();
  Session& first = session();
  receive(kEth0, to_eth0(Ip4{}.bytes()));
  send_routed(Ip4{}.bytes());
  trace();  // in the same loop, behind the packet that waits in the queue
  feed(kEth0, to_eth0(Ip4{}.bytes()));
  EXPECT_EQ(paths_of(first), (std::vector<Path>{{"inject", kTo2, kValid2, "sent 2 UD"}}));
  EXPECT_EQ(paths().size(), 2U);
  set_session(nullptr);
  feed(kEth0, to_eth0(Ip4{}.bytes()));
  EXPECT_EQ(paths().size(), 2U);
  EXPECT_EQ(sent_by_link(kIb0).size(), 4U);
}

TEST_F(Trace, PacketsThatItCannotFollowAreCounted) {
  start_with_neighbours();
  settings.burst = kMaxBurst;
  trace({}, 1000);
  for (int i = 0; i < 32; ++i) send_routed(Ip4{}.bytes());
  for (std::uint16_t i = 0; i < kMaxBurst; ++i) {
    receive(kEth0, to_eth0(Ip4{}.bytes()));
    receive(kEth1, to_eth0(Ip4{}.bytes()));  // not for this port
    receive(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.2.20"}.bytes()));
    receive(kIb1, to_link(Ip4{.src = "10.1.0.2", .dst = "192.168.2.20"}.bytes()));
  }
  loop();
  EXPECT_EQ(paths().size(), 256U);
  EXPECT_EQ(session().missed(), 32U);
  EXPECT_EQ(sent_by_link(kIb0).size(), 96U);
}

// The mbuf of the dropped packet is free when the fragments of the next one are made.
TEST_F(Trace, AnMbufThatIsUsedAgainIsAnotherPacket) {
  start_with_neighbours();
  trace({.src = wire::parse_prefix("10.0.0.66/32")});
  std::vector<rte_mbuf*> all;
  receive(kIb0, to_link(Ip4{.src = "10.0.0.66", .checksum_off = 1}.bytes()));
  receive(kIb0,
          to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.2.20", .payload_len = 2000}.bytes()));
  const std::size_t spare = 1;
  for (rte_mbuf* taken; (taken = rte_pktmbuf_alloc(pool)) != nullptr;) all.push_back(taken);
  for (std::size_t i = 0; i < spare; ++i, all.pop_back()) rte_pktmbuf_free(all.back());
  loop();
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
  EXPECT_EQ(sent_by_port(kEth1).size(), 2U) << "there were mbufs for both, with that of the drop";
  EXPECT_EQ(paths(), (std::vector<Path>{{"ipoib_input UD", "dropped ip_checksum"}}));
}

TEST_F(Trace, AnUnreadablePacketIsDescribedAsFarAsItGoes) {
  start_with_neighbours();
  for (std::size_t len = 0; len < 60; ++len) {
    Bytes frame = to_eth0_6(Ip6{.body = behind_router_alert(icmp6(143)), .next_header = 0}.bytes());
    frame.resize(std::min(frame.size(), std::max<std::size_t>(len, 1)));
    EXPECT_FALSE(path(frame).empty()) << len;
  }
  for (std::size_t len = 14; len < 40; ++len) {
    Bytes frame = ethernet(kBroadcastMac, mac(0x10), 0x0806, Bytes(30, std::byte{0xff}));
    frame.resize(len);
    EXPECT_EQ(path(frame).size(), 2U) << len;
    EXPECT_FALSE(session().record(0)->packet.has_addresses);
  }
}

/// Everything that a run may change.
struct Outcome {
  Frames eth0, eth1;
  std::vector<Bytes> ib0, ib1, up;
  std::vector<std::uint64_t> counters;

  bool operator==(const Outcome&) const = default;
};

class TraceOrNot : public Trace {
 protected:
  Outcome outcome() {
    Outcome o;
    o.eth0 = sent_by_port(kEth0);
    o.eth1 = sent_by_port(kEth1);
    for (const auto& sent : sent_by_link(kIb0)) o.ib0.push_back(sent.bytes);
    for (const auto& sent : sent_by_link(kIb1)) o.ib1.push_back(sent.bytes);
    for (const auto& p : punted()) o.up.push_back(p.bytes);
    for (table::InterfaceId i = 0; i < entries.size(); ++i) {
      const InterfaceCounters& c = worker().counters(i);
      for (const Counter* one :
           {&c.rx_packets, &c.rx_bytes, &c.tx_packets, &c.tx_bytes, &c.tx_lost})
        o.counters.push_back(one->get());
      for (const Counter& one : c.drops.by_reason) o.counters.push_back(one.get());
    }
    const WorkerStats& s = worker().stats();
    for (const Counter* one :
         {&s.rx_packets, &s.gro_segments, &s.gso_packets, &s.copies, &s.joined})
      o.counters.push_back(one->get());
    return o;
  }
  static Outcome since(Outcome after, const Outcome& before) {
    for (std::size_t i = 0; i < after.counters.size(); ++i) after.counters[i] -= before.counters[i];
    return after;
  }
  /// Packets of all kinds.
  void receive_all() {
    for (const Ip4& ip : {Ip4{}, Ip4{.ttl = 1}, Ip4{.dst = "8.8.8.8"}, Ip4{.dst = "192.168.1.1"},
                          Ip4{.dst = "10.0.77.1"}, Ip4{.checksum_off = 3},
                          Ip4{.dst = "10.0.255.255"}, Ip4{.dst = "192.168.2.20"}})
      receive(kEth0, to_eth0(ip.bytes()));
    for (const Ip6& ip : {Ip6{}, Ip6{.hop_limit = 1}, Ip6{.dst = "2001:db8::1"},
                          Ip6{.dst = "fd00:1::1"}, Ip6{.dst = "fd00:a::77"}})
      receive(kEth0, to_eth0_6(ip.bytes()));
    for (std::uint16_t i = 0; i < 3; ++i) {
      const auto offset = static_cast<std::uint32_t>(i * 1460);
      const Tcp tcp{.seq = 1000 + offset,
                    .payload = pattern(1460, offset),
                    .id = static_cast<std::uint16_t>(0x100 + i)};
      receive(kEth0, to_eth0(tcp.bytes()));
    }
    receive(kEth0, ethernet(wire::group_mac(*wire::parse_ip("239.1.2.3")), mac(0x10), 0x0800,
                            Ip4{.dst = "239.1.2.3"}.bytes()));
    receive(kEth0, ethernet(wire::group_mac(*wire::parse_ip("239.1.2.4")), mac(0x10), 0x0800,
                            Ip4{.dst = "239.1.2.4"}.bytes()));
    receive(kIb0,
            to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.2.20", .payload_len = 1900}.bytes()));
    receive(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.1.10"}.bytes()));
    loop();
  }
};

TEST_F(TraceOrNot, PacketsFareAlike) {
  FakeConnectedQueue queue{0x101};
  FakeReceiveQueue source;
  connect(kIb0, source);
  entries[kEth0].tcp_offload = true;
  configs[0].punt.interval_us = 1;  // every loop has new budgets
  start_with_neighbours();
  set_connected(2, "10.0.0.2", queue, 65'520);
  set_delivery(kEth0, "239.1.2.3", true, 1U << kEth1 | 1U << kIb1);
  set_neighbour(10, eth_neighbour(kEth1, "239.1.2.3", mac(0x77)));
  set_neighbour(11, ib_neighbour(kIb1, "239.1.2.3", 50, 0xff'ffff));
  set_delivery(kEth0, "239.1.2.4", false, 1U << kIb1);
  set_neighbour(12, ib_neighbour(kIb1, "239.1.2.4", 50, 0xff'ffff));
  loop();

  const Outcome at_first = outcome();
  receive_all();
  const Outcome before = outcome();
  const Outcome untraced = since(before, at_first);
  trace({}, 1000);
  receive_all();
  const Outcome traced = since(outcome(), before);
  EXPECT_EQ(traced, untraced);
  EXPECT_GT(untraced.ib1.size(), 0U);
  const auto all = paths();
  EXPECT_EQ(all.size(), 20U);
  for (const Path& path : all) EXPECT_GE(path.size(), 2U);

  trace({.dropped_only = true}, 1);  // ends at once
  const Outcome between = outcome();
  receive_all();
  EXPECT_EQ(since(outcome(), between), untraced);
}

}  // namespace
}  // namespace ipoib::fwd::test
