// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/filter/ip_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "lib/fwd/filter/broadcast_limit.h"
#include "lib/fwd/filter/upper_header.h"
#include "lib/wire/ip_prefix.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

using enum FilterDirection;
using enum FilterAction;

constexpr std::uint8_t kTcp = 6, kUdp = 17, kIcmp = 1, kIcmp6 = 58;
/// IPv6 extension headers.
constexpr std::uint8_t kRouting = 43, kFragmentHdr = 44, kAuthentication = 51, kDestination = 60;

wire::IpPrefix prefix(std::string_view text) {
  return *wire::parse_prefix(text);
}

/// The first octets of TCP and UDP, and some more.
Bytes ports(std::uint16_t src, std::uint16_t dst, std::size_t len = 26) {
  Bytes out;
  append(out, wire::Be16{src});
  append(out, wire::Be16{dst});
  out.resize(len);
  return out;
}

Bytes packet(std::string_view src, std::string_view dst, std::uint8_t protocol, const Bytes& body) {
  return ip_packet(*wire::parse_ip(src), *wire::parse_ip(dst), protocol, body);
}
Bytes packet4(std::uint8_t protocol, const Bytes& body) {
  return packet("192.168.1.10", "10.0.0.2", protocol, body);
}

/// An extension header of `octets` whose next header is `next`.
Bytes extension(std::uint8_t next, std::size_t octets) {
  Bytes out(octets);
  out[0] = std::byte{next};
  out[1] = static_cast<std::byte>(octets / 8 - 1);
  return out;
}
Bytes fragment_header(std::uint8_t next, std::uint16_t offset_and_more) {
  Bytes out = extension(next, 8);
  out[2] = static_cast<std::byte>(offset_and_more >> 8);
  out[3] = static_cast<std::byte>(offset_and_more & 0xff);
  return out;
}
Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& part : parts) append(out, part);
  return out;
}

/// Hosts behind eth0 send to 10.0.0.2 and fd00:a::2 on ib0.
class IpFilter : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    start();
    set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", 7, 1));
    set_neighbour(1, ib_neighbour(kIb0, "fd00:a::2", 8, 2));
    set_neighbour(2, eth_neighbour(kEth1, "192.168.2.9", mac(0x98)));
    loop();
  }
  void TearDown() override {
    settings.filters = nullptr;
    loop();
    WorkerFixture::TearDown();
  }
  void use(const std::vector<NumberedRule>& rules) {
    auto made = FilterTable::create(
        rules, {.interfaces = entries.size(), .workers = static_cast<unsigned>(configs.size())});
    ASSERT_TRUE(made) << made.error().what;
    settings.filters = made->get();
    loop();
    table = std::move(*made);
  }
  /// True if the packet leaves by ib0; otherwise a rule has dropped it.
  bool passes(rte_mbuf* frame) {
    const auto dropped = drops(kEth0, Drop::kIpFilter);
    receive(kEth0, frame);
    loop();
    const bool sent = sent_by_link(kIb0).size() == 1;
    EXPECT_EQ(drops(kEth0, Drop::kIpFilter) - dropped, sent ? 0U : 1U);
    EXPECT_TRUE(punted().empty());
    return sent;
  }
  bool passes(const Bytes& ip) {
    const bool v4 = std::to_integer<unsigned>(ip[0]) >> 4 == 4;
    return passes(mbuf(v4 ? to_eth0(ip) : to_eth0_6(ip)));
  }
  bool passes6(std::uint8_t next, const Bytes& body) {
    return passes(packet("fd00:1::10", "fd00:a::2", next, body));
  }
  std::uint64_t counted(std::size_t rule) const { return table->packets(rule); }

  std::unique_ptr<FilterTable> table;
};

