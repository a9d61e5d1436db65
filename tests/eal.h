// SPDX-License-Identifier: BSD-3-Clause
// Starts EAL for test programs and benchmarks: no huge pages, no devices but those they make.
#pragma once

#include <rte_eal.h>

#include <array>
#include <cstdio>

#include "lib/fabric/packet_meta.h"

namespace ipoib {

/// False, and said on stderr, when it does not start. Two lcores, for a worker beside management;
/// both may run anywhere, as the machine may have one CPU for them.
inline bool start_eal(const char* program) {
  std::array<const char*, 11> arguments = {
      program, "--no-huge", "--no-shconf", "--no-pci",    "--no-telemetry", "-m",
      "512",   "--lcores",  "0@0,1@0",     "--log-level", "lib.eal:error"};
  if (rte_eal_init(static_cast<int>(arguments.size()), const_cast<char**>(arguments.data())) >= 0 &&
      fabric::register_packet_meta())
    return true;
  std::fputs("EAL does not start\n", stderr);
  return false;
}

}  // namespace ipoib
