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

void MadShare::Counts::add(const Buckets& b, std::uint32_t n) noexcept {
  add_to(senders[b.sender], n);
  add_to(kinds[b.kind], n);
  add_to(all, n);
}

MadShare::Buckets MadShare::buckets_of(const Mad& mad) const noexcept {
  constexpr std::uint64_t kSender = 1ULL << 32, kKind = 2ULL << 32;
  const auto kind = static_cast<std::uint64_t>(mad.mgmt_class) << 8 | mad.method;
  return {.sender = hash_(kSender | mad.slid) % kBuckets, .kind = hash_(kKind | kind) % kBuckets};
}

std::uint32_t MadShare::taken() const noexcept {
  return held(in_.all, out_.all);
}

Drop MadShare::take(const Mad& mad) noexcept {
  expects_worker();
  const std::uint32_t nb_taken = taken();
  if (nb_taken >= places_) return Drop::kIbMadOverflow;
  const std::uint32_t nb_free = places_ - nb_taken;
  const Buckets b = buckets_of(mad);
  if (2 * held(in_.senders[b.sender], out_.senders[b.sender]) >= nb_free ||
      held(in_.kinds[b.kind], out_.kinds[b.kind]) >= nb_free)
    return Drop::kIbMadShare;
  in_.add(b, 1);
  return Drop::kNone;
}

void MadShare::undo(const Mad& mad) noexcept {
  expects_worker();
  in_.add(buckets_of(mad), -1U);
}

void MadShare::give_back(const Mad& mad) noexcept {
  expects_management();
  out_.add(buckets_of(mad), 1);
}

}  // namespace ipoib::soft