TEST_F(IpFilter, P23_TheFirstRuleInOrderDecidesAndCounts) {
  use({{kEth0, {.action = kAccept, .source = prefix("192.168.1.10/32")}},
       {kEth0, {.source = prefix("192.168.1.0/24")}},
       {kEth0, {.action = kAccept, .source = prefix("192.168.1.0/24")}}});
  EXPECT_TRUE(passes(packet("192.168.1.10", "10.0.0.2", kUdp, ports(1, 2))));
  EXPECT_FALSE(passes(packet("192.168.1.11", "10.0.0.2", kUdp, ports(1, 2))));
  EXPECT_TRUE(passes(packet("192.168.3.11", "10.0.0.2", kUdp, ports(1, 2)))) << "no rule fits";
  EXPECT_EQ(counted(0), 1U);
  EXPECT_EQ(counted(1), 1U);
  EXPECT_EQ(counted(2), 0U);
}

TEST_F(IpFilter, P23_EachMemberOfARuleIsCompared) {
  struct Case {
    std::string_view name;
    FilterRule rule;
    Bytes fits;
    Bytes differs;
  };
  const std::vector<Case> cases = {
      {"source",
       {.source = prefix("192.168.1.8/29")},
       packet4(kUdp, ports(1, 2)),
       packet("192.168.1.16", "10.0.0.2", kUdp, ports(1, 2))},
      {"destination",
       {.destination = prefix("10.0.0.2/32")},
       packet4(kUdp, ports(1, 2)),
       packet("192.168.1.10", "10.0.0.3", kUdp, ports(1, 2))},
      {"protocol", {.protocol = kTcp}, packet4(kTcp, ports(1, 2)), packet4(kUdp, ports(1, 2))},
      {"icmp", {.protocol = kIcmp}, packet4(kIcmp, ports(1, 2)), packet4(kUdp, ports(1, 2))},
      {"source port",
       {.protocol = kUdp, .source_ports = PortRange{100, 200}},
       packet4(kUdp, ports(100, 7)),
       packet4(kUdp, ports(99, 150))},
      {"last source port",
       {.protocol = kUdp, .source_ports = PortRange{100, 200}},
       packet4(kUdp, ports(200, 7)),
       packet4(kUdp, ports(201, 150))},
      {"destination port",
       {.protocol = kTcp, .destination_ports = PortRange{22, 22}},
       packet4(kTcp, ports(22, 22)),
       packet4(kTcp, ports(22, 23))},
      {"ports of another protocol",
       {.protocol = kTcp, .destination_ports = PortRange{22, 22}},
       packet4(kTcp, ports(1, 22)),
       packet4(kUdp, ports(1, 22))},
      {"source 6",
       {.source = prefix("fd00:1::/64")},
       packet("fd00:1::10", "fd00:a::2", kUdp, ports(1, 2)),
       packet("fd00:2::10", "fd00:a::2", kUdp, ports(1, 2))},
      {"long source 6",
       {.source = prefix("fd00:1::10/124")},
       packet("fd00:1::1f", "fd00:a::2", kUdp, ports(1, 2)),
       packet("fd00:1::20", "fd00:a::2", kUdp, ports(1, 2))},
      {"destination 6",
       {.destination = prefix("fd00:a::2/128")},
       packet("fd00:1::10", "fd00:a::2", kUdp, ports(1, 2)),
       packet("fd00:1::10", "fd00:a::3", kUdp, ports(1, 2))},
      {"IPv4 only",
       {.source = prefix("0.0.0.0/0")},
       packet4(kUdp, ports(1, 2)),
       packet("fd00:1::10", "fd00:a::2", kUdp, ports(1, 2))},
      {"port 6",
       {.protocol = kUdp, .destination_ports = PortRange{53, 53}},
       packet("fd00:1::10", "fd00:a::2", kUdp, ports(1, 53)),
       packet("fd00:1::10", "fd00:a::2", kUdp, ports(1, 54))},
  };
  set_neighbour(3, ib_neighbour(kIb0, "10.0.0.3", 9, 3));
  set_neighbour(4, ib_neighbour(kIb0, "fd00:a::3", 10, 4));
  loop();
  for (const Case& c : cases) {
    use({{kEth0, c.rule}});
    EXPECT_FALSE(passes(c.fits)) << c.name;
    EXPECT_TRUE(passes(c.differs)) << c.name;
    EXPECT_EQ(counted(0), 1U) << c.name;
  }
}

