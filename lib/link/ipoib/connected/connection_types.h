// SPDX-License-Identifier: BSD-3-Clause
// The HCA functions that an IPoIB link's connected mode uses. Source:
// draft-ietf-ipoib-connected-mode-03 (RFC 4755).
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/result.h"
#include "lib/fabric/connected.h"
#include "lib/fabric/fabric_types.h"

namespace ipoib::link {

/// The HCA functions that connected mode uses: lib/fabric/connected.h. Management lcore only.
class ConnectionActions {
 public:
  virtual ~ConnectionActions() = default;
  /// `queue_pair`: number of the UD queue pair whose worker gets the new queue. Errors:
  /// kUnavailable, the device has no receive queue for this worker; others concern every worker.
  virtual Result<fabric::ConnectedQueue*> create_connected(fabric::Transport transport,
                                                           unsigned queue_pair) = 0;
  [[nodiscard]] virtual std::uint8_t worker_of(unsigned queue_pair) const = 0;
  /// Connected queues that this worker has, those of all links of the HCA.
  [[nodiscard]] virtual std::size_t connected_queues(unsigned queue_pair) const = 0;
  /// Precondition: no installed entry names the queue any more; workers may still be about to use
  /// it. `queue_pair`: as for its creation.
  virtual void destroy_connected(fabric::ConnectedQueue& queue, unsigned queue_pair) = 0;
  virtual Status set_ready_to_receive(fabric::ConnectedQueue& queue,
                                      const fabric::ReadyToReceive& attr) = 0;
  virtual Status set_ready_to_send(fabric::ConnectedQueue& queue,
                                   const fabric::ReadyToSend& attr) = 0;
  virtual void set_error(fabric::ConnectedQueue& queue) = 0;
  /// Capabilities::alternate_paths
  [[nodiscard]] virtual bool takes_alternates() const = 0;
  /// Capabilities::ack_delay
  [[nodiscard]] virtual std::uint8_t ack_delay() const = 0;
  virtual Status load_alternate(fabric::ConnectedQueue& queue,
                                const fabric::AlternatePath& alternate) = 0;
  [[nodiscard]] virtual fabric::ConnectedQueueInfo info(
      const fabric::ConnectedQueue& queue) const = 0;
};

}  // namespace ipoib::link
