// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/device/kernel_interfaces.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace ipoib::mgmt {
namespace {

constexpr std::size_t kAddressLen = 20;
/// Offset of the P_Key in a broadcast address: flags and QPN, four octets of the MGID.
constexpr std::size_t kPkeyAt = 8;
/// Offset of the GUID in a hardware address: flags and QPN, prefix of the GID.
constexpr std::size_t kGuidAt = 12;

template <class T>
T read_at(std::span<const std::byte> from, std::size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

/// Removes and returns the first `len` octets and the padding behind them.
std::span<const std::byte> take_aligned(std::span<const std::byte>& from, std::size_t len) {
  const auto first = from.first(len);
  from = from.subspan(std::min((len + 3) & ~std::size_t{3}, from.size()));
  return first;
}

template <class T>
T big_endian(std::span<const std::byte> octets, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value << 8 | std::to_integer<T>(octets[at + i]));
  return value;
}

/// The end of a list carries a negative error number if it failed.
bool is_error(std::span<const std::byte> end) {
  return end.size() >= sizeof(std::int32_t) && read_at<std::int32_t>(end, 0) < 0;
}

std::string name_of(std::span<const std::byte> text) {
  std::string name;
  for (const std::byte octet : text) {
    const auto c = std::to_integer<char>(octet);
    if (c == '\0') break;
    name += c > ' ' && c <= '~' ? c : '?';
  }
  return name;
}

/// Reads the attributes of an interface; empty: it has no address of an InfiniBand interface.
std::optional<KernelInterface> read_attributes(std::span<const std::byte> rest) {
  KernelInterface interface;
  bool has_address = false, has_broadcast = false;
  while (rest.size() >= sizeof(rtattr)) {
    const auto header = read_at<rtattr>(rest, 0);
    if (header.rta_len < sizeof(rtattr) || header.rta_len > rest.size()) break;
    const auto value = take_aligned(rest, header.rta_len).subspan(sizeof(rtattr));
    switch (header.rta_type & NLA_TYPE_MASK) {
      case IFLA_IFNAME: interface.name = name_of(value); break;
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

void KernelInterfaces::begin_list(std::uint32_t sequence) {
  sequence_ = sequence;
  listing_ = true;
  needs_list_ = false;
  listed_.clear();
}

void KernelInterfaces::lose() {
  needs_list_ = true;
  for (const auto& [index, interface] : interfaces_) changes_.push_back(interface);
}

void KernelInterfaces::give_list_up() {
  listing_ = false;
  needs_list_ = true;
}

void KernelInterfaces::take(std::span<const std::byte> datagram) {
  while (datagram.size() >= sizeof(nlmsghdr)) {
    const auto header = read_at<nlmsghdr>(datagram, 0);
    if (header.nlmsg_len < sizeof(nlmsghdr) || header.nlmsg_len > datagram.size()) return;
    const auto body = take_aligned(datagram, header.nlmsg_len).subspan(sizeof(nlmsghdr));
    const bool of_list = listing_ && header.nlmsg_seq == sequence_;
    if (of_list && (header.nlmsg_flags & NLM_F_DUMP_INTR) != 0) needs_list_ = true;
    switch (header.nlmsg_type) {
      case RTM_NEWLINK: read_link(body, true); break;
      case RTM_DELLINK: read_link(body, false); break;
      case NLMSG_DONE:
        if (of_list && is_error(body)) give_list_up();
        if (of_list && listing_) end_list();
        break;
      case NLMSG_ERROR:
        if (of_list) give_list_up();
        break;
      default: break;
    }
  }
}

/// Messages of other families are about a property of the interface, such as its bridge.
void KernelInterfaces::read_link(std::span<const std::byte> message, bool exists) {
  if (message.size() < sizeof(ifinfomsg)) return;
  const auto info = read_at<ifinfomsg>(message, 0);
  if (info.ifi_family != AF_UNSPEC) return;
  auto interface = exists && info.ifi_type == ARPHRD_INFINIBAND
                       ? read_attributes(message.subspan(sizeof(ifinfomsg)))
                       : std::nullopt;
  if (!interface) return remove(info.ifi_index);
  interface->up = (info.ifi_flags & IFF_UP) != 0;
  set(info.ifi_index, *interface);
}

void KernelInterfaces::set(std::int32_t index, const KernelInterface& interface) {
  if (listing_) listed_.insert(index);
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

/// An interrupted list may lack interfaces that exist.
void KernelInterfaces::end_list() {
  listing_ = false;
  if (needs_list_) return;
  ++lists_;
  std::vector<std::int32_t> gone;
  for (const auto& [index, interface] : interfaces_)
    if (!listed_.contains(index)) gone.push_back(index);
  for (const std::int32_t index : gone) remove(index);
  listed_.clear();
}

std::vector<KernelInterface> KernelInterfaces::at(const Place& place) const {
  std::vector<KernelInterface> found;
  for (const auto& [index, interface] : interfaces_)
    if (place.has(interface)) found.push_back(interface);
  return found;
}

std::vector<KernelInterface> KernelInterfaces::take_changes() {
  return std::exchange(changes_, {});
}

}  // namespace ipoib::mgmt
