// SPDX-License-Identifier: BSD-3-Clause
// Free numbers, allocated singly from the low end and in runs from the high end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace ipoib::route {

class NumberRanges {
 public:
  NumberRanges(std::uint32_t first, std::uint32_t n) { put_back(first, n); }

  /// The first of n consecutive numbers; none: there is no such run.
  std::optional<std::uint32_t> take(std::size_t n);
  void put_back(std::uint32_t first, std::size_t n);

 private:
  std::map<std::uint32_t, std::size_t> runs_;  ///< First number and length; no two are adjacent.
};

}  // namespace ipoib::route
