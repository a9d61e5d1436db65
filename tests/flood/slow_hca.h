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
class SlowHca final : public fabric::Hca,
                      private fabric::ConnectedTransport,
                      private fabric::MadPort {
 public:
  SlowHca(std::unique_ptr<fabric::Hca> inner, DeviceWork& work);

  [[nodiscard]] const fabric::PortAttr& attr() const override { return inner_->attr(); }
  [[nodiscard]] fabric::MadPort& mad_port() override { return *this; }
  [[nodiscard]] fabric::Capabilities capabilities() const override {
    return inner_->capabilities();
  }
  Result<fabric::UdQueue*> create_ud_queue(const fabric::UdQueueConfig& config) override {
    return inner_->create_ud_queue(config);
  }
  void destroy_ud_queue(fabric::UdQueue& queue) override { inner_->destroy_ud_queue(queue); }
  Status set_qkey(fabric::UdQueue& queue, std::uint32_t qkey) override {
    return inner_->set_qkey(queue, qkey);
  }
  Status attach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) override {
    return inner_->attach(queue, mgid, mlid);
  }
  Status detach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) override {
    return inner_->detach(queue, mgid, mlid);
  }
  Result<fabric::AhIndex> create_ah(const fabric::AhAttr& attr) override {
    return inner_->create_ah(attr);
  }
  void destroy_ah(fabric::AhIndex ah) override { inner_->destroy_ah(ah); }
  std::optional<fabric::PortEvent> next_event() override { return inner_->next_event(); }
  [[nodiscard]] std::string problem() const override { return inner_->problem(); }
  [[nodiscard]] DropTotals drops() const override { return inner_->drops(); }

 private:
  // MadPort.
  Status send(const fabric::MadAddress& to,
              std::span<const std::byte, wire::kMadLen> mad) override {
    return inner_->mad_port().send(to, mad);
  }
  std::optional<fabric::ReceivedMad> receive() override;
  [[nodiscard]] bool polled() const override { return inner_->mad_port().polled(); }
  [[nodiscard]] bool pending() const override { return inner_->mad_port().pending(); }
  [[nodiscard]] fabric::NamedCounters counters() const override {
    return inner_->mad_port().counters();
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
    return *inner_->connected_transport();
  }

  std::unique_ptr<fabric::Hca> inner_;
  DeviceWork& work_;
};

}  // namespace ipoib::flood
