// SPDX-License-Identifier: BSD-3-Clause
// Packets in several mbufs, up to the largest IP packet, as messages of connected mode and merged
// TCP segments are. Each path through a worker takes all of their mbufs.
#include <gtest/gtest.h>

#include "tests/support/tcp_packets.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

class Chain : public WorkerFixture {
 protected:
  static constexpr std::size_t kMax = 65'535;

  void SetUp() override {
    WorkerFixture::SetUp();
    entries[kIb0].mtu = entries[kIb1].mtu = kMax;
  }
  void begin() {
    start();
    set_neighbour(0, eth_neighbour(kEth1, "192.168.2.20", mac(0x20)));
    set_neighbour(1, large(kIb0, "10.0.0.2", 7));
    set_neighbour(2, large(kIb1, "10.1.0.2", 8));
    loop();
  }
  static table::Neighbour large(table::InterfaceId iface, std::string_view addr,
                                fabric::AhIndex ah) {
    table::Neighbour n = ib_neighbour(iface, addr, ah, 0xabcdef);
    n.mtu = kMax;
    return n;
  }
  /// Receives a packet in mbufs of up to 2,048 octets, as a link delivers it.
  void from_link(const Bytes& ip, table::InterfaceId iface = kIb0, bool multicast = false) {
    const bool v6 = std::to_integer<unsigned>(ip[0]) >> 4 == 6;
    const Bytes bytes = encapsulated(v6 ? 0x86dd : 0x0800, ip);
    std::vector<std::size_t> pieces(bytes.size() / 2048, 2048);
    if (bytes.size() % 2048 != 0) pieces.push_back(bytes.size() % 2048);
    receive(iface, mbuf(bytes, pieces), multicast);
    loop();
    if (configs.size() > 1) loop();
  }
  static Bytes udp(std::string_view dst, std::uint16_t flags_offset = 0,
                   std::size_t len = kMax - 20) {
    return packet(dst, flags_offset, len).bytes();
  }
  static Ip4 packet(std::string_view dst, std::uint16_t flags_offset = 0,
                    std::size_t len = kMax - 20) {
    return {.src = "10.0.0.2", .dst = dst, .payload_len = len, .flags_offset = flags_offset};
  }
  static Bytes payload(const Bytes& ip) { return {ip.begin() + 20, ip.end()}; }
};