TEST_F(IpFilter, P23_RulesAreForTheirInterfaceAndDirection) {
  const Bytes ip = packet4(kUdp, ports(1, 2));
  for (const auto& [rule, dropped] : std::vector<std::pair<NumberedRule, bool>>{
           {{kEth0, {.direction = kIn}}, true},
           {{kEth0, {.direction = kOut}}, false},
           {{kIb0, {.direction = kOut}}, true},
           {{kIb0, {.direction = kIn}}, false},
           {{kEth1, {.direction = kIn}}, false},
           {{table::kNoInterface, {.direction = kIn}}, true},
           {{table::kNoInterface, {.direction = kOut}}, true}}) {
    use({rule});
    EXPECT_EQ(passes(ip), !dropped) << rule.iface << ' ' << (rule.rule.direction == kOut);
    EXPECT_EQ(passes6(kUdp, ports(1, 2)), !dropped);
    EXPECT_EQ(counted(0), dropped ? 2U : 0U);
  }
}

/// The others of a burst keep their order, at ingress and at egress.
TEST_F(IpFilter, P23_PacketsAreTakenOutOfABurst) {
  for (const FilterDirection direction : {kIn, kOut}) {
    use({{table::kNoInterface,
          {.direction = direction, .protocol = kUdp, .destination_ports = PortRange{53, 53}}}});
    const auto dropped = drops(kEth0, Drop::kIpFilter);
    for (const int port : {1, 53, 2, 53, 53, 3, 4, 53})
      receive(kEth0, to_eth0(packet4(kUdp, ports(0, static_cast<std::uint16_t>(port)))));
    loop();
    const auto sent = sent_by_link(kIb0);
    ASSERT_EQ(sent.size(), 4U);
    for (std::size_t i = 0; i < sent.size(); ++i)
      EXPECT_EQ(std::to_integer<unsigned>(sent[i].bytes.at(sizeof(wire::IpoibHdr) + 23)), i + 1);
    EXPECT_EQ(drops(kEth0, Drop::kIpFilter) - dropped, 4U);
    EXPECT_EQ(counted(0), 4U);
  }
}

/// Rules of an egress leave the packets of others alone, in one burst too.
TEST_F(IpFilter, P23_OutRulesAreForThePacketsOfTheirEgress) {
  const auto send = [&] {
    for (const std::string_view to : {"10.0.0.2", "192.168.2.9", "10.0.0.2", "192.168.2.9"})
      receive(kEth0, to_eth0(packet("192.168.1.10", to, kUdp, ports(1, 2))));
    loop();
    return std::pair{sent_by_link(kIb0).size(), sent_by_port(kEth1).size()};
  };
  use({{kIb1, {.direction = kOut}}});
  EXPECT_EQ(send(), (std::pair<std::size_t, std::size_t>{2, 2})) << "none has rules";
  use({{kIb0, {.direction = kOut}}});
  EXPECT_EQ(send(), (std::pair<std::size_t, std::size_t>{0, 2}));
  use({{kEth1, {.direction = kOut}}});
  EXPECT_EQ(send(), (std::pair<std::size_t, std::size_t>{2, 0}));
  EXPECT_EQ(counted(0), 2U);
  EXPECT_EQ(drops(kEth0, Drop::kIpFilter), 4U);
}

