// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/number_ranges.h"

#include <algorithm>
#include <iterator>

namespace ipoib::route {

std::optional<std::uint32_t> NumberRanges::take(std::size_t n) {
  if (runs_.empty()) return std::nullopt;
  if (n == 1) {
    const auto [first, len] = *runs_.begin();
    runs_.erase(runs_.begin());
    if (len > 1) runs_.emplace(first + 1, len - 1);
    return first;
  }
  const auto it =
      std::find_if(runs_.rbegin(), runs_.rend(), [n](const auto& run) { return run.second >= n; });
  if (it == runs_.rend()) return std::nullopt;
  it->second -= n;
  const auto first = static_cast<std::uint32_t>(it->first + it->second);
  if (it->second == 0) runs_.erase(it->first);
  return first;
}

void NumberRanges::put_back(std::uint32_t first, std::size_t n) {
  auto next = runs_.lower_bound(first);
  if (next != runs_.end() && next->first == first + n) {
    n += next->second;
    next = runs_.erase(next);
  }
  if (next != runs_.begin())
    if (const auto before = std::prev(next); before->first + before->second == first) {
      before->second += n;
      return;
    }
  runs_.emplace_hint(next, first, n);
}

}  // namespace ipoib::route
