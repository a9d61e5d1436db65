// SPDX-License-Identifier: BSD-3-Clause
// Converts asynchronous events of libibverbs to the port events that every driver reports.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "lib/fabric/fabric_types.h"

namespace ipoib::drivers {

/// Returns none for an event that has no fabric::PortEvent. Source: ibv_get_async_event(3).
[[nodiscard]] constexpr std::optional<fabric::PortEvent> port_event_of(
    ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_PORT_ACTIVE: return fabric::PortEvent::kPortActive;
    case IBV_EVENT_PORT_ERR: return fabric::PortEvent::kPortDown;
    case IBV_EVENT_LID_CHANGE: return fabric::PortEvent::kLidChange;
    case IBV_EVENT_PKEY_CHANGE: return fabric::PortEvent::kPkeyChange;
    case IBV_EVENT_SM_CHANGE: return fabric::PortEvent::kSmChange;
    case IBV_EVENT_CLIENT_REREGISTER: return fabric::PortEvent::kClientReregister;
    case IBV_EVENT_GID_CHANGE: return fabric::PortEvent::kGidChange;
    case IBV_EVENT_DEVICE_FATAL: return fabric::PortEvent::kFatal;
    default: return std::nullopt;
  }
}

}  // namespace ipoib::drivers