/// Rules with ports do not fit fragments without them, but the first fragment must show its ports.
TEST_F(IpFilter, P23_FragmentsDoNotAvoidRulesWithPorts) {
  const auto fragment = [](std::uint16_t flags_offset, std::size_t len, wire::IpProto protocol) {
    return Ip4{.payload_len = len, .flags_offset = flags_offset, .protocol = protocol}.bytes();
  };
  constexpr std::uint16_t kMore = wire::Ipv4Hdr::kMoreFragments;
  use({{kEth0, {.protocol = kUdp, .destination_ports = PortRange{0x0203, 0x0203}}}});
  EXPECT_FALSE(passes(fragment(kMore, 24, wire::IpProto::kUdp))) << "the first has ports";
  EXPECT_EQ(counted(0), 1U);
  EXPECT_TRUE(passes(fragment(3, 24, wire::IpProto::kUdp))) << "others have none";
  EXPECT_TRUE(passes(fragment(kMore | 1, 8, wire::IpProto::kUdp)));
  EXPECT_FALSE(passes(fragment(kMore, 3, wire::IpProto::kUdp))) << "too short for its ports";
  EXPECT_FALSE(passes(fragment(kMore, 0, wire::IpProto::kTcp)));
  EXPECT_EQ(counted(0), 1U) << "no rule fits what is hidden";
  EXPECT_TRUE(passes(fragment(kMore, 3, wire::IpProto::kIcmp))) << "the protocol has no ports";
  EXPECT_TRUE(passes(fragment(0, 3, wire::IpProto::kUdp))) << "no datagram comes of it";

  use({{kEth0, {.source = prefix("192.168.3.0/24")}}});
  EXPECT_TRUE(passes(fragment(kMore, 0, wire::IpProto::kUdp))) << "no rule compares ports";
  use({{kEth1, {.protocol = kUdp, .destination_ports = PortRange{1, 1}}},
       {kEth0, {.source = prefix("192.168.3.0/24"), .protocol = kUdp}}});
  EXPECT_TRUE(passes(fragment(kMore, 0, wire::IpProto::kUdp))) << "none of this interface does";
}

TEST_F(IpFilter, P23_Ip6HeadersAreLookedThrough) {
  use({{kEth0, {.protocol = kUdp, .destination_ports = PortRange{53, 53}}}});
  const Bytes dns = ports(9, 53), other = ports(9, 54);
  for (const Bytes& message : {dns, other}) {
    const bool pass = message == other;
    EXPECT_EQ(passes6(0, joined({extension(kUdp, 8), message})), pass);
    EXPECT_EQ(passes6(kDestination, joined({extension(kUdp, 24), message})), pass);
    Bytes routing = extension(kDestination, 24);
    routing[2] = std::byte{4};  // Routers drop other types.
    EXPECT_EQ(passes6(kRouting, joined({routing, extension(kUdp, 8), message})), pass);
    Bytes authentication = extension(kUdp, 24);
    authentication[1] = std::byte{4};  // words, less two
    EXPECT_EQ(passes6(kAuthentication, joined({authentication, message})), pass);
    EXPECT_EQ(passes6(kFragmentHdr, joined({fragment_header(kUdp, 1), message})), pass) << "first";
    EXPECT_EQ(passes6(kFragmentHdr, joined({fragment_header(kUdp, 0), message})), pass) << "only";
    EXPECT_TRUE(passes6(kFragmentHdr, joined({fragment_header(kUdp, 8 | 1), message})))
        << "a fragment behind the first has no ports";
  }
  EXPECT_EQ(counted(0), 6U);
}

TEST_F(IpFilter, P23_Ip6HeadersThatHideTheProtocolAreDropped) {
  const auto chain = [](std::size_t n, const Bytes& end) {
    Bytes out;
    for (std::size_t i = 1; i <= n; ++i) append(out, extension(i < n ? kDestination : kUdp, 8));
    append(out, end);
    return out;
  };
  const Bytes short_first = fragment_header(kUdp, 1);
  const Bytes cut_chain = joined({fragment_header(kDestination, 1), Bytes{std::byte{17}}});
  const auto hidden = [&] {
    return std::array{passes6(kDestination, chain(kMaxExtensions + 1, ports(1, 53))),
                      passes6(kFragmentHdr, short_first), passes6(kFragmentHdr, cut_chain),
                      passes6(kDestination, Bytes{std::byte{17}, std::byte{9}})};
  };
  use({{kEth0, {.protocol = kUdp, .destination_ports = PortRange{53, 53}}}});
  EXPECT_EQ(hidden(), (std::array{false, false, false, false}));
  EXPECT_EQ(counted(0), 0U);
  EXPECT_FALSE(passes6(kDestination, chain(kMaxExtensions, ports(1, 53))));
  EXPECT_EQ(counted(0), 1U);
  use({{kEth0, {.protocol = kTcp}}});
  EXPECT_EQ(hidden(), (std::array{false, true, false, false})) << "the ports may be hidden";
  use({{kEth0, {.source = prefix("fd00:3::/64")}}});
  EXPECT_EQ(hidden(), (std::array{true, true, true, true}));
}

