// SPDX-License-Identifier: BSD-3-Clause
// The kernel's links, addresses, next-hop objects and routes in messages of rtnetlink. Pure functions
// without state. Source: rtnetlink(7), and the headers of Linux for it and for next-hop objects.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/wire/ip.h"

struct nlmsghdr;

namespace ipoib::mgmt {

struct KernelLink {
  std::int32_t ifindex = 0;
  std::string name;       ///< Printable characters only; others are replaced.
  std::uint32_t mtu = 0;  ///< Octets; 0: the kernel does not say.
  bool up = false;        ///< An administrator enabled it.
  bool carrier = false;

  friend bool operator==(const KernelLink&, const KernelLink&) = default;
};

struct KernelAddress {
  wire::IpPrefix prefix;             ///< The address itself with the length of its network.
  std::optional<wire::IpAddr> peer;  ///< The other end of a point-to-point link.
  bool no_dad = false;  ///< Added without duplicate address detection; no part of the identity.

  friend std::strong_ordering operator<=>(const KernelAddress& a, const KernelAddress& b) {
    const std::strong_ordering prefixes = a.prefix <=> b.prefix;
    return prefixes != 0 ? prefixes : a.peer <=> b.peer;
  }
  friend bool operator==(const KernelAddress& a, const KernelAddress& b) {
    return a.prefix == b.prefix && a.peer == b.peer;
  }
};

/// One way of a route.
struct KernelPath {
  std::int32_t ifindex = 0;
  std::optional<wire::IpAddr>
      via;              ///< The gateway, in any family; none: the network is on the link.
  unsigned weight = 1;  ///< At least 1.

  friend auto operator<=>(const KernelPath&, const KernelPath&) = default;
};

enum class KernelRouteType : std::uint8_t { kUnicast, kBlackhole, kUnreachable, kProhibit };

/// A path with the state that the kernel keeps of it.
struct KernelHop {
  KernelPath path;
  bool dead = false;  ///< Its link is down, or lost its last IPv4 address.
  bool foreign =
      false;  ///< Needs an encapsulation or a gateway that this program has no means for.

  friend auto operator<=>(const KernelHop&, const KernelHop&) = default;
};

/// The content of a route, which many routes share.
struct KernelHops {
  KernelRouteType type = KernelRouteType::kUnicast;
  bool v4 = true;             ///< The family of the route; its gateways may have the other.
  bool silent = false;        ///< The kernel's own, or of no type that has a KernelRouteType.
  std::uint8_t protocol = 0;  ///< RTPROT_…: the origin.
  std::uint32_t object = 0;   ///< The next-hop object that has the paths; 0: `hops`.
  std::optional<wire::IpAddr> source;  ///< The route ends with this address of the host.
  std::vector<KernelHop> hops;         ///< In ascending order; none if not unicast.

  friend auto operator<=>(const KernelHops&, const KernelHops&) = default;
};

struct KernelRouteMessage {
  wire::IpPrefix to;  ///< Host bits are 0.
  std::uint32_t table = 0;
  std::uint32_t metric = 0;
  KernelHops hops;
};

/// An entry of the kernel's multicast router.
struct KernelMulticastRoute {
  wire::IpAddr group;
  wire::IpAddr source;  ///< All zero: any.
  std::uint32_t table = 0;
  std::int32_t in = 0;            ///< Index of the link; 0: it is gone.
  std::vector<std::int32_t> out;  ///< Different ones, in ascending order.

  friend bool operator==(const KernelMulticastRoute&, const KernelMulticastRoute&) = default;
};

struct KernelNextHop {
  struct Member {
    std::uint32_t id = 0;
    unsigned weight = 1;

    friend bool operator==(const Member&, const Member&) = default;
  };
  std::uint32_t id = 0;  ///< Not 0.
  bool blackhole = false;
  KernelHop hop;              ///< Unused if there are members or it is a black hole.
  std::vector<Member> group;  ///< The members of a group.

  friend bool operator==(const KernelNextHop&, const KernelNextHop&) = default;
};

struct KernelAddressMessage {
  std::int32_t ifindex = 0;
  KernelAddress address;
  bool usable = true;  ///< No other host has it: duplicate address detection ended well.
};

/// The name of a link, up to its zero octet. Characters that are not printable are replaced.
[[nodiscard]] std::string kernel_name(std::span<const std::byte> text);

/// Each function reads one kind of message, new or removed. Nothing: the message is damaged, or it is
/// about another family or kind of object. The length of the message was checked, its payload was
/// not.
[[nodiscard]] std::optional<KernelLink> read_kernel_link(const nlmsghdr& message);
[[nodiscard]] std::optional<KernelAddressMessage> read_kernel_address(const nlmsghdr& message);
[[nodiscard]] std::optional<KernelNextHop> read_kernel_next_hop(const nlmsghdr& message);
/// True: read_kernel_multicast_route() reads the message, and not read_kernel_route().
[[nodiscard]] bool is_multicast_route(const nlmsghdr& message);
/// An entry that no daemon has answered yet gives nothing, too.
[[nodiscard]] std::optional<KernelMulticastRoute> read_kernel_multicast_route(
    const nlmsghdr& message);
/// Routes for one TOS or from one source, entries of a cache, and IPv6 routes to mapped IPv4
/// addresses give nothing, too. A route of type `throw` is unreachable, because there is no second
/// table. Groups and link-local networks are silent.
[[nodiscard]] std::optional<KernelRouteMessage> read_kernel_route(const nlmsghdr& message);

}  // namespace ipoib::mgmt
