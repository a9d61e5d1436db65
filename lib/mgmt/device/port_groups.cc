// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/device/port_groups.h"

#include <rte_ethdev.h>

#include <cstring>
#include <vector>

#include "lib/base/contract.h"
#include "lib/base/log.h"

namespace ipoib::mgmt {

using fabric::MulticastFilter;

void PortGroups::open(bool promiscuous) {
  expects_management();
  if (promiscuous) return choose(MulticastFilter::kPromiscuous);
  if (rte_eth_allmulticast_enable(port_) == 0) return choose(MulticastFilter::kAll);
  if (program()) return choose(MulticastFilter::kGroups);
  widen();
}

void PortGroups::choose(MulticastFilter filter) {
  filter_ = filter;
  const bool usual = filter == MulticastFilter::kAll;
  log(LogArea::kFabric, usual ? LogLevel::kInfo : LogLevel::kNotice,
      "device {}: multicast reception: {}", device_, to_string(filter));
}

/// Falls back to promiscuous mode, because the device has no sufficient filter.
void PortGroups::widen() {
  const bool promiscuous = rte_eth_promiscuous_enable(port_) == 0;
  choose(promiscuous ? MulticastFilter::kPromiscuous : MulticastFilter::kUnknown);
}

bool PortGroups::program() const {
  std::vector<rte_ether_addr> list;
  for (const auto& [group, joins] : joined_)
    std::memcpy(list.emplace_back().addr_bytes, group.data(), group.size());
  const auto n = static_cast<std::uint32_t>(list.size());
  return rte_eth_dev_set_mc_addr_list(port_, list.data(), n) == 0;
}

void PortGroups::join(const wire::MacAddr& group) {
  expects_management();
  if (++joined_[group] != 1 || filter_ != MulticastFilter::kGroups) return;
  if (!program()) widen();
}

void PortGroups::leave(const wire::MacAddr& group) {
  expects_management();
  const auto it = joined_.find(group);
  if (it == joined_.end() || --it->second != 0) return;
  joined_.erase(it);
  if (filter_ == MulticastFilter::kGroups && !program()) widen();
}

void PortGroups::join_lldp() {
  for (const std::byte last : {std::byte{0x00}, std::byte{0x03}, std::byte{0x0e}})
    join({std::byte{0x01}, std::byte{0x80}, std::byte{0xc2}, std::byte{0}, std::byte{0}, last});
}

void PortGroups::join_all() {
  expects_management();
  if (filter_ == MulticastFilter::kGroups) widen();
}

void PortGroups::restore() {
  expects_management();
  // All-multicast and promiscuous mode are restored by ethdev.
  if (filter_ == MulticastFilter::kGroups && !program()) widen();
}

}  // namespace ipoib::mgmt
