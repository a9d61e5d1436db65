// SPDX-License-Identifier: BSD-3-Clause
// The HCAs, IPoIB links and Ethernet ports of a node. Each instance owns its control state machine
// and implements the interface through which that machine drives the device.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/contract.h"
#include "lib/cm/manager.h"
#include "lib/fabric/hca.h"
#include "lib/fwd/worker_config.h"
#include "lib/link/ethernet_port.h"
#include "lib/link/ipoib/ipoib_link.h"
#include "lib/link/log_limit.h"
#include "lib/mgmt/device/device_stats.h"
#include "lib/mgmt/device/eth_device.h"
#include "lib/mgmt/device/kernel_interfaces.h"
#include "lib/mgmt/node/node_clock.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/worker/injector.h"
#include "lib/mgmt/worker/retired_queues.h"
#include "lib/sa/client.h"
#include "lib/sa/embedded/administrator.h"

namespace ipoib::mgmt {

/// Limits of the communication manager of an HCA port.
[[nodiscard]] cm::ManagerConfig manager_config(const HcaConfig& hca);

/// One HCA port: device, SA client, communication manager, and the subnet administrator if it runs
/// on this port.
class HcaInstance {
 public:
  /// MADs and events of queue pairs that one call of receive() handles. The others wait in the
  /// device, whose queues are bounded, so that no flood keeps the management lcore from the rest of
  /// its loop.
  static constexpr unsigned kMadsPerTurn = 64;
  static constexpr unsigned kQueueEventsPerTurn = 64;
  /// No further MAD is handled after this time: some requests make a queue pair of a device.
  static constexpr Duration kMadTimePerTurn = std::chrono::milliseconds(5);

  /// `ethdev`: of a software HCA.
  HcaInstance(const HcaConfig& config, std::optional<EthDevice> ethdev,
              std::unique_ptr<fabric::Hca> hca, std::vector<unsigned> receivers,
              fabric::Retirement& retirement);

  /// Runs the administrator on this port: from now on or, if the device has not reported its
  /// attributes yet, as soon as it does. When the GID of a port of Ethernet link layer changes, its
  /// administrator is replaced. Errors: those of sa::Administrator::create.
  Status run_administrator(const SubnetConfig& subnet);

  /// Adds a link, which receives the reports of the SA to the port.
  void add_link(link::IpoibLink& link) { links_.push_back(&link); }
  void remove_link(link::IpoibLink& link) { std::erase(links_, &link); }
  /// Call when the port's address or its subnet manager has changed.
  void on_port_change(TimePoint now);
  /// Takes MADs and events of connected queues, within the limits above, and passes them on.
  void receive(TimePoint now, const NodeClock& clock);
  /// Runs the timers of client, manager and administrator that are due.
  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  [[nodiscard]] fabric::NamedCounters mad_counters() const;
  /// Statistics of the cable; empty without a cable.
  [[nodiscard]] std::vector<Xstat> ethdev_xstats() const;
  [[nodiscard]] fabric::Capabilities capabilities() const;

  HcaConfig config;
  std::optional<EthDevice> ethdev;  ///< Outlives `hca`, which sends through it.
  std::unique_ptr<fabric::Hca> hca;
  std::vector<unsigned> receivers;  ///< Workers that receive from it. The first owns its links.
  RetiredQueues retired;
  /// Number of connected queues by worker, of all links.
  std::array<std::size_t, RTE_MAX_LCORE> connected_queues{};
  sa::Client client;
  cm::Manager connections;
  std::optional<sa::Administrator> administrator;
  std::uint64_t unknown_mads = 0;  ///< MADs that no component here serves.

 private:
  void receive_sa(const fabric::ReceivedMad& mad, const wire::MadHdr& header, TimePoint now);
  Status renew_administrator();

  std::optional<SubnetConfig> subnet_;  ///< Subnet of the administrator; none: it is not here.
  std::vector<link::IpoibLink*> links_;
};

/// The queues of an IPoIB link, of each of its workers in the order of senders_of(): the owner's are
/// the first.
struct LinkQueues {
  std::vector<unsigned> workers;  ///< Their numbers.
  std::vector<fabric::UdQueue*> ud;
  std::vector<fabric::ReceiveQueue*> receive;  ///< Empty: no connected mode.
  std::optional<std::uint32_t> qpn{};          ///< Wanted for the first of `ud`.
};

/// An IPoIB link's queue pairs, and the actions of the link's state machine on them.
class LinkInstance final : public link::LinkActions, private link::ConnectionActions {
 public:
  /// Takes over `queues`. `kernel`: interfaces that may have the same port.
  LinkInstance(HcaInstance& hca, const LinkQueues& queues, Injector& injector,
               link::NeighbourSink& neighbours, link::AddressSink& addresses,
               const KernelInterfaces& kernel, const link::LinkConfig& config);
  ~LinkInstance() override;

