// SPDX-License-Identifier: BSD-3-Clause
// A thread that loops like a worker: registered in an RCU variable, for a bounded number of loops.
// The test plays the management lcore meanwhile.
#pragma once

#include <rte_rcu_qsbr.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

namespace ipoib::test {

class WorkerThread {
 public:
  static constexpr std::uint32_t kLoops = 3'000;  ///< Enough for changes between loops.

  /// Runs `loop` at least `loops` times and until a change is reported, because the other thread
  /// may not have had a CPU before. `rcu` has room for a thread of that number.
  template <class Loop>
  WorkerThread(rte_rcu_qsbr* rcu, std::uint32_t loops, Loop loop, unsigned number = 0) {
    rte_rcu_qsbr_thread_register(rcu, number);
    rte_rcu_qsbr_thread_online(rcu, number);
    thread_ = std::thread{[this, rcu, loops, number, loop = std::move(loop)]() mutable {
      for (std::uint32_t i = 0; i < loops || !changed_.load(std::memory_order_relaxed); ++i) {
        loop();
        rte_rcu_qsbr_quiescent(rcu, number);
      }
      rte_rcu_qsbr_thread_offline(rcu, number);
      over_.store(true, std::memory_order_release);
    }};
  }
  ~WorkerThread() { join(); }
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  /// Reports a change that was made in parallel to the loops.
  void tell_of_change() { changed_.store(true, std::memory_order_relaxed); }
  /// True if the loops are done.
  [[nodiscard]] bool is_over() const { return over_.load(std::memory_order_acquire); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> changed_{false};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace ipoib::test
