// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node_totals.h"

#include <algorithm>

namespace ipoib::mgmt {

std::uint64_t LatencyTotals::received() const {
  std::uint64_t sum = 0;
  for (const Stream& s : streams) sum += s.received;
  return sum;
}

std::uint64_t LatencyTotals::missing() const {
  std::uint64_t sum = 0;
  for (const Stream& s : streams) sum += s.next - std::min(s.next, s.received);
  return sum;
}

}  // namespace ipoib::mgmt
