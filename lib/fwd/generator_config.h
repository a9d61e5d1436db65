// SPDX-License-Identifier: BSD-3-Clause
// Configuration of test packets. No EAL, so that configuration code can include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// The rate at which all workers together make packets. Octets are those of the IP packets.
struct PacketRate {
  enum class Unit : std::uint8_t { kPps, kGbps, kPercent };  ///< Per cent of the outgoing link.
  double value = 0;                                          ///< 0: as fast as possible.
  Unit unit = Unit::kPps;

  friend bool operator==(const PacketRate&, const PacketRate&) = default;
};

/// UDP packets from one source to `neighbours` consecutive addresses from ip.dst on. Defaults are
/// those of dpdk-testpmd: addresses of RFC 2544, port 9 (discard).
struct GeneratorConfig {
  /// Smallest packets in octets: headers and a time stamp.
  static constexpr std::uint16_t kMinSize4 = 44, kMinSize6 = 64;
  static constexpr std::uint16_t kMaxSize = 9600;
  static constexpr std::size_t kMaxSizes = 256;
  static constexpr unsigned kMaxFlows = 65'535;

  struct Addresses {
    wire::IpAddr src = wire::IpAddr::v4(0xc612'0001);  ///< 198.18.0.1
    wire::IpAddr dst = wire::IpAddr::v4(0xc612'0002);  ///< 198.18.0.2

    friend bool operator==(const Addresses&, const Addresses&) = default;
  };
  struct Ports {
    std::uint16_t src = 9;
    std::uint16_t dst = 9;

    friend bool operator==(const Ports&, const Ports&) = default;
  };

  Addresses ip;
  Ports udp;
  std::vector<std::uint16_t> sizes{64};  ///< Octets of IP packets; used in turn.
  bool multi_flow = false;               ///< txonly and latency send as many flows as flowgen.
  unsigned flows = 1024;                 ///< At least one per neighbour, distinguished by source
                                         ///< port.
  unsigned neighbours = 1;
  PacketRate rate;

  friend bool operator==(const GeneratorConfig&, const GeneratorConfig&) = default;
};

/// Seven of 64 octets, four of 576, one of 1500, mixed. Source: RFC 6985 (idea and name).
inline std::vector<std::uint16_t> imix_sizes() {
  return {64, 576, 64, 64, 576, 64, 1500, 64, 576, 64, 576, 64};
}

}  // namespace ipoib::fwd
