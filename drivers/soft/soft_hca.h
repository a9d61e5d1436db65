// SPDX-License-Identifier: BSD-3-Clause
// A software HCA on any started ethdev, its "cable": whole IBA packets in Ethernet frames. It sends
// the packets that a hardware HCA would send, and drops those that a hardware HCA would drop.
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
#include "drivers/soft/connected/connected_control.h"
#include "drivers/soft/mad_port.h"
#include "drivers/soft/rx_table.h"
#include "drivers/soft/soft_group_table.h"
#include "drivers/soft/soft_ud_queue.h"
#include "drivers/soft/ud_datapath.h"
#include "drivers/soft/worker_rings.h"
#include "lib/base/doorbell.h"
#include "lib/fabric/grace.h"
#include "lib/fabric/hca.h"
#include "lib/fabric/port_events.h"
#include "lib/fabric/port_manager.h"
#include "lib/fabric/retirement.h"
#include "lib/fabric/ring_ptr.h"

namespace ipoib::soft {

struct SoftHcaConfig {
  std::string name;
  /// Ethdev, started by the caller, which carries this HCA only: poll_function() reads its receive
  /// queues, and each worker with queue pairs sends by a transmit queue of its own.
  std::uint16_t port_id = 0;
  std::uint16_t rx_queues = 1;
  std::uint16_t workers = 1;  ///< Workers with queue pairs: at most WorkerRings::kMaxWorkers.
  /// Workers that read the receive queues: number q is read by worker q modulo `readers`.
  std::uint16_t readers = 1;
  /// Places, a power of two, of the ring from each worker to each other one. One of them stays free.
  static constexpr unsigned kRingPlaces = 1024;
  unsigned ring_places = kRingPlaces;
  /// With a port manager only `mtu` is used: the largest MTU on the cable.
  fabric::PortAttr attr;
  /// Mbufs for MADs, copies of packets and frames of connected queue pairs. Data room: a frame of
  /// the port's MTU.
  rte_mempool* pool = nullptr;
  /// ACKs, NAKs and MADs take their mbufs from here while `pool` is empty. Null: from `pool` only.
  /// Data room: a frame with a MAD.
  rte_mempool* control_pool = nullptr;
  /// Mbufs for frames of connected queue pairs that share the buffers of their messages. They need
  /// no data room, and are in use until the ethdev has sent them. Null, or empty: frames are copies.
  rte_mempool* share_pool = nullptr;
  /// Mbufs that messages of one worker's connected queue pairs may hold: half of them for messages
  /// that wait to be sent or acknowledged (more: Drop::kIbTxBudget), half for messages that have begun
  /// to arrive (more: Drop::kIbRnr, UC: Drop::kIbNoBuffer).
  std::uint32_t message_mbufs = 16'384;
  bool icrc = true;                        ///< False: sent as zero and not checked.
  std::optional<std::uint32_t> first_qpn;  ///< First QPN of UD queue pairs; none: random.
  std::vector<std::uint32_t> kept_qpns;    ///< Only for UD queue pairs that ask for them.
  /// Quiescent states of the workers; the management lcore is not registered in it. Null: the
  /// caller is the only thread.
  rte_rcu_qsbr* qsbr = nullptr;
  /// Decides when the number of an address handle may be reused. Null: there are no workers.
  fabric::Retirement* retirement = nullptr;
  int socket_id = SOCKET_ID_ANY;
  /// The worker rings it for MADs and queue events. Null: the caller polls receive().
  Doorbell* doorbell = nullptr;
  /// Clock of path rates, connected queue pairs and link checks of the cable, and its cycles per
  /// second; null, 0: the TSC.
  std::uint64_t (*tsc)() noexcept = nullptr;
  std::uint64_t tsc_hz = 0;
};

/// Control calls: management lcore. poll_function(): each worker with queue pairs, and those that
/// read the cable. Bursts of a queue: its worker.
class SoftHca final : public fabric::Hca,
                      public fabric::ConnectedTransport,
                      public fabric::WireCapture,
                      public fabric::PortSetter,
                      public fabric::EthdevWire {
 public:
  /// Errors: kInvalidArgument (attributes, QPN, mempool), kNotFound (no such ethdev), kUnavailable
  /// (the ethdev carries less than the IB MTU + 80), kExists (it is another HCA's cable),
  /// kNoResources. Enables promiscuous mode if the ethdev can, because frames are addressed by LID.
  /// `manager` carries the MADs and provides the port's attributes; until then the port is down.
  /// Without it MADs use the cable, and `config` and change_port() set the attributes.
  [[nodiscard]] static Result<std::unique_ptr<SoftHca>> create(
      const SoftHcaConfig& config, std::unique_ptr<fabric::PortManager> manager = nullptr);
  /// No worker may use the HCA any more. Packets inside are freed.
  ~SoftHca() override;

  [[nodiscard]] const fabric::PortAttr& attr() const override { return config_.attr; }
  [[nodiscard]] fabric::MadPort& mad_port() override {
    return manager_ ? manager_->mad_port() : mad_port_;
  }
  [[nodiscard]] fabric::Capabilities capabilities() const override;

  Result<fabric::UdQueue*> create_ud_queue(const fabric::UdQueueConfig& config) override;
  /// Waits for grace periods. Delivered packets are counted under Drop::kIbQpn.
  void destroy_ud_queue(fabric::UdQueue& queue) override;
  Status set_qkey(fabric::UdQueue& queue, std::uint32_t qkey) override;
  Status attach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) override;
  Status detach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) override;
  Result<fabric::AhIndex> create_ah(const fabric::AhAttr& attr) override;
  void destroy_ah(fabric::AhIndex ah) override;
  /// Number of address handles in use, with those of connected queues.
  [[nodiscard]] std::size_t address_handles() const { return ahs_->in_use(); }

  /// Connected mode: up to ConnectedTable::kCapacity queues. These calls do not block.
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
  Status load_alternate(fabric::ConnectedQueue& queue,
                        const fabric::AlternatePath& alternate) override;
  [[nodiscard]] fabric::ConnectedQueueInfo info(const fabric::ConnectedQueue& queue) const override;
  std::optional<fabric::QueueEvent> next_queue_event() override;
  [[nodiscard]] bool queue_events_pending() const override;

  /// Also checks the link of the cable, at most ten times per second.
  std::optional<fabric::PortEvent> next_event() override;
  /// Waits for a grace period if the port's addresses change. Packets that a queue pair sends or
  /// receives are dropped (Drop::kIbPkey) while its P_Key is not in the table; a port that is not
  /// active drops all packets (Drop::kIbPortDown). Only without a manager.
  Status change_port(const fabric::PortChange& change) override;
  [[nodiscard]] std::string problem() const override;

  [[nodiscard]] DropTotals drops() const override;

  void on_ethdev_removed() override;

  /// Captures the frames that the ethdev accepts or delivers, regardless of later checks. Waits for
  /// a grace period.
  void set_capture(const std::optional<fabric::CaptureTap>& tap) override;
  [[nodiscard]] std::uint64_t capture_lost() const override;
  /// Packets copied to be sent: shared, segmented, or without room for the headers.
  [[nodiscard]] std::uint64_t tx_copies() const;

 private:
  SoftHca(const SoftHcaConfig& config, std::unique_ptr<fabric::PortManager> manager,
          std::unique_ptr<AhTable> ahs, fabric::RingPtr mads_out, fabric::RingPtr mads_in,
          std::unique_ptr<WorkerRings> rings);
  [[nodiscard]] UdDatapathConfig datapath_config(std::uint16_t worker) const;
  static std::uint32_t poll(fabric::Hca& hca, unsigned worker, std::uint16_t burst) noexcept;
  [[nodiscard]] Result<ConnectedControl*> connected();
  void publish(SoftUdQueue* closing = nullptr);
  void drain(SoftUdQueue& queue);
  void poll_link_status();
  void on_manager_events();
  Status apply_attr(fabric::PortAttr next);
  void set_active(bool active);
  [[nodiscard]] Result<std::uint32_t> allocate_qpn();
  [[nodiscard]] bool is_used(std::uint32_t qpn) const;
  [[nodiscard]] Result<std::uint32_t> take_qpn(std::uint32_t qpn) const;

  SoftHcaConfig config_;
  std::unique_ptr<fabric::PortManager> manager_;  ///< Null: this object manages the port.
  std::uint8_t max_mtu_code_;                     ///< MTU code.
  fabric::Grace grace_;
  std::uint32_t next_qpn_;
  std::unique_ptr<AhTable> ahs_;
  SoftGroupTable groups_;
  fabric::RingPtr mads_out_;
  fabric::RingPtr mads_in_;
  std::unique_ptr<MadShare> mad_share_;  ///< Places of mads_in_.
  std::unique_ptr<WorkerRings> rings_;   ///< Null: there is one worker.
  DropCounters ended_;                   ///< Packets in queues that were destroyed.
  std::vector<std::unique_ptr<UdDatapath>>
      datapaths_;  ///< The element of each worker; that of the worker of QP1 is first.
  SoftMadPort mad_port_;
  std::unique_ptr<ConnectedControl> connected_;  ///< Created on first use.
  std::vector<std::unique_ptr<SoftUdQueue>> queues_;
  std::unique_ptr<const RxTable> table_;
  fabric::Retired<std::unique_ptr<const RxTable>> old_tables_;
  std::unique_ptr<const fabric::CaptureTap> tap_;
  fabric::PortEvents events_;
  bool admin_up_ = true;
  bool link_up_ = true;
  bool ethdev_removed_ = false;           ///< The ethdev was removed.
  std::uint64_t next_link_poll_tsc_ = 0;  ///< Time of the next link check.
};

}  // namespace ipoib::soft
