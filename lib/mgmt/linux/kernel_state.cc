// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/kernel_state.h"

#include <linux/netlink.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "lib/base/contract.h"

namespace ipoib::mgmt {

static_assert(KernelState::kMainTable == RT_TABLE_MAIN);

kernel::NetlinkSubscription KernelState::subscription(bool multicast) {
  // Routes need next-hop objects, and both need links.
  kernel::NetlinkSubscription all{{RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
                                   RTNLGRP_NEXTHOP, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE},
                                  {{RTM_GETLINK, AF_UNSPEC, sizeof(ifinfomsg)},
                                   {RTM_GETADDR, AF_UNSPEC, sizeof(ifaddrmsg)},
                                   {RTM_GETNEXTHOP, AF_UNSPEC, sizeof(nhmsg)},
                                   {RTM_GETROUTE, AF_INET, sizeof(rtmsg)},
                                   {RTM_GETROUTE, AF_INET6, sizeof(rtmsg)}}};
  if (!multicast) return all;
  all.groups.insert(all.groups.end(), {RTNLGRP_IPV4_MROUTE, RTNLGRP_IPV6_MROUTE});
  all.dumps.push_back({RTM_GETROUTE, RTNL_FAMILY_IPMR, sizeof(rtmsg)});
  all.dumps.push_back({RTM_GETROUTE, RTNL_FAMILY_IP6MR, sizeof(rtmsg)});
  return all;
}

void KernelState::on_snapshot_begin() {
  expects_management();
  in_snapshot_ = true;
  doubt_ = false;
  listed_links_.clear();
  listed_addresses_.clear();
  if (follow_ == Routes::kFrozen && thaw_) follow_ = Routes::kThawing;
  if (follow_ == Routes::kFrozen) return;
  paths_.begin_snapshot();
  routes_.begin_snapshot();
  multicast_.begin_snapshot();
}

void KernelState::on_loss() {
  expects_management();
}

void KernelState::on_message(const nlmsghdr& message) {
  expects_management();
  switch (message.nlmsg_type) {
    case RTM_NEWLINK: read_link(message, true); break;
    case RTM_DELLINK: read_link(message, false); break;
    case RTM_NEWADDR: read_address(message, true); break;
    case RTM_DELADDR: read_address(message, false); break;
    case RTM_NEWNEXTHOP:
    case RTM_DELNEXTHOP:
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
      if (follow_ != Routes::kFrozen) read_about_routes(message);
      break;
    default: ++ignored_; break;
  }
  take_doubt();
}

void KernelState::read_about_routes(const nlmsghdr& message) {
  switch (message.nlmsg_type) {
    case RTM_NEWNEXTHOP: return read_next_hop(message, true);
    case RTM_DELNEXTHOP: return read_next_hop(message, false);
    case RTM_NEWROUTE: return read_route(message, true);
    default: return read_route(message, false);
  }
}

void KernelState::freeze_routes() {
  expects_management();
  follow_ = Routes::kFrozen;
  thaw_ = false;
}

void KernelState::thaw_routes() {
  expects_management();
  thaw_ = true;
}

void KernelState::take_doubt() {
  if (paths_.take_doubt()) doubt_ = true;
  if (routes_.take_doubt()) doubt_ = true;
  if (multicast_.take_doubt()) doubt_ = true;
}

void KernelState::on_snapshot_end() {
  expects_management();
  in_snapshot_ = false;
  std::vector<AddressKey> addresses;
  std::set_difference(addresses_.begin(), addresses_.end(), listed_addresses_.begin(),
                      listed_addresses_.end(), std::back_inserter(addresses));
  // Listed routes are as they are after the end of these addresses.
  for (const AddressKey& key : addresses) {
    addresses_.erase(key);
    sink_.address_removed(key.first, key.second);
  }
  std::vector<std::int32_t> links;
  for (const auto& [ifindex, link] : links_)
    if (!listed_links_.contains(ifindex)) links.push_back(ifindex);
  for (const std::int32_t ifindex : links) remove_link(ifindex);
  if (follow_ == Routes::kFrozen) return take_doubt();
  follow_ = Routes::kFollowed;
  paths_.end_snapshot();
  routes_.end_snapshot();
  multicast_.end_snapshot();
  take_doubt();
  advance();
}

bool KernelState::advance() {
  return follow_ == Routes::kFollowed && routes_.advance();
}

// Links.

void KernelState::read_link(const nlmsghdr& message, bool exists) {
  const auto link = read_kernel_link(message);
  if (!link) {
    ++ignored_;
    return;
  }
  if (!exists) return remove_link(link->ifindex);
  listed_links_.insert(link->ifindex);
  const auto [it, added] = links_.try_emplace(link->ifindex, *link);
  if (!added && std::exchange(it->second, *link) == *link) return;
  paths_.set_link(*link);
  sink_.link_changed(link->ifindex, &it->second);
}

void KernelState::remove_link(std::int32_t ifindex) {
  listed_links_.erase(ifindex);
  if (links_.erase(ifindex) == 0) return;
  std::vector<AddressKey> addresses;
  for (const AddressKey& key : addresses_)
    if (key.first == ifindex) addresses.push_back(key);
  for (const AddressKey& key : addresses) remove_address(key);
  paths_.remove_link(ifindex);
  sink_.link_changed(ifindex, nullptr);
}

// Addresses.

void KernelState::read_address(const nlmsghdr& message, bool exists) {
  const auto read = read_kernel_address(message);
  if (!read) {
    ++ignored_;
    return;
  }
  const AddressKey key{read->ifindex, read->address};
  if (exists && read->usable)
    add_address(key);
  else
    remove_address(key);
}

void KernelState::add_address(const AddressKey& key) {
  listed_addresses_.insert(key);
  if (!addresses_.insert(key).second) return;
  if (key.second.prefix.addr.is_v4()) paths_.ipv4_added(key.first);
  sink_.address_added(key.first, key.second);
}

bool KernelState::has_address(const wire::IpAddr& addr) const {
  return std::any_of(addresses_.begin(), addresses_.end(),
                     [&addr](const AddressKey& key) { return key.second.prefix.addr == addr; });
}

bool KernelState::has_ipv4(std::int32_t ifindex) const {
  return std::any_of(addresses_.begin(), addresses_.end(), [ifindex](const AddressKey& key) {
    return key.first == ifindex && key.second.prefix.addr.is_v4();
  });
}

void KernelState::remove_address(const AddressKey& key) {
  listed_addresses_.erase(key);
  if (addresses_.erase(key) == 0) return;
  const wire::IpAddr& addr = key.second.prefix.addr;
  if (addr.is_v4() && !has_address(addr)) paths_.source_gone(addr);
  if (addr.is_v4() && !has_ipv4(key.first)) paths_.ipv4_ended(key.first);
  sink_.address_removed(key.first, key.second);
}

// Next-hop objects and routes.

void KernelState::read_next_hop(const nlmsghdr& message, bool exists) {
  const auto object = read_kernel_next_hop(message);
  if (!object)
    ++ignored_;
  else if (exists)
    paths_.set_object(*object);
  else
    paths_.remove_object(object->id);
}

void KernelState::read_route(const nlmsghdr& message, bool exists) {
  if (is_multicast_route(message)) {
    if (!multicast_.on_message(message, exists)) ++ignored_;
    return;
  }
  const auto route = read_kernel_route(message);
  if (!route || route->table != table_) {
    ++ignored_;
    return;
  }
  if (!exists) return routes_.remove(*route);
  auto position = KernelRoutes::Position::kFirst;
  if (in_snapshot_ && (message.nlmsg_flags & NLM_F_MULTI) != 0)
    position = KernelRoutes::Position::kListed;
  else if ((message.nlmsg_flags & NLM_F_REPLACE) != 0)
    position = KernelRoutes::Position::kReplace;
  else if ((message.nlmsg_flags & NLM_F_APPEND) != 0)
    position = KernelRoutes::Position::kLast;
  routes_.set(*route, position);
}

}  // namespace ipoib::mgmt
