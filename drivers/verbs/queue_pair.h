// SPDX-License-Identifier: BSD-3-Clause
// Making queue pairs with the best that a provider has to offer.
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
  ibv_qp_ex* extended = nullptr;  ///< The same; null: its provider knows no ibv_wr_*.
  SendLimits limits;              ///< As asked for, and what the provider made of them.
};

/// `wanted` says all but the protection domain and inline data; `limits.depth` and `limits.max_sge`
/// are asked for. Errors tell what the provider lacks.
[[nodiscard]] Result<QueuePair> create_qp(const Device& device, ibv_qp_init_attr_ex wanted,
                                          const SendLimits& limits);

/// For one thread, where the provider knows the difference. Null: errno says why. Nobody waits for
/// its completions.
[[nodiscard]] CqPtr create_cq(const Device& device, std::uint32_t entries);

/// Of `device`, for a send queue that `wanted` work requests should fit into.
[[nodiscard]] SendLimits send_limits(const Device& device, std::uint32_t wanted,
                                     std::uint32_t max_sge);

/// Tells queues of all devices apart, those that are no more too. Management lcore only.
[[nodiscard]] std::uint32_t next_queue_number();

/// To the next state; `mask` without the state's own bit. The system's error number, or 0.
[[nodiscard]] int modify(ibv_qp& qp, ibv_qp_state state, ibv_qp_attr attr, int mask);

}  // namespace ipoib::verbs
