// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous events of an InfiniBand device: they arrive sooner than polling detects a change,
// and they are the only way to learn that a subnet manager requests reregistration.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/fabric/fabric_types.h"

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

  /// Listens to this device and no other. A device without events (the fabric simulator's) never
  /// has any.
  virtual void open(const std::string& device) = 0;
  virtual void close() = 0;
  virtual std::optional<DeviceEvent> next() = 0;
};

/// Implements DeviceEvents with libibverbs.
[[nodiscard]] std::unique_ptr<DeviceEvents> make_device_events();

}  // namespace ipoib::umad
