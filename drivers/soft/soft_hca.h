// SPDX-License-Identifier: BSD-3-Clause
// A software HCA on any started ethdev, its "cable": whole IBA packets in Ethernet frames. A packet
// it sends is what an HCA would put on the wire, and what an HCA would discard it discards.
#pragma once

#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drivers/soft/ah_table.h"
#include "drivers/soft/connected_control.h"
#include "drivers/soft/datapath.h"
#include "drivers/soft/group_table.h"
#include "drivers/soft/mad_port.h"
#include "drivers/soft/rx_table.h"
#include "drivers/soft/ud_queue.h"
#include "lib/base/doorbell.h"
#include "lib/fabric/grace.h"
#include "lib/fabric/hca.h"
#include "lib/fabric/port_events.h"
#include "lib/fabric/port_manager.h"
#include "lib/fabric/retirement.h"

namespace ipoib::soft {

struct SoftHcaConfig {
  std::string name;
  /// Ethdev, started by the caller. Its rx and tx queues 0 are used by poll_function() and
  /// tx_burst() alone. One HCA an ethdev.
  std::uint16_t port_id = 0;
  /// With a port manager only `mtu` counts, as the largest that the cable is to carry.
  fabric::PortAttr attr;
  /// MADs and copies of multicast packets. Data room: a frame of the port's MTU.
  rte_mempool* pool = nullptr;
  /// ACKs, NAKs and MADs take their mbufs from here while `pool` is empty. Null: they wait for one
  /// of `pool`. Data room: a frame with a MAD.
  rte_mempool* control_pool = nullptr;
  /// Mbufs that messages of connected queue pairs may hold: half of them those that were sent and
  /// are not acknowledged (more: Drop::kIbTxBudget), half those that have begun to arrive (more:
  /// Drop::kIbRnr, UC: Drop::kIbNoBuffer).
  std::uint32_t message_mbufs = 16'384;
  bool icrc = true;                        ///< False: sent as zero and not checked.
  std::optional<std::uint32_t> first_qpn;  ///< Queue pairs are numbered from here; none: random.
  /// Quiescent states of the workers; the management lcore is not registered in it. Null: the
  /// caller is the only thread.
  rte_rcu_qsbr* qsbr = nullptr;
  /// Says when the number of an address handle may be used again. Null: there are no workers.
  fabric::Retirement* retirement = nullptr;
  int socket_id = SOCKET_ID_ANY;
  /// Rung by the worker when MADs came. Null: receive() is to be called now and then.
  Doorbell* doorbell = nullptr;
  /// Clock of path rates and of looks at the cable, and its cycles per second; null, 0: the TSC.
  std::uint64_t (*tsc)() noexcept = nullptr;
  std::uint64_t tsc_hz = 0;
};

/// Control calls: management lcore. poll_function() and bursts: the one worker that owns the cable.
class SoftHca final : public fabric::Hca {
 public:
  /// Errors: kInvalidArgument (attributes, QPN), kNotFound (no such ethdev), kUnavailable (the
  /// ethdev carries less than the IB MTU + 80), kExists (it is another HCA's cable), kNoResources.
  /// Switches the ethdev to promiscuous mode where it can: frames are addressed by LID.
  /// `manager`: carries the MADs and says what the port is, until when it is down; none: MADs go
  /// over the cable, and the port is what `config` and change_port() say.
  [[nodiscard]] static Result<std::unique_ptr<SoftHca>> create(
      const SoftHcaConfig& config, std::unique_ptr<fabric::PortManager> manager = nullptr);
  /// No worker may use the HCA any more. Packets inside are freed.
  ~SoftHca() override;

  [[nodiscard]] const std::string& name() const override { return config_.name; }
  [[nodiscard]] const fabric::PortAttr& attr() const override { return config_.attr; }
  [[nodiscard]] fabric::MadPort& mad_port() override {
    return manager_ ? manager_->mad_port() : mad_port_;
  }
  [[nodiscard]] fabric::Capabilities capabilities() const override;

