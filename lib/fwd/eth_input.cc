// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/eth_input.h"

#include <rte_ether.h>
#include <rte_prefetch.h>

#include <cstring>

#include "lib/fabric/packet_meta.h"
#include "lib/fabric/segments.h"
#include "lib/fwd/ip4_input.h"
#include "lib/fwd/mac_number.h"
#include "lib/fwd/unshare.h"

namespace ipoib::fwd {
namespace {

/// Undoes strip() of the Ethernet header.
rte_mbuf* with_header(rte_mbuf* m) {
  [[maybe_unused]] const bool done = prepend(m, RTE_ETHER_HDR_LEN);
  expects(done, "the header is in front");
  return m;
}

constexpr std::uint16_t be(wire::EtherType type) {
  return __builtin_bswap16(static_cast<std::uint16_t>(type));
}

/// Punts ARP and RARP; drops all other types.
void other_type(Context& c, const Ingress& in, rte_mbuf* m, std::uint16_t type, DropBin& bin) {
  switch (type) {
    case be(wire::EtherType::kArp):
    case be(wire::EtherType::kRarp):
      fabric::meta_of(m).rx = {};
      fabric::meta_of(m).rx.iface = in.iface;
      c.punt.arp(in, m);
      return;
    default: return bin.add(m, Drop::kEthUnknownType);
  }
}

/// True for the group addresses of LLDP (IEEE 802.1AB), 01:80:c2:00:00:00, :03 and :0e.
bool is_lldp_group(std::uint64_t dst) {
  constexpr std::uint64_t kFirst = 0xc2'8001;
  const std::uint64_t last = dst >> 40;
  return (dst & 0xff'ffff'ffff) == kFirst && (last == 0 || last == 3 || last == 0xe);
}

/// Accepts frames to the broadcast address, or to a group address of the IP version they carry.
/// LLDP is for Linux.
[[gnu::noinline]] void not_unicast(Context& c, const Ingress& in, rte_mbuf* m, std::uint64_t dst,
                                   std::uint16_t type, InputBursts& out, DropBin& bin) {
  constexpr std::uint64_t kMac4 = 0x5e'0001, kMac6 = 0x3333;  // 01:00:5e, 33:33
  const bool broadcast = dst == kMacMask;
  if (type == be(wire::EtherType::kIpv4) && (broadcast || (dst & 0xff'ffff) == kMac4))
    Ip4Input::broadcast(c, in, m, out.ip4_groups, bin);
  else if (type == be(wire::EtherType::kIpv6) && (broadcast || (dst & 0xffff) == kMac6))
    out.ip6_multicast.push(m);
  else if (broadcast)
    other_type(c, in, m, type, bin);
  else if (type == be(wire::EtherType::kLldp) && is_lldp_group(dst) &&
           c.interfaces[in.iface].mirrored.load(std::memory_order_relaxed))
    c.punt.link_frame(in, with_header(m));
  else
    bin.add(m, Drop::kEthNotForUs);
}

}  // namespace

void eth_input(Context& c, const Ingress& in, const InterfaceEntry& entry,
               std::span<rte_mbuf* const> pkts, InputBursts& out) noexcept {
  expects_input_shape(pkts, out);
  const std::uint64_t own = mac_of(entry.mac);
  DropBin bin{c.trace, in.counters.drops};
  Ip4Input ip4{c, in, out.ip4, out.ip4_groups, bin};
  std::uint64_t octets = 0;
  for (rte_mbuf* m : pkts) {
    if (m->data_len < RTE_ETHER_HDR_LEN) [[unlikely]] {
      bin.add(m, Drop::kEthRunt);
      continue;
    }
    if (!fabric::is_sole_mbuf(m)) [[unlikely]] {
      m = unshare(c, m, bin);
      if (m == nullptr) continue;
    }
    const auto* const frame = rte_pktmbuf_mtod(m, const std::byte*);
    const std::uint64_t dst = mac_at(frame);
    std::uint16_t type;
    std::memcpy(&type, frame + 2 * RTE_ETHER_ADDR_LEN, sizeof(type));
    strip(m, RTE_ETHER_HDR_LEN);
    octets += m->pkt_len;

    if (dst != own) [[unlikely]]
      not_unicast(c, in, m, dst, type, out, bin);
    else if (type == be(wire::EtherType::kIpv4)) [[likely]]
      ip4.unicast(m);
    else if (type == be(wire::EtherType::kIpv6))
      out.ip6.push(m);
    else
      other_type(c, in, m, type, bin);
  }
  in.counters.rx_bytes.add(octets);
}

}  // namespace ipoib::fwd
