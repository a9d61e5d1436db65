// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/smp.h"

#include "lib/wire/iba.h"

namespace ipoib::wire {
namespace {

constexpr unsigned lanes_of(std::uint8_t width) noexcept {
  switch (width) {
    case 1: return 1;
    case 2: return 4;
    case 4: return 8;
    case 8: return 12;
    case 16: return 2;
    default: return 0;
  }
}

/// Mb/s of one lane. The extended speed gives FDR and later rates; it is 0 for lower rates.
constexpr unsigned lane_mbps(std::uint8_t speed, std::uint8_t extended) noexcept {
  switch (extended) {
    case 1: return 14'000;
    case 2: return 25'000;
    case 4: return 50'000;
    case 8: return 100'000;
    default: break;
  }
  switch (speed) {
    case 1: return 2'500;
    case 2: return 5'000;
    case 4: return 10'000;
    default: return 0;
  }
}

}  // namespace

std::uint8_t port_rate(const PortInfo& port) noexcept {
  const unsigned mbps =
      lanes_of(port.width_active) * lane_mbps(port.speed_active >> 4, port.speed_ext_active >> 4);
  for (std::uint8_t code = 2; mbps != 0 && rate_mbps(code) != 0; ++code)
    if (rate_mbps(code) == mbps) return code;
  return 0;
}

}  // namespace ipoib::wire
