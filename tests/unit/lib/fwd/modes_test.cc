// SPDX-License-Identifier: BSD-3-Clause
// Forward modes that answer or consume received packets.
#include "lib/fwd/modes.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

constexpr wire::IpProto kIcmp = wire::IpProto::kIcmp;

/// Builds an ICMP message with its checksum.
Bytes icmp_message(std::uint8_t type, std::size_t len = 30) {
  Bytes out(len);
  for (std::size_t i = 4; i < len; ++i) out[i] = static_cast<std::byte>(0x30 + i);
  out[0] = std::byte{type};
  const wire::Be16 sum{wire::internet_checksum(out)};
  std::memcpy(&out[2], &sum, sizeof(sum));
  return out;
}

Bytes ip4_with(const Ip4& header, const Bytes& body) {
  Ip4 packet = header;
  packet.payload_len = body.size();
  Bytes out = packet.bytes();
  std::copy(body.begin(), body.end(), out.end() - static_cast<std::ptrdiff_t>(body.size()));
  return out;
}

/// Returns the ones' complement sum of pseudo header and message, which is 0 if the checksum is
/// correct.
std::uint16_t icmp6_fault(const Bytes& packet) {
  Bytes sum(packet.begin() + 8, packet.begin() + 40);
  append(sum, wire::Be32{static_cast<std::uint32_t>(packet.size() - 40)});
  append(sum, wire::Be32{58});
  append(sum, std::span{packet}.subspan(40));
  return wire::internet_checksum(sum);
}

