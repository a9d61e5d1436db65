// SPDX-License-Identifier: BSD-3-Clause
// The way of IGMP and MLD messages onto links.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/table/neighbour.h"

namespace ipoib::route {

/// Sends packets on links. Implemented by lib/mgmt (msg::Down kSendOnInterface) and by tests.
class MulticastSender {
 public:
  virtual ~MulticastSender() = default;
  /// Sends a whole IP packet to its group; TTL or hop limit stays.
  virtual void send(table::InterfaceId iface, std::vector<std::byte> packet) = 0;
};

}  // namespace ipoib::route
