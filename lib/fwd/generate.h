// SPDX-License-Identifier: BSD-3-Clause
// Forward modes txonly, flowgen and latency: a worker makes packets and sends them the way that
// routed ones go: prefix, next hop, neighbour, link.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/fwd/context.h"
#include "lib/fwd/generator.h"
#include "lib/fwd/pacer.h"

namespace ipoib::fwd {

/// How far one worker has come with what it generates.
class GeneratorRun {
 public:
  explicit GeneratorRun(unsigned worker) noexcept : worker_{worker} {}

  /// What is due by `tsc`, at most `burst` packets; once a loop. Returns how many were made.
  /// They are counted as WorkerStats::generated and leave as packets of this node do, by Tx, by the
  /// drop reasons of ip4_route, ip4_output and their like (under no interface until their way is
  /// known), or up, to wait for their neighbour. What no mbuf could be had for counts as
  /// WorkerStats::no_mbuf and is not made.
  std::uint32_t paced(Context& c, const Generator& g, std::uint64_t tsc,
                      std::uint16_t burst) noexcept;
  /// `n` packets now, at most kMaxBurst.
  std::uint32_t send(Context& c, const Generator& g, std::uint64_t tsc, std::uint16_t n) noexcept;

  /// Of the start command: whether more bursts were asked for than were sent. Counts one as sent.
  [[nodiscard]] bool take_first(std::uint32_t asked) noexcept {
    if (asked == first_bursts_) [[likely]]
      return false;
    ++first_bursts_;
    return true;
  }

 private:
  template <class Version>
  void fill_and_send(Context& c, const Generator& g, std::uint64_t tsc, const Burst& made) noexcept;

  unsigned worker_;
  std::uint32_t first_bursts_ = 0;
  std::uint32_t sequence_ = 0;
  std::uint16_t ip_id_ = 0;
  std::size_t flow_ = 0;  ///< Next of Generator::flows, which may have become fewer.
  std::size_t size_ = 0;  ///< Likewise.
  Pacer pacer_;
};

}  // namespace ipoib::fwd
