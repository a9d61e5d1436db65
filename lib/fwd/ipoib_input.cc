// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ipoib_input.h"

#include <algorithm>
#include <cstring>

#include "lib/fabric/packet_meta.h"
#include "lib/fwd/ip4_input.h"
#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"

namespace ipoib::fwd {
namespace {

using wire::EtherType;

void other_type(Context& c, const Ingress& in, rte_mbuf* m, std::uint16_t type, DropBin& bin) {
  switch (EtherType{type}) {
    case EtherType::kArp:
    case EtherType::kRarp:
      fabric::meta_of(m).rx.iface = in.iface;
      c.punt.arp(in, m);
      return;
    default: return bin.add(m, Drop::kIpoibUnknownType);
  }
}

/// True if this link sent the packet and the fabric returned it. Source GID and QPN together
/// identify the link, because several ports may share a LID, and several links a port. `m`
/// starts at its IPoIB header.
bool is_own_multicast(const InterfaceEntry& entry, rte_mbuf* m) {
  const auto& rx = fabric::meta_of(m).rx;
  const auto has_qpn = [&rx](const fabric::UdQueue* q) { return q->qpn() == rx.src_qpn; };
  if (std::ranges::none_of(entry.ud_queues, has_qpn)) return false;
  if (rx.grh_offset < sizeof(wire::Grh) || rx.grh_offset > m->data_off) return false;
  wire::Grh grh;
  std::memcpy(&grh, rte_pktmbuf_mtod(m, const std::byte*) - rx.grh_offset, sizeof(grh));
  return entry.is_own(grh.sgid);
}

[[gnu::noinline]] void not_unicast(Context& c, const Ingress& in, const InterfaceEntry& entry,
                                   rte_mbuf* m, std::uint16_t type, InputBursts& out,
                                   DropBin& bin) {
  const bool own = is_own_multicast(entry, m);
  strip(m, sizeof(wire::IpoibHdr));
  if (own)
    bin.add(m, Drop::kIpoibOwnMulticast);
  else if (EtherType{type} == EtherType::kIpv4)
    Ip4Input::broadcast(c, in, m, out.ip4_groups, bin);
  else if (EtherType{type} == EtherType::kIpv6)
    out.ip6_multicast.push(m);
  else
    other_type(c, in, m, type, bin);
}

/// The type of a packet with the header of RFC 4391.
struct TypeFirst {
  [[gnu::always_inline]] static std::uint16_t type_of(const rte_mbuf* m) noexcept {
    return rte_pktmbuf_mtod(m, const wire::IpoibHdr*)->type.host();
  }
};

/// The type of a packet with the header of 2001. The draft's table gives IBARP the type of the
/// address family that is resolved, so that a record may come as IPv4. Its first octet, the upper
/// half of a hardware type below 0x1000, is no version of IP. Source:
/// draft-pelissier-ipoib-encaparp-00 §6.4.
struct TypeLast {
  static std::uint16_t type_of(const rte_mbuf* m) noexcept {
    const auto* const hdr = rte_pktmbuf_mtod(m, const wire::IbarpHdr*);
    const std::uint16_t type = hdr->type.host();
    if (EtherType{type} != EtherType::kIpv4 || m->data_len == sizeof(*hdr)) return type;
    const auto first = *rte_pktmbuf_mtod_offset(m, const std::uint8_t*, sizeof(*hdr));
    return first >> 4 != 0 ? type : static_cast<std::uint16_t>(EtherType::kArp);
  }
};

template <class Header>
void input_of(Context& c, const Ingress& in, const InterfaceEntry& entry,
              std::span<rte_mbuf* const> pkts, InputBursts& out) noexcept {
  DropBin bin{c.trace, in.counters.drops};
  Ip4Input ip4{c, in, out.ip4, out.ip4_groups, bin};
  const fabric::MetaOf meta_of;
  std::uint64_t octets = 0;
  for (rte_mbuf* m : pkts) {
    if (m->data_len < sizeof(wire::IpoibHdr)) [[unlikely]] {
      bin.add(m, Drop::kIpoibRunt);
      continue;
    }
    const std::uint16_t type = Header::type_of(m);
    octets += m->pkt_len - sizeof(wire::IpoibHdr);
    if (meta_of(m).rx.multicast) [[unlikely]] {
      not_unicast(c, in, entry, m, type, out, bin);
      continue;
    }
    strip(m, sizeof(wire::IpoibHdr));
    if (EtherType{type} == EtherType::kIpv4) [[likely]]
      ip4.unicast(m);
    else if (EtherType{type} == EtherType::kIpv6)
      out.ip6.push(m);
    else
      other_type(c, in, m, type, bin);
  }
  in.counters.rx_bytes.add(octets);
}

}  // namespace

void ipoib_input(Context& c, const Ingress& in, const InterfaceEntry& entry,
                 std::span<rte_mbuf* const> pkts, InputBursts& out) noexcept {
  expects_input_shape(pkts, out);
  if (entry.encapsulation == wire::Encapsulation::kTypeFirst) [[likely]]
    input_of<TypeFirst>(c, in, entry, pkts, out);
  else
    input_of<TypeLast>(c, in, entry, pkts, out);
}

}  // namespace ipoib::fwd
