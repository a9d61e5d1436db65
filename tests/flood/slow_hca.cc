// SPDX-License-Identifier: BSD-3-Clause
#include "tests/flood/slow_hca.h"

namespace ipoib::flood {

std::optional<fabric::ReceivedMad> SlowHca::receive() {
  auto mad = inner().mad_port().receive();
  if (mad) ++work_.mads;
  return mad;
}

Result<fabric::ConnectedQueue*> SlowHca::create_connected_queue(
    const fabric::ConnectedQueueConfig& config) {
  work_.cycles += work_.queue_pair_cycles;
  ++work_.queue_pairs;
  return connected().create_connected_queue(config);
}

}  // namespace ipoib::flood
