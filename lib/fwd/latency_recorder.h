// SPDX-License-Identifier: BSD-3-Clause
// Record of the time-stamped packets that one worker received: their latency, and the sequence
// numbers of each sender. Writer: that worker; readers: any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lib/base/contract.h"
#include "lib/base/counters.h"
#include "lib/fwd/histogram.h"

namespace ipoib::fwd {

class LatencyRecorder {
 public:
  static constexpr std::size_t kStreams = 128;  ///< Workers that send.
  /// A number that arrives this much later than others cannot be distinguished from a duplicate and
  /// counts as late.
  static constexpr std::uint64_t kWindow = 2048;

  /// Packets of one sender. Over all recorders, the largest `next` less the sum of `received` is
  /// the loss.
  struct Stream {
    Counter received;    ///< Each number once.
    Counter duplicates;  ///< Received again; counted in no other counter.
    Counter late;        ///< Part of `received`: after a larger number.
    Counter next;        ///< Largest number received, plus one.
  };

  /// Sequence numbers start at 0 and are the low 32 bits of the 64 that `next` has.
  void record(std::size_t stream, std::uint32_t sequence, std::uint64_t ns) noexcept {
    expects(stream < kStreams, "the sender has a number");
    writer_.expects_owner();
    if (take(stream, sequence)) histogram_.add(ns);
  }
  [[nodiscard]] const Stream& stream(std::size_t i) const noexcept { return streams_[i]; }
  [[nodiscard]] const Histogram& histogram() const noexcept { return histogram_; }

 private:
  using Bits = std::array<std::uint64_t, kWindow / 64>;

  /// Returns false for a duplicate.
  bool take(std::size_t i, std::uint32_t sequence) noexcept {
    Stream& s = streams_[i];
    Bits& bits = seen_[i];
    const std::uint64_t next = s.next.get();
    const auto ahead = static_cast<std::int32_t>(sequence - static_cast<std::uint32_t>(next));
    const std::uint64_t number = next + static_cast<std::uint64_t>(std::int64_t{ahead});
    if (ahead >= 0) {
      if (static_cast<std::uint64_t>(ahead) >= kWindow)
        bits = {};
      else
        for (std::uint64_t skipped = next; skipped < number; ++skipped)
          word(bits, skipped) &= ~bit(skipped);
      s.next.add(static_cast<std::uint64_t>(ahead) + 1);
    } else if (next - number <= kWindow && (word(bits, number) & bit(number)) != 0) {
      s.duplicates.add(1);
      return false;
    } else {
      s.late.add(1);
    }
    // A number older than the window shares its bit with a number that was received or is overdue.
    if (ahead >= 0 || next - number <= kWindow) word(bits, number) |= bit(number);
    s.received.add(1);
    return true;
  }
  static std::uint64_t& word(Bits& bits, std::uint64_t n) noexcept {
    return bits[n % kWindow / 64];
  }
  static std::uint64_t bit(std::uint64_t n) noexcept { return std::uint64_t{1} << (n % 64); }

  Histogram histogram_;
  std::array<Stream, kStreams> streams_;
  std::array<Bits, kStreams> seen_{};
  [[no_unique_address]] OneLcore writer_;
};

}  // namespace ipoib::fwd
