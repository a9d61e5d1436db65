// SPDX-License-Identifier: BSD-3-Clause
// When what workers know by a number or a pointer may be given to something else.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/contract.h"
#include "lib/fabric/grace.h"
#include "lib/fabric/retirement.h"
#include "lib/mgmt/worker_set.h"

struct rte_ring;

namespace ipoib::mgmt {

/// A period has three steps. Every worker applies the messages that were sent to it and ends the
/// loop it is in: from then on no worker's tables name what is retired. What one worker had handed
/// to another until then is taken off the ring between them: such packets carry numbers. And every
/// worker ends its loop once more, so that what it took has left.
///
/// Periods follow each other, and whatever is retired while one is under way shares the next. A
/// worker that hangs delays the end of the period; nothing else waits for it, and nobody blocks.
/// Workers pay nothing for it. Management lcore only.
class WorkerRetirement final : public fabric::Retirement {
 public:
  /// `qsbr`: quiescent states of the workers, in which each is registered while it runs.
  WorkerRetirement(const WorkerSet& workers, rte_rcu_qsbr& qsbr)
      : workers_{workers}, grace_{&qsbr} {}
  WorkerRetirement(const WorkerRetirement&) = delete;
  WorkerRetirement& operator=(const WorkerRetirement&) = delete;

  /// Workers hand packets over by this ring (fwd::WorkerConfig::handoff_out). Before they run.
  void watch(const rte_ring& ring) { rings_.push_back({&ring, 0}); }

  std::uint64_t start() override {
    expects_management();
    return wanted_ = begun_ + 1;
  }
  [[nodiscard]] bool over(std::uint64_t token) const override {
    expects_management();
    return token <= finished_;
  }

  /// Looks how far the workers are. Call at the end of each turn of the loop, when every message is
  /// sent.
  void advance();

 private:
  enum class Step : std::uint8_t {
    kIdle,
    kTables,  ///< Workers apply messages and end their loop.
    kRings,   ///< What they had handed over is taken.
    kLoops,   ///< It leaves.
  };
  struct Ring {
    const rte_ring* ring;
    std::uint32_t end;  ///< kRings: behind the last packet that may carry a retired name.
  };

  void begin();
  [[nodiscard]] bool tables_changed() const;
  void mark_rings();
  [[nodiscard]] bool rings_passed() const;

  const WorkerSet& workers_;
  fabric::Grace grace_;
  std::vector<Ring> rings_;
  std::uint64_t wanted_ = 0;  ///< Periods are numbered; the last one that anybody asked for.
  std::uint64_t begun_ = 0;
  std::uint64_t finished_ = 0;
  Step step_ = Step::kIdle;
  std::uint64_t loops_ = 0;          ///< kTables, kLoops: the workers' grace period.
  std::vector<std::uint64_t> sent_;  ///< kTables: messages to each worker.
};

}  // namespace ipoib::mgmt
