#include "lib/fwd/eth_input.h"

#include <rte_ether.h>
#include <rte_prefetch.h>

#include <bit>
#include <cstring>

#include "lib/fabric/packet_meta.h"

namespace ipoib::fwd {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::uint64_t kMacMask = 0x0000'ffff'ffff'ffffULL;
constexpr std::uint16_t be(wire::EtherType type) {
  return __builtin_bswap16(static_cast<std::uint16_t>(type));
}

/// First six octets of eight, as one number.
std::uint64_t mac_at(const std::byte* p) {
  std::uint64_t mac;
  std::memcpy(&mac, p, sizeof(mac));
  return mac & kMacMask;
}

/// Two loads put together: eight octets loaded right after six were stored would wait for all
/// stores before.
std::uint64_t mac_of(const wire::MacAddr& addr) {
  std::uint32_t low;
  std::uint16_t high;
  std::memcpy(&low, addr.data(), sizeof(low));
  std::memcpy(&high, addr.data() + sizeof(low), sizeof(high));
  return std::uint64_t{high} << 32 | low;
}

/// What is neither IPv4 nor lost.
void other_type(Context& c, const Ingress& in, rte_mbuf* m, std::uint16_t type, DropBin& bin) {
  switch (type) {
    case be(wire::EtherType::kArp):
      fabric::meta_of(m).rx = {};
      fabric::meta_of(m).rx.iface = in.iface;
      c.punt.arp(in, m);
      return;
    case be(wire::EtherType::kIpv6): return bin.add(m, Drop::kIp6Unsupported);
    default: return bin.add(m, Drop::kEthUnknownType);
  }
}

}  // namespace

void eth_input(Context& c, const Ingress& in, const InterfaceEntry& entry,
               std::span<rte_mbuf* const> pkts, InputBursts& out) noexcept {
  const std::uint64_t own = mac_of(entry.mac);
  DropBin bin{in.counters.drops};
  std::uint64_t octets = 0;
  std::uint16_t n = 0;
  for (rte_mbuf* m : pkts) {
    if (m->data_len < RTE_ETHER_HDR_LEN) [[unlikely]] {
      bin.add(m, Drop::kEthRunt);
      continue;
    }
    const auto* const frame = rte_pktmbuf_mtod(m, const std::byte*);
    const std::uint64_t dst = mac_at(frame);
    std::uint16_t type;
    std::memcpy(&type, frame + 2 * RTE_ETHER_ADDR_LEN, sizeof(type));
    strip(m, RTE_ETHER_HDR_LEN);
    octets += m->pkt_len;

    if (dst != own && dst != kMacMask) [[unlikely]]
      bin.add(m, Drop::kEthNotForUs);
    else if (type != be(wire::EtherType::kIpv4)) [[unlikely]]
      other_type(c, in, m, type, bin);
    else if (dst != own) [[unlikely]]
      out.ip_broadcast.push(m);
    else
      out.ip.pkts[n++] = m;
  }
  out.ip.n = n;
  in.counters.rx_bytes.add(octets);
}

}  // namespace ipoib::fwd
