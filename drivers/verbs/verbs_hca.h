// SPDX-License-Identifier: BSD-3-Clause
// One port of a real HCA, through libibverbs. While the device is absent, the port is down and the
// device is searched for. When it is back, UD and receive queues get new hardware; connected queues
// stay closed, and address handles must be created again.
#pragma once

#include <rte_rcu_qsbr.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "drivers/verbs/captured_mads.h"
#include "drivers/verbs/device.h"
#include "drivers/verbs/ethernet_groups.h"
#include "drivers/verbs/memory.h"
#include "drivers/verbs/packet_capture.h"
#include "drivers/verbs/port.h"
#include "drivers/verbs/verbs_ah_table.h"
#include "drivers/verbs/verbs_connected_queue.h"
#include "drivers/verbs/verbs_ud_queue.h"
#include "lib/base/clock.h"
#include "lib/base/doorbell.h"
#include "lib/fabric/grace.h"
#include "lib/fabric/hca.h"
#include "lib/fabric/port_events.h"
#include "lib/fabric/port_manager.h"
#include "lib/fabric/retirement.h"

namespace ipoib::verbs {

struct VerbsHcaConfig {
  std::string name;    ///< Name of the HCA, for messages.
  std::string device;  ///< For example "mlx5_0".
  std::uint8_t port = 1;
  std::uint8_t mtu = 4;         ///< Code of the largest IB MTU to use.
  bool administrator = false;   ///< This node administers the subnet: Ethernet link layer only.
  rte_mempool* pool = nullptr;  ///< Receive buffers.
  std::uint16_t rxd = 512;
  std::uint16_t txd = 512;
  /// NUMA node of the worker that owns the port; -1: not known.
  int worker_node = -1;
  /// Quiescent states of the workers; the management lcore is not registered in it. Null: the
  /// caller is the only thread.
  rte_rcu_qsbr* qsbr = nullptr;
  /// Decides when the number of an address handle may be reused. Null: there are no workers.
  fabric::Retirement* retirement = nullptr;
  /// Rung by the worker when a queue has failed. Null: the caller polls next_event().
  Doorbell* doorbell = nullptr;
  /// InfiniBand link layer: makes the object that carries MADs and reports the attributes that the
  /// subnet manager gave the port.
  std::function<std::unique_ptr<fabric::PortManager>()> manager;
  /// Ethernet link layer: makes the object that carries MADs, from the port's GID with this index.
  std::function<std::unique_ptr<fabric::MadPort>(std::uint8_t gid_index)> mad_port;
  std::function<TimePoint()> now;  ///< Empty: the steady clock.
};

/// Control calls: management lcore. Bursts: the worker of a queue.
class VerbsHca final : public fabric::Hca,
                       public fabric::ConnectedTransport,
                       public fabric::WireCapture {
 public:
  /// kInvalidArgument: the configuration is wrong. A device that cannot be used is no error: see
  /// problem().
  [[nodiscard]] static Result<std::unique_ptr<VerbsHca>> create(VerbsHcaConfig config);
  /// No worker may use the HCA any more. Packets inside are freed.
  ~VerbsHca() override;

  [[nodiscard]] const fabric::PortAttr& attr() const override { return attr_; }
  [[nodiscard]] fabric::MadPort& mad_port() override { return mads_; }
  [[nodiscard]] fabric::Capabilities capabilities() const override;

  Result<fabric::UdQueue*> create_ud_queue(const fabric::UdQueueConfig& config) override;
  void destroy_ud_queue(fabric::UdQueue& queue) override;
  Status set_qkey(fabric::UdQueue& queue, std::uint32_t qkey) override;
  Status attach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) override;
  Status detach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) override;
  Result<fabric::AhIndex> create_ah(const fabric::AhAttr& attr) override;
  void destroy_ah(fabric::AhIndex ah) override { ahs_.remove(ah); }

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

  /// Captures packets that the device has accepted or delivered, rebuilt from work requests and
  /// completions. Waits for the workers.
  void set_capture(const std::optional<fabric::CaptureTap>& tap) override;
  [[nodiscard]] std::uint64_t capture_lost() const override { return capture_.lost(); }

  /// Also maintains the device: opens it, detects that it is gone, restarts failed queues.
  std::optional<fabric::PortEvent> next_event() override;
  [[nodiscard]] std::string problem() const override;
  [[nodiscard]] DropTotals drops() const override;

 private:
  explicit VerbsHca(VerbsHcaConfig config);
  [[nodiscard]] TimePoint now() const;
  [[nodiscard]] fabric::MadPort& mad_carrier() const;
  void publish_capture();

  void look_for_device();
  Status use(std::unique_ptr<Device> device);
  void lose_device(const std::string& why);
  void take_device_events();
  void on_manager_events();
  void look_at_port();
  void become(fabric::PortAttr next);
  void warn_of_nodes() const;

  void equip();
  Status equip(VerbsUdQueue& queue);
  Status equip(VerbsReceiveQueue& queue);
  void end_queues_of_moved_pkeys();
  void end_queues_without_rate();
  void end_queues(std::string_view why,
                  const std::function<bool(const VerbsConnectedQueue&)>& ends);
  Status restart(VerbsUdQueue& queue, std::uint16_t pkey_index);
  void check_failures(TimePoint now);
  Status attach_now(VerbsUdQueue& queue, const VerbsUdQueue::Attachment& group);
  void leave(const VerbsUdQueue& queue, const VerbsUdQueue::Attachment& group);
  void reclaim();
  [[nodiscard]] SendMarks marks(std::uint64_t (SendQueue::*mark)() const noexcept) const;
  [[nodiscard]] VerbsConnectedQueue* find_queue(std::uint32_t qpn) const;

  VerbsHcaConfig config_;
  fabric::Grace grace_;
  DropTotals ended_;  ///< Drops of destroyed queues.
  Memory memory_;
  VerbsAhTable ahs_;
  PacketCapture capture_;
  PortShared shared_;
  std::unique_ptr<Device> device_;  ///< Null: the device is absent.
  PortTables tables_;
  std::vector<std::uint16_t> pkeys_;  ///< The P_Key table of the port.
  EthernetGroups groups_;
  std::unique_ptr<fabric::PortManager> manager_;  ///< InfiniBand link layer, once it is known.
  std::unique_ptr<fabric::MadPort> mad_port_;     ///< Ethernet link layer, while there is a device.
  CapturedMads mads_;
  std::optional<fabric::CaptureTap> tap_;
  fabric::PortAttr attr_;
  fabric::PortEvents events_;
  std::deque<fabric::QueueEvent> queue_events_;
  std::string problem_ = "the device has not been opened yet";
  std::string queue_problem_;  ///< Reason why a queue is not ready.
  TimePoint next_look_{};      ///< Next search for the device, or check of the port.
  bool look_now_ = false;
  std::vector<std::unique_ptr<VerbsUdQueue>> ud_queues_;
  std::vector<std::unique_ptr<VerbsReceiveQueue>> receive_queues_;
  std::vector<std::unique_ptr<VerbsConnectedQueue>> connected_queues_;
};

}  // namespace ipoib::verbs
