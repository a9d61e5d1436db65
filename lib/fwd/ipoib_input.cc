#include "lib/fwd/ipoib_input.h"

#include <cstring>

#include "lib/fabric/packet_meta.h"
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
    case EtherType::kIpv6: return bin.add(m, Drop::kIp6Unsupported);
    default: return bin.add(m, Drop::kIpoibUnknownType);
  }
}

}  // namespace

void ipoib_input(Context& c, const Ingress& in, std::span<rte_mbuf* const> pkts,
                 InputBursts& out) noexcept {
  DropBin bin{in.counters.drops};
  std::uint64_t octets = 0;
  std::uint16_t n = 0;
  for (rte_mbuf* m : pkts) {
    if (m->data_len < sizeof(wire::IpoibHdr)) [[unlikely]] {
      bin.add(m, Drop::kIpoibRunt);
      continue;
    }
    const std::uint16_t type = rte_pktmbuf_mtod(m, const wire::IpoibHdr*)->type.host();
    strip(m, sizeof(wire::IpoibHdr));
    octets += m->pkt_len;

    if (EtherType{type} != EtherType::kIpv4) [[unlikely]]
      other_type(c, in, m, type, bin);
    else if (fabric::meta_of(m).rx.multicast) [[unlikely]]
      out.ip_broadcast.push(m);
    else
      out.ip.pkts[n++] = m;
  }
  out.ip.n = n;
  in.counters.rx_bytes.add(octets);
}

}  // namespace ipoib::fwd
