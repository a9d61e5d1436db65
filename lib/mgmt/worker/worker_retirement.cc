// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/worker/worker_retirement.h"

#include <algorithm>

#include "lib/base/contract.h"

namespace ipoib::mgmt {

void WorkerRetirement::advance() {
  expects_management();
  if (step_ == Step::kTables && tables_changed()) mark_rings();
  if (step_ == Step::kRings && rings_passed()) {
    step_ = Step::kLoops;
    loops_ = grace_.start();
  }
  if (step_ == Step::kLoops && grace_.over(loops_)) {
    step_ = Step::kIdle;
    finished_ = begun_;
  }
  if (step_ == Step::kIdle && wanted_ > begun_) begin();
}

void WorkerRetirement::begin() {
  step_ = Step::kTables;
  begun_ = wanted_;
  sent_.clear();
  for (const WorkerHandle& w : workers_.all()) sent_.push_back(w.channel->sent());
  loops_ = grace_.start();
}

bool WorkerRetirement::tables_changed() const {
  for (std::size_t i = 0; i < sent_.size(); ++i)
    if (workers_.all()[i].worker->applied() < sent_[i]) return false;
  return grace_.over(loops_);
}

/// Once a worker has shown that it forgot a name, its rings show all packets that carry the name.
void WorkerRetirement::mark_rings() {
  step_ = Step::kRings;
  for (fabric::RingMark& ring : rings_) ring.set();
}

bool WorkerRetirement::rings_passed() const {
  return std::ranges::all_of(rings_, &fabric::RingMark::has_passed);
}

}  // namespace ipoib::mgmt
