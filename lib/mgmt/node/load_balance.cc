// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/load_balance.h"

#include <algorithm>
#include <utility>

#include "lib/mgmt/node/node_parts.h"

namespace ipoib::mgmt {

void LoadBalance::advance(TimePoint now) {
  if (parts_.workers.all().size() < 2 || now < due_) return;
  due_ = now + kPeriod;
  std::vector<WorkerLoad> workers = measure_workers();
  for (const auto& l : parts_.links) {
    if (l->queue_pairs() < 2) continue;
    std::vector<link::QueueLoad> loads = measure(*l, workers);
    l->control().balance(loads, now);
    // The next link must not fill the same gap.
    for (unsigned i = 0; i < loads.size(); ++i) workers[l->worker_of(i)].busy = loads[i].busy;
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
    const double busy = now.loops == before.loops
                            ? 1.0
                            : static_cast<double>(now.busy_cycles - before.busy_cycles) / cycles;
    const auto packets = static_cast<double>(now.packets - before.packets);
    loads.push_back({.busy = std::min(busy, 1.0), .per_packet = busy / std::max(packets, 1.0)});
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
    load.busy = workers[number].busy;
    fabric::SenderSamples* const senders = w.senders(id);
    if (senders == nullptr) continue;
    auto period = senders->end_period();
    load.received = workers[number].per_packet * static_cast<double>(period.packets);
    load.senders = std::move(period.lids);
  }
  return loads;
}

}  // namespace ipoib::mgmt
