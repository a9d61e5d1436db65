// SPDX-License-Identifier: BSD-3-Clause
// Each step needs the steps before it.
#include "lib/mgmt/node/node_builder.h"

#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>

#include "lib/base/control_thread.h"
#include "lib/base/hash_seed.h"
#include "lib/fabric/packet_meta.h"
#include "lib/link/ipoib/dialect.h"
#include "lib/link/ipoib/group_senders.h"
#include "lib/mgmt/node/node_assembly.h"
#include "lib/wire/iba.h"

namespace ipoib::mgmt {
namespace {

/// Octets of an IB packet around its payload: LRH, GRH, BTH, DETH, pad and ICRC.
constexpr unsigned kIbOverhead = 8 + 40 + 12 + 8 + 3 + 4;
/// Octets that an ethdev must carry in addition to the IB MTU.
constexpr unsigned kEthdevOverhead = 80;

std::string interface_error(const std::string& kind, const std::string& name, const Error& e) {
  return fmt::format("{} {}: {}", kind, name, e.what);
}

/// The hop limit of IP for packets that leave the IB subnet: a group of a larger scope than
/// link-local may have members behind IB routers.
constexpr std::uint8_t kHopsBeyondSubnet = 64;

link::BroadcastAttributes broadcast_attributes(const SubnetConfig& group, std::uint8_t scope) {
  link::BroadcastAttributes attributes;
  attributes.mtu = wire::mtu_code(group.mtu);
  attributes.rate = wire::rate_code(group.rate);
  attributes.qkey = group.qkey;
  attributes.sl = group.sl;
  attributes.tclass = static_cast<std::uint8_t>(group.tclass);
  attributes.flow_label = group.flow_label;
  const std::uint8_t usual = scope > 2 ? kHopsBeyondSubnet : std::uint8_t{0};
  attributes.hop_limit = static_cast<std::uint8_t>(group.hop_limit.value_or(usual));
  return attributes;
}

link::ConnectionConfig connection_config(const LinkConfigEntry& l) {
  link::ConnectionConfig config = l.connection;
  config.rc = l.mode == LinkMode::kConnectedRc || l.mode == LinkMode::kConnected;
  config.uc = l.mode == LinkMode::kConnectedUc || l.mode == LinkMode::kConnected;
  config.receive_mtu = static_cast<std::uint32_t>(l.connected_mtu + sizeof(wire::IpoibHdr));
  return config;
}

/// mbufs that messages of an hca may hold: all that the mempool was made for or, if the configuration
/// sets its size, an equal share of half of it.
std::uint32_t message_mbufs(const NodeConfig& node, const HcaConfig& hca) {
  const unsigned planned = messages_under_way(node, hca);
  if (node.total_num_mbufs == 0) return planned;
  return std::min(planned, node.total_num_mbufs / 2 / static_cast<unsigned>(node.hcas.size()));
}

/// Receive queue of one link and worker. A receive buffer of a real HCA consists of the mbufs for the
/// longest message and waits at the device. All receive queues of an HCA together get half of its
/// message_mbufs(), and messages to send the other half.
fabric::ReceiveQueueConfig receive_queue(const NodeConfig& node, const HcaConfig& hca,
                                         const LinkConfigEntry& l, unsigned mbuf_size) {
  constexpr std::uint32_t kMin = 32;
  fabric::ReceiveQueueConfig queue;
  queue.max_message = connection_config(l).receive_mtu;
  if (hca.driver != HcaDriver::kVerbs || l.mode == LinkMode::kDatagram) return queue;
  std::uint32_t queues = 0;
  for (const LinkConfigEntry& other : node.links)
    if (is_connected_on(other, hca)) queues += queue_pairs_of(other, node.worker.count);
  const std::uint32_t segments = queue.max_message / (mbuf_size - RTE_PKTMBUF_HEADROOM) + 1;
  const std::uint32_t mbufs = message_mbufs(node, hca) / 2 / queues;
  queue.depth = std::clamp(mbufs / segments, kMin, queue.depth);
  queue.send_mbufs = std::max(mbufs, kMin);
  return queue;
}

/// Creates queues for as many of the workers as the hca serves. `receive`: for each of them.
Result<LinkQueues> create_queues(fabric::Hca& hca, const LinkConfigEntry& l,
                                 fabric::ReceiveQueueConfig receive,
                                 std::vector<unsigned> workers) {
  LinkQueues queues;
  fabric::ConnectedTransport* const transport = hca.connected_transport();
  const auto failed = [&](Error&& error) {
    for (fabric::ReceiveQueue* const queue : queues.receive)
      transport->destroy_receive_queue(*queue);
    // The first one comes last, because the others name it.
    for (auto queue = queues.ud.rbegin(); queue != queues.ud.rend(); ++queue)
      hca.destroy_ud_queue(**queue);
    return tl::make_unexpected(std::move(error));
  };
  const unsigned n = std::min<unsigned>(queue_pairs_of(l, static_cast<unsigned>(workers.size())),
                                        hca.capabilities().max_workers);
  workers.resize(n);
  queues.workers = std::move(workers);
  queues.qpn = l.qpn;
  for (unsigned worker = 0; worker < n; ++worker) {
    auto ud = hca.create_ud_queue({.pkey = l.pkey,
                                   .worker = worker,
                                   .first = worker == 0 ? nullptr : queues.ud.front(),
                                   .qpn = worker == 0 ? l.qpn : std::optional<std::uint32_t>{}});
    if (!ud) return failed(std::move(ud.error()));
    queues.ud.push_back(*ud);
  }
  if (l.mode == LinkMode::kDatagram) return queues;
  if (transport == nullptr)
    return failed({Errc::kRefused, fmt::format("{} does not support connected mode", hca.name())});
  for (receive.worker = 0; receive.worker < n; ++receive.worker) {
    auto queue = transport->create_receive_queue(receive);
    if (!queue) return failed(std::move(queue.error()));
    queues.receive.push_back(*queue);
  }
  return queues;
}

/// RARP on a link or port of this kind.
template <class Entry>
link::RarpConfig rarp_config(const NodeConfig& node, const Entry& iface, wire::LinkKind kind) {
  link::RarpConfig config;
  config.ask = iface.ip.ask_rarp;
  config.prefix_len = static_cast<std::uint8_t>(iface.ip.rarp_prefix_len);
  for (const RarpEntryConfig& r : node.rarp)
    if (const auto hw = wire::parse_hw_addr(r.lladdr);
        hw && hw->kind() == kind && r.iface == iface.name)
      config.served.emplace_back(*hw, r.addr);
  return config;
}

Status add_groups(NodeParts& parts) {
  const auto add = [&parts](const std::string& name, const IpConfig& ip) -> Status {
    InterfaceSlot& slot = *parts.interfaces.find(name);
    if (ip.multicast_router)
      if (auto s = parts.multicast->add_router(slot, ip, parts.now()); !s) return s;
    if (ip.linux_routes_multicast(parts.config.linux_plane))
      parts.multicast->set_linux_router(slot.control->id());
    for (const wire::IpAddr& group : ip.groups)
      if (auto s = slot.control->join_group(group, parts.now()); !s) return s;
    return {};
  };
  for (const PortConfig& p : parts.config.ports)
    if (auto s = add(p.name, p.ip); !s) return s;
  for (const LinkConfigEntry& l : parts.config.links)
    if (auto s = add(l.name, l.ip); !s) return s;
  return {};
}

template <class Entry>
Status set_directed_broadcasts(NodeControl& control, const std::vector<Entry>& entries) {
  for (const Entry& e : entries)
    if (auto s = control.set_directed_broadcast(e.name, e.ip.directed_broadcast); !s) return s;
  return {};
}

Status add_routes(NodeParts& parts, NodeControl& control) {
  if (auto s = set_directed_broadcasts(control, parts.config.ports); !s) return s;
  if (auto s = set_directed_broadcasts(control, parts.config.links); !s) return s;
  for (const auto& slot : parts.interfaces)
    for (const wire::IpPrefix& a : slot->control->addresses())
      if (auto s = parts.addresses->address_assigned(slot->control->id(), a); !s) return s;
  for (const RouteConfig& r : parts.config.routes)
    if (auto s = control.add_route(r); !s) return s;
  for (const MulticastRouteConfig& r : parts.config.multicast_routes)
    if (auto s = control.add_multicast_route(r); !s) return s;
  return {};
}

Status add_filters(NodeParts& parts) {
  const fwd::FilterTable::Shape shape{.interfaces = parts.interfaces.size(),
                                      .workers = parts.config.worker.count,
                                      .socket = SOCKET_ID_ANY};
  parts.filters = std::make_unique<FilterList>(FilterList::Surroundings{
      .settings = parts.tables.settings,
      .grace = fabric::Grace{parts.tables.rcu.get()},
      .interface_of =
          [&parts](std::string_view name) {
            const InterfaceSlot* const slot = parts.interfaces.find(name);
            return slot != nullptr ? slot->control->id() : table::kNoInterface;
          },
      .compile =
          [shape](const FilterList::Rules& rules) {
            return fwd::FilterTable::create(rules, shape);
          },
      .start_thread =
          [](std::function<void()> job) {
            return run_on_control_thread("ipoib-filters", "compiles filters", std::move(job));
          },
      .wake = [&parts] { parts.loop->post([] {}); }});
  return parts.filters->begin_with(parts.config.filters);
}

/// A MAC address for the mirror of a link: the GUID of its port without the two octets in the middle,
/// as a locally administered one.
wire::MacAddr mac_of(std::uint64_t guid) {
  const wire::Be64 octets{guid};
  std::array<std::byte, sizeof octets> all;
  std::memcpy(all.data(), &octets, sizeof octets);
  return {(all[0] & std::byte{0xfc}) | std::byte{2}, all[1], all[2], all[5], all[6], all[7]};
}

Status open_linux(NodeAssembly& node) {
  NodeParts& parts = *node.parts;
  const LinuxConfig& config = parts.config.linux_plane;
  std::vector<MirrorRequest> requests;
  for (std::size_t i = 0; i < parts.ports.size(); ++i)
    if (parts.config.ports[i].ip.mirrored(config)) {
      EthDevice& device = parts.ports[i]->device();
      requests.push_back({parts.ports[i]->config().id, device.mac(), true});
      device.groups().join_lldp();
    }
  for (std::size_t i = 0; i < parts.links.size(); ++i)
    if (parts.config.links[i].ip.mirrored(config))
      requests.push_back({parts.links[i]->config().id, mac_of(parts.links[i]->port().guid), false});
  parts.punt->let_linux_answer(config.echo);
  parts.punt->let_linux_route_multicast(config.multicast_routes);
  return requests.empty() ? Status{} : node.linux_plane.open(requests, node.control);
}

/// Brings a new node into its configured state.
Status configure(NodeAssembly& node) {
  NodeParts& parts = *node.parts;
  if (auto s = add_groups(parts); !s) return s;
  if (auto s = add_routes(parts, node.control); !s) return s;
  if (auto s = add_filters(parts); !s) return s;
  if (auto s = open_linux(node); !s) return s;
  fwd::Settings& settings = parts.tables.settings;
  settings.burst.store(static_cast<std::uint16_t>(parts.config.worker.burst));
  settings.idle.store(parts.config.worker.idle);
  settings.redirects.store(parts.config.redirects);
  settings.mode.store(parts.config.mode);
  if (auto s = node.traffic.publish(); !s) return s;
  if (parts.config.auto_start) node.traffic.send_first(parts.config.tx_first);
  settings.forwarding.store(parts.config.auto_start);
  node.stats.clear_stats();
  return {};
}

/// The worker's number among those with queues on the hca, if the device has work for it: those that
/// read its cable, and those with queue pairs. Empty: none.
std::optional<unsigned> polls(const NodeParts& parts, const HcaInstance& hca, unsigned worker) {
  if (hca.hca->poll_function() == nullptr) return std::nullopt;
  const bool has_queues = std::ranges::any_of(parts.links, [&](const auto& l) {
    return &l->hca() == &hca && l->queues_of(worker).ud != nullptr;
  });
  if (std::ranges::count(hca.receivers, worker) == 0 && !has_queues) return std::nullopt;
  const auto order = senders_of(hca.receivers, parts.config.worker.count);
  return static_cast<unsigned>(std::ranges::find(order, worker) - order.begin());
}

}  // namespace

NodeBuilder::NodeBuilder(NodeParts& parts, const NodeLcores& lcores, const HcaFactory& make_hca,
                         unsigned instance)
    : parts_{parts}, lcores_{lcores}, make_hca_{make_hca}, instance_{instance} {}

Status NodeBuilder::build() {
  auto loop = ManagementLoop::create();
  if (!loop) return tl::make_unexpected(loop.error());
  parts_.loop = std::move(*loop);
  for (auto step :
       {&NodeBuilder::assign_workers, &NodeBuilder::create_tables, &NodeBuilder::create_buffers,
        &NodeBuilder::create_ports, &NodeBuilder::create_hcas, &NodeBuilder::create_links,
        &NodeBuilder::create_proxies, &NodeBuilder::create_workers})
    if (auto s = (this->*step)(); !s) return s;
  return {};
}

/// Adds an assignment for each device that has none.
Status NodeBuilder::assign_workers() {
  NodeConfig& config = parts_.config;
  if (lcores_.workers.size() < config.worker.count)
    return fail(Errc::kInvalidArgument,
                "{} workers require as many lcores in addition to the management lcore; EAL has {} "
                "(option -l)",
                config.worker.count, lcores_.workers.size());
  const Topology places = topology();
  std::vector<unsigned> devices(config.worker.count);
  for (const auto& [name, workers] : config.worker.assign)
    for (const unsigned worker : workers) ++devices[worker];
  const auto assign = [&](const std::string& name, int socket, unsigned queues) {
    if (config.worker.assign.contains(name)) return;
    const auto workers = receivers_for(places, socket, queues, devices);
    for (const unsigned worker : workers) ++devices[worker];
    config.worker.assign[name] = workers;
    if (workers.size() > 1) shared_unasked_.insert(name);
  };
  for (const PortConfig& p : config.ports) {
    const EthSpread device = spread_of(p.device);
    // A given number of mbufs was chosen for one queue.
    assign(p.name, device.socket, config.total_num_mbufs == 0 ? device.queues : 1);
  }
  for (const HcaConfig& h : config.hcas)
    assign(h.name, h.driver == HcaDriver::kSoft ? spread_of(h.wire).socket : -1, 1);
  return {};
}

/// Opens the device of a port. A driver may refuse a number of queues that its limits allow; then a
/// port that was not asked to have several gets fewer.
Result<EthDevice> NodeBuilder::open_port(const PortConfig& p, std::vector<unsigned>& receivers) {
  const EthDeviceConfig wanted{.device = p.device,
                               .mtu = p.mtu,
                               .rxd = parts_.config.rxd,
                               .txd = parts_.config.txd,
                               .rx_pools = pools_of(receivers),
                               .senders = parts_.config.worker.count};
  auto device = EthDevice::open(wanted);
  if (device || receivers.size() == 1 || !shared_unasked_.contains(p.name)) return device;
  receivers.resize(std::bit_floor(receivers.size() - 1));
  log(LogArea::kFabric, LogLevel::kNotice, "port {}: {}; it is tried with {} receive queues",
      p.name, device.error().what, receivers.size());
  return open_port(p, receivers);
}

Status NodeBuilder::create_tables() {
  auto* const rcu = static_cast<rte_rcu_qsbr*>(rte_zmalloc(
      "ipoib_rcu", rte_rcu_qsbr_get_memsize(parts_.config.worker.count), RTE_CACHE_LINE_SIZE));
  parts_.tables.rcu.reset(rcu);
  if (rcu == nullptr || rte_rcu_qsbr_init(rcu, parts_.config.worker.count) != 0)
    return fail(Errc::kNoResources, "no memory for the RCU variable");
  parts_.retirement = std::make_unique<WorkerRetirement>(parts_.workers, *rcu);
  parts_.tables.next_hops =
      std::make_unique<table::NextHopTable>(secret_seed(), neighbour_capacity());
  auto prefixes =
      table::PrefixTable::create({.name = object_name("ipv4"),
                                  .max_prefixes = parts_.config.route_table.max_prefixes,
                                  .max_groups = parts_.config.route_table.max_networks,
                                  .socket = socket_of(0),
                                  .seed = secret_seed()},
                                 rcu);
  if (!prefixes) return tl::make_unexpected(prefixes.error());
  parts_.tables.prefixes = std::move(*prefixes);
  auto prefixes6 = table::Prefix6Table::create(
      {.max_prefixes = parts_.config.route_table.max_prefixes6, .socket = socket_of(0)}, rcu);
  if (!prefixes6) return tl::make_unexpected(prefixes6.error());
  parts_.tables.prefixes6 = std::move(*prefixes6);
  return {};
}

std::string NodeBuilder::object_name(std::string_view what) const {
  return instance_ == 0 ? fmt::format("ipoib_{}", what)
                        : fmt::format("ipoib{}_{}", instance_, what);
}

unsigned NodeBuilder::mbuf_size() const {
  if (parts_.config.mbuf_size != 0) return parts_.config.mbuf_size;
  unsigned longest = 4096;  // a page: the usual size of memif buffers and AF_PACKET slots
  for (const PortConfig& p : parts_.config.ports)
    longest = std::max(longest, p.mtu + kEthernetHeader);
  for (const HcaConfig& h : parts_.config.hcas)
    longest = std::max(longest, h.max_mtu() + kIbOverhead + kEthernetHeader);
  return RTE_ALIGN_CEIL(longest, 64U) + RTE_PKTMBUF_HEADROOM;
}

std::uint32_t NodeBuilder::neighbour_capacity() const {
  const std::size_t interfaces =
      std::max<std::size_t>(parts_.config.ports.size() + parts_.config.links.size(), 1);
  // Groups that packets are sent to have numbers too. When a full table replaces one neighbour by
  // another, the number of the first is free again only a few turns of the loop later.
  std::size_t groups = 0;
  for (const LinkConfigEntry& l : parts_.config.links)
    groups += 2 * l.ip.max_groups + link::GroupSenders::kMaxFurther;
  constexpr std::size_t kRetired = 1024;
  return static_cast<std::uint32_t>(
      std::min(parts_.config.neighbour.max_entries * interfaces + groups + kRetired,
               table::kMaxAdjacencies));
}

/// The mempools of the workers that receive from a device, in their order.
std::vector<rte_mempool*> NodeBuilder::pools_of(const std::vector<unsigned>& receivers) const {
  std::vector<rte_mempool*> pools;
  for (const unsigned worker : receivers) pools.push_back(parts_.buffers.on(socket_of(worker)));
  return pools;
}

int NodeBuilder::socket_of(unsigned worker) const {
  return static_cast<int>(rte_lcore_to_socket_id(lcores_.workers[worker]));
}

Topology NodeBuilder::topology() const {
  Topology topology;
  topology.management = static_cast<int>(rte_socket_id());
  for (unsigned i = 0; i < parts_.config.worker.count; ++i)
    topology.workers.push_back(socket_of(i));
  return topology;
}

void NodeBuilder::warn_of_nodes(const std::string& name, const EthDevice& device,
                                const std::vector<unsigned>& receivers) const {
  const int node = device.socket();
  for (const unsigned worker : receivers)
    if (const int own = socket_of(worker); node >= 0 && own >= 0 && own != node)
      log(LogArea::kFabric, LogLevel::kWarning,
          "{}: {} is on NUMA node {}, worker {} that receives from it is on node {}, and every "
          "packet crosses nodes: use lcores on the NUMA node of the device (EAL option -l, "
          "[worker] assign)",
          name, device.name(), node, worker, own);
}

Status NodeBuilder::create_buffers() {
  const Topology places = topology();
  auto buffers = Buffers::create(plan_pools(parts_.config, places), mbuf_size(),
                                 plan_reserve(parts_.config), places.management, object_name(""));
  if (!buffers) return tl::make_unexpected(buffers.error());
  parts_.buffers = std::move(*buffers);
  parts_.injector = std::make_unique<Injector>(
      parts_.interfaces, parts_.workers,
      InjectBuffers{parts_.buffers.on(places.management), parts_.buffers.reserve()});
  parts_.punt = std::make_unique<PuntHandler>(parts_.interfaces, *parts_.injector,
                                              parts_.buffers.size() / kHeldShare, secret_seed());
  parts_.neighbours = std::make_unique<NeighbourDirectory>(
      parts_.workers, *parts_.punt, *parts_.retirement, neighbour_capacity());
  create_routing();
  return {};
}

/// Called before interfaces are created, because they report their addresses to routing.
void NodeBuilder::create_routing() {
  parts_.route_writer = std::make_unique<RouteWriter>(
      parts_.interfaces, *parts_.tables.prefixes, *parts_.tables.prefixes6,
      *parts_.tables.next_hops, parts_.tables.own_addresses, *parts_.tables.rcu);
  parts_.routes = std::make_unique<route::RouteTable>(*parts_.route_writer);
  parts_.neighbours->set_routes(*parts_.routes);
  parts_.punt->set_routes(*parts_.routes);
  parts_.multicast =
      std::make_unique<MulticastWiring>(parts_.interfaces, parts_.workers, *parts_.injector);
  parts_.addresses =
      std::make_unique<AddressBook>(parts_.interfaces, *parts_.routes, parts_.multicast->router());
  parts_.punt->set_multicast(parts_.multicast->router());
  parts_.set_time(parts_.now());
}

Status NodeBuilder::create_ports() {
  for (const PortConfig& p : parts_.config.ports) {
    auto receivers = receivers_of(parts_.config, p.name, parts_.ports.size());
    auto device = open_port(p, receivers);
    if (!device)
      return fail(device.error().code, "{}", interface_error("port", p.name, device.error()));
    warn_of_nodes(p.name, *device, receivers);
    InterfaceSlot& slot = parts_.interfaces.add(receivers);
    link::EthernetPortConfig config;
    config.name = p.name;
    config.id = static_cast<table::InterfaceId>(parts_.interfaces.size() - 1);
    config.mtu = p.mtu;
    config.addresses = p.addresses;
    config.neighbour = parts_.config.neighbour;
    config.ip6 = p.ip.ip6;
    config.rarp = rarp_config(parts_.config, p, wire::LinkKind::kEthernet);
    const auto [rx, tx] = device->queues();
    parts_.ports.push_back(std::make_unique<PortInstance>(
        std::move(*device), *parts_.injector, *parts_.neighbours, *parts_.addresses, config,
        share_queues(receivers, parts_.config.worker.count, rx, tx)));
    slot.control = &parts_.ports.back()->control();
  }
  return {};
}

Status NodeBuilder::create_hcas() {
  for (HcaConfig& h : parts_.config.hcas) {
    for (const LinkConfigEntry& l : parts_.config.links)
      if (l.hca == h.name && l.qpn) h.link_qpns.push_back(*l.qpn);
    const auto failed = [&h](const Error& e) {
      return fail(e.code, "{}", interface_error("hca", h.name, e));
    };
    const std::vector<unsigned> receivers =
        receivers_of(parts_.config, h.name, parts_.ports.size() + parts_.hcas.size());
    const unsigned owner = receivers.front();
    rte_mempool* const pool = parts_.buffers.on(socket_of(owner));
    HcaResources resources{.pool = pool,
                           .control_pool = parts_.buffers.reserve(),
                           .share_pool = parts_.buffers.shares(socket_of(owner)),
                           .rxd = static_cast<std::uint16_t>(parts_.config.rxd),
                           .txd = static_cast<std::uint16_t>(parts_.config.txd),
                           .worker_node = socket_of(owner),
                           .qsbr = parts_.tables.rcu.get(),
                           .retirement = parts_.retirement.get(),
                           .doorbell = &parts_.loop->doorbell()};
    std::optional<EthDevice> ethdev;
    if (h.driver == HcaDriver::kSoft) {
      auto opened =
          EthDevice::open({.device = h.wire,
                           .mtu = static_cast<std::uint16_t>(h.max_mtu() + kEthdevOverhead),
                           .rxd = parts_.config.rxd,
                           .txd = parts_.config.txd,
                           .rx_pools = pools_of(receivers),
                           .senders = parts_.config.worker.count,
                           .promiscuous = true});
      if (!opened) return failed(opened.error());
      warn_of_nodes(h.name, *opened, receivers);
      ethdev.emplace(std::move(*opened));
      resources.ethdev_port = ethdev->port();
      resources.cable_rx = ethdev->queues().rx;
      resources.cable_readers = static_cast<std::uint16_t>(receivers.size());
      resources.cable_tx = static_cast<std::uint16_t>(
          std::min<unsigned>({ethdev->queues().tx, parts_.config.worker.count, kMaxCableWorkers}));
      resources.ring_places = cable_ring_depth(resources.cable_tx);
      resources.message_mbufs =
          message_mbufs(parts_.config, h) /
          std::clamp<unsigned>(connection_workers(parts_.config, h), 1, resources.cable_tx);
    }
    auto hca = make_hca_(h, resources);
    if (!hca) return failed(hca.error());
    parts_.hcas.push_back(std::make_unique<HcaInstance>(h, std::move(ethdev), std::move(*hca),
                                                        receivers, *parts_.retirement));
    HcaInstance& instance = *parts_.hcas.back();
    if (h.subnet_administrator)
      if (auto runs = instance.run_administrator(parts_.config.subnet); !runs)
        return failed(runs.error());
    instance.on_port_change(parts_.now());
  }
  return {};
}

Status NodeBuilder::create_links() {
  for (const LinkConfigEntry& l : parts_.config.links) {
    const auto hca = std::find_if(parts_.hcas.begin(), parts_.hcas.end(),
                                  [&](const auto& h) { return h->config.name == l.hca; });
    if (hca == parts_.hcas.end())
      return fail(Errc::kInvalidArgument, "link {}: no hca {}", l.name, l.hca);
    const auto queues =
        create_queues(*(*hca)->hca, l, receive_queue(parts_.config, (*hca)->config, l, mbuf_size()),
                      senders_of((*hca)->receivers, parts_.config.worker.count));
    if (!queues)
      return fail(queues.error().code, "{}", interface_error("link", l.name, queues.error()));
    InterfaceSlot& slot = parts_.interfaces.add(queues->workers);
    link::LinkConfig config;
    config.name = l.name;
    config.id = static_cast<table::InterfaceId>(parts_.interfaces.size() - 1);
    config.pkey = l.pkey;
    if (l.dialect == LinkDialect::kIbarp2001) config.ibarp = l.ibarp;
    config.scope = l.scope;
    config.addresses = l.addresses;
    config.neighbour = parts_.config.neighbour;
    config.ip6 = l.ip.ip6;
    config.all_nodes = l.all_nodes;
    config.shared_port = l.shared_port;
    config.anonymous_requests = l.anonymous_requests;
    config.balance = l.balance;
    config.paths = l.paths;
    config.connected = connection_config(l);
    config.shared = l.shared;
    config.group.send_only = l.send_only;
    config.group.flood_absent = l.flood_absent;
    config.group.multicast_router =
        l.ip.multicast_router || l.ip.linux_routes_multicast(parts_.config.linux_plane);
    config.group.max_groups = l.ip.max_groups;
    if (l.create_broadcast) config.create_broadcast = broadcast_attributes(l.broadcast, l.scope);
    config.rarp = rarp_config(parts_.config, l, link::make_dialect(config)->format().kind);
    parts_.links.push_back(std::make_unique<LinkInstance>(**hca, *queues, *parts_.injector,
                                                          *parts_.neighbours, *parts_.addresses,
                                                          parts_.kernel_interfaces, config));
    slot.control = &parts_.links.back()->control();
  }
  return {};
}

/// Called before interfaces report their addresses. The links hear solicitations of all hosts.
Status NodeBuilder::create_proxies() {
  const wire::IpPrefix solicited{wire::solicited_node(wire::IpAddr{}), 104};
  std::map<std::string, std::vector<table::InterfaceId>> groups;
  for (std::size_t i = 0; i < parts_.ports.size(); ++i) {
    const auto& group = parts_.config.ports[i].ip.proxy;
    if (!group) continue;
    groups[*group].push_back(parts_.ports[i]->config().id);
    parts_.ports[i]->device().groups().join_all();
  }
  for (std::size_t i = 0; i < parts_.links.size(); ++i) {
    const auto& group = parts_.config.links[i].ip.proxy;
    if (!group) continue;
    groups[*group].push_back(parts_.links[i]->config().id);
    parts_.links[i]->control().route_groups(solicited, parts_.now());
  }
  for (const auto& [name, interfaces] : groups) {
    parts_.proxies.push_back(std::make_unique<link::SubnetProxy>(name, secret_seed()));
    for (const table::InterfaceId id : interfaces)
      parts_.interfaces.find(id)->control->share_subnets(*parts_.proxies.back());
    parts_.routes->share_networks(interfaces);
  }
  return {};
}

Status NodeBuilder::create_workers() {
  parts_.tables.entries = std::vector<fwd::InterfaceEntry>(parts_.interfaces.size());
  for (std::size_t i = 0; i < parts_.ports.size(); ++i) {
    const auto& p = parts_.ports[i];
    fwd::InterfaceEntry& e = parts_.tables.entries[p->config().id];
    e.kind = fwd::InterfaceKind::kEthernet;
    e.owner = static_cast<std::uint8_t>(parts_.interfaces.find(p->config().id)->owner());
    e.ethdev_port = p->device().port();
    e.mac = p->device().mac();
    e.max_segments = p->device().capabilities().max_segments;
    e.tcp_offload = parts_.config.ports[i].tcp_offload;
    e.source_check = parts_.config.ports[i].ip.source_check;
    e.proxy = parts_.config.ports[i].ip.proxy.has_value();
  }
  for (std::size_t i = 0; i < parts_.links.size(); ++i) {
    const auto& l = parts_.links[i];
    fwd::InterfaceEntry& e = parts_.tables.entries[l->config().id];
    e.kind = fwd::InterfaceKind::kIpoib;
    e.owner = static_cast<std::uint8_t>(l->hca().receivers.front());
    e.encapsulation = link::encapsulation_of(l->config());
    e.ud_queues = l->queues().ud;
    e.connected = !l->queues().receive.empty();
    e.max_segments = l->hca().hca->capabilities().max_segments;
    e.set_gid(l->port().gid());
    e.copy_to_routers = parts_.config.links[i].copy_to_routers;
    e.source_check = parts_.config.links[i].ip.source_check;
    e.proxy = parts_.config.links[i].ip.proxy.has_value();
  }
  for (unsigned i = 0; i < parts_.config.worker.count; ++i) {
    auto channel = WorkerChannel::create(i, socket_of(i), object_name(""));
    if (!channel) return tl::make_unexpected(channel.error());
    parts_.workers.all().push_back({std::move(*channel), nullptr, lcores_.workers[i]});
  }
  return connect_workers();
}

Status NodeBuilder::connect_workers() {
  const unsigned n = parts_.config.worker.count;
  std::vector<rte_ring*> handoff(std::size_t{n} * n, nullptr);  // [from * n + to]
  for (unsigned from = 0; from < n; ++from) {
    for (unsigned to = 0; to < n; ++to) {
      if (from == to) continue;
      rte_ring* ring =
          rte_ring_create(object_name(fmt::format("handoff_{}_{}", from, to)).c_str(),
                          handoff_depth(n), socket_of(to), RING_F_SP_ENQ | RING_F_SC_DEQ);
      if (ring == nullptr)
        return fail(Errc::kNoResources, "no memory for the rings between workers");
      parts_.handoff_rings.emplace_back(ring);
      parts_.retirement->watch(*ring);
      handoff[from * n + to] = ring;
    }
  }
  parts_.tables.header_rules.emplace(parts_.config.worker.headers);
  for (unsigned i = 0; i < n; ++i) {
    WorkerHandle& handle = parts_.workers.all()[i];
    fwd::WorkerConfig config;
    config.number = i;
    config.workers = n;
    config.socket = socket_of(i);
    config.interfaces = parts_.tables.entries;
    config.queues.resize(parts_.interfaces.size());
    for (const auto& p : parts_.ports) config.queues[p->config().id] = p->queues_of(i);
    for (const auto& l : parts_.links) config.queues[l->config().id] = l->queues_of(i);
    for (const auto& h : parts_.hcas)
      if (const auto nth = polls(parts_, *h, i)) config.hcas.push_back({h->hca.get(), *nth});
    config.settings = &parts_.tables.settings;
    config.up = handle.channel->up();
    config.down = handle.channel->down();
    config.doorbell = &parts_.loop->doorbell();
    if (n > 1) {
      for (unsigned other = 0; other < n; ++other) {
        config.handoff_out.push_back(handoff[i * n + other]);
        config.handoff_in.push_back(handoff[other * n + i]);
      }
    }
    for (const fabric::RingPtr& ring : parts_.handoff_rings) config.handoffs.push_back(ring.get());
    config.next_hops = parts_.tables.next_hops.get();
    config.prefixes = parts_.tables.prefixes.get();
    config.prefixes6 = parts_.tables.prefixes6.get();
    config.own_addresses = &parts_.tables.own_addresses;
    config.header_rules = &*parts_.tables.header_rules;
    config.rcu = parts_.tables.rcu.get();
    config.fragment_pool = parts_.buffers.on(config.socket);
    config.neighbour_capacity = neighbour_capacity();
    config.epoch_tsc = parts_.clock.epoch_tsc;
    config.tsc = parts_.clock.tsc;
    config.run_id = parts_.run_id;
    auto worker = fwd::Worker::create(config);
    if (!worker) return tl::make_unexpected(worker.error());
    handle.worker = std::move(*worker);
  }
  return {};
}

Result<std::unique_ptr<NodeAssembly>> build_node(const NodeConfig& config, const NodeLcores& lcores,
                                                 const HcaFactory& make_hca, TscClock tsc,
                                                 unsigned instance) {
  if (rte_eal_process_type() != RTE_PROC_PRIMARY)
    return fail(Errc::kRefused,
                "this process is a DPDK secondary process, and a node must be a primary one: "
                "remove --proc-type and use a unique --file-prefix");
  if (auto s = fabric::register_packet_meta(); !s) return tl::make_unexpected(s.error());
  auto parts = std::make_unique<NodeParts>(config, tsc);
  if (auto s = NodeBuilder{*parts, lcores, make_hca, instance}.build(); !s)
    return tl::make_unexpected(s.error());
  auto node = std::make_unique<NodeAssembly>(std::move(parts));
  if (auto s = configure(*node); !s) return tl::make_unexpected(s.error());
  return node;
}

}  // namespace ipoib::mgmt
