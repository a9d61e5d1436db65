// SPDX-License-Identifier: BSD-3-Clause
// A port of the simulated fabric. libumad2sim knows one HCA a process, so each port is a process of
// its own: this program again, started with --port-process, the simulator's library preloaded.
#pragma once

#include <cstdint>

#include "lib/fabric/types.h"
#include "lib/wire/gid.h"

namespace ipoib::conformance {

/// What travels between the suite and a port's process, one datagram each.
struct PortMessage {
  enum class Kind : std::uint32_t { kAttr, kMad } kind = Kind::kAttr;
  // kAttr, from the port: what it is now.
  wire::Gid gid;
  std::uint16_t lid = 0;
  std::uint16_t sm_lid = 0;  ///< 0 as well while the port is not active.
  // kMad, both ways. Nothing in the simulator is longer than 256 octets.
  fabric::MadAddress peer;
  bool whole = false;
  std::uint32_t len = wire::kMadLen;
  fabric::MadBytes bytes{};
};

/// Relays between the socket and the port until the socket is closed. Returns the exit status.
int run_port_process(int socket);

}  // namespace ipoib::conformance
