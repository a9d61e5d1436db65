// SPDX-License-Identifier: BSD-3-Clause
// Packets that wait for their neighbour: bounded per neighbour, in total and in age.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/base/clock.h"
#include "lib/link/interface.h"

namespace ipoib::link {

struct Held {
  HeldPacket packet;
  TimePoint expires;
};
/// Packets of one neighbour, oldest first.
using HeldQueue = std::vector<Held>;

/// Keeps the bounds over all queues of an interface, and the node's by NeighbourSink::crowded().
/// Packets taken out are the caller's, who gives each to NeighbourSink::release or drop once its
/// own state is in order.
class HeldPackets {
 public:
  HeldPackets(NeighbourSink& sink, const NeighbourConfig& config) : sink_{sink}, config_{config} {}

  /// Takes over `packet`. Where a bound is reached the oldest of this queue makes room, because the
  /// latest packet is the one most worth keeping (RFC 1122 §2.3.2.2); where there is none, `packet`
  /// itself goes, under Drop::kNeighbourPending.
  void hold(HeldQueue& queue, HeldPacket packet, TimePoint now);
  [[nodiscard]] HeldQueue take(HeldQueue& queue);
  [[nodiscard]] HeldQueue take_expired(HeldQueue& queue, TimePoint now);

  /// Where nothing makes room, `packet` cannot wait.
  [[nodiscard]] bool full(HeldPacket packet) const {
    return total_ >= config_.max_held || sink_.crowded(packet);
  }
  [[nodiscard]] std::size_t total() const { return total_; }

 private:
  NeighbourSink& sink_;
  const NeighbourConfig& config_;
  std::size_t total_ = 0;
};

}  // namespace ipoib::link