TEST_F(Chain, IsForwarded) {
  begin();
  from_link(udp("10.1.0.2"));
  EXPECT_EQ(only_sent_by_link(kIb1).bytes, to_link(forwarded(packet("10.1.0.2"))));
  from_link(Ip6{.src = "fd00:a::2", .dst = "fd00:b::2", .body = pattern(65'000)}.bytes());
  EXPECT_EQ(punted().at(0).bytes.size(), 65'040U) << "waits for its neighbour";
}

TEST_F(Chain, IsCutIntoFragments) {
  begin();
  const Bytes whole = udp("192.168.2.20");
  from_link(whole);
  Bytes got;
  const auto sent = sent_by_port(kEth1);
  ASSERT_EQ(sent.size(), 45U);
  for (const Bytes& frame : sent) got.insert(got.end(), frame.begin() + 34, frame.end());
  EXPECT_EQ(got, payload(whole));
  EXPECT_EQ(worker().stats().copies.get(), 44U) << "one of them is the packet";
  EXPECT_EQ(all_drops(), 0U);
}

/// A message of a connection is forwarded to an Ethernet port with jumbo frames, in one mbuf for
/// each packet in which it arrived.
class ChainToPort : public Chain {
 protected:
  void SetUp() override {
    Chain::SetUp();
    entries[kEth1].mtu = 9000;
    begin();
    table::Neighbour n = eth_neighbour(kEth1, "192.168.2.20", mac(0x20));
    n.mtu = 9000;
    set_neighbour(0, n);
    loop();
  }
  /// Receives a packet in mbufs of 1,024 octets, and an empty last one.
  void from_link_in_pieces(const Bytes& ip) {
    const Bytes bytes = encapsulated(0x0800, ip);
    std::vector<std::size_t> pieces(bytes.size() / 1024, 1024);
    pieces.push_back(bytes.size() % 1024);
    pieces.push_back(0);
    receive(kIb0, mbuf(bytes, pieces));
  }
};

TEST_F(ChainToPort, HasAsManyMbufsAsTheDeviceSends) {
  const Ip4 large = packet("192.168.2.20", 0, 8900), small = packet("192.168.2.20", 0, 100);
  const Frames expected = {ethernet(mac(0x20), mac(0xa1), 0x0800, forwarded(small)),
                           ethernet(mac(0x20), mac(0xa1), 0x0800, forwarded(large)),
                           ethernet(mac(0x20), mac(0xa1), 0x0800, forwarded(small))};
  for (const auto& [most, expected_segments] :
       {std::pair<std::uint16_t, unsigned>{fabric::kAnySegments, 10U},
        {10, 10U},
        {9, 5U},
        {5, 5U}}) {
    entries[kEth1].max_segments = most;
    for (const Ip4* ip : {&small, &large, &small}) from_link_in_pieces(ip->bytes());
    loop();
    EXPECT_EQ(sent_by_port(kEth1), expected) << most;
    EXPECT_EQ(max_tx_segments, expected_segments) << most;
  }
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(ChainToPort, IsCountedWhenItCannotBeCopied) {
  entries[kEth1].max_segments = 4;
  const Ip4 large = packet("192.168.2.20", 0, 8900), small = packet("192.168.2.20", 0, 100);
  for (const Ip4* ip : {&small, &large, &small}) from_link_in_pieces(ip->bytes());
  loop();
  EXPECT_EQ(sent_by_port(kEth1).size(), 2U) << "those around it are sent";
  expect_drop(kEth1, Drop::kTxSegments, "five mbufs of this pool are too many");
  EXPECT_EQ(worker().counters(kEth1).tx_packets.get(), 2U);
  EXPECT_EQ(worker().counters(kEth1).tx_bytes.get(), 2 * 120U);
}

TEST_F(ChainToPort, IsCountedWhenThereAreNoMbufs) {
  entries[kEth1].max_segments = 5;
  from_link_in_pieces(udp("192.168.2.20", 0, 8900));
  std::vector<rte_mbuf*> all;
  for (rte_mbuf* taken; (taken = rte_pktmbuf_alloc(pool)) != nullptr;) all.push_back(taken);
  loop();
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
  EXPECT_TRUE(sent_by_port(kEth1).empty());
  expect_drop(kEth1, Drop::kNoMbuf);
}

TEST_F(Chain, GoesUpWholeWhenItsSenderIsToldOrItIsForThisNode) {
  begin();
  from_link(udp("192.168.2.20", wire::Ipv4Hdr::kDontFragment));
  Punted p = only_punted();
  EXPECT_EQ(p.message.kind, msg::Up::Kind::kIcmpError);
  EXPECT_EQ(p.message.mtu, 1500);
  EXPECT_EQ(p.bytes, forwarded(packet("192.168.2.20", wire::Ipv4Hdr::kDontFragment)));

  from_link(udp("10.0.0.1"));
  p = only_punted();
  EXPECT_EQ(p.message.kind, msg::Up::Kind::kLocal);
  EXPECT_EQ(p.bytes, udp("10.0.0.1"));

  const Bytes local6 = Ip6{.src = "fd00:a::2", .dst = "fd00:a::1", .body = pattern(65'000)}.bytes();
  from_link(local6);
  p = only_punted();
  EXPECT_EQ(p.bytes, local6);
}

TEST_F(Chain, WaitsForItsNeighbourAndIsSentOn) {
  begin();
  from_link(udp("10.1.0.9"));
  const Punted p = only_punted();
  EXPECT_EQ(p.message.kind, msg::Up::Kind::kNeighbourWanted);
  EXPECT_EQ(p.bytes, forwarded(packet("10.1.0.9")));

  msg::Down down_message{};
  down_message.kind = msg::Down::Kind::kSendRouted;
  down_message.iface = kIb0;
  down_message.mbuf = mbuf(udp("10.1.0.2", 0, 5000), {2048, 2048, 924});
  send_down(down_message);
  loop();
  EXPECT_EQ(sent_by_link(kIb1).at(0).bytes, to_link(udp("10.1.0.2", 0, 5000)));
}

TEST_F(Chain, IsHandedToAnotherWorker) {
  configs.resize(2);
  entries[kIb1].owner = 1;
  begin();
  from_link(udp("10.1.0.2"));
  EXPECT_EQ(sent_by_link(kIb1).at(0).bytes, to_link(forwarded(packet("10.1.0.2"))));
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(Chain, IsCopiedToGroups) {
  begin();
  set_delivery(kIb0, "239.1.1.1", true, 1U << kIb1);
  set_neighbour(3, large(kIb1, "239.1.1.1", 9));
  loop();
  from_link(udp("239.1.1.1", 0, 9000), kIb0, true);
  EXPECT_EQ(only_punted().bytes, udp("239.1.1.1", 0, 9000));
  EXPECT_EQ(sent_by_link(kIb1).at(0).bytes, to_link(forwarded(packet("239.1.1.1", 0, 9000))));
}

TEST_F(Chain, IsMirroredAndConsumedByTheTestModes) {
  begin();
  settings.mode = ForwardMode::kAddrswap;
  from_link(udp("10.1.0.2"));
  EXPECT_EQ(sent_by_link(kIb0).at(0).bytes.size(), 4 + kMax);
  for (const auto mode : {ForwardMode::kRxonly, ForwardMode::kLatency, ForwardMode::kIcmpecho}) {
    settings.mode = mode;
    from_link(udp("10.1.0.2"));
  }
  EXPECT_EQ(worker().stats().consumed.get(), 3U);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(Chain, EchoIsAnswered) {
  begin();
  settings.mode = ForwardMode::kIcmpecho;
  Ip4 request = packet("10.1.0.2");
  request.protocol = wire::IpProto::kIcmp;
  Bytes bytes = request.bytes();
  bytes[20] = std::byte{8};
  bytes[21] = bytes[22] = bytes[23] = std::byte{0};
  const wire::Be16 checksum{wire::internet_checksum(std::span{bytes}.subspan(20))};
  std::memcpy(&bytes[22], &checksum, sizeof(checksum));
  from_link(bytes);
  const SentOnLink sent = only_sent_by_link(kIb0);
  EXPECT_EQ(sent.bytes.at(24), std::byte{0}) << "echo reply";
  EXPECT_EQ(wire::internet_checksum(std::span{sent.bytes}.subspan(24)), 0);
}

/// TCP packets are forwarded to an Ethernet port that offers segmentation.
class ChainedTcp : public Chain {
 protected:
  void SetUp() override {
    Chain::SetUp();
    entries[kEth1].tcp_offload = true;
  }
  /// Gives a packet of `Tcp` addresses of this fixture, and correct checksums.
  static Bytes to_eth1(const Tcp& tcp) {
    Bytes bytes = tcp.bytes();
    if (tcp.v6) {
      Ip6 ip{.src = "fd00:a::2", .dst = "fd00:2::2", .next_header = 6};
      ip.body.assign(bytes.begin() + 40, bytes.end());
      bytes = ip.bytes();
    } else {
      Ip4 ip{.src = "10.0.0.2", .dst = "192.168.2.20", .protocol = wire::IpProto::kTcp};
      ip.payload_len = 0;
      ip.flags_offset = wire::Ipv4Hdr::kDontFragment;
      ip.total_len = static_cast<std::uint16_t>(bytes.size());
      const Bytes header = ip.bytes();
      std::copy(header.begin(), header.end(), bytes.begin());
    }
    const std::size_t at = (tcp.v6 ? 40U : 20U) + offsetof(wire::TcpHdr, checksum);
    bytes[at] = bytes[at + 1] = std::byte{0};
    const wire::Be16 checksum{tcp_checksum_of(bytes)};
    std::memcpy(&bytes[at], &checksum, sizeof(checksum));
    return bytes;
  }
  void expect_stream(const Frames& frames, const Bytes& stream) {
    Bytes got;
    for (const Bytes& frame : frames) {
      const Bytes ip{frame.begin() + 14, frame.end()};
      EXPECT_LE(ip.size(), 1500U);
      EXPECT_TRUE(ip_is_valid(ip));
      EXPECT_EQ(tcp_checksum_of(ip), 0);
      append(got, view(ip).payload);
    }
    EXPECT_EQ(got, stream);
  }
};

TEST_F(ChainedTcp, LeavesInSegmentsThatFit) {
  begin();
  const Tcp whole{.options = Bytes(12, std::byte{1}), .payload = pattern(kMax - 52)};
  from_link(to_eth1(whole));
  const Frames frames = sent_by_port(kEth1);
  EXPECT_EQ(frames.size(), 46U);
  expect_stream(frames, whole.payload);
  EXPECT_EQ(worker().stats().gso_packets.get(), 1U);
  EXPECT_EQ(worker().stats().copies.get(), 45U) << "one of them is the packet";
  EXPECT_EQ(all_drops(), 0U);
  EXPECT_TRUE(punted().empty());
}

TEST_F(ChainedTcp, OfIpv6Too) {
  add_route("fd00:2::/64", {table::NextHopKind::kConnected, 0, kEth1, table::kNoNeighbour});
  begin();
  set_neighbour(5, eth_neighbour(kEth1, "fd00:2::2", mac(0x21)));
  loop();
  const Tcp whole{.v6 = true, .payload = pattern(60'000)};
  from_link(to_eth1(whole));
  expect_stream(sent_by_port(kEth1), whole.payload);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(ChainedTcp, OtherPacketsAndOtherPortsTellTheSenderAsBefore) {
  entries[kEth1].tcp_offload = false;
  begin();
  from_link(to_eth1({.payload = pattern(9000)}));
  EXPECT_EQ(punted().at(0).message.kind, msg::Up::Kind::kIcmpError);
  entries[kEth1].tcp_offload = true;
  from_link(udp("192.168.2.20", wire::Ipv4Hdr::kDontFragment, 9000));
  EXPECT_EQ(punted().at(0).message.kind, msg::Up::Kind::kIcmpError);
  EXPECT_EQ(drops(kIb0, Drop::kIpTooBig), 2U);
  EXPECT_TRUE(sent_by_port(kEth1).empty());
}

TEST_F(ChainedTcp, WithoutMbufsItIsLostByName) {
  begin();
  std::vector<rte_mbuf*> all;
  const Bytes bytes = to_link(to_eth1({.payload = pattern(1800)}));
  rte_mbuf* const m = mbuf(bytes);
  for (rte_mbuf* taken; (taken = rte_pktmbuf_alloc(pool)) != nullptr;) all.push_back(taken);
  rte_pktmbuf_free(all.back());
  all.pop_back();
  feed(kIb0, m);
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
  expect_drop(kIb0, Drop::kNoMbuf);
  EXPECT_EQ(sent_by_port(kEth1).size(), 1U) << "the first of two segments found one";
  EXPECT_EQ(worker().stats().gso_packets.get(), 0U);
}

}  // namespace
}  // namespace ipoib::fwd::test
