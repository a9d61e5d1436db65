// SPDX-License-Identifier: BSD-3-Clause
// Creates queue pairs with the best features that a provider offers.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "drivers/verbs/device.h"
#include "drivers/verbs/handles.h"
#include "drivers/verbs/send_queue.h"
#include "lib/base/result.h"

namespace ipoib::verbs {

struct QueuePair {
  QpPtr qp;
  ibv_qp_ex* extended = nullptr;  ///< Extended `qp`; null: its provider has no ibv_wr_*.
  SendLimits limits;              ///< Requested limits; `max_inline` as granted.
};

/// For the worker's use only. `wanted` has all attributes except the protection domain, inline data and the send queue's
/// `limits.depth` and `limits.max_sge`. Errors name the feature that the provider lacks.
[[nodiscard]] Result<QueuePair> create_qp(Device& device, unsigned worker,
                                          ibv_qp_init_attr_ex wanted, const SendLimits& limits);

/// Creates a completion queue of the worker without completion channel, for one thread if the
/// provider supports that. Null: errno has the reason.
[[nodiscard]] CqPtr create_cq(Device& device, unsigned worker, std::uint32_t entries);

/// Returns the limits of a send queue of `device`; `wanted` and `max_sge` are upper bounds.
[[nodiscard]] SendLimits send_limits(const Device& device, std::uint32_t wanted,
                                     std::uint32_t max_sge);

/// Returns a number unique among queues of all devices, destroyed ones too. Management lcore only.
[[nodiscard]] std::uint32_t next_queue_number();

/// Moves `qp` to `state`; `mask` leaves out IBV_QP_STATE. Returns 0 or an errno value.
[[nodiscard]] int modify(ibv_qp& qp, ibv_qp_state state, ibv_qp_attr attr, int mask);

}  // namespace ipoib::verbs
