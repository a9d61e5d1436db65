// SPDX-License-Identifier: BSD-3-Clause
// Floods of requests for connections. Honest peers beside them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/wire/cm_mads.h"
#include "tests/flood/flood_rows.h"
#include "tests/flood/participants.h"

namespace ipoib::flood {

/// The interfaces in whose names requests are made: those that do not exist, other interfaces of the
/// requesting port, neighbours at other ports.
enum class Names : std::uint8_t { kMadeUp, kOwn, kOfOthers };

/// Acceptable requests, except for their names.
Flood requests(FloodNode& node, Names names);

/// Every kind of message of communication management, from ports that have no connection. They have
/// the IDs and names of connections that stand, or random IDs.
Flood forged_messages(FloodNode& node);

/// A request for a connection of a port in the name of an interface.
[[nodiscard]] wire::CmMad request_of(FloodNode& node, const CablePort& port, const CablePort& name,
                                     std::uint32_t id);

/// Established hosts that request a connection each, and repeat the request every second.
class Peers {
 public:
  /// Takes the MADs that no other receiver of `hosts` wants.
  Peers(FloodNode& node, SimHosts& hosts);
  void step();
  void wind_down() { winding_down_ = true; }
  /// Connections that stood within five seconds.
  [[nodiscard]] Share outcome() const;
  /// Number of connections that the node ended.
  [[nodiscard]] std::size_t ended() const { return ended_; }

 private:
  struct Peer {
    unsigned number = 0;
    TimePoint begin{};
    TimePoint sent{};
    bool answered = false;
    TimePoint answered_at{};
  };
  void on_mad(unsigned number, std::span<const std::byte> octets);

  FloodNode& node_;
  SimHosts& hosts_;
  std::vector<Peer> peers_;
  std::size_t ended_ = 0;
  TimePoint due_{};
  bool winding_down_ = false;
};

}  // namespace ipoib::flood
