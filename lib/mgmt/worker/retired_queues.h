// SPDX-License-Identifier: BSD-3-Clause
// Connected queues that the control plane has released, while workers may still use them.
#pragma once

#include "lib/fabric/hca.h"
#include "lib/fabric/retirement.h"

namespace ipoib::mgmt {

/// Keeps each queue until no worker can name it any more.
class RetiredQueues {
 public:
  RetiredQueues(fabric::Hca& hca, fabric::Retirement& retirement)
      : hca_{hca}, retirement_{retirement} {}
  RetiredQueues(const RetiredQueues&) = delete;
  RetiredQueues& operator=(const RetiredQueues&) = delete;
  ~RetiredQueues() { destroy_all(); }

  /// Precondition: every message that replaces the queue in workers' tables is sent.
  void add(fabric::ConnectedQueue& queue) { queues_.add(&queue, retirement_); }
  /// Destroys the queues whose retirement is over; call once per turn of the loop.
  void collect() {
    queues_.reclaim(retirement_, [this](auto* queue) { destroy(*queue); });
  }
  /// Precondition: no worker runs any more.
  void destroy_all() {
    queues_.reclaim_all([this](auto* queue) { destroy(*queue); });
  }

 private:
  void destroy(fabric::ConnectedQueue& queue) {
    hca_.connected_transport()->destroy_connected_queue(queue);
  }

  fabric::Hca& hca_;
  fabric::Retirement& retirement_;
  fabric::Retired<fabric::ConnectedQueue*> queues_;
};

}  // namespace ipoib::mgmt
