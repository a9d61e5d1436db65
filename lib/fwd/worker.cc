// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/worker.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_rcu_qsbr.h>

#include <algorithm>
#include <atomic>

#include "lib/base/contract.h"
#include "lib/fwd/engine.h"
#include "lib/fwd/handoff.h"
#include "lib/fwd/inject.h"
#include "lib/fwd/worker_state.h"

namespace ipoib::fwd {
namespace {

template <class T>
T get(const std::atomic<T>& setting) noexcept {
  return setting.load(std::memory_order_relaxed);
}

std::uint16_t rx_burst(const Owned& owned, rte_mbuf** pkts, std::uint16_t n) noexcept {
  if (owned.receive_queue != nullptr) return owned.receive_queue->rx_burst(pkts, n);
  if (owned.ud_queue != nullptr) return owned.ud_queue->rx_burst(pkts, n);
  const InterfaceEntry& entry = *owned.entry;
  if (entry.is_stopped()) [[unlikely]]
    return 0;
  return rte_eth_rx_burst(entry.ethdev_port, owned.ethdev_queue, pkts, n);
}

msg::trace::Stage first_stage(const Owned& owned, ForwardMode mode) noexcept {
  using msg::trace::Stage;
  if (mode == ForwardMode::kIo) return Stage::kIoForward;
  return owned.entry->kind == InterfaceKind::kEthernet ? Stage::kEthInput : Stage::kIpoibInput;
}

/// Follows the packets that match. Those of an interface that is down enter no stage.
[[gnu::cold]] void trace_arrival(Context& c, const Owned& owned, const Burst& rx, ForwardMode mode,
                                 bool down) noexcept {
  c.trace.begin(rx.span(), owned.id, Tracer::link_header(*owned.entry));
  if (!down) c.trace.entered(rx.span(), first_stage(owned, mode), owned.receive_queue != nullptr);
}

/// The settings of one loop.
struct Loop {
  std::uint16_t max_received;  ///< Packets of a receive call.
  ForwardMode mode;
  Engine engine;
  bool forwarding;
};

/// Receives a burst from one queue and handles it. Returns the number of packets. Inline, because a
/// call costs 1.5 instructions a packet.
[[gnu::always_inline]] inline std::uint16_t receive(Context& c, Spread& spread, const Owned& owned,
                                                    const Loop& loop) noexcept {
  Burst rx;
  const std::uint16_t n = rx.n = rx_burst(owned, rx.pkts.data(), loop.max_received);
  c.stats.count_burst(n);
  if (n == 0) return 0;
  const Ingress in = c.ingress(owned.id);
  in.counters.rx_packets.add(n);
  if (owned.senders != nullptr) owned.senders->count(rx.span());
  const bool down = get(owned.entry->admin_down);
  if (c.trace.armed()) [[unlikely]]
    trace_arrival(c, owned, rx, loop.mode, down);
  if (down) [[unlikely]] {
    DropBin{c.trace, in.counters.drops}.add(rx.span(), Drop::kInterfaceDown);
    return n;
  }
  if (spread.is_on()) [[unlikely]]
    spread.hand_on(c, in, rx);
  loop.engine(c, in, rx, loop.forwarding);
  return n;
}

}  // namespace

std::uint32_t Worker::iterate() noexcept {
  return iterate(rte_rdtsc());
}

std::uint32_t Worker::iterate(std::uint64_t tsc) noexcept {
  State& s = *state_;
  const ActingAs role{LcoreRole::worker_number(s.number)};
  Context& c = s.context;
  begin_loop(tsc);

  const std::uint16_t burst = std::clamp<std::uint16_t>(get(s.settings.burst), 1, kMaxBurst);
  const std::uint16_t received = std::max(burst, kMinReceived);
  const bool forwarding = get(s.settings.forwarding);
  const ForwardMode mode = get(s.settings.mode);
  const Engine engine = engine_of(mode);
  const bool may_spread = forwarding && mode == ForwardMode::kRoute;
  const bool receives = s.spread.follow(may_spread ? get(s.spread_over) : 0, tsc);
  std::uint32_t work = 0;
  for (const State::Device& device : s.devices)
    work += device.poll(*device.hca, device.worker, receives ? received : std::uint16_t{0});
  c.frame_heads.follow(*c.neighbours);
  const std::uint32_t messages = inject(c, s.down);
  work += messages + handoff_input(c, s.handoff_in, engine, forwarding);
  if (receives) [[likely]]
    for (const Owned& owned : s.owned)
      work += receive(c, s.spread, owned, {received, mode, engine, forwarding});

  if (forwarding) work += generate(mode, tsc, burst);

  c.tx.flush();
  c.trace.end_loop();
  if (messages != 0) [[unlikely]]
    s.applied.store(s.applied.load(std::memory_order_relaxed) + messages,
                    std::memory_order_release);
  c.punt.ring_doorbell();
  rte_rcu_qsbr_quiescent(s.rcu, s.number);
  s.busy = work != 0;
  return work;
}

std::uint32_t Worker::generate(ForwardMode mode, std::uint64_t tsc, std::uint16_t burst) noexcept {
  State& s = *state_;
  const bool first = s.generating.take_first(get(s.settings.first_bursts));
  if (!first && !makes_packets(mode)) [[likely]]
    return 0;
  // Acquire: pairs with the release store after the generator was prepared.
  const Generator* const generator = s.settings.generator.load(std::memory_order_acquire);
  if (generator == nullptr) return 0;
  return first ? s.generating.send(s.context, *generator, tsc, burst)
               : s.generating.paced(s.context, *generator, tsc, burst);
}

void Worker::begin_loop(std::uint64_t tsc) noexcept {
  State& s = *state_;
  WorkerStats& stats = s.context.stats;
  stats.loops.add(1);
  if (s.busy) {
    stats.busy_loops.add(1);
    stats.busy_cycles.add(tsc - s.loop_tsc);
  }
  s.loop_tsc = tsc;
  s.context.punt.begin_loop(tsc);
  s.context.filter.begin_loop();
  for (; tsc >= s.next_second_tsc; s.next_second_tsc += s.tsc_hz) ++s.context.now_s;
}

void Worker::run() noexcept {
  State& s = *state_;
  allow_short_sleeps();
  rte_rcu_qsbr_thread_register(s.rcu, s.number);
  rte_rcu_qsbr_thread_online(s.rcu, s.number);
  while (!get(s.stop)) {
    const bool busy = iterate() != 0;
    s.idle.after(get(s.settings.idle), busy || s.spread.is_changing());
  }
  rte_rcu_qsbr_thread_offline(s.rcu, s.number);
  rte_rcu_qsbr_thread_unregister(s.rcu, s.number);
}

int Worker::launch(void* worker) noexcept {
  static_cast<Worker*>(worker)->run();
  return 0;
}

void Worker::stop() noexcept {
  state_->stop.store(true, std::memory_order_relaxed);
}

void Worker::spread_over(std::uint64_t workers) noexcept {
  state_->spread_over.store(workers, std::memory_order_relaxed);
}

std::uint64_t Worker::spreads_over() const noexcept {
  return get(state_->spread_over);
}

std::uint64_t Worker::applied() const noexcept {
  return state_->applied.load(std::memory_order_acquire);
}

const WorkerStats& Worker::stats() const noexcept {
  return state_->context.stats;
}

const InterfaceCounters& Worker::counters(table::InterfaceId iface) const noexcept {
  expects(iface < state_->context.interfaces.size(), "the interface exists");
  return state_->context.counters[iface];
}

const InterfaceCounters& Worker::local_counters() const noexcept {
  return state_->context.counters.back();
}

const LatencyRecorder& Worker::latency() const noexcept {
  return *state_->context.latency;
}

fabric::SenderSamples* Worker::senders(table::InterfaceId iface) const noexcept {
  for (const Owned& owned : state_->owned)
    if (owned.id == iface && owned.senders != nullptr) return owned.senders;
  return nullptr;
}

std::uint32_t Worker::last_used_s(table::NeighbourIndex index) const noexcept {
  return state_->context.neighbours->last_used_s(index);
}

std::size_t Worker::table_octets() const noexcept {
  return state_->context.neighbours->memory_size() + state_->context.deliveries->memory_size();
}

}  // namespace ipoib::fwd
