// SPDX-License-Identifier: BSD-3-Clause
// Which of several multicast routers of a link forwards: plain values.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/base/clock.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

/// Which of several routers between two links forwards the groups that hosts request.
enum class ForwarderRule : std::uint8_t {
  kQuerier,  ///< One of them: the querier of the hosts' link, or another if that does not forward.
  kAlways,   ///< This one too, whether another forwards or not.
};

/// The router that forwards the groups that hosts request on a link, unless packets show another
/// (forwarder_election.h).
enum class Forwarder : std::uint8_t {
  kThis,
  kOther,    ///< Another router is the querier.
  kUnknown,  ///< This router listens for another querier first.
  kAlways,   ///< This one: ForwarderRule::kAlways.
};

/// The election on the link.
struct QuerierState {
  std::optional<wire::IpAddr> querier;  ///< None: this router has no address and hears no other.
  bool other = false;                   ///< It is another router.
  Forwarder forwarder = Forwarder::kThis;
  Duration age{};  ///< Since its latest query that counted for the election.
};

}  // namespace ipoib::route
