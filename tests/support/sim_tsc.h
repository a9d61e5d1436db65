// SPDX-License-Identifier: BSD-3-Clause
// The clock of devices and nodes in virtual time. Tests advance it.
#pragma once

#include <cstdint>

namespace ipoib::test {

/// The current time, in cycles. Each test sets it, because all tests of a program share it.
inline std::uint64_t sim_tsc = 0;

inline std::uint64_t read_sim_tsc() noexcept {
  return sim_tsc;
}

}  // namespace ipoib::test
