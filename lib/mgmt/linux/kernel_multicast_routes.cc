// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/kernel_multicast_routes.h"

#include <linux/rtnetlink.h>

#include <vector>

#include "lib/base/contract.h"

namespace ipoib::mgmt {

static_assert(KernelMulticastRoutes::kTable4 == RT_TABLE_DEFAULT &&
              KernelMulticastRoutes::kTable6 == RT_TABLE_MAIN);

void KernelMulticastRoutes::begin_snapshot() {
  expects_management();
  listed_.clear();
  waiting_ = false;
  doubt_ = false;
}

void KernelMulticastRoutes::end_snapshot() {
  expects_management();
  std::vector<Key> ended;
  for (const auto& [key, route] : routes_)
    if (!listed_.contains(key)) ended.push_back(key);
  for (const Key& key : ended) remove(key);
  listed_.clear();
}

bool KernelMulticastRoutes::on_message(const nlmsghdr& message, bool exists) {
  expects_management();
  const auto route = read_kernel_multicast_route(message);
  if (!route || route->table != (route->group.is_v4() ? kTable4 : kTable6)) return false;
  if (exists)
    set(*route);
  else
    remove({route->group, route->source});
  return true;
}

void KernelMulticastRoutes::set(const KernelMulticastRoute& route) {
  const Key key{route.group, route.source};
  const auto it = routes_.find(key);
  if (it == routes_.end() && routes_.size() >= max_routes_) {
    ++refused_;
    waiting_ = true;
    return;
  }
  listed_.insert(key);
  if (it != routes_.end() && it->second == route) return;
  routes_[key] = route;
  sink_.multicast_route_set(route);
}

void KernelMulticastRoutes::remove(const Key& key) {
  listed_.erase(key);
  if (routes_.erase(key) == 0) return;
  // A list of everything is worth its time only if there is room for many.
  doubt_ = doubt_ || (waiting_ && routes_.size() < max_routes_ - max_routes_ / 8);
  sink_.multicast_route_removed(key.first, key.second);
}

}  // namespace ipoib::mgmt
