// SPDX-License-Identifier: BSD-3-Clause
// Messages of rtnetlink as the kernel sends them, and a sink that keeps what KernelState reports.
#pragma once

#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/mgmt/linux/kernel_state.h"

namespace ipoib::mgmt {

/// A message that is under construction. Attributes of other attributes are nested by begin() and end().
class KernelMessage {
 public:
  template <class Fixed>
  KernelMessage(std::uint16_t type, const Fixed& fixed, std::uint16_t flags = 0) {
    header_ = mnl_nlmsg_put_header(octets_.data());
    header_->nlmsg_type = type;
    header_->nlmsg_flags = flags;
    std::memcpy(mnl_nlmsg_put_extra_header(header_, sizeof fixed), &fixed, sizeof fixed);
  }
  KernelMessage(const KernelMessage&) = delete;

  KernelMessage& add(std::uint16_t type, const void* value, std::size_t len) {
    mnl_attr_put(header_, type, len, value);
    return *this;
  }
  KernelMessage& add(std::uint16_t type, std::uint32_t value) {
    return add(type, &value, sizeof value);
  }
  KernelMessage& add(std::uint16_t type, const std::string& text) {
    return add(type, text.c_str(), text.size() + 1);
  }
  KernelMessage& add(std::uint16_t type, const wire::IpAddr& addr) {
    const wire::Be32 v4{addr.v4_host()};
    return addr.is_v4() ? add(type, &v4, sizeof v4) : add(type, &addr, sizeof addr);
  }
  /// RTA_VIA.
  KernelMessage& add_via(const wire::IpAddr& addr) {
    std::vector<std::byte> value(2);
    const std::uint16_t family = addr.is_v4() ? AF_INET : AF_INET6;
    std::memcpy(value.data(), &family, 2);
    const auto first = addr.bytes.begin() + (addr.is_v4() ? 12 : 0);
    value.insert(value.end(), first, addr.bytes.end());
    return add(RTA_VIA, value.data(), value.size());
  }
  /// A struct within an attribute, whose first 16 bits are the length of what follows until end().
  template <class Fixed>
  std::size_t begin(const Fixed& fixed) {
    const std::size_t at = header_->nlmsg_len;
    std::memcpy(octets_.data() + at, &fixed, sizeof fixed);
    header_->nlmsg_len += sizeof fixed;
    return at;
  }
  void end(std::size_t at) {
    const auto len = static_cast<std::uint16_t>(header_->nlmsg_len - at);
    std::memcpy(octets_.data() + at, &len, sizeof len);
  }

  [[nodiscard]] const nlmsghdr& header() const { return *header_; }
  [[nodiscard]] std::vector<std::byte> octets() const {
    const auto* first = reinterpret_cast<const std::byte*>(header_);
    return {first, first + header_->nlmsg_len};
  }

 private:
  alignas(nlmsghdr) std::array<char, 8'192> octets_{};
  nlmsghdr* header_;
};

/// The addresses of test packets, from text.
inline wire::IpAddr ip(const std::string& text) {
  return wire::parse_ip(text).value();
}
inline wire::IpPrefix prefix(const std::string& text) {
  return wire::parse_prefix(text).value();
}
inline KernelPath path(std::int32_t ifindex, const std::string& via, unsigned weight = 1) {
  return {ifindex, via.empty() ? std::nullopt : std::optional{ip(via)}, weight};
}

inline rtmsg route_header(const wire::IpPrefix& to, std::uint8_t type = RTN_UNICAST,
                          std::uint8_t protocol = RTPROT_BGP) {
  rtmsg info{};
  info.rtm_family = to.addr.is_v4() ? AF_INET : AF_INET6;
  info.rtm_dst_len = to.len;
  info.rtm_table = RT_TABLE_MAIN;
  info.rtm_protocol = protocol;
  info.rtm_type = type;
  return info;
}

/// Keeps what the node would have.
struct RecordingSink final : KernelStateSink {
  using Key = std::pair<wire::IpPrefix, std::uint32_t>;

  void link_changed(std::int32_t ifindex, const KernelLink* link) override {
    link != nullptr ? links[ifindex] = *link : (links.erase(ifindex), KernelLink{});
    ++link_calls;
  }
  void address_added(std::int32_t ifindex, const KernelAddress& address) override {
    twice |= !addresses.insert({ifindex, address}).second;
  }
  void address_removed(std::int32_t ifindex, const KernelAddress& address) override {
    twice |= addresses.erase({ifindex, address}) == 0;
  }
  void route_set(const KernelRouteEntry& route) override {
    const auto [it, added] = routes.try_emplace({route.to, route.metric}, route);
    if (!added) twice |= std::exchange(it->second, route) == route;
    ++route_calls;
  }
  void route_removed(const wire::IpPrefix& to, std::uint32_t metric) override {
    twice |= routes.erase({to, metric}) == 0;
    ++route_calls;
  }
  void in_step() override { ++in_steps; }

  [[nodiscard]] std::vector<KernelPath> paths(const std::string& to,
                                              std::uint32_t metric = 0) const {
    const auto it = routes.find({prefix(to), metric});
    return it == routes.end() ? std::vector<KernelPath>{} : it->second.paths;
  }

  std::map<std::int32_t, KernelLink> links;
  std::set<std::pair<std::int32_t, KernelAddress>> addresses;
  std::map<Key, KernelRouteEntry> routes;
  bool twice = false;  ///< Something was reported that the sink knew already.
  unsigned link_calls = 0;
  unsigned route_calls = 0;
  unsigned in_steps = 0;
};

}  // namespace ipoib::mgmt
