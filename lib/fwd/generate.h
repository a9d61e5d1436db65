// SPDX-License-Identifier: BSD-3-Clause
// Forward modes txonly, flowgen and latency: a worker makes packets and sends them like routed
// ones: prefix, next hop, neighbour, link.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/fwd/context.h"
#include "lib/fwd/generator.h"
#include "lib/fwd/pacer.h"

namespace ipoib::fwd {

/// State of one worker's packet generation.
class GeneratorState {
 public:
  explicit GeneratorState(unsigned worker) noexcept : worker_{worker} {}

  /// Makes the packets that are due by `tsc`, at most `burst`; once a loop. Returns their number.
  /// They are counted as WorkerStats::generated. Like all packets of this node they leave through
  /// Tx, are dropped under the reasons of the route and output stages (without an interface until
  /// the egress is known), or are punted to wait for their neighbour. Packets without an mbuf are
  /// not made and are counted as WorkerStats::no_mbuf.
  std::uint32_t paced(Context& c, const Generator& g, std::uint64_t tsc,
                      std::uint16_t burst) noexcept;
  /// Makes `n` packets now, at most kMaxBurst. Returns `n`, or 0 if there are no mbufs.
  std::uint32_t send(Context& c, const Generator& g, std::uint64_t tsc, std::uint16_t n) noexcept;

  /// For the start command: if more bursts are requested than sent, counts one as sent and returns
  /// true.
  [[nodiscard]] bool take_first(std::uint32_t requested) noexcept {
    if (requested == first_bursts_) [[likely]]
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
  std::size_t flow_ = 0;  ///< Next element of Generator::flows; may lie beyond its end.
  std::size_t size_ = 0;  ///< Next element of Generator::sizes; may lie beyond its end.
  Pacer pacer_;
};

}  // namespace ipoib::fwd
