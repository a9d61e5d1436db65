// SPDX-License-Identifier: BSD-3-Clause
// What IPv6 on an interface is given and what it tells.
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
  /// This node is a router: said in advertisements, all-routers groups joined.
  bool routing = true;
  /// Routers are asked for; those that answer become default routers, and redirects are taken.
  bool accept_ra = false;
  /// Sent while IPv6 is up, where `routing`.
  bool router_advertisement = false;
  wire::InterfaceIdRule interface_id = wire::InterfaceIdRule::kSetUniversal;
  unsigned dad_transmits = 1;  ///< Questions of duplicate address detection; 0: not done.
  Duration dad_delay = std::chrono::seconds(1);   ///< The first waits for up to this long.
  Duration retransmit = std::chrono::seconds(1);  ///< Between them and after the last.
  Duration dad_retry = std::chrono::seconds(60);  ///< A duplicate is tried again this often.
  Duration ra_min_interval = std::chrono::seconds(200);
  Duration ra_max_interval = std::chrono::seconds(600);
  Duration ra_lifetime = std::chrono::seconds(1800);  ///< 0: advertises, but is no default router.
};

enum class AddressState : std::uint8_t { kTentative, kReady, kDuplicate };
[[nodiscard]] std::string_view to_string(AddressState state);

/// One address of this node, as shown.
struct AddressInfo {
  wire::IpPrefix address;
  AddressState state = AddressState::kTentative;
  std::string reason;  ///< Why it is not ready; empty when it is.
};

struct NdCounters {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t invalid = 0;  ///< All of `errors`, and senders that cannot be.
  std::array<std::uint64_t, wire::kNdErrorCount> errors{};  ///< By wire::NdError.
  std::uint64_t conflicts = 0;       ///< Others who claim an address of this node.
  std::uint64_t contradictions = 0;  ///< As ArpCounters::contradictions.
  std::uint64_t unsent = 0;          ///< No usable source, or nobody knows where to.
  std::uint64_t redirects = 0;
  /// Not from the router in use, not accepted at all, or more than 100 a second.
  std::uint64_t redirects_ignored = 0;
};

}  // namespace ipoib::link
