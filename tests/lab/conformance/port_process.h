// SPDX-License-Identifier: BSD-3-Clause
// A port of the simulated fabric. libumad2sim supports one HCA per process, so each port has its
// own process: this program, started with --port-process and with that library preloaded.
#pragma once

#include <cstdint>

#include "lib/fabric/qp1.h"
#include "lib/wire/gid.h"

namespace ipoib::conformance {

/// A message between the suite and a port's process. Each is one datagram.
struct PortMessage {
  enum class Kind : std::uint32_t { kAttr, kMad } kind = Kind::kAttr;
  // kAttr, from the port: its current attributes.
  wire::Gid gid;
  std::uint16_t lid = 0;
  std::uint16_t sm_lid = 0;  ///< Also 0 while the port is not active.
  // kMad, in both directions. The simulator carries at most 256 octets.
  fabric::MadAddress peer;
  bool whole = false;
  std::uint32_t len = wire::kMadLen;
  fabric::MadBytes bytes{};
};

/// Relays between the socket and the port until the socket is closed. Returns the exit status.
int run_port_process(int socket);

}  // namespace ipoib::conformance
