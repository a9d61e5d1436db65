// SPDX-License-Identifier: BSD-3-Clause
// Limits of the queue pairs that peers cause to be made: each REQ that is accepted costs one, and
// about a millisecond of the management lcore. One port gets a share, however many names it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "lib/base/clock.h"
#include "lib/base/rate_limiter.h"
#include "lib/cm/port_name.h"

namespace ipoib::cm {

struct PortLimits {
  // One port. The burst serves a peer with many interfaces that all connect at once.
  Duration port_interval = std::chrono::milliseconds(20);  ///< 50 a second.
  std::uint32_t port_burst = 256;
  /// Connections that one port has requested and that are not over. The key connections-per-port.
  std::size_t port_max = 256;
  // All ports together.
  Duration interval = std::chrono::milliseconds(2);  ///< 500 a second.
  std::uint32_t burst = 512;
};

/// Management lcore only.
class PortLimiter {
 public:
  explicit PortLimiter(const PortLimits& limits)
      : limits_{limits}, all_{limits.interval, limits.burst} {}

  /// Returns true, and counts it, if a queue pair may be made for the port now.
  [[nodiscard]] bool allow(const PortName& port, TimePoint now);
  /// The connection of a queue pair that allow() or add() counted is over.
  void end(const PortName& port);

  /// Counts a connection that exists already, regardless of the limits.
  void add(const PortName& port) { ++port_of(port).connections; }
  /// Forgets all connections, before add() is called for each of them under another name.
  void clear() { ports_.clear(); }

  [[nodiscard]] std::size_t connections(const PortName& port) const;
  /// Number of ports that it knows; those that did nothing for a while are forgotten.
  [[nodiscard]] std::size_t ports() const { return ports_.size(); }

 private:
  struct Port {
    RateLimiter rate;
    std::size_t connections = 0;
  };
  Port& port_of(const PortName& name);
  void forget_idle(TimePoint now);

  PortLimits limits_;
  RateLimiter all_;
  std::map<PortName, Port> ports_;
  std::size_t forget_at_ = 64;  ///< Number of ports at which those that did nothing are forgotten.
};

}  // namespace ipoib::cm
