// SPDX-License-Identifier: BSD-3-Clause
// The multicast filter of an ethdev. An ethdev whose filter is not set drops all multicast, and
// with it neighbour discovery and membership messages.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "lib/fabric/capabilities.h"
#include "lib/wire/ipoib.h"

namespace ipoib::mgmt {

/// The filter of one started ethdev: all multicast if the device offers that, else the joined
/// groups, else promiscuous mode. Management lcore only.
class PortGroups {
 public:
  PortGroups(std::uint16_t port, std::string device) : port_{port}, device_{std::move(device)} {}

  /// Chooses the filter and logs it. `promiscuous`: the device is in that mode already.
  void open(bool promiscuous);
  /// The device is closed. No call to it follows.
  void close() { filter_ = fabric::MulticastFilter::kUnknown; }
  [[nodiscard]] fabric::MulticastFilter filter() const { return filter_; }

  /// Receives frames to a group's address until it is left as often as it was joined, because
  /// several groups may have one address.
  void join(const wire::MacAddr& group);
  void leave(const wire::MacAddr& group);
  /// Receives frames to the group addresses of LLDP, which bridges do not pass on (IEEE 802.1AB).
  void join_lldp();
  /// Receives frames of all groups from now on, joined or not, because a multicast router forwards
  /// groups that others joined.
  void join_all();
  /// Call after the device was stopped and started again.
  void restore();

 private:
  void choose(fabric::MulticastFilter filter);
  /// False: the device does not accept this number of addresses.
  [[nodiscard]] bool program() const;
  void widen();

  std::uint16_t port_;
  std::string device_;
  fabric::MulticastFilter filter_ = fabric::MulticastFilter::kUnknown;
  std::map<wire::MacAddr, unsigned> joined_;  ///< Number of joins of each address.
};

}  // namespace ipoib::mgmt
