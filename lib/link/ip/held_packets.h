// SPDX-License-Identifier: BSD-3-Clause
// Packets that wait for their neighbour: bounded per neighbour, in total and in age.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Places that a packet leaves free for others: the last quarter, the last eighth, or none.
enum class HeldShare : std::uint8_t { kOthers, kFew, kAll };

/// Keeps the limits over all queues of an interface, and those of the node by
/// NeighbourSink::crowded(). The caller owns packets that it takes out, and gives each to
/// NeighbourSink::release or drop once its own state is consistent.
class HeldPackets {
 public:
  HeldPackets(NeighbourSink& sink, const NeighbourConfig& config) : sink_{sink}, config_{config} {}

  /// Takes over `packet`. Once half of all places are taken, a queue has one packet, or as many as
  /// it has already. The last places are for some queues by their `share`; others keep what they have
  /// of them. At a limit the oldest packet of this queue is dropped, because the latest packet is
  /// the one most worth keeping (RFC 1122 §2.3.2.2); at a limit of the packet's sender, the oldest one
  /// of that sender. If there is none, `packet` itself is dropped. All under Drop::kNeighbourPending.
  void hold(HeldQueue& queue, HeldPacket packet, HeldShare share, TimePoint now);
  [[nodiscard]] HeldQueue take(HeldQueue& queue);
  [[nodiscard]] HeldQueue take_expired(HeldQueue& queue, TimePoint now);

  /// True if `packet` cannot wait unless another packet makes room.
  [[nodiscard]] bool full(HeldPacket packet) const {
    return total_ >= config_.max_held || sink_.crowded(packet) != Crowded::kNo;
  }
  [[nodiscard]] std::size_t total() const { return total_; }

 private:
  [[nodiscard]] std::size_t most_for(const HeldQueue& queue) const;
  [[nodiscard]] std::size_t kept_free(HeldShare share) const;
  [[nodiscard]] HeldQueue::iterator oldest_of(HeldQueue& queue, HeldPacket same_sender) const;

  NeighbourSink& sink_;
  const NeighbourConfig& config_;
  std::size_t total_ = 0;
};

}  // namespace ipoib::link
