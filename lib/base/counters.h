// SPDX-License-Identifier: BSD-3-Clause
// Counters that one thread writes and any thread reads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/base/drop.h"

namespace ipoib {

/// Counter with one writer. add() is a load, an add and a store, never a locked instruction;
/// readers may see a value that is slightly old. There is no reset(), which would race with the
/// writer: to clear statistics, readers subtract a saved snapshot.
class Counter {
 public:
  void add(std::uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t get() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// Packets lost, by reason. One writer.
struct DropCounters {
  std::array<Counter, kDropCount> by_reason;

  void add(Drop reason, std::uint64_t n = 1) noexcept {
    by_reason[static_cast<std::size_t>(reason)].add(n);
  }
  [[nodiscard]] std::uint64_t get(Drop reason) const noexcept {
    return by_reason[static_cast<std::size_t>(reason)].get();
  }
};

/// Sums of several writers' counters, at one moment.
struct DropTotals {
  std::array<std::uint64_t, kDropCount> by_reason{};

  void add(const DropCounters& counters) noexcept {
    for (std::size_t i = 0; i < kDropCount; ++i) by_reason[i] += counters.by_reason[i].get();
  }
  [[nodiscard]] std::uint64_t get(Drop reason) const noexcept {
    return by_reason[static_cast<std::size_t>(reason)];
  }
};

/// Counters of one lcore for one interface. Octets count from the IP or ARP header on.
/// Writer: the lcore that owns the struct.
struct alignas(64) InterfaceCounters {
  Counter rx_packets;
  Counter rx_bytes;
  Counter tx_packets;
  Counter tx_bytes;
  Counter tx_lost;  ///< Packets that the device took and dropped at once, under its own reason.
  DropCounters drops;
};

}  // namespace ipoib