TEST_F(IpFilter, P23_HeadersMayBeInSeveralSegments) {
  use({{kEth0, {.protocol = kUdp, .destination_ports = PortRange{53, 53}}}});
  const Bytes ip = packet4(kUdp, ports(9, 53)), other = packet4(kUdp, ports(9, 54));
  for (const std::size_t first : {34U, 35U, 37U})
    for (const Bytes* message : {&ip, &other}) {
      const Bytes frame = to_eth0(*message);
      EXPECT_EQ(passes(mbuf(frame, {first, frame.size() - first})), message == &other) << first;
    }
  const Bytes ip6 = to_eth0_6(
      packet("fd00:1::10", "fd00:a::2", kDestination, joined({extension(kUdp, 8), ports(9, 53)})));
  for (const std::size_t first : {54U, 55U, 62U, 65U})
    EXPECT_FALSE(passes(mbuf(ip6, {first, ip6.size() - first}))) << first;
}

TEST_F(IpFilter, P23_OptionsOfIp4AreSkipped) {
  use({{kEth0, {.protocol = kUdp, .destination_ports = PortRange{0x0203, 0x0203}}}});
  EXPECT_FALSE(passes(Ip4{.options = Bytes(8, std::byte{1})}.bytes()));
}

/// Packets for the node itself pass the rules of their ingress, ARP excepted.
TEST_F(IpFilter, P23_PacketsForTheNodeAreFiltered) {
  const auto to_node = [this] {
    feed(kEth0, to_eth0(packet("192.168.1.10", "192.168.1.1", kIcmp, ports(1, 2))));
    feed(kEth0, to_eth0_6(packet("fd00:1::10", "fd00:1::1", kIcmp6, icmp6(128))));
    feed(kEth0, to_eth0_6(packet("fe80::10", "fe80::1", kIcmp6, icmp6(128))));
    return punted().size();
  };
  set_delivery(kEth0, "fe80::1", true, 0);
  loop();
  EXPECT_EQ(to_node(), 3U);
  use({{kEth0, {.direction = kIn}}});
  EXPECT_EQ(to_node(), 0U);
  EXPECT_EQ(drops(kEth0, Drop::kIpFilter), 3U);
  feed(kEth0, ethernet(kBroadcastMac, mac(0x10), 0x0806, Bytes(46)));
  EXPECT_EQ(all_drops(), 3U + drops(kEth0, Drop::kArpForOthers)) << "ARP is not filtered";
  punted();
}

/// Packets that the input stages refuse with an ICMP error pass the rules before: a host that may
/// not send gets no answer.
TEST_F(IpFilter, P23_RefusedPacketsAreFiltered) {
  Bytes route(12, std::byte{1});
  route[0] = std::byte{131};
  route[1] = std::byte{7};
  route[2] = std::byte{4};
  // The last octets are padding of the link.
  const Bytes source_route =
      joined({Ip4{.payload_len = 3, .flags_offset = wire::Ipv4Hdr::kMoreFragments, .options = route}
                  .bytes(),
              Bytes(20)});
  const Bytes beyond_scope = packet("fe80::10", "fd00:a::2", kUdp, ports(1, 2));
  const auto answers = [&] {
    feed(kEth0, to_eth0(source_route));
    feed(kEth0, to_eth0_6(beyond_scope));
    return punted().size();
  };
  EXPECT_EQ(answers(), 2U);
  use({{kEth0, {.action = kAccept}}, {kEth0, {}}});
  EXPECT_EQ(answers(), 2U);
  EXPECT_EQ(drops(kEth0, Drop::kIpSourceRoute), 2U);
  EXPECT_EQ(drops(kEth0, Drop::kIp6Scope), 2U);
  EXPECT_EQ(counted(0), 2U);
  use({{kEth0, {.source = prefix("192.168.1.10/32")}}, {kEth0, {.source = prefix("fe80::/10")}}});
  EXPECT_EQ(answers(), 0U);
  EXPECT_EQ(drops(kEth0, Drop::kIpFilter), 2U);
  EXPECT_EQ(counted(0), 1U);
  EXPECT_EQ(counted(1), 1U);
  use({{kEth0, {.action = kAccept, .protocol = kTcp, .destination_ports = PortRange{0, 0}}}});
  EXPECT_EQ(answers(), 1U) << "padding is not a port";
  EXPECT_EQ(drops(kEth0, Drop::kIpFilter), 3U);
}

