// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/flow_spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "lib/fwd/spread.h"

namespace ipoib::mgmt {
namespace {

/// Shares of its time at which a worker is short of it, and below which it can help others.
constexpr double kShort = 0.8, kIdle = 0.5;
/// Share of its time at which a worker that helps has too much work. Another worker that is busy for
/// less than kOverloaded without its help is better off alone then.
constexpr double kFull = 0.9, kOverloaded = 0.95;
/// Packets per second below which the time of a packet says nothing, because the worker is busy with
/// other things.
constexpr double kLeastRate = 1000;
/// A worker spreads its packets no longer if they would take less than this share of its time.
constexpr double kFits = 0.5;
/// A spread helps if a packet takes at most this part of the time before.
constexpr double kGain = 0.85;
/// Periods in a row in which a worker is short of time before it begins, and in which it has no gain
/// before it ends.
constexpr unsigned kPeriods = 2;

constexpr std::uint64_t bit(std::size_t worker) {
  return worker < fwd::Spread::kMaxWorkers ? std::uint64_t{1} << worker : 0;
}
double percent(double share) {
  return share * 100;
}
double seconds_per_packet(const FlowSpread::Load& load) {
  return load.busy / std::max(load.rate, 1.0);
}
double ns(double seconds) {
  return seconds * 1e9;
}

}  // namespace

std::vector<unsigned> worker_numbers(std::uint64_t workers) {
  std::vector<unsigned> numbers;
  for (; workers != 0; workers &= workers - 1)
    numbers.push_back(static_cast<unsigned>(std::countr_zero(workers)));
  return numbers;
}

bool FlowSpread::takes_part(unsigned worker) const {
  return worker < workers_.size() && (workers_[worker].shared_by != 0 ||
                                      std::ranges::any_of(workers_, [worker](const Worker& w) {
                                        return (w.shared_by & bit(worker)) != 0;
                                      }));
}

void FlowSpread::end(Worker& worker) {
  worker.shared_by = 0;
  worker.short_of_time = 0;
}

void FlowSpread::end_in_vain(Worker& worker, TimePoint now) {
  worker.not_before = now + worker.rest;
  worker.rest = std::min(2 * worker.rest, kLongestRest);
}

/// The idlest workers that have no part in a spread.
std::uint64_t FlowSpread::others_for(unsigned worker, std::span<const Load> loads) const {
  std::vector<unsigned> idle;
  for (unsigned i = 0; i < loads.size(); ++i)
    if (i != worker && bit(i) != 0 && !loads[i].hangs && loads[i].busy < kIdle && !takes_part(i))
      idle.push_back(i);
  std::ranges::stable_sort(idle, std::ranges::less{}, [&](unsigned i) { return loads[i].busy; });
  std::uint64_t others = 0;
  for (std::size_t i = 0; i < std::min(idle.size(), kMostOthers); ++i) others |= bit(idle[i]);
  return others;
}

/// The busiest worker that may begin does.
std::optional<FlowSpread::Change> FlowSpread::begin(std::span<const Load> loads, TimePoint now) {
  std::optional<unsigned> busiest;
  for (unsigned i = 0; i < loads.size(); ++i) {
    const Worker& w = workers_[i];
    if (bit(i) == 0 || w.short_of_time < kPeriods || now < w.not_before || takes_part(i)) continue;
    if (!busiest || loads[i].busy > loads[*busiest].busy) busiest = i;
  }
  if (!busiest) return std::nullopt;
  const std::uint64_t others = others_for(*busiest, loads);
  if (others == 0) return std::nullopt;
  Worker& w = workers_[*busiest];
  const Load& load = loads[*busiest];
  w.shared_by = bit(*busiest) | others;
  w.alone = seconds_per_packet(load);
  w.on_trial = true;
  w.without_gain = 0;
  return Change{*busiest, w.shared_by,
                fmt::format("it is {:.0f} % busy, and a packet takes it {:.0f} ns",
                            percent(load.busy), ns(w.alone))};
}

std::optional<FlowSpread::Change> FlowSpread::leave_out_hanging(unsigned worker,
                                                                std::span<const Load> loads) {
  Worker& w = workers_[worker];
  std::optional<unsigned> hangs;
  for (unsigned i = 0; i < loads.size(); ++i) {
    if (i == worker || !loads[i].hangs || (w.shared_by & bit(i)) == 0) continue;
    w.shared_by &= ~bit(i);
    hangs = i;
  }
  if (!hangs) return std::nullopt;
  if (w.shared_by == bit(worker)) end(w);
  return Change{worker, w.shared_by, fmt::format("worker {} hangs", *hangs)};
}

std::optional<std::string> FlowSpread::reason_to_end(Worker& worker, unsigned number,
                                                     std::span<const Load> loads, TimePoint now) {
  const Load& load = loads[number];
  if (load.hangs) return std::nullopt;
  const double alone = load.rate * worker.alone;
  if (alone < kFits || load.rate < kLeastRate) {
    if (worker.on_trial) end_in_vain(worker, now);  // else it would alternate
    return fmt::format("its packets would take it {:.0f} % of its time", percent(alone));
  }
  for (unsigned i = 0; alone < kOverloaded && i < loads.size(); ++i) {
    if (i == number || (worker.shared_by & bit(i)) == 0 || loads[i].busy <= kFull) continue;
    end_in_vain(worker, now);
    return fmt::format("worker {} is {:.0f} % busy, and its packets would take it {:.0f} %", i,
                       percent(loads[i].busy), percent(alone));
  }
  // In short bursts a packet takes longer, and nothing follows from it.
  const double shared = seconds_per_packet(load);
  const bool gains = shared <= kGain * worker.alone || (!worker.on_trial && load.busy < kFits);
  worker.without_gain = gains ? 0 : worker.without_gain + 1;
  if (worker.without_gain == (worker.on_trial ? 1 : kPeriods)) {
    end_in_vain(worker, now);
    return fmt::format("a packet takes it {:.0f} ns, and took {:.0f} ns before", ns(shared),
                       ns(worker.alone));
  }
  if (std::exchange(worker.on_trial, false)) worker.rest = kRest;
  return std::nullopt;
}

std::vector<FlowSpread::Change> FlowSpread::end_period(std::span<const Load> loads, bool allowed,
                                                       TimePoint now) {
  workers_.resize(loads.size());
  std::vector<Change> changes;
  for (unsigned i = 0; i < loads.size(); ++i) {
    Worker& w = workers_[i];
    const bool is_short = allowed && loads[i].busy > kShort && loads[i].rate >= kLeastRate &&
                          !loads[i].hangs && !loads[i].relieved;
    w.short_of_time = is_short ? w.short_of_time + 1 : 0;
    if (w.shared_by == 0) continue;
    if (auto change = leave_out_hanging(i, loads)) {
      changes.push_back(std::move(*change));
      continue;
    }
    const auto reason = allowed ? reason_to_end(w, i, loads, now) : "it may not share them now";
    if (!reason) continue;
    end(w);
    changes.push_back({i, 0, *reason});
  }
  if (allowed && changes.empty())
    if (auto change = begin(loads, now)) changes.push_back(std::move(*change));
  return changes;
}

}  // namespace ipoib::mgmt
