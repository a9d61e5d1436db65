// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/load_balance.h"

#include <rte_cycles.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/mgmt/node/node_parts.h"

namespace ipoib::mgmt {

void LoadBalance::advance(TimePoint now) {
  if (parts_.workers.all().size() < 2 || now < due_) return;
  due_ = now + kPeriod;
  std::vector<WorkerLoad> workers = measure_workers();
  for (const auto& l : parts_.links)
    if (l->queue_pairs() > 1) balance(*l, workers, now);
  spread(workers, now);
}

void LoadBalance::balance(LinkInstance& link, std::vector<WorkerLoad>& workers, TimePoint now) {
  std::vector<link::QueueLoad> loads = measure(link, workers);
  link.control().balance(loads, now);
  for (unsigned i = 0; i < loads.size(); ++i) {
    const unsigned number = link.worker_of(i);
    if (spread_.takes_part(number)) continue;
    WorkerLoad& w = workers[number];
    if (loads[i].busy < w.busy) w.measured.relieved = true;
    // The next link must not fill the same gap.
    w.busy = loads[i].busy;
  }
}

void LoadBalance::spread(const std::vector<WorkerLoad>& workers, TimePoint now) {
  std::vector<FlowSpread::Load> loads;
  for (const WorkerLoad& w : workers) {
    loads.push_back(w.measured);
    // Neighbours may just have moved to it.
    loads.back().busy = std::max(w.measured.busy, w.busy);
  }
  const fwd::Settings& settings = parts_.tables.settings;
  const bool routes = settings.forwarding.load(std::memory_order_relaxed) &&
                      settings.mode.load(std::memory_order_relaxed) == fwd::ForwardMode::kRoute;
  for (const FlowSpread::Change& change :
       spread_.end_period(loads, routes && parts_.config.worker.balance, now)) {
    parts_.workers.all()[change.worker].worker->spread_over(change.workers);
    if (change.workers == 0)
      log(LogArea::kMgmt, LogLevel::kInfo, "worker {} handles its packets alone again: {}",
          change.worker, change.reason);
    else
      log(LogArea::kMgmt, LogLevel::kInfo, "worker {} spreads its packets over workers {}: {}",
          change.worker, fmt::join(worker_numbers(change.workers), ", "), change.reason);
  }
}

std::vector<LoadBalance::WorkerLoad> LoadBalance::measure_workers() {
  const std::vector<WorkerHandle>& all = parts_.workers.all();
  const std::uint64_t tsc = parts_.clock.tsc();
  const auto cycles = static_cast<double>(tsc - std::exchange(begin_tsc_, tsc));
  workers_.resize(all.size());
  std::vector<WorkerLoad> loads;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const fwd::Worker& w = *all[i].worker;
    WorkerMark now{.loops = w.stats().loops.get(), .busy_cycles = w.stats().busy_cycles.get()};
    for (const auto& slot : parts_.interfaces)
      now.packets += w.counters(slot->control->id()).rx_packets.get();
    const WorkerMark before = std::exchange(workers_[i], now);
    // A worker that hangs has no time.
    const bool hangs = now.loops == before.loops;
    const double busy =
        hangs ? 1.0
              : std::min(static_cast<double>(now.busy_cycles - before.busy_cycles) / cycles, 1.0);
    const auto packets = static_cast<double>(now.packets - before.packets);
    const double rate = packets / cycles * static_cast<double>(rte_get_tsc_hz());
    loads.push_back({.measured = {.busy = busy, .rate = rate, .hangs = hangs, .relieved = false},
                     .busy = busy,
                     .per_packet = busy / std::max(packets, 1.0)});
  }
  return loads;
}

std::vector<link::QueueLoad> LoadBalance::measure(const LinkInstance& link,
                                                  const std::vector<WorkerLoad>& workers) {
  std::vector<link::QueueLoad> loads;
  for (unsigned i = 0; i < link.queue_pairs(); ++i) {
    const unsigned number = link.worker_of(i);
    const fwd::Worker& w = *parts_.workers.all()[number].worker;
    const table::InterfaceId id = link.config().id;
    link::QueueLoad& load = loads.emplace_back();
    // A worker of a spread counts as full: no neighbour leaves it or comes to it, because its load
    // is not due to the packets that it receives itself.
    const bool takes_part = spread_.takes_part(number);
    load.busy = takes_part ? 1.0 : workers[number].busy;
    fabric::SenderSamples* const senders = w.senders(id);
    if (senders == nullptr) continue;
    auto period = senders->end_period();
    if (takes_part) continue;
    load.received = workers[number].per_packet * static_cast<double>(period.packets);
    load.senders = std::move(period.lids);
  }
  return loads;
}

}  // namespace ipoib::mgmt
