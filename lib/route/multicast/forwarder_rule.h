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
  kQuerier,  ///< Not this one if another is the querier of both links: packets arrive once.
  kAlways,   ///< This one too: the querier may be a switch that does not route.
};

/// The router that forwards the groups that hosts request from and to a link.
enum class Forwarder : std::uint8_t {
  kThis,
  kOther,    ///< Another router is the querier.
  kUnknown,  ///< This router listens for another querier first.
};

/// The election on the link.
struct QuerierState {
  std::optional<wire::IpAddr> querier;  ///< None: this router has no address and hears no other.
  bool other = false;                   ///< It is another router.
  Forwarder forwarder = Forwarder::kThis;
  Duration age{};  ///< Since its latest query that counted for the election.
};

}  // namespace ipoib::route
