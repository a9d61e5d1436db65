// SPDX-License-Identifier: BSD-3-Clause
// Starts EAL for test programs and benchmarks, without huge pages. The programs create all devices
// themselves.
#pragma once

#include <rte_eal.h>

#include <array>
#include <cstdio>

#include "lib/fabric/packet_meta.h"

namespace ipoib {

/// Returns false, with a message on stderr, if EAL does not start. There are two lcores, so that a
/// worker can run beside management. Both run on CPU 0, as the machine may have only one CPU.
inline bool start_eal(const char* program) {
  std::array<const char*, 11> arguments = {
      program, "--no-huge", "--no-shconf", "--no-pci",    "--no-telemetry", "-m",
      "640",   "--lcores",  "0@0,1@0",     "--log-level", "lib.eal:error"};
  if (rte_eal_init(static_cast<int>(arguments.size()), const_cast<char**>(arguments.data())) >= 0 &&
      fabric::register_packet_meta())
    return true;
  std::fputs("EAL does not start\n", stderr);
  return false;
}

}  // namespace ipoib
