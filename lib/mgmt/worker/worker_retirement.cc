// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/worker/worker_retirement.h"

#include <rte_ring.h>

#include <algorithm>

#include "lib/base/contract.h"

namespace ipoib::mgmt {
namespace {

/// True if everything before place `end` is off the ring. Places wrap at 2^32, so one that is far
/// ahead may look as if it were behind; but an empty ring has passed everything.
bool has_passed(const rte_ring& ring, std::uint32_t end) {
  return static_cast<std::int32_t>(ring.cons.tail - end) >= 0 || rte_ring_empty(&ring) != 0;
}

}  // namespace

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
  for (Ring& r : rings_) r.end = r.ring->prod.tail;
}

bool WorkerRetirement::rings_passed() const {
  return std::all_of(rings_.begin(), rings_.end(),
                     [](const Ring& r) { return has_passed(*r.ring, r.end); });
}

}  // namespace ipoib::mgmt
