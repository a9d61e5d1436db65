// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/turn_times.h"

#include <algorithm>

#include "lib/base/contract.h"
#include "lib/base/log.h"

namespace ipoib::mgmt {
namespace {

std::uint64_t ns_of(Duration d) {
  return static_cast<std::uint64_t>(std::max(d, Duration::zero()) / std::chrono::nanoseconds(1));
}

}  // namespace

void TurnTimes::add(TimePoint begin, TimePoint end) {
  expects_management();
  const Duration turn = end - begin;
  ns_.add(ns_of(turn));
  longest_ = std::max(longest_, turn);
  if (turn <= kSlow) return;
  ++slow_;
  if (logged_.allow(end))
    log(LogArea::kMgmt, LogLevel::kWarning,
        "a turn of the management lcore took {} ms; neighbours, groups and connections waited",
        turn / std::chrono::milliseconds(1));
}

ManagementInfo TurnTimes::info() const {
  fwd::Histogram::Counts counts{};
  ns_.add_to(counts);
  ManagementInfo info;
  for (const std::uint64_t n : counts) info.turns += n;
  info.slow_turns = slow_;
  info.p50_ns = fwd::Histogram::percentile(counts, 0.5);
  info.p99_ns = fwd::Histogram::percentile(counts, 0.99);
  info.p999_ns = fwd::Histogram::percentile(counts, 0.999);
  info.max_ns = ns_of(longest_);
  return info;
}

}  // namespace ipoib::mgmt
