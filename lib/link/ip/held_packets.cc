// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/held_packets.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ipoib::link {

std::size_t HeldPackets::most_for(const HeldQueue& queue) const {
  const std::size_t most = config_.max_held_per_neighbour;
  if (total_ < config_.max_held / 2) return most;
  return std::min(most, std::max<std::size_t>(queue.size(), 1));
}

std::size_t HeldPackets::kept_free(HeldShare share) const {
  switch (share) {
    case HeldShare::kOthers: return config_.max_held / 4;
    case HeldShare::kFew: return config_.max_held / 8;
    case HeldShare::kAll: break;
  }
  return 0;
}

HeldQueue::iterator HeldPackets::oldest_of(HeldQueue& queue, HeldPacket same_sender) const {
  return std::find_if(queue.begin(), queue.end(),
                      [this, sender = sink_.source_of(same_sender)](const Held& h) {
                        return sink_.source_of(h.packet) == sender;
                      });
}

void HeldPackets::hold(HeldQueue& queue, HeldPacket packet, HeldShare share, TimePoint now) {
  const std::size_t most = most_for(queue);
  const std::size_t limit = config_.max_held - kept_free(share);
  const std::size_t in_all = std::max(limit, total_);  // One packet out makes room for one.
  for (;;) {
    const Crowded crowded = sink_.crowded(packet);
    const bool full = queue.size() >= most || total_ >= in_all;
    if (!full && crowded == Crowded::kNo) break;
    const auto out = crowded == Crowded::kBySender ? oldest_of(queue, packet) : queue.begin();
    if (out == queue.end()) {
      sink_.drop(packet, Drop::kNeighbourPending, false);
      return;
    }
    const auto oldest = out->packet;
    queue.erase(out);
    --total_;
    sink_.drop(oldest, Drop::kNeighbourPending, false);
  }
  queue.push_back({packet, now + config_.max_held_age});
  ++total_;
}

HeldQueue HeldPackets::take(HeldQueue& queue) {
  total_ -= queue.size();
  return std::exchange(queue, {});
}

HeldQueue HeldPackets::take_expired(HeldQueue& queue, TimePoint now) {
  const auto fresh =
      std::find_if(queue.begin(), queue.end(), [now](const Held& h) { return h.expires > now; });
  HeldQueue expired{queue.begin(), fresh};
  queue.erase(queue.begin(), fresh);
  total_ -= expired.size();
  return expired;
}

}  // namespace ipoib::link
