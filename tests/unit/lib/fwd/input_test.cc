// SPDX-License-Identifier: BSD-3-Clause
// Packets that the input stages accept or drop: eth_input, ipoib_input, ip4_input.
#include <gtest/gtest.h>

#include <set>

#include "lib/fwd/ip4_header.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

class InputTest : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    start();
    set_neighbour(0, eth_neighbour(kEth0, "192.168.1.10", mac(0x10)));
    set_neighbour(2, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    loop();
  }
};
class EthInput : public InputTest {};
class IpoibInput : public InputTest {};
class Ip4Input : public InputTest {};

struct Row {
  const char* what;
  Bytes frame;
  Drop reason;
};

/// Each row is one received frame: exactly one drop is counted, under its reason, and no packet is
/// sent or punted.
#define EXPECT_ROWS_DROPPED(iface, rows)                         \
  for (const Row& row : (rows)) {                                \
    const auto before = drops(iface, row.reason);                \
    const auto all_before = all_drops();                         \
    receive(iface, row.frame);                                   \
    loop();                                                      \
    EXPECT_EQ(drops(iface, row.reason), before + 1) << row.what; \
    EXPECT_EQ(all_drops(), all_before + 1) << row.what;          \
    EXPECT_TRUE(punted().empty()) << row.what;                   \
    EXPECT_TRUE(sent_by_link(kIb0).empty()) << row.what;         \
    EXPECT_TRUE(sent_by_port(kEth0).empty()) << row.what;        \
  }

TEST_F(EthInput, DropsFramesByNamedReason) {
  const Bytes ip = Ip4{}.bytes();
  const std::vector<Row> rows = {
      {"nothing at all", {}, Drop::kEthRunt},
      {"13 octets", Bytes(13), Drop::kEthRunt},
      {"header only", ethernet(mac(0xa0), mac(0x10), 0x0800, {}), Drop::kIpRunt},
      {"for another station", ethernet(mac(0xa1), mac(0x10), 0x0800, ip), Drop::kEthNotForUs},
      {"unicast address by multicast",
       ethernet({std::byte{1}, std::byte{0}, std::byte{0x5e}}, mac(0x10), 0x0800, ip),
       Drop::kIpBroadcast},
      {"multicast of neither version",
       ethernet({std::byte{1}, std::byte{0x80}, std::byte{0xc2}}, mac(0x10), 0x0800, ip),
       Drop::kEthNotForUs},
      {"IPv4 to a MAC of IPv6 groups",
       ethernet({std::byte{0x33}, std::byte{0x33}}, mac(0x10), 0x0800, ip), Drop::kEthNotForUs},
      {"ARP for another station", ethernet(mac(0xa1), mac(0x10), 0x0806, Bytes(28)),
       Drop::kEthNotForUs},
      {"VLAN tag", ethernet(mac(0xa0), mac(0x10), 0x8100, ip), Drop::kEthUnknownType},
      {"length instead of type", ethernet(mac(0xa0), mac(0x10), 46, ip), Drop::kEthUnknownType},
      {"IPv6 without a header", ethernet(mac(0xa0), mac(0x10), 0x86dd, Bytes(39)), Drop::kIpRunt},
      {"IP by broadcast, unicast address", ethernet(kBroadcastMac, mac(0x10), 0x0800, ip),
       Drop::kIpBroadcast},
      {"IP by broadcast to this node",
       ethernet(kBroadcastMac, mac(0x10), 0x0800, Ip4{.dst = "192.168.1.1"}.bytes()),
       Drop::kIpBroadcast},
      {"IP by broadcast to a group",
       ethernet(kBroadcastMac, mac(0x10), 0x0800, Ip4{.dst = "224.0.0.1"}.bytes()),
       Drop::kIpMulticast},
      {"broken IP by broadcast",
       ethernet(kBroadcastMac, mac(0x10), 0x0800, Ip4{.checksum_off = 1}.bytes()),
       Drop::kIpChecksum},
  };
  EXPECT_ROWS_DROPPED(kEth0, rows);
}

