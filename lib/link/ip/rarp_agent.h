// SPDX-License-Identifier: BSD-3-Clause
// RARP: answers configured hosts with their IPv4 addresses, and requests this node's own.
// Source: RFC 903; RFC 4391 §6, §9.4.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/link/medium.h"
#include "lib/wire/arp.h"

namespace ipoib::link {

struct RarpConfig {
  std::vector<std::pair<wire::HwAddr, wire::IpAddr>> served;  ///< Hosts and their IPv4 addresses.
  bool ask = false;                                           ///< Request this node's own address.
  std::uint8_t prefix_len = 24;  ///< Prefix length of that address: a RARP reply has none.
};

class RarpAgent {
 public:
  using Listener = std::function<void(const wire::IpPrefix& own, TimePoint now)>;

  /// References are kept. `addresses`: this node's; the first IPv4 address is the sender's.
  RarpAgent(const RarpConfig& config, const std::vector<wire::IpPrefix>& addresses, Medium& medium,
            Listener listener);

  /// Requests the own address if configured and unknown; six times, with growing intervals.
  void start(TimePoint now);
  /// Also forgets the own address.
  void stop();
  /// Precondition: `arp` is a RARP record.
  void on_rarp(const wire::Arp& arp, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return due_; }
  [[nodiscard]] const RarpCounters& counters() const { return counters_; }
  [[nodiscard]] const std::optional<wire::IpPrefix>& learned() const { return learned_; }

 private:
  void on_request(const wire::Arp& arp, TimePoint now);

  const RarpConfig& config_;
  const std::vector<wire::IpPrefix>& addresses_;
  Medium& medium_;
  Listener listener_;
  std::optional<TimePoint> due_;
  unsigned attempts_ = 0;
  std::optional<wire::IpPrefix> learned_;
  RarpCounters counters_;
};

}  // namespace ipoib::link
