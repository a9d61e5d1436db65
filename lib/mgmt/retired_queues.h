// Connected queues that the control plane is done with, while workers may not be.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "lib/fabric/hca.h"
#include "lib/mgmt/worker_set.h"

namespace ipoib::mgmt {

/// Keeps each queue until every worker has applied the messages that replaced it in its tables.
class RetiredQueues {
 public:
  RetiredQueues(fabric::Hca& hca, const WorkerSet& workers) : hca_{hca}, workers_{workers} {}
  RetiredQueues(const RetiredQueues&) = delete;
  RetiredQueues& operator=(const RetiredQueues&) = delete;
  ~RetiredQueues() { destroy_all(); }

  /// What names the queue has been replaced: every message about it is sent.
  void add(fabric::ConnectedQueue& queue);
  /// Destroys those that no worker can name any more; call once per turn of the loop.
  void collect();
  /// No worker runs any more.
  void destroy_all();

 private:
  struct Retired {
    fabric::ConnectedQueue* queue;
    std::vector<std::uint64_t> after;  ///< Messages to each worker.
  };

  [[nodiscard]] bool is_free(const Retired& retired) const;

  fabric::Hca& hca_;
  const WorkerSet& workers_;
  std::deque<Retired> queues_;  ///< Oldest first.
};

}  // namespace ipoib::mgmt