TEST_F(EthInput, U24_PassesArpAndRarpUpFromTheirHeaderOn) {
  Bytes arp(28, std::byte{0x5a});
  receive(kEth0, ethernet(kBroadcastMac, mac(0x10), 0x0806, arp));
  receive(kEth0, ethernet(mac(0xa0), mac(0x10), 0x0806, arp));
  receive(kEth0, ethernet(kBroadcastMac, mac(0x10), 0x8035, arp));
  receive(kEth0, ethernet(mac(0xa0), mac(0x10), 0x8035, arp));
  loop();
  const auto messages = punted();
  ASSERT_EQ(messages.size(), 4U);
  for (const Punted& p : messages) {
    EXPECT_EQ(p.message.kind, msg::Up::Kind::kArp);
    EXPECT_EQ(p.message.iface, kEth0);
    EXPECT_EQ(p.bytes, arp);
    EXPECT_EQ(p.rx.iface, kEth0);
    EXPECT_EQ(p.rx.slid, 0) << "no InfiniBand header told it";
    EXPECT_EQ(p.rx.src_qpn, 0U);
  }
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(EthInput, CutsPaddingOff) {
  const Ip4 small{.payload_len = 1};
  Bytes frame = to_eth0(small.bytes());
  frame.resize(60);
  feed(kEth0, frame);
  EXPECT_EQ(only_sent_by_link(kIb0).bytes, to_link(forwarded(small)));
}

TEST_F(Ip4Input, CutsPaddingOffAcrossSegments) {
  const Ip4 packet{.payload_len = 60};
  const Bytes frame = [&] {
    Bytes f = to_eth0(packet.bytes());
    f.resize(f.size() + 50);
    return f;
  }();
  ASSERT_EQ(frame.size(), 144U);
  // The IP packet ends within the second segment, at its end, within the third, and at its end.
  for (const auto& segments : std::vector<std::vector<std::size_t>>{
           {80, 64}, {80, 14, 50}, {40, 40, 64}, {34, 30, 30, 25, 25}}) {
    feed(kEth0, mbuf(frame, segments));
    EXPECT_EQ(only_sent_by_link(kIb0).bytes, to_link(forwarded(packet)));
  }
  EXPECT_EQ(all_drops(), 0U);
}

/// Link ib1 speaks the draft of 2001, link ib0 RFC 4391, on one worker.
class IbarpInput : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    entries[kIb1].encapsulation = wire::Encapsulation::kTypeLast;
    start();
    set_neighbour(2, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    set_neighbour(3, ib_neighbour(kIb1, "10.1.0.2", 8, 0xabcdee));
    loop();
  }
  /// Two reserved octets, then the type.
  static Bytes of_2001(std::uint16_t type, const Bytes& payload) {
    Bytes frame{{}, {}, static_cast<std::byte>(type >> 8), static_cast<std::byte>(type)};
    frame.insert(frame.end(), payload.begin(), payload.end());
    return frame;
  }
};

