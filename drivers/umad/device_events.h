// SPDX-License-Identifier: BSD-3-Clause
// What an InfiniBand device says of itself without being asked: sooner than polling finds out, and
// the one way to hear that a subnet manager wants to be registered with again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/fabric/types.h"

namespace ipoib::umad {

struct DeviceEvent {
  fabric::PortEvent kind;
  std::uint8_t port = 0;  ///< 0: the whole device.
};

/// Management lcore only.
class DeviceEvents {
 public:
  DeviceEvents() = default;
  DeviceEvents(const DeviceEvents&) = delete;
  DeviceEvents& operator=(const DeviceEvents&) = delete;
  virtual ~DeviceEvents() = default;

  /// Listens to the device, and no longer to another. One without events (the fabric simulator's)
  /// never has any.
  virtual void open(const std::string& device) = 0;
  virtual void close() = 0;
  virtual std::optional<DeviceEvent> next() = 0;
};

/// By libibverbs.
[[nodiscard]] std::unique_ptr<DeviceEvents> make_device_events();

}  // namespace ipoib::umad
