// SPDX-License-Identifier: BSD-3-Clause
// Stops, starts and removes the ethdevs of a node while its workers run.
#pragma once

#include <cstdint>

#include "lib/base/result.h"

namespace ipoib::mgmt {

struct NodeParts;
class PortInstance;

/// Management lcore only.
class PortDevices {
 public:
  explicit PortDevices(NodeParts& parts) : parts_{parts} {}

  /// Both do nothing if the device is in that state already.
  Status stop(PortInstance& port);
  Status start(PortInstance& port);
  /// Sets an MTU that is larger than the device's, octets. The device stops for the change.
  Status raise_mtu(PortInstance& port, std::uint16_t mtu);
  /// Closes devices that were taken away. Call periodically.
  void check_removals();

 private:
  void leave_alone(PortInstance& port);

  NodeParts& parts_;
};

}  // namespace ipoib::mgmt
