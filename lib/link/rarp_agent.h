// SPDX-License-Identifier: BSD-3-Clause
// RARP: tells configured hosts their IPv4 addresses, and asks for this node's own.
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
  std::vector<std::pair<Hw, wire::IpAddr>> served;  ///< Who is to have which IPv4 address.
  bool ask = false;                                 ///< For this node's own address.
  std::uint8_t prefix_len = 24;  ///< Of that address: a RARP reply does not tell it.
};

struct RarpCounters {
  std::uint64_t requests = 0;  ///< Received.
  std::uint64_t answered = 0;
  std::uint64_t asked = 0;    ///< Sent for the own address.
  std::uint64_t invalid = 0;  ///< Replies nobody waits for, or with an address nobody can have.
};

template <class Hw>
class RarpAgent {
 public:
  using Listener = std::function<void(const wire::IpPrefix& own, TimePoint now)>;

  /// References are kept; `addresses`: this node's, the first of IPv4 is the sender's.
  RarpAgent(const RarpConfig<Hw>& config, const std::vector<wire::IpPrefix>& addresses,
            ArpTransport<Hw>& transport, Listener listener);

  /// Asks for the own address where configured and not known; six times, with growing pauses.
  void start(TimePoint now);
  /// Forgets the own address too.
  void stop();
  /// A record with operation 3 or 4.
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