TEST_F(IbarpInput, E01_E08_ForwardsBetweenLinksOfBothDialects) {
  const Ip4 there{.src = "10.1.0.2", .dst = "10.0.0.2"}, back{.src = "10.0.0.2", .dst = "10.1.0.2"};
  feed(kIb1, of_2001(0x0800, there.bytes()));
  EXPECT_EQ(only_sent_by_link(kIb0).bytes, encapsulated(0x0800, forwarded(there)));
  feed(kIb0, encapsulated(0x0800, back.bytes()));
  const SentOnLink sent = only_sent_by_link(kIb1);
  EXPECT_EQ(sent.bytes, of_2001(0x0800, forwarded(back)));
  EXPECT_EQ(sent.to.ah, 8U);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(IbarpInput, E01_DropsPacketsOfTheOtherDialect) {
  const std::vector<Row> to_2001 = {
      {"type first", encapsulated(0x0800, Ip4{}.bytes()), Drop::kIpoibUnknownType},
      {"3 octets", Bytes(3), Drop::kIpoibRunt},
      {"header only", of_2001(0x0800, {}), Drop::kIpRunt},
      {"type zero", of_2001(0, Ip4{}.bytes()), Drop::kIpoibUnknownType},
  };
  EXPECT_ROWS_DROPPED(kIb1, to_2001);
  const std::vector<Row> to_rfc4391 = {
      {"type last", of_2001(0x0800, Ip4{}.bytes()), Drop::kIpoibUnknownType},
  };
  EXPECT_ROWS_DROPPED(kIb0, to_rfc4391);
}

// The table of the draft gives IBARP the type of IPv4; most implementers would have used ARP's.
TEST_F(IbarpInput, E03_PassesIbarpUpUnderEitherType) {
  Bytes arp(80, std::byte{0x5a});
  arp[0] = std::byte{0};
  for (const auto type : {std::uint16_t{0x0806}, std::uint16_t{0x0800}}) {
    for (const bool multicast : {false, true}) {
      feed(kIb1, of_2001(type, arp), multicast);
      const Punted p = only_punted();
      EXPECT_EQ(p.message.kind, msg::Up::Kind::kArp);
      EXPECT_EQ(p.bytes, arp);
    }
  }
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(IpoibInput, U12_DropsOtherTypes) {
  std::vector<Row> rows = {
      {"nothing at all", {}, Drop::kIpoibRunt},
      {"3 octets", Bytes(3), Drop::kIpoibRunt},
      {"header only", encapsulated(0x0800, {}), Drop::kIpRunt},
      {"IPv6 of version 0", encapsulated(0x86dd, Bytes(40)), Drop::kIpVersion},
      {"IBA in IPoIB", encapsulated(0x88b5, Bytes(40)), Drop::kIpoibUnknownType},
      {"octets of the type swapped", encapsulated(0x0008, Ip4{}.bytes()), Drop::kIpoibUnknownType},
      {"type zero", encapsulated(0, Ip4{}.bytes()), Drop::kIpoibUnknownType},
  };
  EXPECT_ROWS_DROPPED(kIb0, rows);
}

TEST_F(IpoibInput, U12_CarriesIpv4ArpAndRarp) {
  const Bytes arp(56, std::byte{0x5a});
  receive(kIb0, encapsulated(0x0806, arp), true);
  receive(kIb0, encapsulated(0x8035, arp), true);
  receive(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.1.10"}.bytes()));
  loop();
  const auto messages = punted();
  ASSERT_EQ(messages.size(), 2U);
  for (const Punted& p : messages) {
    EXPECT_EQ(p.message.kind, msg::Up::Kind::kArp);
    EXPECT_EQ(p.message.iface, kIb0);
    EXPECT_EQ(p.bytes, arp);
    EXPECT_EQ(p.rx.iface, kIb0);
    EXPECT_EQ(p.rx.slid, 9) << "as the device wrote it";
    EXPECT_EQ(p.rx.src_qpn, 0x77U);
  }
  EXPECT_EQ(sent_by_port(kEth0).size(), 1U);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(IpoibInput, U11_IgnoresReservedOnReceive) {
  const Ip4 packet{.src = "10.0.0.2", .dst = "192.168.1.10"};
  feed(kIb0, encapsulated(0x0800, packet.bytes(), 0xffff));
  EXPECT_EQ(sent_by_port(kEth0), Frames{ethernet(mac(0x10), mac(0xa0), 0x0800, forwarded(packet))});
}

TEST_F(IpoibInput, DoesNotForwardWhatCameByMulticast) {
  feed(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.1.10"}.bytes()), true);
  expect_drop(kIb0, Drop::kIpBroadcast);
  EXPECT_TRUE(sent_by_port(kEth0).empty());
}

TEST_F(EthInput, P17_BroadcastsOfMirroredInterfacesGoToLinux) {
  entries[kEth0].mirrored = true;
  add_route("192.168.1.255/32", {table::NextHopKind::kBroadcast, 0, kEth0, table::kNoNeighbour});
  const auto by_broadcast = [](const char* src, const char* dst) {
    return ethernet(kBroadcastMac, mac(0x10), 0x0800, Ip4{.src = src, .dst = dst}.bytes());
  };
  for (const auto& [src, dst] : {std::pair{"0.0.0.0", "255.255.255.255"},
                                 {"192.168.1.10", "255.255.255.255"},
                                 {"192.168.1.10", "192.168.1.255"}}) {
    Bytes frame = by_broadcast(src, dst);
    frame.resize(frame.size() + 6);  // padding of the link
    feed(kEth0, frame);
    const auto punt = only_punted();
    EXPECT_EQ(punt.message.kind, msg::Up::Kind::kBroadcast) << src << dst;
    EXPECT_EQ(punt.message.iface, kEth0);
    EXPECT_EQ(punt.bytes, (Ip4{.src = src, .dst = dst}.bytes()));
    EXPECT_EQ(all_drops(), 0U);
  }
  const std::vector<Row> rows = {
      {"of an own address", by_broadcast("192.168.1.1", "255.255.255.255"), Drop::kIpBroadcast},
      {"from a group", by_broadcast("224.0.0.1", "255.255.255.255"), Drop::kIpBroadcast},
      {"from net 0", by_broadcast("0.0.0.1", "255.255.255.255"), Drop::kIpBroadcast},
      {"without a source", by_broadcast("0.0.0.0", "192.168.1.255"), Drop::kIpMartianSource},
      {"to one host", by_broadcast("192.168.1.10", "192.168.1.1"), Drop::kIpBroadcast},
      {"of another network", by_broadcast("192.168.1.10", "10.0.255.255"), Drop::kIpBroadcast},
      {"damaged",
       ethernet(kBroadcastMac, mac(0x10), 0x0800,
                Ip4{.dst = "255.255.255.255", .checksum_off = 1}.bytes()),
       Drop::kIpChecksum},
  };
  EXPECT_ROWS_DROPPED(kEth0, rows);
  feed(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "255.255.255.255"}.bytes()), true);
  EXPECT_EQ(drops(kIb0, Drop::kIpBroadcast), 1U);
  entries[kIb0].mirrored = true;
  feed(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "255.255.255.255"}.bytes()), true);
  EXPECT_EQ(only_punted().message.iface, kIb0);
}

TEST_F(EthInput, P17_LldpOfMirroredPortsGoesToLinux) {
  const auto lldp = [](unsigned last, std::uint16_t type = 0x88cc) {
    const wire::MacAddr to{std::byte{0x01}, std::byte{0x80}, std::byte{0xc2},
                           std::byte{0},    std::byte{0},    std::byte(last)};
    return ethernet(to, mac(0x10), type, Bytes(46, std::byte{7}));
  };
  const std::vector<Row> unmirrored = {{"no mirror", lldp(0x0e), Drop::kEthNotForUs}};
  EXPECT_ROWS_DROPPED(kEth0, unmirrored);
  entries[kEth0].mirrored = true;
  const auto lost = all_drops();
  for (const unsigned last : {0x00U, 0x03U, 0x0eU}) {
    feed(kEth0, lldp(last));
    const auto punt = only_punted();
    EXPECT_EQ(punt.message.kind, msg::Up::Kind::kLinkFrame);
    EXPECT_EQ(punt.bytes, lldp(last)) << "with its Ethernet header";
  }
  EXPECT_EQ(all_drops(), lost);
  const std::vector<Row> rows = {
      {"pause frames and the like", lldp(0x01), Drop::kEthNotForUs},
      {"another protocol of bridges", lldp(0x00, 0x0026), Drop::kEthNotForUs},
      {"to this node", ethernet(mac(0xa0), mac(0x10), 0x88cc, Bytes(46)), Drop::kEthUnknownType}};
  EXPECT_ROWS_DROPPED(kEth0, rows);
}

TEST_F(Ip4Input, P05_DropsMalformedHeadersByNamedReason) {
  const auto ip = [](const Ip4& packet) { return to_eth0(packet.bytes()); };
  Bytes short_header = Ip4{}.bytes();
  short_header.resize(19);
  Bytes cut_options = Ip4{.payload_len = 0, .options = Bytes(8, std::byte{1})}.bytes();
  cut_options.resize(24);
  const std::vector<Row> rows = {
      {"19 octets", to_eth0(short_header), Drop::kIpRunt},
      {"version 6", ip({.version_ihl = 0x65}), Drop::kIpVersion},
      {"version 0", ip({.version_ihl = 0x05}), Drop::kIpVersion},
      {"header of 16 octets", ip({.version_ihl = 0x44}), Drop::kIpHeaderLength},
      {"header beyond the packet", to_eth0(cut_options), Drop::kIpHeaderLength},
      {"total length below the header's", ip({.total_len = 19}), Drop::kIpTotalLength},
      {"total length beyond the frame", ip({.total_len = 47}), Drop::kIpTotalLength},
      {"checksum one off", ip({.checksum_off = 1}), Drop::kIpChecksum},
      {"checksum of the options wrong",
       ip({.options = Bytes(4, std::byte{1}), .checksum_off = 0x100}), Drop::kIpChecksum},
  };
  EXPECT_ROWS_DROPPED(kEth0, rows);
}

TEST_F(Ip4Input, P05_DropsAddressesThatMustNotBeForwarded) {
  const std::vector<std::tuple<const char*, const char*, Drop>> addresses = {
      {"0.0.0.0", "10.0.0.2", Drop::kIpMartianSource},
      {"0.1.2.3", "10.0.0.2", Drop::kIpMartianSource},
      {"127.0.0.1", "10.0.0.2", Drop::kIpMartianSource},
      {"224.0.0.1", "10.0.0.2", Drop::kIpMartianSource},
      {"240.0.0.1", "10.0.0.2", Drop::kIpMartianSource},
      {"255.255.255.255", "10.0.0.2", Drop::kIpMartianSource},
      {"169.254.1.1", "10.0.0.2", Drop::kIpMartianSource},
      {"192.168.1.1", "10.0.0.2", Drop::kIpMartianSource},  // own address of eth0
      {"10.0.0.1", "10.0.0.2", Drop::kIpMartianSource},     // own address of ib0
      {"192.168.1.1", "192.168.1.1", Drop::kIpMartianSource},
      {"192.168.1.1", "239.1.2.3", Drop::kIpMartianSource},
      {"192.168.1.10", "0.0.0.0", Drop::kIpMartianDestination},
      {"192.168.1.10", "127.0.0.1", Drop::kIpMartianDestination},
      {"192.168.1.10", "169.254.1.1", Drop::kIpMartianDestination},
      {"192.168.1.10", "240.0.0.1", Drop::kIpMartianDestination},
      {"192.168.1.10", "255.255.255.254", Drop::kIpMartianDestination},
      {"192.168.1.10", "224.0.0.1", Drop::kIpMulticast},
      {"192.168.1.10", "239.255.255.255", Drop::kIpMulticast},
      {"192.168.1.10", "255.255.255.255", Drop::kIpBroadcast},
      {"0.0.0.0", "255.255.255.255", Drop::kIpBroadcast},
      {"192.168.1.10", "10.0.255.255", Drop::kIpBroadcast},
  };
  std::vector<Row> rows;
  for (const auto& [src, dst, reason] : addresses)
    rows.push_back({dst, to_eth0(Ip4{.src = src, .dst = dst}.bytes()), reason});
  EXPECT_ROWS_DROPPED(kEth0, rows);
}

TEST_F(Ip4Input, LinkLocalAddressesServeThisNodeOnly) {
  add_route("169.254.7.1/32", {table::NextHopKind::kLocal, 0, kEth0, table::kNoNeighbour});
  receive(kEth0, to_eth0(Ip4{.src = "169.254.7.9", .dst = "169.254.7.1"}.bytes()));
  receive(kEth0, to_eth0(Ip4{.src = "169.254.7.9", .dst = "192.168.1.1"}.bytes()));
  // Only 169.254/16 is link-local in 169/8.
  feed(kEth0, to_eth0(Ip4{.src = "169.253.7.9"}.bytes()));
  EXPECT_EQ(punted().size(), 2U);
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
  EXPECT_EQ(all_drops(), 0U);
}

/// Loose and strict source routes, at any place in the options, to this node or through it. Source:
/// RFC 7126 §4.3, §4.4.
TEST_F(Ip4Input, SourceRoutesAreRefusedAndTold) {
  unsigned n = 0;
  for (const int type : {131, 137}) {
    for (const std::size_t nops : {0U, 1U, 5U}) {
      for (const char* dst : {"10.0.0.2", "192.168.1.1"}) {
        Bytes options(nops, std::byte{1});
        for (const int octet : {type, 7, 4, 10, 0, 0, 9}) options.push_back(std::byte(octet));
        options.resize((options.size() + 3) & ~std::size_t{3});
        const Ip4 packet{.dst = dst, .options = options};
        feed(kEth0, to_eth0(packet.bytes()));
        EXPECT_EQ(drops(kEth0, Drop::kIpSourceRoute), ++n);
        const Punted told = only_punted();
        EXPECT_EQ(told.message.kind, msg::Up::Kind::kIcmpError);
        EXPECT_EQ(std::pair(told.message.icmp_type, told.message.icmp_code),
                  std::pair(std::uint8_t{3}, std::uint8_t{5}));
        EXPECT_EQ(told.bytes, packet.bytes());
      }
    }
  }
  EXPECT_TRUE(sent_by_link(kIb0).empty());
  EXPECT_EQ(all_drops(), n);
}

/// A broadcast frame causes no ICMP error.
TEST_F(Ip4Input, SourceRoutesToGroupsAreDropped) {
  Bytes options;
  for (const int octet : {131, 7, 4, 239, 1, 2, 3, 0}) options.push_back(std::byte(octet));
  feed(kEth0, ethernet(kBroadcastMac, mac(0x10), 0x0800,
                       Ip4{.dst = "239.1.2.3", .options = options}.bytes()));
  expect_drop(kEth0, Drop::kIpSourceRoute);
  EXPECT_TRUE(punted().empty());
}

/// Every option that RFC 7126 §4 names, and unknown ones: either it passes as it came, in unicast and to
/// groups, or it is dropped, also behind other options.
TEST_F(Ip4Input, P05_OptionsPassOrAreDroppedByType) {
  const std::set<int> dropped = {7,   11,  12,  30,  68,  82,  94,  136,
                                 142, 145, 147, 149, 151, 152, 158, 222};
  std::uint64_t n = 0;
  for (int type = 2; type < 256; ++type) {
    if (type == 131 || type == 137) continue;
    Bytes options;
    for (const int octet : {1, 130, 3, 0, type, 4, 0, 0}) options.push_back(std::byte(octet));
    const Ip4 packet{.options = options};
    feed(kEth0, to_eth0(packet.bytes()));
    if (dropped.contains(type)) {
      EXPECT_EQ(drops(kEth0, Drop::kIpOption), ++n) << type;
      feed(kEth0, ethernet(kBroadcastMac, mac(0x10), 0x0800,
                           Ip4{.dst = "239.1.2.3", .options = options}.bytes()));
      EXPECT_EQ(drops(kEth0, Drop::kIpOption), ++n) << type;
      EXPECT_TRUE(sent_by_link(kIb0).empty()) << type;
    } else {
      EXPECT_EQ(only_sent_by_link(kIb0).bytes, to_link(forwarded(packet))) << type;
    }
  }
  EXPECT_TRUE(punted().empty()) << "no error is sent about them";
  EXPECT_EQ(all_drops(), n);
}

/// Octets of an address among the data of an option are not options, nor are octets after the end of
/// the list or behind an invalid length.
TEST_F(Ip4Input, DataOfOptionsAreNoOptions) {
  const std::vector<std::vector<int>> lists = {{130, 11, 8, 131, 137, 1, 7, 0, 0, 0, 0, 0},
                                               {148, 12, 13, 0, 131, 7, 4, 9, 137, 7, 68, 9},
                                               {0, 131, 7, 4},
                                               {130, 1, 131, 7},
                                               {1, 1, 1, 130}};
  for (const auto& list : lists) {
    Bytes options;
    for (const int octet : list) options.push_back(std::byte(octet));
    const Ip4 packet{.options = options};
    feed(kEth0, to_eth0(packet.bytes()));
    EXPECT_EQ(only_sent_by_link(kIb0).bytes, to_link(forwarded(packet)));
  }
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(Ip4Input, ForwardsOptionsAsTheyAre) {
  const Ip4 packet{.options = Bytes(40, std::byte{1})};
  feed(kEth0, to_eth0(packet.bytes()));
  EXPECT_EQ(only_sent_by_link(kIb0).bytes, to_link(forwarded(packet)));
}

}  // namespace
}  // namespace ipoib::fwd::test
