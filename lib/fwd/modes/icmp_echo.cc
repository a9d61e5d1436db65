// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/modes/icmp_echo.h"

#include <utility>

#include "lib/fwd/ip4_header.h"
#include "lib/fwd/ip_route.h"
#include "lib/fwd/modes/rxonly.h"

namespace ipoib::fwd {
namespace {

using wire::IcmpHdr;
using wire::IpProto;
using wire::Ipv4Hdr;
using wire::Ipv6Hdr;

constexpr std::uint8_t kReplyTtl = 64;
/// Message types of ICMP and ICMPv6.
constexpr std::uint8_t kRequest4 = static_cast<std::uint8_t>(wire::IcmpType::kEchoRequest);
constexpr std::uint8_t kReply4 = static_cast<std::uint8_t>(wire::IcmpType::kEchoReply);
constexpr std::uint8_t kRequest6 = 128, kReply6 = 129;

/// Returns the message behind `header_len` octets if it is a request and in the first segment.
IcmpHdr* request_behind(rte_mbuf* m, std::size_t header_len, std::uint8_t type) noexcept {
  if (m->data_len < header_len + sizeof(IcmpHdr)) return nullptr;
  auto* const icmp = rte_pktmbuf_mtod_offset(m, IcmpHdr*, header_len);
  return icmp->type == type && icmp->code == 0 ? icmp : nullptr;
}

/// Sets the type and updates the checksum without reading the data: HC' = HC + m - m', in ones'
/// complement and summed so that it is 0xffff instead of 0, which a message of zeros needs. Source:
/// RFC 1624.
void set_type(IcmpHdr& icmp, std::uint8_t type) noexcept {
  std::uint32_t sum = icmp.checksum.host();
  sum += std::uint32_t{icmp.type} << 8;
  sum += 0xffff - (std::uint32_t{type} << 8);
  icmp.checksum.set(wire::fold_carries(sum));
  icmp.type = type;
}

IcmpHdr* request_of(const Context& c, rte_mbuf* m, const Ipv4Hdr& hdr, std::uint32_t dst) noexcept {
  if (hdr.protocol != static_cast<std::uint8_t>(IpProto::kIcmp) || hdr.is_fragment())
    return nullptr;
  IcmpHdr* const request = request_behind(m, hdr.header_len(), kRequest4);
  if (request == nullptr) return nullptr;
  const auto kind = c.next_hops.get(c.prefixes.lookup(dst)).kind;
  return kind == table::NextHopKind::kBroadcast ? nullptr : request;
}

}  // namespace

void icmp_echo4(Context& c, const Ingress& in, const Ip4Burst& pkts) noexcept {
  Ip4Burst replies, rest;
  for (std::size_t i = 0; i < pkts.n; ++i) {
    rte_mbuf* const m = pkts.pkts[i];
    auto& hdr = *rte_pktmbuf_mtod(m, Ipv4Hdr*);
    IcmpHdr* const request = request_of(c, m, hdr, pkts.dst[i]);
    if (request == nullptr) {
      rest.push(m, pkts.dst[i]);
      continue;
    }
    set_type(*request, kReply4);
    std::swap(hdr.src, hdr.dst);
    hdr.ttl = kReplyTtl;
    set_ip4_checksum(hdr, hdr.header_len());
    replies.push(m, hdr.dst.host());
  }
  rxonly4(c, in, rest);
  ip4_route(c, in, replies, Ttl::kKeep);
}

void icmp_echo6(Context& c, const Ingress& in, const Ip6Burst& pkts) noexcept {
  Ip6Burst replies, rest;
  for (std::size_t i = 0; i < pkts.n; ++i) {
    rte_mbuf* const m = pkts.pkts[i];
    auto& hdr = *rte_pktmbuf_mtod(m, Ipv6Hdr*);
    IcmpHdr* const request = hdr.next_header == static_cast<std::uint8_t>(IpProto::kIcmpv6)
                                 ? request_behind(m, sizeof(hdr), kRequest6)
                                 : nullptr;
    if (request == nullptr) {
      rest.push(m, pkts.dst[i]);
      continue;
    }
    set_type(*request, kReply6);
    std::swap(hdr.src, hdr.dst);
    hdr.hop_limit = kReplyTtl;
    replies.push(m, hdr.dst);
  }
  rxonly6(c, in, rest);
  ip6_route(c, in, replies, Ttl::kKeep);
}

}  // namespace ipoib::fwd
