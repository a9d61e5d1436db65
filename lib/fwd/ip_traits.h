// SPDX-License-Identifier: BSD-3-Clause
// The versions of IP, for stages that are templates over them. A stage adds what it needs by a type
// of its own that is derived from these.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "lib/fwd/context.h"
#include "lib/fwd/ip4_header.h"
#include "lib/wire/icmpv6.h"
#include "lib/wire/igmp.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {

struct Ip4Traits {
  using Hdr = wire::Ipv4Hdr;
  static constexpr bool kV4 = true;
  static constexpr wire::EtherType kType = wire::EtherType::kIpv4;
  static constexpr wire::IpAddr kAllRouters = wire::kIgmpAllRouters;

  /// IpAddr::v4() of an address in a header, without a swap.
  static wire::IpAddr mapped(const wire::Be32& addr) noexcept {
    static_assert(std::endian::native == std::endian::little);
    const std::uint64_t octets = std::bit_cast<std::uint32_t>(addr);
    return std::bit_cast<wire::IpAddr>(
        std::array<std::uint64_t, 2>{0, octets << 32 | 0xffff'0000ULL});
  }
  static wire::IpAddr source(const Hdr& hdr) noexcept { return mapped(hdr.src); }
  static wire::IpAddr destination(const Hdr& hdr) noexcept { return mapped(hdr.dst); }
  static table::NextHop route_to_source(const Context& c, const Hdr& hdr) noexcept {
    return c.next_hops.get(c.prefixes.lookup(hdr.src.host()));
  }
  /// True if packets from the source never leave its link: link-local or unspecified.
  static bool source_stays(const Hdr& hdr) noexcept {
    return is_link_local4(hdr.src.host()) || hdr.src.host() == 0;
  }
  static std::uint8_t hops(const Hdr& hdr) noexcept { return hdr.ttl; }
  static void decrement_hops(Hdr& hdr) noexcept { decrement_ttl(hdr); }
};

struct Ip6Traits {
  using Hdr = wire::Ipv6Hdr;
  static constexpr bool kV4 = false;
  static constexpr wire::EtherType kType = wire::EtherType::kIpv6;
  static constexpr wire::IpAddr kAllRouters = wire::all_routers();

  static wire::IpAddr source(const Hdr& hdr) noexcept { return hdr.src; }
  static wire::IpAddr destination(const Hdr& hdr) noexcept { return hdr.dst; }
  static table::NextHop route_to_source(const Context& c, const Hdr& hdr) noexcept {
    return c.next_hops.get(c.prefixes6.lookup(hdr.src));
  }
  static bool source_stays(const Hdr& hdr) noexcept {
    return wire::is_link_local6(hdr.src) || wire::is_unspecified(hdr.src);
  }
  static std::uint8_t hops(const Hdr& hdr) noexcept { return hdr.hop_limit; }
  static void decrement_hops(Hdr& hdr) noexcept { --hdr.hop_limit; }
};

/// The interface that leads to the source of the packet, or kNoInterface. If there are several
/// paths, management has chosen the interface consistently for all routers of a link.
template <class V>
[[nodiscard]] table::InterfaceId way_back(const Context& c, const typename V::Hdr& hdr) noexcept {
  const table::NextHop back = V::route_to_source(c, hdr);
  const bool leads_on = back.kind == table::NextHopKind::kConnected ||
                        back.kind == table::NextHopKind::kGateway ||
                        back.kind == table::NextHopKind::kGroup;
  return leads_on ? back.iface : table::kNoInterface;
}

/// True if the packet arrived on the interface that leads to its source.
template <class V>
[[nodiscard]] bool is_from_its_source(const Context& c, const Ingress& in,
                                      const typename V::Hdr& hdr) noexcept {
  return way_back<V>(c, hdr) == in.iface;
}

}  // namespace ipoib::fwd
