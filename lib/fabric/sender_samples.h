// SPDX-License-Identifier: BSD-3-Clause
// A sample of the ports whose packets a UD queue pair receives. Management moves neighbours away
// from busy workers by it.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/fabric/packet_meta.h"

namespace ipoib::fabric {

/// Writer: the worker that owns the queue pair. It looks at one packet of every 64th burst.
class SenderSamples {
 public:
  static constexpr unsigned kEvery = 64;
  static constexpr std::size_t kSize = 512;

  /// Shape: `pkts` is not empty, PacketMeta::rx is filled.
  void count_burst(std::span<rte_mbuf* const> pkts) noexcept {
    if (++bursts_ % kEvery != 0) [[likely]]
      return;
    // A linear congruential generator, so that no place in a burst is preferred.
    random_ = random_ * 1'664'525 + 1'013'904'223;
    const auto place = static_cast<std::size_t>(std::uint64_t{random_} * pkts.size() >> 32);
    const PacketMeta::Rx& rx = meta_of(pkts[place]).rx;
    const std::uint64_t taken = taken_.load(std::memory_order_relaxed);
    lids_[taken % kSize].store(rx.multicast ? 0 : rx.slid, std::memory_order_relaxed);
    taken_.store(taken + 1, std::memory_order_release);
  }

  /// Any thread. Returns the source LIDs of the packets since number `from`, except those that are
  /// overwritten, and sets `from` to the number of the next one. 0: a multicast packet.
  [[nodiscard]] std::vector<std::uint16_t> since(std::uint64_t& from) const {
    const std::uint64_t taken = taken_.load(std::memory_order_acquire);
    std::vector<std::uint16_t> lids;
    for (std::uint64_t i = std::max(from, taken - std::min<std::uint64_t>(taken, kSize)); i < taken;
         ++i)
      lids.push_back(lids_[i % kSize].load(std::memory_order_relaxed));
    from = taken;
    return lids;
  }

 private:
  unsigned bursts_ = 0;
  std::uint32_t random_ = 1;
  std::atomic<std::uint64_t> taken_{0};
  std::array<std::atomic<std::uint16_t>, kSize> lids_{};
};

}  // namespace ipoib::fabric
