// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/mad_share.h"

#include "lib/base/contract.h"

namespace ipoib::soft {
namespace {

/// Adds to a counter with one writer. Readers need no order: a place that seems taken for longer
/// than it is only makes the ring look fuller.
void add_to(std::atomic<std::uint32_t>& counter, std::uint32_t n) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

std::uint32_t held(const std::atomic<std::uint32_t>& in,
                   const std::atomic<std::uint32_t>& out) noexcept {
  return in.load(std::memory_order_relaxed) - out.load(std::memory_order_relaxed);
}

}  // namespace

void MadShare::Counts::add(const Mad& mad, std::uint32_t n) noexcept {
  add_to(senders[mad.slid], n);
  add_to(kinds[kind_of(mad)], n);
  add_to(all, n);
}

std::uint32_t MadShare::taken() const noexcept {
  return held(in_.all, out_.all);
}

Drop MadShare::take(const Mad& mad) noexcept {
  expects_worker();
  const std::uint32_t nb_taken = taken();
  if (nb_taken >= places_) return Drop::kIbMadOverflow;
  const std::uint32_t nb_free = places_ - nb_taken;
  const std::size_t kind = kind_of(mad);
  if (2 * held(in_.senders[mad.slid], out_.senders[mad.slid]) >= nb_free ||
      held(in_.kinds[kind], out_.kinds[kind]) >= nb_free)
    return Drop::kIbMadShare;
  in_.add(mad, 1);
  return Drop::kNone;
}

void MadShare::undo(const Mad& mad) noexcept {
  expects_worker();
  in_.add(mad, -1U);
}

void MadShare::give_back(const Mad& mad) noexcept {
  expects_management();
  out_.add(mad, 1);
}

}  // namespace ipoib::soft
