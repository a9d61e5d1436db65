// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/device/kernel_interfaces.h"

#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>

#include <optional>
#include <utility>

#include "lib/base/contract.h"
#include "lib/mgmt/linux/kernel_codec.h"

namespace ipoib::mgmt {
namespace {

constexpr std::size_t kAddressLen = 20;
/// Offset of the P_Key in a broadcast address: flags and QPN, four octets of the MGID.
constexpr std::size_t kPkeyAt = 8;
/// Offset of the GUID in a hardware address: flags and QPN, prefix of the GID.
constexpr std::size_t kGuidAt = 12;

/// The attribute's value.
std::span<const std::byte> value_of(const nlattr& attribute) {
  return {static_cast<const std::byte*>(mnl_attr_get_payload(&attribute)),
          mnl_attr_get_payload_len(&attribute)};
}

template <class T>
T big_endian(std::span<const std::byte> octets, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value << 8 | std::to_integer<T>(octets[at + i]));
  return value;
}

/// Octets of attributes from `attribute` to the end of the message.
int rest_of(const nlmsghdr& message, const nlattr& attribute) {
  const auto* const end = static_cast<const std::byte*>(mnl_nlmsg_get_payload_tail(&message));
  return static_cast<int>(end - reinterpret_cast<const std::byte*>(&attribute));
}

/// Reads the attributes of an interface; empty: it has no address of an InfiniBand interface.
std::optional<KernelInterface> read_attributes(const nlmsghdr& message) {
  KernelInterface interface;
  bool has_address = false, has_broadcast = false;
  const auto* attribute =
      static_cast<const nlattr*>(mnl_nlmsg_get_payload_offset(&message, sizeof(ifinfomsg)));
  for (; mnl_attr_ok(attribute, rest_of(message, *attribute));
       attribute = mnl_attr_next(attribute)) {
    const auto value = value_of(*attribute);
    switch (mnl_attr_get_type(attribute)) {
      case IFLA_IFNAME: interface.name = kernel_name(value); break;
      case IFLA_ADDRESS:
        if (value.size() != kAddressLen) return std::nullopt;
        interface.guid = big_endian<std::uint64_t>(value, kGuidAt);
        has_address = true;
        break;
      case IFLA_BROADCAST:
        if (value.size() != kAddressLen) return std::nullopt;
        interface.pkey = big_endian<std::uint16_t>(value, kPkeyAt);
        has_broadcast = true;
        break;
      default: break;
    }
  }
  if (!has_address || !has_broadcast) return std::nullopt;
  return interface;
}

}  // namespace

kernel::NetlinkSubscription KernelInterfaces::subscription() {
  return {{RTNLGRP_LINK}, {{RTM_GETLINK, AF_UNSPEC, sizeof(ifinfomsg)}}};
}

void KernelInterfaces::on_snapshot_begin() {
  expects_management();
  listed_.clear();
}

void KernelInterfaces::on_loss() {
  expects_management();
  for (const auto& [index, interface] : interfaces_) changes_.push_back(interface);
}

void KernelInterfaces::on_message(const nlmsghdr& message) {
  expects_management();
  if (message.nlmsg_type == RTM_NEWLINK) read_link(message, true);
  if (message.nlmsg_type == RTM_DELLINK) read_link(message, false);
}

/// Messages of other families are about a property of the interface, such as its bridge.
void KernelInterfaces::read_link(const nlmsghdr& message, bool exists) {
  if (mnl_nlmsg_get_payload_len(&message) < sizeof(ifinfomsg)) return;
  const auto& info = *static_cast<const ifinfomsg*>(mnl_nlmsg_get_payload(&message));
  if (info.ifi_family != AF_UNSPEC) return;
  auto interface =
      exists && info.ifi_type == ARPHRD_INFINIBAND ? read_attributes(message) : std::nullopt;
  if (!interface) return remove(info.ifi_index);
  interface->up = (info.ifi_flags & IFF_UP) != 0;
  set(info.ifi_index, *interface);
}

void KernelInterfaces::set(std::int32_t index, const KernelInterface& interface) {
  listed_.insert(index);
  const auto [it, added] = interfaces_.try_emplace(index, interface);
  if (!added) {
    if (it->second == interface) return;
    changes_.push_back(std::exchange(it->second, interface));
  }
  changes_.push_back(interface);
}

void KernelInterfaces::remove(std::int32_t index) {
  listed_.erase(index);
  const auto it = interfaces_.find(index);
  if (it == interfaces_.end()) return;
  changes_.push_back(it->second);
  interfaces_.erase(it);
}

void KernelInterfaces::on_snapshot_end() {
  expects_management();
  std::vector<std::int32_t> gone;
  for (const auto& [index, interface] : interfaces_)
    if (!listed_.contains(index)) gone.push_back(index);
  for (const std::int32_t index : gone) remove(index);
  listed_.clear();
}

std::vector<KernelInterface> KernelInterfaces::at(const Place& place) const {
  expects_management();
  std::vector<KernelInterface> found;
  for (const auto& [index, interface] : interfaces_)
    if (place.has(interface)) found.push_back(interface);
  return found;
}

std::vector<KernelInterface> KernelInterfaces::take_changes() {
  expects_management();
  return std::exchange(changes_, {});
}

}  // namespace ipoib::mgmt
