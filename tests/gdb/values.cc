// SPDX-License-Identifier: BSD-3-Clause
// Values for the printers of config/gdb/ipoib.py; tests/check-gdb stops in show() and prints them.
#include <rte_mbuf.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "lib/fabric/packet_meta.h"
#include "lib/table/neighbour.h"
#include "lib/table/next_hop.h"
#include "lib/wire/ipoib.h"

namespace ipoib {
namespace {

[[gnu::noinline]] void show(const rte_mbuf& packet, const rte_mbuf& tail) {
  const wire::IpAddr v4 = wire::IpAddr::v4(0x0a00'0002);
  wire::IpAddr v6{};
  v6.bytes[0] = std::byte{0xfd};
  v6.bytes[15] = std::byte{0x2};
  const wire::IpPrefix prefix{wire::IpAddr::v4(0x0a00'0000), 24};
  const wire::Gid gid = wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'000a'0b01);
  const wire::MacAddr mac{std::byte{2}, {}, {}, {}, {}, std::byte{0xa0}};
  const wire::LinkAddr link_addr{0x80, wire::Be24{0x48}, gid};
  const wire::Be16 port{5201};
  const wire::Be32 seq{0x0102'0304};
  table::Neighbour ethernet;
  ethernet.addr = v4;
  ethernet.iface = 1;
  ethernet.state = table::NeighbourState::kValid;
  ethernet.mode = table::NeighbourMode::kEthernet;
  ethernet.mac = mac;
  ethernet.mtu = 1500;
  ethernet.last_used_s = 7;
  table::Neighbour ud = ethernet;
  ud.addr = v6;
  ud.mode = table::NeighbourMode::kUd;
  ud.ah = 3;
  ud.qpn = 0x48;
  const table::NextHop none;
  const table::NextHop connected{table::NextHopKind::kConnected, 0, 2, table::kNoNeighbour};
  const table::NextHop gateway{table::NextHopKind::kGateway, 0, 2, 9};
  const table::NextHop group{table::NextHopKind::kGroup, 4, 2, 100};
  asm volatile(""  // tests/check-gdb stops in this function, where all of these still exist
               :
               : "g"(&packet), "g"(&tail), "g"(&v4), "g"(&v6), "g"(&prefix), "g"(&link_addr),
                 "g"(&port), "g"(&seq), "g"(&ethernet), "g"(&ud), "g"(&none), "g"(&connected),
                 "g"(&gateway), "g"(&group)
               : "memory");
}

int run() {
  static std::array<std::byte, 64> octets{};
  for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = static_cast<std::byte>(i);
  static rte_mbuf packet, tail;  // their static storage is zero
  for (rte_mbuf* m : {&packet, &tail}) {
    m->buf_addr = octets.data();
    m->nb_segs = 1;
    rte_mbuf_refcnt_set(m, 1);
  }
  packet.data_off = 4;
  packet.data_len = 20;
  packet.pkt_len = 28;
  packet.nb_segs = 2;
  packet.port = 3;
  packet.next = &tail;
  tail.data_len = 8;
  tail.pkt_len = 8;
  fabric::packet_meta_offset = offsetof(rte_mbuf, dynfield1);
  fabric::meta_of(&packet) = {};
  fabric::meta_of(&packet).rx = {.src_qpn = 0x48,
                                 .slid = 2,
                                 .iface = 1,
                                 .sl = 0,
                                 .grh_offset = 60,
                                 .multicast = true,
                                 .transport = fabric::Transport::kUd};
  show(packet, tail);
  return 0;
}

}  // namespace
}  // namespace ipoib

int main() {
  return ipoib::run();
}
