// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/filter/upper_header.h"

#include <cstring>

#include "lib/fwd/filter/filter_rule.h"
#include "lib/fwd/ip6_header.h"

namespace ipoib::fwd {
namespace {

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
    const bool options = next == wire::kHopByHop || next == wire::kRoutingHeader ||
                         next == wire::kDestinationOptions;
    if (!options && next != wire::kFragmentHeader && next != wire::kAuthenticationHeader) {
      UpperHeader upper;
      upper.protocol = next;
      take_ports(m, at, first, upper);
      return upper;
    }
    const auto head = ExtensionHead::read(m, at);
    if (!head) break;
    if (next == wire::kFragmentHeader) {
      if (head->is_later_fragment()) {
        UpperHeader upper;
        upper.protocol = head->next;
        return upper;
      }
      first = first || head->more_fragments();
    }
    at += head->len(next);
    next = head->next;
  }
  return hidden();
}

}  // namespace ipoib::fwd