  Result<fabric::UdQueue*> create_ud_queue(const fabric::UdQueueConfig& config) override;
  /// Waits for the workers. Staged packets are counted under Drop::kIbQpn.
  void destroy_ud_queue(fabric::UdQueue& queue) override;
  Status set_qkey(fabric::UdQueue& queue, std::uint32_t qkey) override;
  Status attach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) override;
  Status detach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) override;
  Result<fabric::AhIndex> create_ah(const fabric::AhAttr& attr) override;
  void destroy_ah(fabric::AhIndex ah) override;

  /// Connected mode: up to ConnectedTable::kCapacity queues. Waits for nobody.
  Result<fabric::ReceiveQueue*> create_receive_queue(
      const fabric::ReceiveQueueConfig& config) override;
  void destroy_receive_queue(fabric::ReceiveQueue& queue) override;
  Result<fabric::ConnectedQueue*> create_connected_queue(
      const fabric::ConnectedQueueConfig& config) override;
  void destroy_connected_queue(fabric::ConnectedQueue& queue) override;
  Status set_ready_to_receive(fabric::ConnectedQueue& queue,
                              const fabric::ReadyToReceive& attr) override;
  Status set_ready_to_send(fabric::ConnectedQueue& queue, const fabric::ReadyToSend& attr) override;
  void set_error(fabric::ConnectedQueue& queue) override;
  [[nodiscard]] fabric::ConnectedQueueInfo info(const fabric::ConnectedQueue& queue) const override;
  std::optional<fabric::QueueEvent> next_queue_event() override;
  [[nodiscard]] bool queue_events_pending() const override;

  /// Looks at the cable's link too, ten times a second at most.
  std::optional<fabric::PortEvent> next_event() override;
  /// Waits for the workers when the port's addresses change. Queue pairs whose P_Key is gone lose
  /// what they send and receive (Drop::kIbPkey) until it is back; a port that is not active loses
  /// everything (Drop::kIbPortDown).
  Status change_port(const fabric::PortChange& change) override;
  [[nodiscard]] std::string problem() const override;

  [[nodiscard]] PollFn poll_function() const override;
  [[nodiscard]] const DropCounters& drops() const override { return datapath_.drops(); }

  void lose_wire() override;

  /// What the wire takes or delivers, whatever the checks then say. Waits for the workers.
  Status set_capture(const std::optional<fabric::CaptureTap>& tap) override;
  [[nodiscard]] std::uint64_t capture_lost() const override {
    return datapath_.capture_lost().get();
  }
  /// Sent packets that had to be copied: shared, segmented, or without room for the headers.
  [[nodiscard]] std::uint64_t tx_copies() const { return datapath_.tx_copies().get(); }

 private:
  SoftHca(const SoftHcaConfig& config, std::unique_ptr<fabric::PortManager> manager,
          std::unique_ptr<AhTable> ahs, RingPtr mads_out, RingPtr mads_in);
  static void poll(fabric::Hca& hca, std::uint16_t burst) noexcept;
  [[nodiscard]] Result<ConnectedControl*> connected();
  void publish(SoftUdQueue* closing = nullptr);
  void look_at_cable();
  void follow_manager();
  Status take_over(fabric::PortAttr next);
  void set_active(bool active);
  [[nodiscard]] Result<std::uint32_t> allocate_qpn();

  SoftHcaConfig config_;
  std::unique_ptr<fabric::PortManager> manager_;  ///< Null: this object itself.
  std::uint8_t cable_mtu_;                        ///< Code.
  fabric::Grace grace_;
  std::uint32_t next_qpn_;
  std::unique_ptr<AhTable> ahs_;
  GroupTable groups_;
  RingPtr mads_out_;
  RingPtr mads_in_;
  Datapath datapath_;
  SoftMadPort mad_port_;
  std::unique_ptr<ConnectedControl> connected_;  ///< From the first receive queue on.
  std::vector<std::unique_ptr<SoftUdQueue>> queues_;
  std::unique_ptr<const RxTable> table_;
  fabric::Retired<std::unique_ptr<const RxTable>> old_tables_;
  std::unique_ptr<const fabric::CaptureTap> tap_;
  fabric::PortEvents events_;
  bool admin_up_ = true;
  bool cable_up_ = true;
  bool cable_lost_ = false;          ///< The ethdev was taken away.
  std::uint64_t next_look_tsc_ = 0;  ///< At the cable.
};

}  // namespace ipoib::soft