class ModesTest : public WorkerFixture {
 protected:
  void start_in(ForwardMode mode) {
    settings.mode = mode;
    start();
    set_neighbour(0, eth_neighbour(kEth0, "192.168.1.10", mac(0x10)));
    set_neighbour(1, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    set_neighbour(2, eth_neighbour(kEth0, "fd00:1::10", mac(0x10)));
    set_neighbour(3, ib_neighbour(kIb0, "fd00:a::2", 7, 0xabcdef));
    loop();
  }
  std::uint64_t consumed() { return worker().stats().consumed.get(); }
  static Bytes from_eth0(const Bytes& ip, std::uint16_t type = 0x0800) {
    return ethernet(mac(0x10), mac(0xa0), type, ip);
  }
};

TEST_F(ModesTest, NamesAndModesBelongTogether) {
  for (std::size_t i = 0; i < kForwardModeNames.size(); ++i) {
    const auto mode = static_cast<ForwardMode>(i);
    EXPECT_EQ(mode_named(mode_name(mode)), mode);
  }
  EXPECT_EQ(mode_named("rout"), std::nullopt);
}

TEST_F(ModesTest, RxonlyCountsAndFreesWhatItReceives) {
  start_in(ForwardMode::kRxonly);
  receive(kEth0, to_eth0(Ip4{}.bytes()));                                     // to be forwarded
  receive(kEth0, to_eth0(Ip4{.dst = "192.168.1.1"}.bytes()));                 // UDP for this node
  receive(kEth0, to_eth0(Ip4{.dst = "1.2.3.4", .protocol = kIcmp}.bytes()));  // without a route
  receive(kEth0, to_eth0_6(Ip6{}.bytes()));
  feed(kIb0, encapsulated(0x86dd, Ip6{.dst = "fd00:a::1"}.bytes()));
  EXPECT_EQ(consumed(), 5U);
  EXPECT_EQ(all_drops(), 0U);
  EXPECT_TRUE(punted().empty());
  EXPECT_EQ(worker().counters(kEth0).rx_packets.get(), 4U);
  EXPECT_EQ(worker().counters(kIb0).rx_packets.get(), 1U);
}

TEST_F(ModesTest, EveryReceivedPacketOfRxonlyLeavesByOneDoor) {
  start_in(ForwardMode::kRxonly);
  receive(kEth0, to_eth0(Ip4{}.bytes()));
  receive(kEth0, to_eth0(Ip4{.checksum_off = 1}.bytes()));                // wrong checksum
  receive(kEth0, to_eth0(Ip4{.src = "127.0.0.1"}.bytes()));               // martian
  receive(kEth0, ethernet(kBroadcastMac, mac(0x10), 0x0806, Bytes(28)));  // ARP
  receive(kEth0, to_eth0(Ip4{.dst = "192.168.1.1", .protocol = kIcmp}.bytes()));
  receive(kEth0, to_eth0_6(Ip6{.dst = "fd00:1::1", .body = icmp6(128), .next_header = 58}.bytes()));
  feed(kEth0,
       to_eth0_6(Ip6{.dst = "fd00:1::1", .hop_limit = 255, .body = icmp6(135), .next_header = 58}
                     .bytes()));
  EXPECT_EQ(consumed(), 1U);
  EXPECT_EQ(all_drops(), 2U);
  const auto up_messages = punted();
  ASSERT_EQ(up_messages.size(), 4U) << "ARP, both pings and neighbour discovery";
  EXPECT_EQ(worker().counters(kEth0).rx_packets.get(), consumed() + all_drops() + 4);
}

TEST_F(ModesTest, StoppedModesConsumeNothing) {
  for (const auto mode : {ForwardMode::kRxonly, ForwardMode::kIcmpecho, ForwardMode::kAddrswap}) {
    settings.mode = mode;
    settings.forwarding = false;
    if (mode == ForwardMode::kRxonly) start_in(mode);
    const auto before = drops(kEth0, Drop::kForwardingStopped);
    receive(kEth0, to_eth0(Ip4{}.bytes()));
    feed(kEth0, to_eth0_6(Ip6{}.bytes()));
    EXPECT_EQ(drops(kEth0, Drop::kForwardingStopped), before + 2);
  }
  EXPECT_EQ(consumed(), 0U);
  EXPECT_TRUE(sent_by_port(kEth0).empty());
}

TEST_F(ModesTest, IcmpechoAnswersRequestsToAnybody) {
  start_in(ForwardMode::kIcmpecho);
  for (const auto* dst : {"192.168.1.1", "203.0.113.5"}) {
    const Ip4 header{.src = "192.168.1.10", .dst = dst, .ttl = 7, .protocol = kIcmp};
    feed(kEth0, to_eth0(ip4_with(header, icmp_message(8))));
    // The test builds the whole reply independently, so both checksums must match.
    const Ip4 reply{.src = dst, .dst = "192.168.1.10", .ttl = 64, .protocol = kIcmp};
    EXPECT_EQ(sent_by_port(kEth0), Frames{from_eth0(ip4_with(reply, icmp_message(0)))}) << dst;
  }
  EXPECT_EQ(all_drops(), 0U);
  EXPECT_EQ(consumed(), 0U);
}

TEST_F(ModesTest, IcmpechoAnswersWithOptionsInTheHeader) {
  start_in(ForwardMode::kIcmpecho);
  Ip4 header{
      .src = "10.0.0.2", .dst = "10.0.0.1", .protocol = kIcmp, .options = Bytes(8, std::byte{1})};
  feed(kIb0, to_link(ip4_with(header, icmp_message(8, 9))));
  std::swap(header.src, header.dst);
  EXPECT_EQ(only_sent_by_link(kIb0).bytes, to_link(ip4_with(header, icmp_message(0, 9))));
}

TEST_F(ModesTest, IcmpechoKeepsChecksumsRightForEveryPayload) {
  start_in(ForwardMode::kIcmpecho);
  for (std::uint32_t word = 0; word < 0x10000; word += 0x55) {
    Bytes request(10);
    request[0] = std::byte{8};
    const wire::Be16 data{static_cast<std::uint16_t>(word)};
    std::memcpy(&request[8], &data, sizeof(data));
    const wire::Be16 sum{wire::internet_checksum(request)};
    std::memcpy(&request[2], &sum, sizeof(sum));
    feed(kIb0, to_link(ip4_with({.src = "10.0.0.2", .protocol = kIcmp}, request)));
    const SentOnLink sent = only_sent_by_link(kIb0);
    ASSERT_EQ(sent.bytes.at(24), std::byte{0});
    ASSERT_EQ(wire::internet_checksum(std::span{sent.bytes}.subspan(24)), 0U) << word;
  }
}

TEST_F(ModesTest, IcmpechoAnswersIpv6) {
  start_in(ForwardMode::kIcmpecho);
  Bytes request = Ip6{.src = "fd00:1::10",
                      .dst = "2001:db8::5",
                      .hop_limit = 3,
                      .body = icmp6(128, 33),
                      .next_header = 58}
                      .bytes();
  const wire::Be16 sum{icmp6_fault(request)};
  std::memcpy(&request[42], &sum, sizeof(sum));
  feed(kEth0, to_eth0_6(request));
  const Frames sent = sent_by_port(kEth0);
  ASSERT_EQ(sent.size(), 1U);
  const Bytes reply(sent[0].begin() + 14, sent[0].end());
  EXPECT_EQ(icmp6_fault(reply), 0U);
  Bytes expected =
      Ip6{.src = "2001:db8::5", .dst = "fd00:1::10", .body = icmp6(129, 33), .next_header = 58}
          .bytes();
  std::memcpy(&expected[42], &reply[42], 2);
  EXPECT_EQ(reply, expected);
}

TEST_F(ModesTest, IcmpechoLeavesTheRestToRxonly) {
  start_in(ForwardMode::kIcmpecho);
  const auto ping = [](std::uint16_t flags, std::uint8_t type, std::size_t len,
                       std::string_view dst = "203.0.113.5") {
    return to_eth0(
        ip4_with({.dst = dst, .flags_offset = flags, .protocol = kIcmp}, icmp_message(type, len)));
  };
  receive(kEth0, ping(wire::Ipv4Hdr::kMoreFragments, 8, 32));
  receive(kEth0, ping(5, 8, 32));
  receive(kEth0, ping(0, 13, 20));                 // another ICMP type
  receive(kEth0, ping(0, 8, 7));                   // too short
  receive(kEth0, ping(0, 8, 20, "10.0.255.255"));  // a broadcast address
  receive(kEth0, to_eth0(Ip4{}.bytes()));
  feed(kEth0, to_eth0_6(Ip6{.body = icmp6(128, 7), .next_header = 58}.bytes()));
  EXPECT_EQ(consumed(), 7U);
  EXPECT_TRUE(sent_by_port(kEth0).empty());
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(ModesTest, AddrswapSendsBackWithEverythingSwapped) {
  start_in(ForwardMode::kAddrswap);
  Ip4 packet{.src = "10.0.0.2", .dst = "192.168.1.77", .first_payload = 0x11};
  feed(kIb0, to_link(packet.bytes()));
  std::swap(packet.src, packet.dst);
  Bytes expected = forwarded(packet);
  std::swap(expected[20], expected[22]);  // UDP ports
  std::swap(expected[21], expected[23]);
  const SentOnLink sent = only_sent_by_link(kIb0);
  EXPECT_EQ(sent.bytes, to_link(expected));
  EXPECT_EQ(sent.to.qpn, 0xabcdefU);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(ModesTest, AddrswapSendsBackIpv6) {
  start_in(ForwardMode::kAddrswap);
  Ip6 packet;
  std::iota(reinterpret_cast<std::uint8_t*>(packet.body.data()),
            reinterpret_cast<std::uint8_t*>(packet.body.data()) + packet.body.size(), 1);
  feed(kEth0, to_eth0_6(packet.bytes()));
  std::swap(packet.src, packet.dst);
  std::swap(packet.body[0], packet.body[2]);
  std::swap(packet.body[1], packet.body[3]);
  EXPECT_EQ(sent_by_port(kEth0), Frames{from_eth0(forwarded(packet), 0x86dd)});
}

TEST_F(ModesTest, AddrswapTouchesNoPortsWhereThereAreNone) {
  start_in(ForwardMode::kAddrswap);
  for (Ip4 packet : {Ip4{.src = "10.0.0.2", .dst = "1.1.1.1", .protocol = wire::IpProto::kIgmp},
                     Ip4{.src = "10.0.0.2", .dst = "1.1.1.1", .flags_offset = 3},
                     Ip4{.src = "10.0.0.2", .dst = "1.1.1.1", .payload_len = 3}}) {
    feed(kIb0, to_link(packet.bytes()));
    std::swap(packet.src, packet.dst);
    EXPECT_EQ(only_sent_by_link(kIb0).bytes, to_link(forwarded(packet)));
  }
}

TEST_F(ModesTest, AddrswapMirrorsUdpForThisNodeAndLeavesItReachable) {
  start_in(ForwardMode::kAddrswap);
  receive(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "10.0.0.1"}.bytes()));
  receive(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "10.0.0.1", .protocol = kIcmp}.bytes()));
  receive(
      kIb0,
      encapsulated(
          0x86dd, Ip6{.src = "fd00:a::2", .dst = "fd00:a::1", .body = icmp6(128), .next_header = 58}
                      .bytes()));
  feed(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "10.0.255.255"}.bytes()));
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
  EXPECT_EQ(punted().size(), 2U);
  expect_drop(kIb0, Drop::kIpBroadcast);
}

TEST_F(ModesTest, TwoMirrorsEndOneGame) {
  start_in(ForwardMode::kAddrswap);
  feed(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "10.0.0.1", .ttl = 1}.bytes()));
  EXPECT_TRUE(sent_by_link(kIb0).empty());
  EXPECT_EQ(drops(kIb0, Drop::kIpTtlExceeded), 1U);
}

}  // namespace
}  // namespace ipoib::fwd::test