  [[nodiscard]] const fabric::PortAttr& port() const override { return hca_.hca->attr(); }
  [[nodiscard]] unsigned queue_pairs() const override {
    return static_cast<unsigned>(queues_.ud.size());
  }
  [[nodiscard]] std::uint32_t qpn(unsigned queue_pair) const override {
    return queues_.ud[queue_pair]->qpn();
  }
  Status set_qkey(std::uint32_t qkey) override;
  Status attach(unsigned queue_pair, const wire::Gid& mgid, std::uint16_t mlid) override {
    return hca_.hca->attach(*queues_.ud[queue_pair], mgid, mlid);
  }
  void detach(unsigned queue_pair, const wire::Gid& mgid, std::uint16_t mlid) override;
  Result<fabric::AhIndex> create_ah(const fabric::AhAttr& attr) override {
    return hca_.hca->create_ah(attr);
  }
  void destroy_ah(fabric::AhIndex ah) override { hca_.hca->destroy_ah(ah); }
  void send(fabric::AhIndex ah, std::uint32_t qpn, std::span<const std::byte> frame) override {
    injector_.send_raw(config_.id, ah, qpn, frame);
  }
  void state_changed(link::State state) override;
  [[nodiscard]] link::PortUser port_user() const override;
  void port_heard(const wire::Gid& gid, std::uint16_t slid, TimePoint now) override {
    const bool has_lids = port().link_layer != fabric::LinkLayer::kEthernet;
    if (has_lids && hca_.administrator) hca_.administrator->overhear(gid, slid, config_.pkey, now);
  }

  /// Call when an interface of the kernel has changed, with it as it was and as it is. Only those of
  /// the link's port and partition matter.
  void on_kernel_interface(const KernelInterface& interface, TimePoint now);
  /// Interfaces of the kernel on the link's port and partition.
  [[nodiscard]] std::vector<KernelInterface> port_users() const { return kernel_.at(place()); }
  [[nodiscard]] const HcaInstance& hca() const { return hca_; }
  [[nodiscard]] const LinkQueues& queues() const { return queues_; }
  /// The queues of one worker.
  [[nodiscard]] fwd::InterfaceQueues queues_of(unsigned worker) const;
  /// The worker of a UD queue pair and of the receive queue with the same number.
  [[nodiscard]] std::uint8_t worker_of(unsigned queue_pair) const override {
    return static_cast<std::uint8_t>(queues_.workers[queue_pair]);
  }
  [[nodiscard]] link::IpoibLink& control() { return *control_; }
  [[nodiscard]] const link::IpoibLink& control() const { return *control_; }
  [[nodiscard]] const link::LinkConfig& config() const { return config_; }

 private:
  void compare_qpn() const;
  // ConnectionActions.
  Result<fabric::ConnectedQueue*> create_connected(fabric::Transport transport,
                                                   unsigned queue_pair) override;
  void destroy_connected(fabric::ConnectedQueue& queue, unsigned queue_pair) override;
  [[nodiscard]] std::size_t connected_queues(unsigned queue_pair) const override;
  Status set_ready_to_receive(fabric::ConnectedQueue& queue,
                              const fabric::ReadyToReceive& attr) override {
    return connected_mode().set_ready_to_receive(queue, attr);
  }
  Status set_ready_to_send(fabric::ConnectedQueue& queue,
                           const fabric::ReadyToSend& attr) override {
    return connected_mode().set_ready_to_send(queue, attr);
  }
  void set_error(fabric::ConnectedQueue& queue) override { connected_mode().set_error(queue); }
  [[nodiscard]] bool takes_alternates() const override {
    return hca_.hca->capabilities().alternate_paths;
  }
  [[nodiscard]] std::uint8_t ack_delay() const override {
    return hca_.hca->capabilities().ack_delay;
  }
  Status load_alternate(fabric::ConnectedQueue& queue,
                        const fabric::AlternatePath& alternate) override {
    return connected_mode().load_alternate(queue, alternate);
  }
  [[nodiscard]] fabric::ConnectedQueueInfo info(
      const fabric::ConnectedQueue& queue) const override {
    return connected_mode().info(queue);
  }
  /// Shape: the link has receive queues.
  [[nodiscard]] fabric::ConnectedTransport& connected_mode() const {
    expects(hca_.hca->connected_transport() != nullptr, "the link has receive queues");
    return *hca_.hca->connected_transport();
  }

  [[nodiscard]] KernelInterfaces::Place place() const { return {port().guid, config_.pkey}; }

  HcaInstance& hca_;
  LinkQueues queues_;
  Injector& injector_;
  const KernelInterfaces& kernel_;
  link::LogLimit kernel_log_;
  link::LinkConfig config_;
  std::unique_ptr<link::IpoibLink> control_;
};

class PortInstance final : public link::PortActions {
 public:
  PortInstance(EthDevice device, Injector& injector, link::NeighbourSink& neighbours,
               link::AddressSink& addresses, const link::EthernetPortConfig& config,
               std::vector<fwd::InterfaceQueues> queues);

  [[nodiscard]] wire::MacAddr mac() const override { return device_.mac(); }
  void send(std::span<const std::byte> frame) override {
    injector_.send_raw(config_.id, fabric::kNoAh, 0, frame);
  }
  void join(const wire::MacAddr& group) override { device_.groups().join(group); }
  void leave(const wire::MacAddr& group) override { device_.groups().leave(group); }
  void state_changed(link::State state) override;

  [[nodiscard]] EthDevice& device() { return device_; }
  [[nodiscard]] const EthDevice& device() const { return device_; }
  [[nodiscard]] link::EthernetPort& control() { return *control_; }
  [[nodiscard]] const link::EthernetPort& control() const { return *control_; }
  [[nodiscard]] const link::EthernetPortConfig& config() const { return config_; }
  [[nodiscard]] const fwd::InterfaceQueues& queues_of(std::size_t worker) const {
    return queues_[worker];
  }

 private:
  EthDevice device_;
  Injector& injector_;
  link::EthernetPortConfig config_;
  std::vector<fwd::InterfaceQueues> queues_;  ///< Indexed by worker number.
  std::unique_ptr<link::EthernetPort> control_;
};

}  // namespace ipoib::mgmt
