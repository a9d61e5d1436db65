// SPDX-License-Identifier: BSD-3-Clause
// One worker lcore: receives from the interfaces it owns, routes and sends, to completion; punts
// packets that the fast path cannot handle. The stages, one file each, do the work per packet.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/base/counters.h"
#include "lib/base/result.h"
#include "lib/fabric/sender_samples.h"
#include "lib/fwd/latency_recorder.h"
#include "lib/fwd/stats.h"
#include "lib/fwd/worker_config.h"

namespace ipoib::fwd {

class Worker {
 public:
  /// Checks the configuration; allocates all memory that the worker will ever use.
  /// kInvalidArgument: something missing or out of range; kNoResources: no memory.
  static Result<std::unique_ptr<Worker>> create(const WorkerConfig& config);

  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  /// Loops until stop(); registers with `rcu` meanwhile. Call on the worker's lcore:
  /// rte_eal_remote_launch(&Worker::launch, worker, lcore).
  void run() noexcept;
  static int launch(void* worker) noexcept;
  /// Any thread. run() returns after the loop it is in.
  void stop() noexcept;
  /// Management. Spreads the packets that this worker receives, by flow, over these workers, one
  /// bit each; 0: it keeps them all. It does so only in mode route, while forwarding is on. All
  /// packets of a flow stay in order (see Spread).
  void spread_over(std::uint64_t workers) noexcept;

  /// One pass of the loop, at the time `tsc`. Returns the number of packets and messages handled.
  /// run() calls it; tests and benchmarks call it directly.
  std::uint32_t iterate(std::uint64_t tsc) noexcept;
  /// iterate() at the present time.
  std::uint32_t iterate() noexcept;

  // Callable from any thread at any time:
  /// Number of completed messages from management: the values that they replaced are no longer in
  /// use.
  [[nodiscard]] std::uint64_t applied() const noexcept;
  [[nodiscard]] const WorkerStats& stats() const noexcept;
  /// The workers of spread_over().
  [[nodiscard]] std::uint64_t spreads_over() const noexcept;
  /// Counters of this worker for an interface of WorkerConfig::interfaces. Receive counters and
  /// drops before the egress is known count on the ingress interface, everything later on the
  /// egress interface.
  [[nodiscard]] const InterfaceCounters& counters(table::InterfaceId iface) const noexcept;
  /// Drops of packets that this node made, which have no ingress interface.
  [[nodiscard]] const InterfaceCounters& local_counters() const noexcept;
  /// Time-stamped packets that this worker received.
  [[nodiscard]] const LatencyRecorder& latency() const noexcept;
  /// Senders to this worker's queue pair of a link; null: it has none, or is the only one.
  [[nodiscard]] fabric::SenderSamples* senders(table::InterfaceId iface) const noexcept;
  /// Seconds since the process started when this worker last sent to the neighbour; 0: never.
  [[nodiscard]] std::uint32_t last_used_s(table::NeighbourIndex index) const noexcept;
  /// Any thread. Octets of this worker's own tables of neighbours and multicast deliveries.
  [[nodiscard]] std::size_t table_octets() const noexcept;

 private:
  struct State;
  explicit Worker(std::unique_ptr<State> state);
  void begin_loop(std::uint64_t tsc) noexcept;
  std::uint32_t generate(ForwardMode mode, std::uint64_t tsc, std::uint16_t burst) noexcept;

  std::unique_ptr<State> state_;
};

}  // namespace ipoib::fwd
