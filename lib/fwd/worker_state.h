// SPDX-License-Identifier: BSD-3-Clause
// The state of a worker; shared by worker_create.cc and worker.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lib/fabric/hca.h"
#include "lib/fabric/sender_samples.h"
#include "lib/fwd/context.h"
#include "lib/fwd/engine.h"
#include "lib/fwd/generate.h"
#include "lib/fwd/idle.h"
#include "lib/fwd/spread.h"
#include "lib/fwd/worker.h"

namespace ipoib::fwd {

struct Worker::State {
  struct Device {
    fabric::Hca* hca;
    unsigned worker;
    fabric::PollFn poll;
  };

  State(const WorkerConfig& config, std::unique_ptr<table::NeighbourTable> cache,
        std::unique_ptr<table::DeliveryTable> deliveries);

  // Set up once, read every loop.
  std::vector<Owned> owned;
  std::vector<std::unique_ptr<fabric::SenderSamples>> senders;
  std::vector<Device> devices;
  std::vector<rte_ring*> handoff_in;
  rte_ring* down;
  const Settings& settings;
  rte_rcu_qsbr* rcu;
  unsigned number;

  // Written by the worker.
  Idle idle;
  GeneratorState generating;
  Spread spread;
  std::uint64_t tsc_hz;
  std::uint64_t next_second_tsc;
  std::uint64_t loop_tsc = 0;  ///< Start of the loop.
  bool busy = false;           ///< The previous loop found work.

  Context context;

  /// Number of messages off the ring whose loop has ended. Writer: the worker.
  std::atomic<std::uint64_t> applied{0};
  /// Argument of Worker::spread_over(). Writer: management; the store is independent of other data.
  alignas(64) std::atomic<std::uint64_t> spread_over{0};
  /// Writer: any thread; the store is independent of other data.
  alignas(64) std::atomic<bool> stop{false};
};

}  // namespace ipoib::fwd
