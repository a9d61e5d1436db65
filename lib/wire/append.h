// SPDX-License-Identifier: BSD-3-Clause
// Builds packets octet by octet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace ipoib::wire {

/// Appends octets that are not part of `to`. vector::insert() would do, but g++ 12 with -O3 reports
/// it as a write past the end.
inline void append(std::vector<std::byte>& to, std::span<const std::byte> octets) {
  const std::size_t at = to.size();
  to.resize(at + octets.size());
  std::copy(octets.begin(), octets.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace ipoib::wire
