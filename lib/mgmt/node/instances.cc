// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/instances.h"

#include <algorithm>
#include <utility>

#include "lib/base/hash_seed.h"
#include "lib/base/log.h"
#include "lib/mgmt/device/device_readings.h"
#include "lib/mgmt/worker/placement.h"
#include "lib/sa/sa_mad.h"
#include "lib/wire/iba.h"

namespace ipoib::mgmt {
namespace {

constexpr Duration kKernelLogInterval = std::chrono::seconds(1);

void log_state(std::string_view kind, const link::Interface& control, link::State state) {
  const std::string reason = control.reason();
  log(LogArea::kLink, LogLevel::kInfo, "{} {} is {}{}{}", kind, control.name(),
      link::to_string(state), reason.empty() ? "" : ": ", reason);
}

sa::AdministratorConfig administrator_config(const SubnetConfig& subnet,
                                             const fabric::PortAttr& port) {
  sa::AdministratorConfig config;
  config.gid = port.gid();
  config.lid = port.lid;
  config.lmc = port.lmc;
  const bool by_gid = port.link_layer == fabric::LinkLayer::kEthernet;
  if (by_gid) config.elsewhere_lid = fabric::kElsewhereLid;
  config.manages_ports = !by_gid;
  config.mtu = wire::mtu_code(subnet.mtu);
  config.rate = wire::rate_code(subnet.rate);
  config.qkey = subnet.qkey;
  config.sl = subnet.sl;
  config.sm_key = subnet.sm_key;
  config.partitions.clear();
  for (const std::uint16_t pkey : port.pkeys) config.partitions.push_back({pkey});
  return config;
}

}  // namespace

cm::ManagerConfig manager_config(const HcaConfig& hca) {
  cm::ManagerConfig config;
  config.limits.port_max = hca.connections_per_port;
  return config;
}

HcaInstance::HcaInstance(const HcaConfig& hca_config, std::optional<EthDevice> eth_device,
                         std::unique_ptr<fabric::Hca> device,
                         std::vector<unsigned> receiving_workers, fabric::Retirement& retirement)
    : config{hca_config},
      ethdev{std::move(eth_device)},
      hca{std::move(device)},
      receivers{std::move(receiving_workers)},
      retired{*hca, retirement},
      client{[this](const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) {
               return hca->mad_port().send(to, mad);
             },
             sa::ClientConfig{}, secret_seed()},
      connections{
          [this](const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) {
            return hca->mad_port().send(to, mad);
          },
          manager_config(hca_config), secret_seed()} {
  client.set_report_handler([this](const wire::Notice& notice, TimePoint now) {
    for (link::IpoibLink* l : links_) l->on_report(notice, now);
  });
}

Status HcaInstance::run_administrator(const SubnetConfig& subnet) {
  subnet_ = subnet;
  return renew_administrator();
}

/// Peers on an InfiniBand fabric know the administrator by its LID, so it stays unchanged. The
/// administrator of a port of Ethernet link layer is known to this node only.
Status HcaInstance::renew_administrator() {
  const fabric::PortAttr& port = hca->attr();
  const bool by_gid = port.link_layer == fabric::LinkLayer::kEthernet;
  if (!subnet_ || port.guid == 0 || (config.driver == HcaDriver::kVerbs && !by_gid)) return {};
  if (administrator && (!by_gid || administrator->config().gid == port.gid())) {
    administrator->set_port_mtu(port.mtu);
    return {};
  }
  auto made = sa::Administrator::create(administrator_config(*subnet_, port));
  if (!made) return tl::make_unexpected(made.error());
  administrator.emplace(std::move(*made));
  administrator->set_port_mtu(port.mtu);
  if (!by_gid)
    log(LogArea::kSa, LogLevel::kNotice,
        "hca {}: the subnet administrator knows no ports yet; it waits for their requests, ARP and "
        "ND, and requests reregistration from ports in no group",
        config.name);
  return {};
}

void HcaInstance::on_port_change(TimePoint now) {
  const fabric::PortAttr& port = hca->attr();
  if (auto renewed = renew_administrator(); !renewed)
    log(LogArea::kFabric, LogLevel::kErr, "hca {}: {}", config.name, renewed.error().what);
  client.set_sm(port.sm_lid, port.sm_sl, now);
  connections.set_port(cm::PortIdentity::of(port));
}

void HcaInstance::receive(TimePoint now, const NodeClock& clock) {
  const TimePoint begin = clock.now();
  fabric::MadPort& port = hca->mad_port();
  for (unsigned i = 0; i < kMadsPerTurn && clock.now() - begin <= kMadTimePerTurn; ++i) {
    const auto mad = port.receive();
    // The port may have used the call for MADs of its own, with others behind them.
    if (!mad && port.pending()) continue;
    if (!mad) break;
    const auto header = wire::read<wire::MadHdr>(mad->bytes);
    switch (wire::MgmtClass{header->mgmt_class}) {
      case wire::MgmtClass::kSubnAdm: receive_sa(*mad, *header, now); break;
      case wire::MgmtClass::kComMgt: connections.on_mad(*mad, now); break;
      case wire::MgmtClass::kSubnLid:
        if (!administrator || !administrator->on_smp(*mad, now)) ++unknown_mads;
        break;
      default: ++unknown_mads;
    }
  }
  if (fabric::ConnectedTransport* const transport = hca->connected_transport()) {
    for (unsigned i = 0; i < kQueueEventsPerTurn; ++i) {
      const auto event = transport->next_queue_event();
      if (!event) break;
      for (link::IpoibLink* l : links_)
        if (l->connections() != nullptr) l->connections()->on_queue_event(*event, now);
    }
  }
  retired.collect();
}

void HcaInstance::receive_sa(const fabric::ReceivedMad& mad, const wire::MadHdr& header,
                             TimePoint now) {
  if (sa::is_for_client(header.method)) {
    client.on_mad(mad, now);
  } else if (!administrator) {
    ++unknown_mads;
  } else if (const auto answer = administrator->answer(mad, now)) {
    // A full queue loses the answer; the client retries.
    static_cast<void>(hca->mad_port().send(mad.from, wire::bytes_of(*answer)));
  }
}

void HcaInstance::tick(TimePoint now) {
  const auto due = [now](std::optional<TimePoint> deadline) {
    return deadline && *deadline <= now;
  };
  if (due(client.next_deadline())) client.tick(now);
  if (due(connections.next_deadline())) connections.tick(now);
  if (administrator && due(administrator->next_deadline()))
    administrator->tick(
        now, [this](const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) {
          return hca->mad_port().send(to, mad);
        });
}

std::optional<TimePoint> HcaInstance::next_deadline() const {
  const auto next = earlier(client.next_deadline(), connections.next_deadline());
  return administrator ? earlier(next, administrator->next_deadline()) : next;
}

fabric::NamedCounters HcaInstance::mad_counters() const {
  fabric::NamedCounters counters = hca->mad_port().counters();
  counters.emplace_back("unknown", unknown_mads);
  return counters;
}

std::vector<Xstat> HcaInstance::ethdev_xstats() const {
  return ethdev ? device_xstats(*ethdev) : std::vector<Xstat>{};
}

/// The cable of a software HCA reports its removal.
fabric::Capabilities HcaInstance::capabilities() const {
  fabric::Capabilities able = hca->capabilities();
  if (ethdev) able.removal_events = ethdev->capabilities().removal_events;
  return able;
}

LinkInstance::LinkInstance(HcaInstance& hca, const LinkQueues& queues, Injector& injector,
                           link::NeighbourSink& neighbours, link::AddressSink& addresses,
                           const KernelInterfaces& kernel, const link::LinkConfig& config)
    : hca_{hca},
      queues_{queues},
      injector_{injector},
      kernel_{kernel},
      kernel_log_{kKernelLogInterval},
      config_{config},
      control_{std::make_unique<link::IpoibLink>(
          config, *this, neighbours, hca.client, secret_seed(), addresses,
          link::IpoibLink::Connected{*this, hca.connections})} {
  hca.add_link(*control_);
}

LinkInstance::~LinkInstance() {
  hca_.remove_link(*control_);
  control_.reset();
  hca_.retired.destroy_all();
  for (fabric::ReceiveQueue* const queue : queues_.receive)
    connected_mode().destroy_receive_queue(*queue);
  // The first one comes last, because the others name it.
  for (auto queue = queues_.ud.rbegin(); queue != queues_.ud.rend(); ++queue)
    hca_.hca->destroy_ud_queue(**queue);
}

fwd::InterfaceQueues LinkInstance::queues_of(unsigned worker) const {
  const auto it = std::ranges::find(queues_.workers, worker);
  if (it == queues_.workers.end()) return {};
  const auto nth = static_cast<std::size_t>(it - queues_.workers.begin());
  fwd::InterfaceQueues queues;
  queues.ud = queues_.ud[nth];
  if (!queues_.receive.empty()) queues.receive = queues_.receive[nth];
  return queues;
}

Status LinkInstance::set_qkey(std::uint32_t qkey) {
  for (fabric::UdQueue* const queue : queues_.ud)
    if (auto s = hca_.hca->set_qkey(*queue, qkey); !s) return s;
  return {};
}

Result<fabric::ConnectedQueue*> LinkInstance::create_connected(fabric::Transport transport,
                                                               unsigned queue_pair) {
  auto queue = connected_mode().create_connected_queue(
      {.transport = transport, .pkey = config_.pkey, .receive_queue = queues_.receive[queue_pair]});
  if (queue) ++hca_.connected_queues[worker_of(queue_pair)];
  return queue;
}

void LinkInstance::destroy_connected(fabric::ConnectedQueue& queue, unsigned queue_pair) {
  --hca_.connected_queues[worker_of(queue_pair)];
  hca_.retired.add(queue);
}

std::size_t LinkInstance::connected_queues(unsigned queue_pair) const {
  return hca_.connected_queues[worker_of(queue_pair)];
}

void LinkInstance::detach(unsigned queue_pair, const wire::Gid& mgid, std::uint16_t mlid) {
  if (auto s = hca_.hca->detach(*queues_.ud[queue_pair], mgid, mlid); !s)
    log(LogArea::kFabric, LogLevel::kWarning, "link {}: {}", config_.name, s.error().what);
}

void LinkInstance::state_changed(link::State state) {
  log_state("link", *control_, state);
  if (state == link::State::kUp) compare_qpn();
}

/// Devices other than the software HCA choose QPNs by themselves, also again after a failure.
void LinkInstance::compare_qpn() const {
  if (!queues_.qpn || qpn(0) == *queues_.qpn) return;
  log(LogArea::kLink, LogLevel::kWarning,
      "link {}: the device gave QPN {:#x} instead of {:#x}: static neighbours and RARP servers of "
      "other hosts need its new address",
      config_.name, qpn(0), *queues_.qpn);
}

link::PortUser LinkInstance::port_user() const {
  auto user = link::PortUser::kNone;
  for (const KernelInterface& interface : port_users())
    user = std::max(user, interface.up ? link::PortUser::kActive : link::PortUser::kIdle);
  return user;
}

void LinkInstance::on_kernel_interface(const KernelInterface& interface, TimePoint now) {
  if (config_.shared_port == link::SharedPort::kNo || !place().has(interface)) return;
  if (const auto suppressed = kernel_log_.allow(now)) {
    std::string users;
    for (const KernelInterface& user : port_users())
      users +=
          fmt::format("{}{} ({})", users.empty() ? "" : ", ", user.name, user.up ? "up" : "down");
    log(LogArea::kLink, LogLevel::kNotice,
        "{}: kernel interfaces on its port and partition: {} ({} changes suppressed)", config_.name,
        users.empty() ? "none" : users, *suppressed);
  }
  control_->on_port_user(now);
}

PortInstance::PortInstance(EthDevice device, Injector& injector, link::NeighbourSink& neighbours,
                           link::AddressSink& addresses, const link::EthernetPortConfig& config,
                           std::vector<fwd::InterfaceQueues> queues)
    : device_{std::move(device)},
      injector_{injector},
      config_{config},
      queues_{std::move(queues)},
      control_{std::make_unique<link::EthernetPort>(config, *this, neighbours, secret_seed(),
                                                    addresses)} {}

void PortInstance::state_changed(link::State state) {
  log_state("port", *control_, state);
}

}  // namespace ipoib::mgmt
