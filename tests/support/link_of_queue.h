// SPDX-License-Identifier: BSD-3-Clause
// A link that decides by the counters of a driver's queue pair.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "tests/support/sim_connections.h"

namespace ipoib::link {

/// A link and its peer, whose ports have four LIDs each. The driver's queue pair stands for that of their
/// connection, which has an alternate path.
class LinkOfQueue {
 public:
  /// `info`: that of the driver's queue pair.
  explicit LinkOfQueue(std::function<fabric::ConnectedQueueInfo()> info) : info_{std::move(info)} {
    give_lids(self_, peer_, 2);
    self_.meet(peer_);
    self_.talk(peer_);
    peer_.meet(self_);
    static_cast<void>(paths_of_peer(4s));
  }

  /// The driver reports that its queue pair has migrated.
  void migrated() {
    look();
    const auto& queue = queue_of(self_);
    self_.connections->on_queue_event(
        {queue.qpn(), fabric::QueueEvent::Kind::kMigrated, queue.alternates.back().path}, sim_.now);
  }

  /// Returns the number of alternate paths that the link has made its peer load by the end of this time.
  [[nodiscard]] std::size_t paths_of_peer(Duration passes) {
    look();
    sim_.run_for(passes);
    return queue_of(peer_).alternates.size();
  }

 private:
  static FakeConnectedQueue& queue_of(SimSide& side) { return side.queue(side.up().at(0).qpn); }
  void look() {
    if (!self_.up().empty()) queue_of(self_).info = info_();
  }

  std::function<fabric::ConnectedQueueInfo()> info_;
  SimConnections sim_;
  SimSide& self_ = sim_.add(rc());
  SimSide& peer_ = sim_.add(rc());
};

}  // namespace ipoib::link
