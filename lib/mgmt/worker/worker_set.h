// SPDX-License-Identifier: BSD-3-Clause
// The workers and the rings to them, shared by the parts of the management lcore.
#pragma once

#include <memory>
#include <vector>

#include "lib/fwd/worker.h"
#include "lib/mgmt/worker/worker_channel.h"

namespace ipoib::mgmt {

struct WorkerHandle {
  std::unique_ptr<WorkerChannel> channel;
  std::unique_ptr<fwd::Worker> worker;
  unsigned lcore = 0;
};

class WorkerSet {
 public:
  std::vector<WorkerHandle>& all() { return workers_; }
  [[nodiscard]] const std::vector<WorkerHandle>& all() const { return workers_; }

  void send(unsigned worker, const msg::Down& message) { workers_[worker].channel->send(message); }
  void send_to_all(const msg::Down& message) {
    for (WorkerHandle& w : workers_) w.channel->send(message);
  }

 private:
  std::vector<WorkerHandle> workers_;
};

}  // namespace ipoib::mgmt
