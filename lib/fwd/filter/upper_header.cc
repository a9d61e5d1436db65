// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/filter/upper_header.h"

#include <cstring>

#include "lib/fwd/filter/filter_rule.h"
#include "lib/fwd/ip6_header.h"

namespace ipoib::fwd {
namespace {

/// Protocol numbers of extension headers.
constexpr std::uint8_t kRouting = 43, kFragment = 44, kAuthentication = 51, kDestination = 60;
constexpr std::uint16_t kMoreFragments6 = 1, kOffsetMask6 = 0xfff8;

/// Reads what follows the last header. `first`: of several fragments.
void take_ports(const rte_mbuf* m, std::uint32_t at, bool first, UpperHeader& upper) noexcept {
  if (!has_ports(upper.protocol)) return;
  std::uint32_t copy;
  const void* const ports = rte_pktmbuf_read(m, at, sizeof(copy), &copy);
  if (ports == nullptr) {
    upper.hides_ports = first;
    return;
  }
  std::memcpy(&upper.ports, ports, sizeof(upper.ports));
  upper.has_ports = true;
}

UpperHeader hidden() noexcept {
  UpperHeader upper;
  upper.hides_ports = upper.hides_protocol = true;
  return upper;
}

}  // namespace

UpperHeader upper_header4(const rte_mbuf* m) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
  UpperHeader upper;
  upper.protocol = hdr.protocol;
  const std::uint16_t fragment = hdr.flags_offset.host();
  if ((fragment & wire::Ipv4Hdr::kOffsetMask) == 0)
    take_ports(m, static_cast<std::uint32_t>(hdr.header_len()),
               (fragment & wire::Ipv4Hdr::kMoreFragments) != 0, upper);
  return upper;
}

UpperHeader upper_header6(const rte_mbuf* m) noexcept {
  std::uint8_t next = rte_pktmbuf_mtod(m, const wire::Ipv6Hdr*)->next_header;
  std::uint32_t at = sizeof(wire::Ipv6Hdr);
  bool first = false;
  for (unsigned n = 0; n <= kMaxExtensions; ++n) {
    const bool options = next == kHopByHop || next == kRouting || next == kDestination;
    if (!options && next != kFragment && next != kAuthentication) {
      UpperHeader upper;
      upper.protocol = next;
      take_ports(m, at, first, upper);
      return upper;
    }
    std::uint8_t copy[4];
    const void* const header = rte_pktmbuf_read(m, at, sizeof(copy), copy);
    if (header == nullptr) break;
    std::memcpy(copy, header, sizeof(copy));
    if (next == kFragment) {
      const auto fragment = static_cast<std::uint16_t>(copy[2] << 8 | copy[3]);
      if ((fragment & kOffsetMask6) != 0) {
        UpperHeader upper;
        upper.protocol = copy[0];
        return upper;
      }
      first = first || (fragment & kMoreFragments6) != 0;
      at += 8;
    } else {
      at += next == kAuthentication ? (copy[1] + 2U) * 4 : (copy[1] + 1U) * 8;
    }
    next = copy[0];
  }
  return hidden();
}

}  // namespace ipoib::fwd