/// Packets of management pass no rules; a packet that waits for its neighbour has passed them.
TEST_F(IpFilter, P23_PacketsOfTheNodeAreNotFiltered) {
  use({{kIb0, {.direction = kOut}}});
  send_routed(packet4(kUdp, ports(1, 2)));
  send_on_interface(packet4(kUdp, ports(1, 2)), kIb0);
  send_routed(packet4(kUdp, ports(1, 2)), kEth0);
  loop();
  EXPECT_EQ(sent_by_link(kIb0).size(), 3U);
  feed(kEth0, to_eth0(packet("192.168.1.10", "10.0.0.77", kUdp, ports(1, 2))));
  EXPECT_TRUE(punted().empty()) << "no neighbour is asked for";
  EXPECT_EQ(drops(kEth0, Drop::kIpFilter), 1U);
  use({{kIb0, {.direction = kOut, .protocol = kTcp}}});
  feed(kEth0, to_eth0(packet("192.168.1.10", "10.0.0.77", kUdp, ports(1, 2))));
  EXPECT_EQ(punted().size(), 1U);
}

// Each copy passes the rules of its egress, and what they drop takes nothing of the limit there.
TEST_F(IpFilter, U03_P23_BroadcastsToAllSubnetsAreFilteredOnEachInterface) {
  constexpr auto* kAll = "10.255.255.255";
  constexpr table::NextHopIndex kSlots = 1'000;
  for (const auto& [slot, iface] : {std::pair{kSlots, kEth1}, std::pair{kSlots + 1, kIb0}})
    hops.set(slot, {table::NextHopKind::kBroadcast, 0, iface, table::kNoNeighbour});
  hops.set(kSlots + 2, {});
  add_route("10.255.255.255/32", {table::NextHopKind::kBroadcast, 0, table::kNoInterface, kSlots});
  set_neighbour(3, eth_neighbour(kEth1, kAll, kBroadcastMac));
  set_neighbour(4, ib_neighbour(kIb0, kAll, 3, 0xff'ffff));
  const std::uint64_t tsc = rte_rdtsc();
  const auto send = [&] {
    receive(kEth0, to_eth0(packet("192.168.1.10", kAll, kUdp, ports(1, 2))));
    worker().iterate(tsc);
    return std::pair{sent_by_port(kEth1).size(), sent_by_link(kIb0).size()};
  };
  using Sent = std::pair<std::size_t, std::size_t>;
  use({{kEth1, {.direction = kOut}}});
  for (std::uint64_t i = 0; i < BroadcastLimit::kPerSource; ++i) ASSERT_EQ(send(), Sent(0, 1));
  EXPECT_EQ(drops(kEth0, Drop::kIpFilter), std::uint64_t{BroadcastLimit::kPerSource});
  use({{kIb0, {.direction = kOut}}});
  EXPECT_EQ(send(), Sent(1, 0));
  EXPECT_EQ(counted(0), 1U);
  EXPECT_EQ(drops(kEth0, Drop::kIpBroadcastLimit), 0U);
  EXPECT_EQ(all_drops(), BroadcastLimit::kPerSource + std::uint64_t{1});
}

/// Ingress once, egress on each interface.
TEST_F(IpFilter, P23_MulticastIsFilteredOnEachInterface) {
  set_neighbour(5, ib_neighbour(kIb0, "239.1.1.1", 20, 0xffffff));
  set_neighbour(6, ib_neighbour(kIb1, "239.1.1.1", 21, 0xffffff));
  set_delivery(kEth0, "239.1.1.1", false, 1U << kIb0 | 1U << kIb1);
  loop();
  const Bytes frame = ethernet(
      {std::byte{1}, std::byte{0}, std::byte{0x5e}, std::byte{1}, std::byte{1}, std::byte{1}},
      mac(0x10), 0x0800, packet("192.168.1.10", "239.1.1.1", kUdp, ports(1, 2)));
  const auto sent = [&] {
    feed(kEth0, frame, true);
    return std::pair{sent_by_link(kIb0).size(), sent_by_link(kIb1).size()};
  };
  EXPECT_EQ(sent(), (std::pair<std::size_t, std::size_t>{1, 1}));
  use({{kIb0, {.direction = kOut}}});
  EXPECT_EQ(sent(), (std::pair<std::size_t, std::size_t>{0, 1}));
  EXPECT_EQ(counted(0), 1U);
  use({{table::kNoInterface, {.direction = kOut}}});
  EXPECT_EQ(sent(), (std::pair<std::size_t, std::size_t>{0, 0}));
  EXPECT_EQ(counted(0), 2U);
  use({{kEth0, {.direction = kIn}}});
  EXPECT_EQ(sent(), (std::pair<std::size_t, std::size_t>{0, 0}));
  EXPECT_EQ(counted(0), 1U);
}

/// Random rules and packets: the tries decide as a comparison of one rule after the other does.
TEST_F(IpFilter, P23_TriesDecideAsTheListDoes) {
  std::mt19937 random{7};
  const auto below = [&random](unsigned n) { return static_cast<unsigned>(random() % n); };
  const auto some_prefix = [&](bool v4) -> std::optional<wire::IpPrefix> {
    if (below(3) == 0) return std::nullopt;
    const auto addr = wire::parse_ip(v4 ? fmt::format("10.{}.{}.{}", below(2), below(4), below(256))
                                        : fmt::format("fd00:{}::{}", below(2), below(256)));
    wire::IpPrefix made{*addr, static_cast<std::uint8_t>(below(wire::host_len(*addr) + 1))};
    made.addr = wire::network(made);
    return made;
  };
  const auto some_ports = [&]() -> std::optional<PortRange> {
    const auto first = static_cast<std::uint16_t>(below(8));
    if (below(2) == 0) return std::nullopt;
    return PortRange{first, static_cast<std::uint16_t>(first + below(4))};
  };
  std::vector<NumberedRule> rules;
  for (unsigned i = 0; i < 300; ++i) {
    const bool v4 = below(2) == 0;
    FilterRule rule{.direction = below(2) == 0 ? kIn : kOut,
                    .source = some_prefix(v4),
                    .destination = some_prefix(v4)};
    if (below(2) == 0) rule.protocol = below(2) == 0 ? kTcp : kUdp;
    if (rule.protocol) rule.source_ports = some_ports();
    if (rule.protocol) rule.destination_ports = some_ports();
    rules.push_back({below(2) == 0 ? table::kNoInterface : kEth0, rule});
  }
  const auto made = FilterTable::create(rules, {.interfaces = 4});
  ASSERT_TRUE(made) << made.error().what;

  const auto in = [](const std::optional<wire::IpPrefix>& prefix, const wire::IpAddr& addr) {
    return !prefix || (prefix->addr.is_v4() == addr.is_v4() && wire::contains(*prefix, addr));
  };
  const auto has = [](const std::optional<PortRange>& range, unsigned port) {
    return !range || (range->first <= port && port <= range->last);
  };
  for (unsigned i = 0; i < 3000; ++i) {
    const bool v4 = below(2) == 0;
    const auto some_address = [&] {
      return *wire::parse_ip(v4 ? fmt::format("10.{}.{}.{}", below(2), below(4), below(256))
                                : fmt::format("fd00:{}::{}", below(2), below(256)));
    };
    const wire::IpAddr src = some_address(), dst = some_address();
    const std::uint8_t protocol = below(2) == 0 ? kTcp : kUdp;
    const auto sport = static_cast<std::uint16_t>(below(12)),
               dport = static_cast<std::uint16_t>(below(12));
    const auto direction = below(2) == 0 ? kIn : kOut;
    const auto iface = static_cast<table::InterfaceId>(below(2));
    std::uint32_t expected = 0;
    for (std::size_t r = rules.size(); r-- > 0;) {
      const auto& [of, rule] = rules[r];
      if ((of == table::kNoInterface || of == iface) && rule.direction == direction &&
          rule.is_for(v4) && in(rule.source, src) && in(rule.destination, dst) &&
          (!rule.protocol || *rule.protocol == protocol) && has(rule.source_ports, sport) &&
          has(rule.destination_ports, dport))
        expected = static_cast<std::uint32_t>(r + 1);
    }
    std::uint32_t found = 0;
    std::uint32_t both = 0;
    const std::array<wire::Be16, 2> pair{wire::Be16{sport}, wire::Be16{dport}};
    std::memcpy(&both, pair.data(), sizeof(both));
    const FilterKeyHead head{protocol, {}, wire::Be16{iface}, direction, true};
    const FilterKey4 key4{head, wire::Be32{src.v4_host()}, wire::Be32{dst.v4_host()}, both};
    const FilterKey6 key6{head, src, dst, both};
    const auto* key = v4 ? reinterpret_cast<const std::uint8_t*>(&key4)
                         : reinterpret_cast<const std::uint8_t*>(&key6);
    if (v4)
      (*made)->classify4({&key, 1}, &found);
    else
      (*made)->classify6({&key, 1}, &found);
    ASSERT_EQ(found, expected) << wire::to_string(src) << " -> " << wire::to_string(dst);
  }
}

TEST_F(IpFilter, P23_AsManyRulesAsAreAllowed) {
  std::vector<NumberedRule> rules;
  for (std::size_t i = 0; i < kMaxFilterRules; ++i)
    rules.push_back({kEth0,
                     {.source = prefix(fmt::format("172.{}.{}.0/24", 16 + i / 256, i % 256)),
                      .protocol = kTcp,
                      .destination_ports = PortRange{80, 80}}});
  use(rules);
  EXPECT_FALSE(passes(packet("172.31.255.7", "10.0.0.2", kTcp, ports(1, 80))));
  EXPECT_EQ(counted(kMaxFilterRules - 1), 1U);
  EXPECT_TRUE(passes(packet("172.32.0.7", "10.0.0.2", kTcp, ports(1, 80))));
  rules.push_back(rules.front());
  EXPECT_FALSE(FilterTable::create(rules, {.interfaces = 1}));
}

TEST(FilterRuleTest, P23_RulesThatMakeNoSenseAreRefused) {
  using P = PortRange;
  EXPECT_EQ(fault_of({}), "");
  EXPECT_EQ(fault_of({.protocol = 132, .source_ports = P{1, 2}}), "");
  EXPECT_NE(fault_of({.source_ports = P{1, 2}}), "");
  EXPECT_NE(fault_of({.protocol = kIcmp, .destination_ports = P{1, 2}}), "");
  EXPECT_NE(fault_of({.protocol = kTcp, .destination_ports = P{3, 2}}), "");
  EXPECT_NE(fault_of({.source = prefix("10.0.0.0/8"), .destination = prefix("fd00::/8")}), "");
  EXPECT_FALSE(FilterTable::create(std::vector<NumberedRule>{{0, {.source_ports = P{1, 2}}}},
                                   {.interfaces = 1}));
}

}  // namespace
}  // namespace ipoib::fwd::test
