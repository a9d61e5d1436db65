// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/kernel_codec.h"

#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "lib/wire/ip_prefix.h"

namespace ipoib::mgmt {
namespace {

using Octets = std::span<const std::byte>;

/// IFF_LOWER_UP of the kernel's header, which does not compile together with that of the C library.
constexpr unsigned kLowerUp = 1U << 16;
constexpr std::uint32_t kDefaultMetric6 = 1024;

constexpr std::size_t aligned(std::size_t len) {
  return (len + 3) & ~std::size_t{3};
}

template <class T>
std::optional<T> read_as(Octets octets) {
  if (octets.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, octets.data(), sizeof value);
  return value;
}

/// The payload of a message.
Octets payload_of(const nlmsghdr& message) {
  if (message.nlmsg_len < sizeof(nlmsghdr)) return {};
  const auto* const first = reinterpret_cast<const std::byte*>(&message);
  return Octets{first, message.nlmsg_len}.subspan(sizeof(nlmsghdr));
}

/// Calls `each(header, content)` for records that begin with `Header`, whose first 16 bits are the
/// length. False: a record is damaged, or `each` returned false.
template <class Header, class Each>
bool read_records(Octets rest, Each&& each) {
  while (!rest.empty()) {
    const auto header = read_as<Header>(rest);
    const auto len = read_as<std::uint16_t>(rest);
    if (!header || *len < sizeof(Header) || *len > rest.size()) return false;
    if (!each(*header, rest.first(*len).subspan(sizeof(Header)))) return false;
    rest = rest.subspan(std::min(aligned(*len), rest.size()));
  }
  return true;
}

/// Calls `each(type, value)` for the attributes behind a fixed part of the given length.
template <class Each>
bool read_attributes(Octets octets, std::size_t fixed_len, Each&& each) {
  if (octets.size() < fixed_len) return false;
  return read_records<nlattr>(octets.subspan(std::min(aligned(fixed_len), octets.size())),
                              [&each](const nlattr& header, Octets value) {
                                return each(header.nla_type & NLA_TYPE_MASK, value);
                              });
}

template <class T>
bool assign(T& to, Octets value) {
  const auto read = read_as<T>(value);
  if (read) to = *read;
  return read.has_value();
}

std::optional<wire::IpAddr> read_ip(int family, Octets value) {
  if (family == AF_INET) {
    const auto addr = read_as<wire::Be32>(value);
    if (addr) return wire::IpAddr::v4(addr->host());
  }
  if (family == AF_INET6) return read_as<wire::IpAddr>(value);
  return std::nullopt;
}
bool assign_ip(std::optional<wire::IpAddr>& to, int family, Octets value) {
  to = read_ip(family, value);
  return to.has_value();
}

bool is_ip(int family) {
  return family == AF_INET || family == AF_INET6;
}
/// An IPv6 address that stands for an IPv4 address is on no wire.
bool fits(int family, const wire::IpAddr& addr) {
  return addr.is_v4() == (family == AF_INET);
}

bool read_gateway(KernelHop& hop, int family, Octets value) {
  if (!assign_ip(hop.path.via, family, value)) return false;
  if (!fits(family, *hop.path.via)) hop.foreign = true;
  return true;
}

/// RTA_VIA: a gateway of another family.
bool read_via(KernelHop& hop, Octets value) {
  const auto family = read_as<std::uint16_t>(value);
  if (!family) return false;
  if (is_ip(*family)) return read_gateway(hop, *family, value.subspan(sizeof *family));
  hop.foreign = true;
  return true;
}

/// An attribute that routes with one path have, and each path of several.
bool read_hop(KernelHop& hop, int family, unsigned type, Octets value) {
  switch (type) {
    case RTA_GATEWAY: return read_gateway(hop, family, value);
    case RTA_VIA: return read_via(hop, value);
    case RTA_ENCAP_TYPE: hop.foreign = true; return true;
    default: return true;
  }
}

bool read_hops(std::vector<KernelHop>& hops, int family, Octets value) {
  return read_records<rtnexthop>(value, [&](const rtnexthop& header, Octets attributes) {
    KernelHop hop;
    hop.path.ifindex = header.rtnh_ifindex;
    hop.path.weight = header.rtnh_hops + 1U;
    hop.dead = (header.rtnh_flags & RTNH_F_DEAD) != 0;
    const bool whole = read_attributes(attributes, 0, [&](unsigned type, Octets content) {
      return read_hop(hop, family, type, content);
    });
    hops.push_back(hop);
    return whole;
  });
}

/// The attributes of a route that are not in the struct.
struct RouteAttributes {
  std::optional<wire::IpAddr> to;
  std::optional<std::uint32_t> metric;
  KernelHop hop;  ///< If there is one path.
};

bool read_attribute(KernelRouteMessage& route, RouteAttributes& rest, int family, unsigned type,
                    Octets value) {
  switch (type) {
    case RTA_DST: return assign_ip(rest.to, family, value);
    case RTA_TABLE: return assign(route.table, value);
    case RTA_PRIORITY: return assign(rest.metric.emplace(), value);
    case RTA_PREFSRC: return assign_ip(route.hops.source, family, value);
    case RTA_NH_ID: return assign(route.hops.object, value);
    case RTA_OIF: return assign(rest.hop.path.ifindex, value);
    case RTA_MULTIPATH: return read_hops(route.hops.hops, family, value);
    default: return read_hop(rest.hop, family, type, value);
  }
}

/// None: a type that routers do not forward by.
std::optional<KernelRouteType> type_of(const rtmsg& info) {
  switch (info.rtm_type) {
    case RTN_UNICAST: return KernelRouteType::kUnicast;
    case RTN_BLACKHOLE: return KernelRouteType::kBlackhole;
    case RTN_PROHIBIT: return KernelRouteType::kProhibit;
    case RTN_UNREACHABLE:
    case RTN_THROW: return KernelRouteType::kUnreachable;
    default: return std::nullopt;
  }
}

/// Brings the paths into one form: a dump lists them in another order than a change does, and does
/// not say the weight of a path that is alone.
void order(KernelHops& content, const KernelHop& single) {
  if (content.object != 0) {
    content.type = KernelRouteType::kUnicast;
    content.hops.clear();
    return;
  }
  if (content.type != KernelRouteType::kUnicast) return content.hops.clear();
  if (content.hops.empty()) content.hops.push_back(single);
  if (content.hops.size() == 1) content.hops.front().path.weight = 1;
  std::sort(content.hops.begin(), content.hops.end());
}

}  // namespace

std::string kernel_name(std::span<const std::byte> text) {
  std::string name;
  for (const std::byte octet : text) {
    const auto c = std::to_integer<char>(octet);
    if (c == '\0') break;
    name += c > ' ' && c <= '~' ? c : '?';
  }
  return name;
}

std::optional<KernelLink> read_kernel_link(const nlmsghdr& message) {
  const Octets octets = payload_of(message);
  const auto info = read_as<ifinfomsg>(octets);
  // Messages of other families are about a property of the link, such as its bridge.
  if (!info || info->ifi_family != AF_UNSPEC) return std::nullopt;
  KernelLink link;
  link.ifindex = info->ifi_index;
  link.up = (info->ifi_flags & IFF_UP) != 0;
  link.carrier = (info->ifi_flags & (IFF_RUNNING | kLowerUp)) != 0;
  const bool whole =
      read_attributes(octets, sizeof *info, [&link](unsigned type, Octets value) -> bool {
        if (type == IFLA_IFNAME) link.name = kernel_name(value);
        if (type == IFLA_MTU) return assign(link.mtu, value);
        return true;
      });
  if (!whole || link.ifindex <= 0) return std::nullopt;
  return link;
}

std::optional<KernelAddressMessage> read_kernel_address(const nlmsghdr& message) {
  const Octets octets = payload_of(message);
  const auto info = read_as<ifaddrmsg>(octets);
  if (!info || !is_ip(info->ifa_family)) return std::nullopt;
  std::optional<wire::IpAddr> local, address;
  std::uint32_t flags = info->ifa_flags;
  const bool whole =
      read_attributes(octets, sizeof *info, [&](unsigned type, Octets value) -> bool {
        if (type == IFA_LOCAL) return assign_ip(local, info->ifa_family, value);
        if (type == IFA_ADDRESS) return assign_ip(address, info->ifa_family, value);
        if (type == IFA_FLAGS) return assign(flags, value);
        return true;
      });
  const auto own = local ? local : address;
  if (!whole || !own || !fits(info->ifa_family, *own) || info->ifa_prefixlen > wire::host_len(*own))
    return std::nullopt;
  KernelAddressMessage read;
  read.ifindex = static_cast<std::int32_t>(info->ifa_index);
  read.address.prefix = {*own, info->ifa_prefixlen};
  if (address && *address != *own) read.address.peer = address;
  read.address.no_dad = (flags & IFA_F_NODAD) != 0;
  read.usable = (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) == 0;
  return read;
}

std::optional<KernelNextHop> read_kernel_next_hop(const nlmsghdr& message) {
  const Octets octets = payload_of(message);
  const auto info = read_as<nhmsg>(octets);
  if (!info) return std::nullopt;
  KernelNextHop object;
  const auto read_member = [&object](Octets value) {
    for (; !value.empty(); value = value.subspan(sizeof(nexthop_grp))) {
      const auto member = read_as<nexthop_grp>(value);
      if (!member) return false;
      // Linux 6.12 has the high octet of the weight in what was reserved before.
      object.group.push_back({member->id, (unsigned{member->resvd1} << 8U | member->weight) + 1U});
    }
    return true;
  };
  const bool whole =
      read_attributes(octets, sizeof *info, [&](unsigned type, Octets value) -> bool {
        switch (type) {
          case NHA_ID: return assign(object.id, value);
          case NHA_GROUP: return read_member(value);
          case NHA_BLACKHOLE: object.blackhole = true; return true;
          case NHA_OIF: return assign(object.hop.path.ifindex, value);
          case NHA_GATEWAY: return read_gateway(object.hop, info->nh_family, value);
          case NHA_FDB:
          case NHA_ENCAP_TYPE: object.hop.foreign = true; return true;
          default: return true;
        }
      });
  if (!whole || object.id == 0) return std::nullopt;
  return object;
}

bool is_multicast_route(const nlmsghdr& message) {
  const auto info = read_as<rtmsg>(payload_of(message));
  return info && (info->rtm_family == RTNL_FAMILY_IPMR || info->rtm_family == RTNL_FAMILY_IP6MR);
}

std::optional<KernelMulticastRoute> read_kernel_multicast_route(const nlmsghdr& message) {
  const Octets octets = payload_of(message);
  const auto info = read_as<rtmsg>(octets);
  if (!info || !is_multicast_route(message) || info->rtm_type != RTN_MULTICAST ||
      (info->rtm_flags & RTNH_F_UNRESOLVED) != 0)
    return std::nullopt;
  const int family = info->rtm_family == RTNL_FAMILY_IPMR ? AF_INET : AF_INET6;
  KernelMulticastRoute route;
  route.table = info->rtm_table;
  std::optional<wire::IpAddr> group, source;
  const auto read_out = [&route](const rtnexthop& header, Octets) {
    route.out.push_back(header.rtnh_ifindex);
    return true;
  };
  const bool whole =
      read_attributes(octets, sizeof *info, [&](unsigned type, Octets value) -> bool {
        switch (type) {
          case RTA_DST: return assign_ip(group, family, value);
          case RTA_SRC: return assign_ip(source, family, value);
          case RTA_TABLE: return assign(route.table, value);
          case RTA_IIF: return assign(route.in, value);
          case RTA_MULTIPATH: return read_records<rtnexthop>(value, read_out);
          default: return true;
        }
      });
  if (!whole || !group || !fits(family, *group) || !wire::is_multicast(*group) || route.in < 0)
    return std::nullopt;
  if (source && !fits(family, *source)) return std::nullopt;
  route.group = *group;
  if (source && *source != wire::IpAddr::v4(0)) route.source = *source;
  std::sort(route.out.begin(), route.out.end());
  route.out.erase(std::unique(route.out.begin(), route.out.end()), route.out.end());
  return route;
}

std::optional<KernelRouteMessage> read_kernel_route(const nlmsghdr& message) {
  const Octets octets = payload_of(message);
  const auto info = read_as<rtmsg>(octets);
  if (!info || !is_ip(info->rtm_family) || info->rtm_src_len != 0 || info->rtm_tos != 0 ||
      (info->rtm_flags & RTM_F_CLONED) != 0)
    return std::nullopt;
  KernelRouteMessage route;
  route.table = info->rtm_table;
  route.hops.v4 = info->rtm_family == AF_INET;
  route.hops.protocol = info->rtm_protocol;
  RouteAttributes rest;
  rest.hop.dead = (info->rtm_flags & RTNH_F_DEAD) != 0;
  const bool whole = read_attributes(octets, sizeof *info, [&](unsigned type, Octets value) {
    return read_attribute(route, rest, info->rtm_family, type, value);
  });
  if (!rest.to && info->rtm_dst_len == 0)
    rest.to = route.hops.v4 ? wire::IpAddr::v4(0) : wire::IpAddr{};
  if (!whole || !rest.to || !fits(info->rtm_family, *rest.to) ||
      info->rtm_dst_len > wire::host_len(*rest.to))
    return std::nullopt;
  route.to.addr = wire::network({*rest.to, info->rtm_dst_len});
  route.to.len = info->rtm_dst_len;
  route.metric = rest.metric.value_or(route.hops.v4 ? 0 : kDefaultMetric6);
  const auto type = type_of(*info);
  route.hops.type = type.value_or(KernelRouteType::kUnicast);
  route.hops.silent = !type || route.hops.protocol == RTPROT_KERNEL ||
                      wire::is_multicast(route.to) ||
                      (!route.hops.v4 && wire::is_link_local6(route.to.addr));
  order(route.hops, rest.hop);
  return route;
}

}  // namespace ipoib::mgmt
