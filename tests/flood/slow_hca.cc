// SPDX-License-Identifier: BSD-3-Clause
#include "tests/flood/slow_hca.h"

namespace ipoib::flood {

/// The poll function is the inner HCA's, which takes the place of its argument.
SlowHca::SlowHca(std::unique_ptr<fabric::Hca> inner, DeviceWork& work)
    : fabric::Hca{inner->name(),
                  {.connected = this,
                   .capture = inner->wire_capture(),
                   .setter = inner->port_setter(),
                   .wire = inner->ethdev_wire(),
                   .poll = [](fabric::Hca& hca, unsigned worker,
                              std::uint16_t burst) noexcept -> std::uint32_t {
                     fabric::Hca& real = *static_cast<SlowHca&>(hca).inner_;
                     return real.poll_function()(real, worker, burst);
                   }}},
      inner_{std::move(inner)},
      work_{work} {}

std::optional<fabric::ReceivedMad> SlowHca::receive() {
  auto mad = inner_->mad_port().receive();
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
