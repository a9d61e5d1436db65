// SPDX-License-Identifier: BSD-3-Clause
// The node's interfaces by InterfaceId, shared by the parts of the management lcore.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/counters.h"
#include "lib/link/interface.h"

namespace ipoib::mgmt {

class Mirror;

struct InterfaceSlot {
  link::Interface* control = nullptr;
  std::vector<unsigned> receivers;  ///< Workers that receive; the first one is the owner.
  DropCounters drops;               ///< Packets lost on the management lcore. Writer: that lcore.
  std::size_t held = 0;  ///< mbufs of packets held for a neighbour here. Writer: PuntHandler.
  std::size_t held_of_few = 0;         ///< The part of them that PacketMeta::Held::few names.
  std::size_t held_of_neighbours = 0;  ///< The part of `held_of_few` from neighbours.
  Mirror* mirror = nullptr;            ///< The interface in Linux; null: it is not mirrored.
  bool up_again = false;  ///< The interface is going down and must come up again after that.

  std::vector<wire::IpPrefix> usable;  ///< Own addresses that are ready. Writer: AddressBook.

  /// Worker that sends the packets of the management lcore.
  [[nodiscard]] unsigned owner() const { return receivers.front(); }
  /// True while packets pass. A link that joins again keeps forwarding with the attributes that it
  /// knows.
  [[nodiscard]] bool carries_packets() const {
    return control->state() == link::State::kUp ||
           (control->state() == link::State::kJoining && control->mtu() != 0);
  }
  /// True if `addr` is an own address on this interface: ready to be used or, for IPv4, configured.
  [[nodiscard]] bool has(const wire::IpAddr& addr) const {
    const auto in = [&addr](const std::vector<wire::IpPrefix>& own) {
      return std::any_of(own.begin(), own.end(), [&](const auto& p) { return p.addr == addr; });
    };
    return in(usable) || (addr.is_v4() && in(control->addresses()));
  }
  /// An own address that is not shared, as source of packets to `to`: the first that fits, because later ones were added
  /// at run time and may move to other nodes. IPv4: any. IPv6: a link-local one if `to` is link-local,
  /// else one of the prefix of `to`, else any that is not link-local.
  [[nodiscard]] std::optional<wire::IpAddr> source_for(const wire::IpAddr& to) const {
    const bool v4 = to.is_v4(), local = wire::is_link_local6(to);
    std::optional<wire::IpAddr> found;
    for (const wire::IpPrefix& p : v4 ? control->addresses() : usable) {
      if (p.addr.is_v4() != v4 || wire::is_link_local6(p.addr) != local) continue;
      if (control->is_shared(p.addr)) continue;
      if (!v4 && wire::contains(p, to)) return p.addr;
      if (!found) found = p.addr;
    }
    return found;
  }
};

class InterfaceTable {
 public:
  InterfaceSlot& add(std::vector<unsigned> receivers) {
    slots_.push_back(std::make_unique<InterfaceSlot>());
    slots_.back()->receivers = std::move(receivers);
    return *slots_.back();
  }
  [[nodiscard]] std::size_t size() const { return slots_.size(); }
  /// Null for ids that do not exist (including kNoInterface).
  [[nodiscard]] InterfaceSlot* find(table::InterfaceId id) const {
    return id < slots_.size() ? slots_[id].get() : nullptr;
  }
  [[nodiscard]] InterfaceSlot* find(std::string_view name) const {
    for (const auto& s : slots_)
      if (s->control->name() == name) return s.get();
    return nullptr;
  }
  /// Empty for ids that do not exist.
  [[nodiscard]] std::string name_of(table::InterfaceId id) const {
    const InterfaceSlot* slot = find(id);
    return slot == nullptr ? std::string{} : slot->control->name();
  }
  /// True if `addr` is an own address on any interface.
  [[nodiscard]] bool has(const wire::IpAddr& addr) const {
    return std::any_of(slots_.begin(), slots_.end(),
                       [&](const auto& slot) { return slot->has(addr); });
  }
  [[nodiscard]] auto begin() const { return slots_.begin(); }
  [[nodiscard]] auto end() const { return slots_.end(); }

 private:
  std::vector<std::unique_ptr<InterfaceSlot>> slots_;
};

}  // namespace ipoib::mgmt
