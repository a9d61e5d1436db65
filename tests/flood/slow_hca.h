// SPDX-License-Identifier: BSD-3-Clause
// An HCA whose requests take virtual time, and which counts the MADs that management takes from it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "lib/fabric/hca.h"
#include "lib/fabric/qp1.h"
#include "tests/support/forwarding_hca.h"

namespace ipoib::flood {

/// The time that management spends in requests to a device, in cycles of the clock, and the MADs
/// that it has taken.
struct DeviceWork {
  std::uint64_t queue_pair_cycles = 0;  ///< Cost of each connected queue pair that is made.
  std::uint64_t cycles = 0;             ///< Sum since the turn began.
  std::uint64_t mads = 0;
  std::uint64_t queue_pairs = 0;
};

/// Passes every call to another HCA. `work` must outlive it.
class SlowHca final : public test::ForwardingHca,
                      private fabric::ConnectedTransport,
                      private fabric::MadPort {
 public:
  SlowHca(std::unique_ptr<fabric::Hca> real, DeviceWork& work)
      : ForwardingHca{std::move(real), {.connected = this}}, work_{work} {}

  [[nodiscard]] fabric::MadPort& mad_port() override { return *this; }
  /// The problem of the HCA, and of its MadPort.
  [[nodiscard]] std::string problem() const override { return inner().problem(); }

 private:
  // MadPort.
  Status send(const fabric::MadAddress& to,
              std::span<const std::byte, wire::kMadLen> mad) override {
    return inner().mad_port().send(to, mad);
  }
  std::optional<fabric::ReceivedMad> receive() override;
  [[nodiscard]] bool polled() const override { return inner().mad_port().polled(); }
  [[nodiscard]] bool pending() const override { return inner().mad_port().pending(); }
  [[nodiscard]] fabric::NamedCounters counters() const override {
    return inner().mad_port().counters();
  }

  // ConnectedTransport.
  Result<fabric::ReceiveQueue*> create_receive_queue(
      const fabric::ReceiveQueueConfig& config) override {
    return connected().create_receive_queue(config);
  }
  void destroy_receive_queue(fabric::ReceiveQueue& queue) override {
    connected().destroy_receive_queue(queue);
  }
  Result<fabric::ConnectedQueue*> create_connected_queue(
      const fabric::ConnectedQueueConfig& config) override;
  void destroy_connected_queue(fabric::ConnectedQueue& queue) override {
    connected().destroy_connected_queue(queue);
  }
  Status set_ready_to_receive(fabric::ConnectedQueue& queue,
                              const fabric::ReadyToReceive& attr) override {
    return connected().set_ready_to_receive(queue, attr);
  }
  Status set_ready_to_send(fabric::ConnectedQueue& queue,
                           const fabric::ReadyToSend& attr) override {
    return connected().set_ready_to_send(queue, attr);
  }
  void set_error(fabric::ConnectedQueue& queue) override { connected().set_error(queue); }
  [[nodiscard]] fabric::ConnectedQueueInfo info(
      const fabric::ConnectedQueue& queue) const override {
    return connected().info(queue);
  }
  std::optional<fabric::QueueEvent> next_queue_event() override {
    return connected().next_queue_event();
  }
  [[nodiscard]] bool queue_events_pending() const override {
    return connected().queue_events_pending();
  }

  [[nodiscard]] fabric::ConnectedTransport& connected() const {
    return *inner().connected_transport();
  }

  DeviceWork& work_;
};

}  // namespace ipoib::flood
