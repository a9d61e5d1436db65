// SPDX-License-Identifier: BSD-3-Clause
// Stage ip4_input: passes on only well-formed IPv4 packets that may be forwarded or delivered. It
// takes packets one by one from the input stage of their link, while the header is in the cache.
#pragma once

#include <array>
#include <cstdint>

#include "lib/base/contract.h"
#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/fwd/ip4_header.h"
#include "lib/fwd/ip_trim.h"

namespace ipoib::fwd {

/// Takes packets that start at their IPv4 header and trims the octets behind the total length
/// (padding of the link). Packets that pass go to `out`, those for groups to `groups`.
///
/// Shape:  room for all packets in both; order is kept within each.
/// Errors: kIpRunt, kIpVersion, kIpHeaderLength, kIpTotalLength, kIpChecksum, kIpMartianSource,
///         kIpMartianDestination, kIpBroadcast, kIpSourceRoute (unicast: its sender gets an ICMP
///         error, unless rules drop the packet: kIpFilter), kIpOption (Context::header_rules). Options
///         that pass stay unchanged.
/// Source: RFC 1812 §5.2.2, §5.3.7; RFC 7126 §4; RFC 3927 §7; RFC 6890.
class Ip4Input {
 public:
  Ip4Input(Context& c, const Ingress& in, Ip4Burst& out, Burst& groups, DropBin& bin) noexcept
      : c_{c},
        in_{in},
        out_{out},
        groups_{groups},
        bin_{bin},
        prefixes_{c.prefixes.view()},
        n_{out.n} {}
  Ip4Input(const Ip4Input&) = delete;
  Ip4Input& operator=(const Ip4Input&) = delete;
  ~Ip4Input() { out_.n = n_; }

  [[gnu::always_inline]] void unicast(rte_mbuf* m) noexcept {
    if (!is_common(m) && !admit(c_, in_, m, bin_)) [[unlikely]]
      return;
    const auto& hdr = *rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
    const std::uint32_t dst = hdr.dst.host();
    prefixes_.prefetch(dst);
    if (is_special(c_, hdr, dst)) [[unlikely]]
      if (const Drop reason = check_addresses(c_, hdr, dst); reason != Drop::kNone)
        return special_packet(m, reason, groups_, bin_);
    expects(n_ < kMaxBurst, "there is room for all packets");
    out_.pkts[n_] = m;
    out_.dst[n_++] = dst;
  }

  /// For packets that arrived by link-layer broadcast or multicast. A packet that is not for a
  /// group is dropped, under its fault or as kIpBroadcast: such packets are never forwarded, nor
  /// accepted as unicast for this node. Source: RFC 1812 §5.3.4, RFC 1122 §3.3.6. Those for all hosts
  /// of an interface that Linux mirrors go there; they may lack a source (DHCP).
  static void broadcast(Context& c, const Ingress& in, rte_mbuf* m, Burst& groups,
                        DropBin& bin) noexcept;

 private:
  /// First octets of addresses that need a closer check, as source or as destination.
  static constexpr auto kSpecial = [] {
    std::array<bool, 256> special{};
    special[0] = special[127] = special[169] = true;
    for (std::size_t i = 224; i < 256; ++i) special[i] = true;
    return special;
  }();
  /// True if either address needs a closer check, by its first octet or because the source may be
  /// this node's.
  static bool is_special(const Context& c, const wire::Ipv4Hdr& hdr, std::uint32_t dst) noexcept {
    const std::uint32_t src = hdr.src.host();
    return kSpecial[src >> 24] || kSpecial[dst >> 24] || c.own_addresses.perhaps_v4(src);
  }

  /// The common case: well-formed, without options or padding.
  [[gnu::always_inline]] static bool is_common(const rte_mbuf* m) noexcept {
    if (m->data_len < sizeof(wire::Ipv4Hdr)) [[unlikely]]
      return false;
    const auto& hdr = *rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
    if (hdr.version_ihl != 0x45 || hdr.total_len.host() != m->pkt_len) [[unlikely]]
      return false;
    return plain_ip4_checksum_is_valid(hdr);
  }
  /// Checks any other packet and trims its padding. Returns false if it is dropped.
  static bool admit(Context& c, const Ingress& in, rte_mbuf* m, DropBin& bin) noexcept;

  static Drop check_header(const rte_mbuf* m) noexcept;
  static Drop check_addresses(const Context& c, const wire::Ipv4Hdr& hdr,
                              std::uint32_t dst) noexcept;
  static void special_packet(rte_mbuf* m, Drop reason, Burst& groups, DropBin& bin) noexcept;

  Context& c_;
  const Ingress& in_;
  Ip4Burst& out_;
  Burst& groups_;
  DropBin& bin_;
  const table::PrefixTable::View prefixes_;
  std::uint16_t n_;  ///< Copy of out_.n that the compiler can keep in a register.
};

}  // namespace ipoib::fwd
