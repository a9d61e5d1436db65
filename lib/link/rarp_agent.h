// SPDX-License-Identifier: BSD-3-Clause
// RARP: answers configured hosts with their IPv4 addresses, and requests this node's own.
// Source: RFC 903; RFC 4391 §6, §9.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/link/medium.h"
#include "lib/wire/ipoib.h"

namespace ipoib::link {

template <class Hw>
struct RarpConfig {
  std::vector<std::pair<Hw, wire::IpAddr>> served;  ///< Hosts and their IPv4 addresses.
  bool ask = false;                                 ///< Request this node's own address.
  std::uint8_t prefix_len = 24;  ///< Prefix length of that address: a RARP reply has none.
};

template <class Hw>
class RarpAgent {
 public:
  using Listener = std::function<void(const wire::IpPrefix& own, TimePoint now)>;

  /// References are kept. `addresses`: this node's; the first IPv4 address is the sender's.
  RarpAgent(const RarpConfig<Hw>& config, const std::vector<wire::IpPrefix>& addresses,
            ArpTransport<Hw>& transport, Listener listener);

  /// Requests the own address if configured and unknown; six times, with growing intervals.
  void start(TimePoint now);
  /// Also forgets the own address.
  void stop();
  /// Handles a record with operation 3 or 4.
  void on_rarp(const wire::Arp<Hw>& arp, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return due_; }
  [[nodiscard]] const RarpCounters& counters() const { return counters_; }
  [[nodiscard]] const std::optional<wire::IpPrefix>& own() const { return own_; }

 private:
  void on_request(const wire::Arp<Hw>& arp, TimePoint now);

  const RarpConfig<Hw>& config_;
  const std::vector<wire::IpPrefix>& addresses_;
  ArpTransport<Hw>& transport_;
  Listener listener_;
  std::optional<TimePoint> due_;
  unsigned attempts_ = 0;
  std::optional<wire::IpPrefix> own_;
  RarpCounters counters_;
};

extern template class RarpAgent<wire::LinkAddr>;
extern template class RarpAgent<wire::MacAddr>;

}  // namespace ipoib::link
