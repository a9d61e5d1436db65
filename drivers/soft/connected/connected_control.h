// SPDX-License-Identifier: BSD-3-Clause
// Management side of the connected queue pairs of a software HCA: QPNs, creation, state changes and
// release of memory.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "drivers/soft/ah_table.h"
#include "drivers/soft/connected/connected_port.h"
#include "drivers/soft/mad_port.h"
#include "lib/base/result.h"
#include "lib/fabric/hca.h"
#include "lib/fabric/port_shares.h"
#include "lib/fabric/ring_ptr.h"

namespace ipoib::soft {

/// References into the owning HCA, which outlives this object.
struct ConnectedControlConfig {
  const std::string& name;
  const fabric::PortAttr& attr;
  std::span<const std::unique_ptr<UdDatapath>> datapaths;  ///< Indexed by worker.
  AhTable& ahs;
  std::uint64_t tsc_hz;
  std::uint32_t message_mbufs;  ///< See SoftHcaConfig.
  int socket_id;
  bool managed;                    ///< A port manager may add P_Keys later.
  std::uint32_t first_generation;  ///< See ConnectedTable.
};

/// Management lcore only. Errors and states: fabric::ConnectedTransport.
class ConnectedControl {
 public:
  /// Capacity of the rings of commands and events; the sender keeps the rest.
  static constexpr unsigned kRingSize = 1024;

  [[nodiscard]] static Result<std::unique_ptr<ConnectedControl>> create(
      const ConnectedControlConfig& config);
  /// No worker may use the HCA any more.
  ~ConnectedControl();
  ConnectedControl(const ConnectedControl&) = delete;
  ConnectedControl& operator=(const ConnectedControl&) = delete;

  Result<fabric::ReceiveQueue*> create_receive_queue(const fabric::ReceiveQueueConfig& config);
  void destroy_receive_queue(fabric::ReceiveQueue& queue);
  Result<fabric::ConnectedQueue*> create_queue(const fabric::ConnectedQueueConfig& config);
  void destroy_queue(SoftConnectedQueue& q);
  Status set_ready_to_receive(SoftConnectedQueue& q, const fabric::ReadyToReceive& attr);
  Status set_ready_to_send(SoftConnectedQueue& q, const fabric::ReadyToSend& attr);
  void set_error(SoftConnectedQueue& q);
  Status load_alternate(SoftConnectedQueue& q, const fabric::AlternatePath& alternate);
  [[nodiscard]] static fabric::ConnectedQueueInfo info(const SoftConnectedQueue& q);
  std::optional<fabric::QueueEvent> next_event();
  [[nodiscard]] bool events_pending() const;

  /// Called when the port's P_Keys or its state changed.
  void on_port_change();
  /// True if a queue has this QPN, or had it and is not freed yet.
  [[nodiscard]] bool uses(std::uint32_t qpn) const;

 private:
  /// The queues of one worker, and the rings between it and management.
  struct Lane {
    fabric::RingPtr commands;
    fabric::RingPtr events;
    std::deque<QueueCommand> unsent{};
    std::unique_ptr<ConnectedPort> port{};
    fabric::PortShares port_shares{};
    std::deque<std::unique_ptr<SoftConnectedQueue>> closing{};  ///< Until the worker releases them.
  };

  ConnectedControl(const ConnectedControlConfig& config, std::vector<Lane> lanes);
  [[nodiscard]] std::uint16_t own_pkey(std::uint16_t partition) const;
  [[nodiscard]] Status check_path(const fabric::AhAttr& path) const;
  [[nodiscard]] Status check_mtu(std::uint8_t code) const;
  [[nodiscard]] std::uint64_t ack_timeout_tsc(std::uint8_t code) const;
  [[nodiscard]] std::optional<std::uint32_t> free_qpn();
  void command(const QueueCommand& command);
  static void send_commands(Lane& lane);
  void reclaim();
  fabric::AhAttr on_migrated(SoftConnectedQueue& q);
  void trim_handles(SoftConnectedQueue& q);
  void release(std::unique_ptr<SoftConnectedQueue> q);

  ConnectedControlConfig config_;
  ConnectedWorkers workers_;
  std::vector<Lane> lanes_;  ///< Indexed by worker.
  std::vector<std::unique_ptr<SoftReceiveQueue>> receive_queues_;
  std::vector<SoftReceiveQueue*> closing_receive_queues_;  ///< Kept until their last user is gone.
  /// Indexed by place in the ConnectedTable, for all places ever used.
  std::vector<std::unique_ptr<SoftConnectedQueue>> queues_;
  std::vector<std::uint32_t> generations_;
  std::deque<std::uint32_t> free_places_;  ///< The place that is free for longest comes first.
};

}  // namespace ipoib::soft
