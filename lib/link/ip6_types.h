// SPDX-License-Identifier: BSD-3-Clause
// Types of IPv6 on an interface: configuration, addresses and counters.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "lib/base/clock.h"
#include "lib/wire/ip.h"
#include "lib/wire/ipoib.h"
#include "lib/wire/nd.h"

namespace ipoib::link {

struct Ip6Config {
  bool enabled = true;
  /// This node is a router: advertisements say so, and the all-routers groups are joined.
  bool routing = true;
  /// Solicits routers; those that answer become default routers, and redirects are accepted.
  bool accept_ra = false;
  /// Sends router advertisements while IPv6 is up, if `routing`.
  bool router_advertisement = false;
  wire::InterfaceIdRule interface_id = wire::InterfaceIdRule::kSetUniversal;
  unsigned dad_transmits = 1;  ///< Solicitations of duplicate address detection; 0: off.
  Duration dad_delay = std::chrono::seconds(1);   ///< Upper limit of the first one's delay.
  Duration retransmit = std::chrono::seconds(1);  ///< Between them and after the last.
  Duration dad_retry = std::chrono::seconds(60);  ///< Mean time until a duplicate is tried again.
  Duration ra_min_interval = std::chrono::seconds(200);
  Duration ra_max_interval = std::chrono::seconds(600);
  Duration ra_lifetime = std::chrono::seconds(1800);  ///< 0: advertises, but is no default router.
};

enum class AddressState : std::uint8_t { kTentative, kReady, kDuplicate };
[[nodiscard]] std::string_view to_string(AddressState state);

/// One address of this node, for display.
struct AddressInfo {
  wire::IpPrefix address;
  AddressState state = AddressState::kTentative;
  std::string reason;  ///< The reason why it is not ready; empty when it is.
};

struct NdCounters {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t invalid = 0;                                ///< Total of `errors`.
  std::array<std::uint64_t, wire::kNdErrorCount> errors{};  ///< Indexed by wire::NdError.
  std::uint64_t conflicts = 0;       ///< Other hosts that claim an address of this node.
  std::uint64_t contradictions = 0;  ///< See ArpCounters::contradictions.
  std::uint64_t unsent = 0;          ///< No usable source, or unknown destination address.
  std::uint64_t redirects = 0;
  /// Not from the router in use, not accepted by configuration, or more than 100 per second.
  std::uint64_t redirects_ignored = 0;
};

}  // namespace ipoib::link
