// SPDX-License-Identifier: BSD-3-Clause
// Which multicast frames an ethdev passes on. A filter that nobody set loses all multicast, and
// with it neighbour discovery and memberships.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "lib/fabric/capabilities.h"
#include "lib/wire/ipoib.h"

namespace ipoib::mgmt {

/// The filter of one started ethdev: all multicast where the device offers that, else the joined
/// groups, else promiscuous mode. Management lcore only.
class PortGroups {
 public:
  PortGroups(std::uint16_t port, std::string device) : port_{port}, device_{std::move(device)} {}

  /// Chooses, and logs what. `promiscuous`: the device is in that mode already.
  void open(bool promiscuous);
  /// The device is closed: nothing more is asked of it.
  void close() { filter_ = fabric::MulticastFilter::kUnknown; }
  [[nodiscard]] fabric::MulticastFilter filter() const { return filter_; }

  /// Frames to a group's address are received, until it is left as often as it was joined: several
  /// groups may have one address.
  void join(const wire::MacAddr& group);
  void leave(const wire::MacAddr& group);
  /// From now on frames of all groups are received, joined or not: a multicast router forwards
  /// what others joined.
  void join_all();
  /// The device was stopped and started again.
  void restore();

 private:
  void choose(fabric::MulticastFilter filter);
  /// False: the device does not take so many addresses.
  [[nodiscard]] bool program() const;
  void widen();

  std::uint16_t port_;
  std::string device_;
  fabric::MulticastFilter filter_ = fabric::MulticastFilter::kUnknown;
  std::map<wire::MacAddr, unsigned> joined_;  ///< How many times each.
};

}  // namespace ipoib::mgmt
