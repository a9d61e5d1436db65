// SPDX-License-Identifier: BSD-3-Clause
// Connected mode of the software HCA: forwards calls to ConnectedControl, which is created on first
// use.
#include <rte_random.h>

#include "drivers/soft/soft_hca.h"
#include "lib/base/contract.h"

namespace ipoib::soft {

Result<ConnectedControl*> SoftHca::connected() {
  if (connected_) return connected_.get();
  const std::uint32_t generation =
      config_.first_qpn ? 1
                        : static_cast<std::uint32_t>(rte_rand_max(ConnectedTable::kGenerations));
  auto made = ConnectedControl::create({.name = config_.name,
                                        .attr = config_.attr,
                                        .datapaths = datapaths_,
                                        .ahs = *ahs_,
                                        .tsc_hz = config_.tsc_hz,
                                        .message_mbufs = config_.message_mbufs,
                                        .socket_id = config_.socket_id,
                                        .managed = manager_ != nullptr,
                                        .first_generation = generation});
  if (!made) return tl::make_unexpected(made.error());
  connected_ = std::move(*made);
  return connected_.get();
}

Result<fabric::ReceiveQueue*> SoftHca::create_receive_queue(
    const fabric::ReceiveQueueConfig& config) {
  expects_management();
  const Result<ConnectedControl*> control = connected();
  if (!control) return tl::make_unexpected(control.error());
  return (*control)->create_receive_queue(config);
}

void SoftHca::destroy_receive_queue(fabric::ReceiveQueue& queue) {
  expects_management();
  connected_->destroy_receive_queue(queue);
}

Result<fabric::ConnectedQueue*> SoftHca::create_connected_queue(
    const fabric::ConnectedQueueConfig& config) {
  expects_management();
  const Result<ConnectedControl*> control = connected();
  if (!control) return tl::make_unexpected(control.error());
  return (*control)->create_queue(config);
}

void SoftHca::destroy_connected_queue(fabric::ConnectedQueue& queue) {
  expects_management();
  connected_->destroy_queue(static_cast<SoftConnectedQueue&>(queue));
}

Status SoftHca::set_ready_to_receive(fabric::ConnectedQueue& queue,
                                     const fabric::ReadyToReceive& attr) {
  expects_management();
  return connected_->set_ready_to_receive(static_cast<SoftConnectedQueue&>(queue), attr);
}

Status SoftHca::set_ready_to_send(fabric::ConnectedQueue& queue, const fabric::ReadyToSend& attr) {
  expects_management();
  return connected_->set_ready_to_send(static_cast<SoftConnectedQueue&>(queue), attr);
}

void SoftHca::set_error(fabric::ConnectedQueue& queue) {
  expects_management();
  connected_->set_error(static_cast<SoftConnectedQueue&>(queue));
}

Status SoftHca::load_alternate(fabric::ConnectedQueue& queue,
                               const fabric::AlternatePath& alternate) {
  expects_management();
  return connected_->load_alternate(static_cast<SoftConnectedQueue&>(queue), alternate);
}

fabric::ConnectedQueueInfo SoftHca::info(const fabric::ConnectedQueue& queue) const {
  return ConnectedControl::info(static_cast<const SoftConnectedQueue&>(queue));
}

std::optional<fabric::QueueEvent> SoftHca::next_queue_event() {
  expects_management();
  return connected_ ? connected_->next_event() : std::nullopt;
}

bool SoftHca::queue_events_pending() const {
  return connected_ && connected_->events_pending();
}

}  // namespace ipoib::soft
