// SPDX-License-Identifier: BSD-3-Clause
// Memory that workers may still read in their current loop is kept until each of them has passed a
// quiescent state. Values that workers keep for longer need a Retirement (retirement.h).
#pragma once

#include <rte_rcu_qsbr.h>

#include <cstdint>

#include "lib/base/contract.h"

namespace ipoib::fabric {

/// Grace periods of the workers. Management lcore only; it must not be registered in the RCU
/// variable itself. Without a variable there is no worker, and every period is over at once.
class Grace {
 public:
  explicit Grace(rte_rcu_qsbr* qsbr) noexcept : qsbr_{qsbr} {}

  /// Call after the workers' last reference to the memory is removed.
  [[nodiscard]] std::uint64_t start() const noexcept {
    expects_management();
    return qsbr_ != nullptr ? rte_rcu_qsbr_start(qsbr_) : 0;
  }
  [[nodiscard]] bool over(std::uint64_t token) const noexcept {
    expects_management();
    return qsbr_ == nullptr || rte_rcu_qsbr_check(qsbr_, token, false) == 1;
  }
  /// Blocks for at most one loop of the slowest worker.
  void wait() const noexcept {
    expects_management();
    if (qsbr_ != nullptr) rte_rcu_qsbr_synchronize(qsbr_, RTE_QSBR_THRID_INVALID);
  }

 private:
  rte_rcu_qsbr* qsbr_;
};

}  // namespace ipoib::fabric
