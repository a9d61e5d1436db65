// SPDX-License-Identifier: BSD-3-Clause
// The clock of devices and nodes in virtual time. Tests advance it.
#pragma once

#include <cstdint>

namespace ipoib::test {

inline std::uint64_t sim_tsc = 0;

inline std::uint64_t read_sim_tsc() noexcept {
  return sim_tsc;
}

}  // namespace ipoib::test
