// SPDX-License-Identifier: BSD-3-Clause
// Converts asynchronous events of libibverbs to the port events that every driver reports.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "lib/fabric/fabric_types.h"

namespace ipoib::fabric {

/// Returns none for an event that has no PortEvent. Source: ibv_get_async_event(3).
[[nodiscard]] constexpr std::optional<PortEvent> port_event_of(ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_PORT_ACTIVE: return PortEvent::kPortActive;
    case IBV_EVENT_PORT_ERR: return PortEvent::kPortDown;
    case IBV_EVENT_LID_CHANGE: return PortEvent::kLidChange;
    case IBV_EVENT_PKEY_CHANGE: return PortEvent::kPkeyChange;
    case IBV_EVENT_SM_CHANGE: return PortEvent::kSmChange;
    case IBV_EVENT_CLIENT_REREGISTER: return PortEvent::kClientReregister;
    case IBV_EVENT_GID_CHANGE: return PortEvent::kGidChange;
    case IBV_EVENT_DEVICE_FATAL: return PortEvent::kFatal;
    default: return std::nullopt;
  }
}

}  // namespace ipoib::fabric
