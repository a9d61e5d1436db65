// SPDX-License-Identifier: BSD-3-Clause
// Finds what filter rules compare behind the IP header: the protocol, and the ports.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "lib/wire/ip.h"

namespace ipoib::fwd {

struct UpperHeader {
  std::uint8_t protocol = 0;
  bool has_ports = false;
  std::uint32_t ports = 0;  ///< Source and destination port, in memory order; 0: has none.
  /// The first fragment of a datagram, which does not contain all that rules compare: ports, or
  /// the end of the chain of IPv6 headers. Also an IPv6 packet with a chain that is cut off or has
  /// more than kMaxExtensions headers.
  bool hides_ports = false;
  bool hides_protocol = false;
};

/// Extension headers that are looked through.
inline constexpr unsigned kMaxExtensions = 8;

/// Take packets that start at their checked IP header, in any segments. Fragments other than the
/// first have no ports. In IPv6, hop-by-hop options, routing header, destination options,
/// authentication header and fragment header are looked through.
/// Source: RFC 791 §3.1; RFC 1858 §3; RFC 8200 §4; RFC 4302 §2; RFC 7112 §5.
[[nodiscard]] UpperHeader upper_header4(const rte_mbuf* m) noexcept;
[[nodiscard]] UpperHeader upper_header6(const rte_mbuf* m) noexcept;

}  // namespace ipoib::fwd
