// SPDX-License-Identifier: BSD-3-Clause
// A worker that gets and sends packets to groups, in IPv4 and IPv6.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {

inline constexpr fabric::AhIndex kGroupAh = 50, kRoutersAh = 60;
inline constexpr std::uint32_t kMulticastQpn = 0xff'ffff;
inline const wire::Gid kOwnGid = wire::Gid::of(0xfe80'0000'0000'0000, 0x0002'c903'000a'0b01);

constexpr std::uint64_t bits(std::initializer_list<table::InterfaceId> ids) {
  std::uint64_t out = 0;
  for (const table::InterfaceId id : ids) out |= std::uint64_t{1} << id;
  return out;
}

/// A multicast stream; there is one of IPv4 and one of IPv6.
struct Stream {
  const char* group;
  const char* source;
  const char* routers;
  bool v6;

  [[nodiscard]] Bytes packet(std::uint8_t hops = 64, std::size_t len = 100) const {
    return packet_to(group, hops, len);
  }
  [[nodiscard]] Bytes packet_to(const char* to, std::uint8_t hops = 64,
                                std::size_t len = 100) const {
    if (v6)
      return Ip6{.src = source, .dst = to, .hop_limit = hops, .body = Bytes(len - 40)}.bytes();
    return Ip4{.src = source, .dst = to, .ttl = hops, .payload_len = len - 20}.bytes();
  }
  [[nodiscard]] std::uint16_t type() const { return v6 ? 0x86dd : 0x0800; }
};

class Multicast : public WorkerFixture, public testing::WithParamInterface<Stream> {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    entries[kIb0].set_gid(kOwnGid);
    links[0].first_group = kGroupAh;
    start();
  }
  /// Packets to the group of the stream go from one interface to the other.
  void forward(table::InterfaceId from, table::InterfaceId to) {
    set_delivery(from, s.group, false, bits({to}));
    join(to, s.group, kGroupAh);
  }
  void remove_delivery(table::InterfaceId in) {
    msg::Down remove{};
    remove.kind = msg::Down::Kind::kDeliveryRemove;
    remove.delivery = {*wire::parse_ip(s.group), {}, in};
    send_down(remove);
    loop();
  }
  /// Adds the group's neighbour entry on an interface.
  void join(table::InterfaceId iface, const char* group, fabric::AhIndex ah,
            std::uint16_t mtu = 2044, table::NeighbourState state = table::NeighbourState::kValid) {
    table::Neighbour n = iface < kIb0 ? eth_neighbour(iface, group, group_mac(group))
                                      : ib_neighbour(iface, group, ah, kMulticastQpn);
    n.mtu = mtu;
    n.state = state;
    set_neighbour(next_++, n);
    loop();
  }
  static wire::MacAddr group_mac(const char* group) {
    return wire::group_mac(*wire::parse_ip(group));
  }
  void feed_link(const Bytes& ip, table::InterfaceId iface = kIb0) {
    feed(iface, encapsulated(s.type(), ip), true);
  }
  void feed_port(const Bytes& ip) {
    feed(kEth0, ethernet(group_mac(s.group), mac(0x10), s.type(), ip));
  }
  Bytes on_link(const Bytes& ip) const { return encapsulated(s.type(), ip); }
  Bytes on_port(table::InterfaceId iface, const Bytes& ip) const {
    return ethernet(group_mac(s.group), mac(static_cast<std::uint8_t>(0xa0 + iface)), s.type(), ip);
  }
  /// This node sends a packet on ib0.
  void send_own(const Bytes& ip) {
    send_on_interface(ip, kIb0);
    loop();
  }

  const Stream& s = GetParam();
  table::NeighbourIndex next_ = 0;
};

inline const auto kStreams = testing::Values(Stream{"239.1.2.3", "10.0.0.9", "224.0.0.2", false},
                                             Stream{"ff0e::123", "fd00:a::9", "ff02::2", true});
inline constexpr auto kStreamName = [](const auto& row) { return row.param.v6 ? "IPv6" : "IPv4"; };

}  // namespace ipoib::fwd::test
