#include "lib/fwd/ip4_input.h"

#include <array>
#include <cstdint>

#include "lib/fwd/ip4_header.h"
#include "lib/fwd/ip_trim.h"

namespace ipoib::fwd {
namespace {

using wire::Ipv4Hdr;

/// Instead of a reason: nothing is wrong.
constexpr Drop kGood = Drop::kCount;

/// Checks (4), (5) and (2) of RFC 1812 §5.2.2. All of the header must be in the first segment.
[[gnu::always_inline]] inline Drop check_rest(const rte_mbuf* m, const Ipv4Hdr& hdr,
                                              std::size_t header_len) noexcept {
  if (header_len < sizeof(Ipv4Hdr) || header_len > m->data_len) return Drop::kIpHeaderLength;
  const std::size_t total_len = hdr.total_len.host();
  if (total_len < header_len || total_len > m->pkt_len) [[unlikely]]
    return Drop::kIpTotalLength;
  if (ip4_header_sum(hdr, header_len) != 0xffff) [[unlikely]]
    return Drop::kIpChecksum;
  return kGood;
}

[[gnu::noinline]] Drop check_unusual_header(const rte_mbuf* m, const Ipv4Hdr& hdr) noexcept {
  if (hdr.version() != 4) return Drop::kIpVersion;  // (3)
  return check_rest(m, hdr, hdr.header_len());
}

/// Checks of RFC 1812 §5.2.2 by their numbers.
[[gnu::always_inline]] inline Drop check_header(const rte_mbuf* m) noexcept {
  if (m->data_len < sizeof(Ipv4Hdr)) [[unlikely]]
    return Drop::kIpRunt;  // (1)
  const auto& hdr = *rte_pktmbuf_mtod(m, const Ipv4Hdr*);
  if (hdr.version_ihl != 0x45) [[unlikely]]
    return check_unusual_header(m, hdr);
  return check_rest(m, hdr, sizeof(Ipv4Hdr));
}

/// First octets of addresses that need a closer look, as source or as destination.
constexpr auto kOdd = [] {
  std::array<bool, 256> odd{};
  odd[0] = odd[127] = odd[169] = true;
  for (std::size_t i = 224; i < 256; ++i) odd[i] = true;
  return odd;
}();

constexpr bool is_link_local(std::uint32_t addr) {
  return addr >> 16 == 0xa9fe;
}

/// Hosts that have no address yet tell what groups they want. Source: RFC 3376 §4.2.13.
constexpr bool may_lack_source(const Ipv4Hdr& hdr, std::uint32_t dst) {
  return hdr.protocol == static_cast<std::uint8_t>(wire::IpProto::kIgmp) && dst >> 28 == 0xe;
}

/// For addresses of which one is odd. Link-local ones are good for local delivery only.
[[gnu::noinline]] Drop check_addresses(const Context& c, const Ipv4Hdr& hdr, std::uint32_t src,
                                       std::uint32_t dst) noexcept {
  if (dst == 0xffff'ffff) return Drop::kIpBroadcast;
  const std::uint32_t src_net = src >> 24;
  const bool lacks_source = src == 0 && may_lack_source(hdr, dst);
  if ((src_net == 0 && !lacks_source) || src_net == 127 || src_net >= 224)
    return Drop::kIpMartianSource;
  const std::uint32_t dst_net = dst >> 24;
  if (dst_net >= 224 && dst_net < 240) return Drop::kIpMulticast;
  if (dst_net == 0 || dst_net == 127 || dst_net >= 240) return Drop::kIpMartianDestination;
  if (is_link_local(src) || is_link_local(dst)) {
    const table::NextHop hop = c.next_hops.get(c.prefixes.lookup(dst));
    if (hop.kind == table::NextHopKind::kLocal) return kGood;
    return is_link_local(src) ? Drop::kIpMartianSource : Drop::kIpMartianDestination;
  }
  return kGood;
}

/// kIpMulticast: for the groups; else lost.
[[gnu::noinline]] void odd_packet(rte_mbuf* m, Drop reason, Burst& groups, DropBin& bin) noexcept {
  if (reason != Drop::kIpMulticast) return bin.add(m, reason);
  const std::uint16_t total_len = rte_pktmbuf_mtod(m, const Ipv4Hdr*)->total_len.host();
  if (total_len != m->pkt_len) trim(m, total_len);
  groups.push(m);
}

Drop check_addresses_if_odd(const Context& c, const Ipv4Hdr& hdr, std::uint32_t dst) noexcept {
  const std::uint32_t src = hdr.src.host();
  if (kOdd[src >> 24] + kOdd[dst >> 24] == 0) [[likely]]
    return kGood;
  return check_addresses(c, hdr, src, dst);
}

}  // namespace

void ip4_input(Context& c, const Ingress& in, std::span<rte_mbuf* const> pkts, Ip4Burst& out,
               Burst& groups) noexcept {
  DropBin bin{in.counters.drops};
  std::uint16_t n = 0;
  for (rte_mbuf* m : pkts) {
    Drop reason = check_header(m);
    if (reason != kGood) [[unlikely]] {
      bin.add(m, reason);
      continue;
    }
    const auto& hdr = *rte_pktmbuf_mtod(m, const Ipv4Hdr*);
    const std::uint32_t dst = hdr.dst.host();
    reason = check_addresses_if_odd(c, hdr, dst);
    if (reason != kGood) [[unlikely]] {
      odd_packet(m, reason, groups, bin);
      continue;
    }
    if (const std::uint16_t total_len = hdr.total_len.host(); total_len != m->pkt_len)
      trim(m, total_len);
    out.pkts[n] = m;
    out.dst[n++] = dst;
  }
  out.n = n;
}

void ip4_input_broadcast(Context& c, const Ingress& in, std::span<rte_mbuf* const> pkts,
                         Burst& groups) noexcept {
  DropBin bin{in.counters.drops};
  for (rte_mbuf* m : pkts) {
    Drop reason = check_header(m);
    if (reason == kGood) {
      const auto& hdr = *rte_pktmbuf_mtod(m, const Ipv4Hdr*);
      reason = check_addresses_if_odd(c, hdr, hdr.dst.host());
    }
    odd_packet(m, reason == kGood ? Drop::kIpBroadcast : reason, groups, bin);
  }
}

}  // namespace ipoib::fwd
