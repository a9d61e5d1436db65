// SPDX-License-Identifier: BSD-3-Clause
// Flow hash: all packets of a flow share it, and it chooses among the paths of an ECMP group.
#pragma once

#include <rte_mbuf.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "lib/fwd/ip6_header.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// XOR of both halves of a product: each bit of the result depends on all bits of both factors.
inline std::uint64_t fold_product(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Takes in the words of a flow two at a time. Both factors of a product contain the seed, so that
/// an attacker who does not know it cannot choose flows that share a path.
class FlowHash {
 public:
  explicit FlowHash(std::uint64_t seed) noexcept : left_{seed ^ kLeft}, right_{seed ^ kRight} {}

  void add(std::uint64_t a, std::uint64_t b) noexcept {
    state_ = fold_product(a ^ left_ ^ state_, b + right_ + std::rotl(state_, 32));
  }
  [[nodiscard]] std::uint32_t value() const noexcept {
    return static_cast<std::uint32_t>(fold_product(state_ ^ right_, left_ | 1) >> 32);
  }

 private:
  static constexpr std::uint64_t kLeft = 0x9e37'79b9'7f4a'7c15ULL;
  static constexpr std::uint64_t kRight = 0xc2b2'ae3d'27d4'eb4fULL;

  std::uint64_t left_;
  std::uint64_t right_;
  std::uint64_t state_ = 0;
};

/// Returns the four octets of both ports; 0 if the packet has none within its first segment. `at`:
/// octets before them.
inline std::uint32_t ports_of(const rte_mbuf* m, std::uint8_t protocol, std::size_t at) noexcept {
  const bool has_ports = protocol == static_cast<std::uint8_t>(wire::IpProto::kTcp) ||
                         protocol == static_cast<std::uint8_t>(wire::IpProto::kUdp);
  std::uint32_t both = 0;
  if (has_ports && m->data_len >= at + sizeof(both))
    std::memcpy(&both, rte_pktmbuf_mtod_offset(m, const std::byte*, at), sizeof(both));
  return both;
}

/// Hashes addresses, protocol and, except for fragments, ports. The header stands `at` octets from
/// the start; its 20 octets must be in the first segment, and may have any value.
inline std::uint32_t flow_hash4(const rte_mbuf* m, std::uint64_t seed,
                                std::size_t at = 0) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod_offset(m, const wire::Ipv4Hdr*, at);
  const std::uint32_t ports =
      hdr.is_fragment() ? 0 : ports_of(m, hdr.protocol, at + hdr.header_len());
  FlowHash hash{seed};
  hash.add(std::uint64_t{hdr.src.host()} << 32 | hdr.dst.host(),
           std::uint64_t{ports} << 8 | hdr.protocol);
  return hash.value();
}

/// Hashes addresses, flow label, next header and, if they follow the IPv6 header, ports. The header
/// is as in flow_hash4(), with 40 octets. Source: RFC 6438 §3.
inline std::uint32_t flow_hash6(const rte_mbuf* m, std::uint64_t seed,
                                std::size_t at = 0) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod_offset(m, const wire::Ipv6Hdr*, at);
  const Ip6Words src = words_of(hdr.src), dst = words_of(hdr.dst);
  const std::uint32_t label = hdr.version_class_flow.host() & 0xf'ffff;
  FlowHash hash{seed};
  hash.add(src.high, src.low);
  hash.add(dst.high, dst.low);
  hash.add(std::uint64_t{ports_of(m, hdr.next_header, at + sizeof(hdr))} << 8 | hdr.next_header,
           label);
  return hash.value();
}

}  // namespace ipoib::fwd
