// SPDX-License-Identifier: BSD-3-Clause
// Determines when a number or pointer that workers knew may be reused.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/contract.h"
#include "lib/fabric/grace.h"
#include "lib/fabric/retirement.h"
#include "lib/fabric/ring_ptr.h"
#include "lib/mgmt/worker/worker_set.h"

namespace ipoib::mgmt {

/// A period has three steps. First, every worker applies the messages that were sent to it and ends
/// its current loop: from then on no worker's tables have the retired name. Second, the packets
/// that workers had handed over until then are taken off the handoff rings, because they carry
/// numbers. Third, every worker ends one more loop, so that these packets have left.
///
/// Periods follow each other: names that are retired during one share the next. A worker that hangs
/// delays the end of the period, but no other work waits for it and no lcore blocks. It costs
/// workers nothing. Management lcore only.
class WorkerRetirement final : public fabric::Retirement {
 public:
  /// `qsbr`: quiescent states of the workers, in which each is registered while it runs.
  WorkerRetirement(const WorkerSet& workers, rte_rcu_qsbr& qsbr)
      : workers_{workers}, grace_{&qsbr} {}
  WorkerRetirement(const WorkerRetirement&) = delete;
  WorkerRetirement& operator=(const WorkerRetirement&) = delete;

  /// Adds a handoff ring of workers (fwd::WorkerConfig::handoff_out). Call before they run.
  void watch(const rte_ring& ring) { rings_.emplace_back(ring); }

  std::uint64_t start() override {
    expects_management();
    return wanted_ = begun_ + 1;
  }
  [[nodiscard]] bool over(std::uint64_t token) const override {
    expects_management();
    return token <= finished_;
  }

  /// Checks the progress of the workers. Call at the end of each turn of the loop, when every
  /// message is sent.
  void advance();

 private:
  enum class Step : std::uint8_t {
    kIdle,
    kTables,  ///< Workers apply messages and end their loop.
    kRings,   ///< Handed-over packets are taken.
    kLoops,   ///< These packets leave.
  };

  void begin();
  [[nodiscard]] bool tables_changed() const;
  void mark_rings();
  [[nodiscard]] bool rings_passed() const;

  const WorkerSet& workers_;
  fabric::Grace grace_;
  std::vector<fabric::RingMark> rings_;  ///< kRings: the last packets that may carry retired names.
  std::uint64_t wanted_ = 0;             ///< Number of the last period that was requested.
  std::uint64_t begun_ = 0;
  std::uint64_t finished_ = 0;
  Step step_ = Step::kIdle;
  std::uint64_t loops_ = 0;          ///< kTables, kLoops: the workers' grace period.
  std::vector<std::uint64_t> sent_;  ///< kTables: messages to each worker.
};

}  // namespace ipoib::mgmt
