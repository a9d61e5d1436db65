// SPDX-License-Identifier: BSD-3-Clause
// Setup of a node: memory, devices, interfaces, workers, routes. Each step needs the steps before
// it.
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_random.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/log.h"
#include "lib/fabric/packet_meta.h"
#include "lib/mgmt/node_impl.h"
#include "lib/mgmt/placement.h"
#include "lib/wire/iba.h"

namespace ipoib::mgmt {
namespace {

/// Octets of an IB packet around its payload: LRH, GRH, BTH, DETH, pad and ICRC.
constexpr unsigned kIbOverhead = 8 + 40 + 12 + 8 + 3 + 4;
/// Octets that an ethdev must carry in addition to the IB MTU.
constexpr unsigned kEthdevOverhead = 80;

std::uint64_t read_tsc() noexcept {
  return rte_rdtsc();
}

std::string interface_error(const std::string& kind, const std::string& name, const Error& e) {
  return fmt::format("{} {}: {}", kind, name, e.what);
}

link::BroadcastAttributes broadcast_attributes(const SubnetConfig& group) {
  link::BroadcastAttributes attributes;
  attributes.mtu = wire::mtu_code(group.mtu);
  attributes.rate = wire::rate_code(group.rate);
  attributes.qkey = group.qkey;
  attributes.sl = group.sl;
  return attributes;
}

link::ConnectionConfig connection_config(const LinkConfigEntry& l) {
  link::ConnectionConfig config = l.connection;
  config.rc = l.mode == LinkMode::kConnectedRc || l.mode == LinkMode::kConnected;
  config.uc = l.mode == LinkMode::kConnectedUc || l.mode == LinkMode::kConnected;
  config.receive_mtu = static_cast<std::uint32_t>(l.connected_mtu + sizeof(wire::IpoibHdr));
  return config;
}

/// Number of receive buffers for the messages of one link. A buffer of a real HCA consists of the
/// mbufs for the longest message and waits at the device. All links of an HCA together get half of
/// its kMessagesUnderWay mbufs.
std::uint32_t receive_depth(const NodeConfig& node, const HcaConfig& hca, const LinkConfigEntry& l,
                            unsigned mbuf_size) {
  constexpr std::uint32_t kMin = 32;
  const fabric::ReceiveQueueConfig usual;
  if (hca.driver != HcaDriver::kVerbs || l.mode == LinkMode::kDatagram) return usual.depth;
  const auto links = static_cast<std::uint32_t>(
      std::count_if(node.links.begin(), node.links.end(),
                    [&hca](const auto& other) { return is_connected_on(other, hca); }));
  const std::uint32_t segments =
      connection_config(l).receive_mtu / (mbuf_size - RTE_PKTMBUF_HEADROOM) + 1;
  return std::clamp(kMessagesUnderWay / 2 / segments / links, kMin, usual.depth);
}

/// mbufs that messages of each hca may hold: all that the mempool was made for or, if the
/// configuration sets its size, an equal share of half of it.
std::uint32_t message_mbufs(const NodeConfig& node) {
  if (node.total_num_mbufs == 0) return kMessagesUnderWay;
  const auto hcas = std::max<unsigned>(static_cast<unsigned>(node.hcas.size()), 1);
  return std::min(kMessagesUnderWay, node.total_num_mbufs / 2 / hcas);
}

Result<LinkQueues> create_queues(fabric::Hca& hca, const LinkConfigEntry& l, std::uint32_t depth) {
  LinkQueues queues;
  auto ud = hca.create_ud_queue({l.pkey});
  if (!ud) return tl::make_unexpected(ud.error());
  queues.ud = *ud;
  if (l.mode == LinkMode::kDatagram) return queues;
  fabric::ConnectedTransport* const transport = hca.connected_transport();
  auto receive = transport == nullptr
                     ? fail(Errc::kRefused, "{} does not support connected mode", hca.name())
                     : transport->create_receive_queue(
                           {.depth = depth, .max_message = connection_config(l).receive_mtu});
  if (receive) {
    queues.receive = *receive;
    return queues;
  }
  hca.destroy_ud_queue(**ud);
  return tl::make_unexpected(receive.error());
}

/// RARP on a link or port; `parse` reads its kind of link-layer address.
template <class Entry, class Parse>
auto rarp_config(const NodeConfig& node, const Entry& iface, const Parse& parse) {
  link::RarpConfig<std::decay_t<decltype(*parse(""))>> config;
  config.ask = iface.ip.ask_rarp;
  config.prefix_len = static_cast<std::uint8_t>(iface.ip.rarp_prefix_len);
  for (const RarpEntryConfig& r : node.rarp)
    if (const auto hw = parse(r.lladdr); hw && r.iface == iface.name)
      config.served.emplace_back(*hw, r.addr);
  return config;
}

}  // namespace

void RingDeleter::operator()(rte_ring* ring) const {
  rte_ring_free(ring);
}
void QsbrDeleter::operator()(rte_rcu_qsbr* rcu) const {
  rte_free(rcu);
}

Result<std::unique_ptr<Node>> Node::create(const NodeConfig& config, const NodeLcores& lcores,
                                           const HcaFactory& make_hca) {
  auto node = std::make_unique<NodeImpl>(config, lcores, make_hca, &read_tsc, 0);
  if (auto s = node->set_up(); !s) return tl::make_unexpected(s.error());
  return std::unique_ptr<Node>{std::move(node)};
}

NodeImpl::NodeImpl(const NodeConfig& config, const NodeLcores& lcores, HcaFactory make_hca,
                   TscClock tsc, unsigned instance)
    : config_{config},
      lcores_{lcores},
      make_hca_{std::move(make_hca)},
      tsc_{tsc},
      instance_{instance},
      epoch_tsc_{tsc()},
      next_hops_{rte_rand()},
      run_id_{static_cast<std::uint32_t>(rte_rand() << 8 | 1U << 8)} {}

NodeImpl::~NodeImpl() {
  if (doorbell_.eventfd < 0) return;
  events_->unwatch(doorbell_.eventfd);
  close(doorbell_.eventfd);
}

Status NodeImpl::set_up() {
  if (rte_eal_process_type() != RTE_PROC_PRIMARY)
    return fail(Errc::kRefused,
                "this process is a DPDK secondary process, and a node must be a primary one: "
                "remove --proc-type and use a unique --file-prefix");
  auto events = EventLoop::create();
  if (!events) return tl::make_unexpected(events.error());
  events_ = std::move(*events);
  if (auto s = fabric::register_packet_meta(); !s) return s;

  for (auto step : {&NodeImpl::create_tables, &NodeImpl::create_buffers, &NodeImpl::create_ports,
                    &NodeImpl::create_hcas, &NodeImpl::create_links, &NodeImpl::create_workers,
                    &NodeImpl::add_groups, &NodeImpl::add_routes})
    if (auto s = (this->*step)(); !s) return s;

  settings_.burst.store(static_cast<std::uint16_t>(config_.worker.burst));
  settings_.idle.store(config_.worker.idle);
  settings_.redirects.store(config_.redirects);
  settings_.mode.store(config_.mode);
  if (auto s = publish_generator(); !s) return s;
  if (config_.auto_start) send_first(config_.tx_first);
  settings_.forwarding.store(config_.auto_start);
  clear_stats();
  return {};
}

Status NodeImpl::create_tables() {
  if (lcores_.workers.size() < config_.worker.count)
    return fail(Errc::kInvalidArgument,
                "{} workers require as many lcores in addition to the management lcore; EAL has {} "
                "(option -l)",
                config_.worker.count, lcores_.workers.size());
  lcores_.workers.resize(config_.worker.count);

  auto* rcu = static_cast<rte_rcu_qsbr*>(rte_zmalloc(
      "ipoib_rcu", rte_rcu_qsbr_get_memsize(config_.worker.count), RTE_CACHE_LINE_SIZE));
  if (rcu == nullptr || rte_rcu_qsbr_init(rcu, config_.worker.count) != 0) {
    rte_free(rcu);
    return fail(Errc::kNoResources, "no memory for the RCU variable");
  }
  rcu_.reset(rcu);
  retirement_ = std::make_unique<WorkerRetirement>(workers_, *rcu);
  auto prefixes =
      table::PrefixTable::create({.name = object_name("ipv4"), .socket = socket_of(0)}, rcu);
  if (!prefixes) return tl::make_unexpected(prefixes.error());
  prefixes_ = std::move(*prefixes);
  auto prefixes6 = table::Prefix6Table::create({.socket = socket_of(0)}, rcu);
  if (!prefixes6) return tl::make_unexpected(prefixes6.error());
  prefixes6_ = std::move(*prefixes6);

  doorbell_.eventfd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (doorbell_.eventfd < 0) return fail(Errc::kNoResources, "eventfd: {}", std::strerror(errno));
  return events_->watch(doorbell_.eventfd, EPOLLIN, [this](std::uint32_t) {
    eventfd_t rung;
    eventfd_read(doorbell_.eventfd, &rung);
  });
}

std::string NodeImpl::object_name(std::string_view what) const {
  return instance_ == 0 ? fmt::format("ipoib_{}", what)
                        : fmt::format("ipoib{}_{}", instance_, what);
}

unsigned NodeImpl::mbuf_size() const {
  if (config_.mbuf_size != 0) return config_.mbuf_size;
  unsigned longest = 4096;  // a page: the usual size of memif buffers and AF_PACKET slots
  for (const PortConfig& p : config_.ports) longest = std::max(longest, p.mtu + kEthernetHeader);
  for (const HcaConfig& h : config_.hcas)
    longest = std::max(longest, h.mtu + kIbOverhead + kEthernetHeader);
  return RTE_ALIGN_CEIL(longest, 64U) + RTE_PKTMBUF_HEADROOM;
}

std::uint32_t NodeImpl::neighbour_capacity() const {
  const std::size_t interfaces =
      std::max<std::size_t>(config_.ports.size() + config_.links.size(), 1);
  // Groups that packets are sent to have numbers too. When a full table replaces one neighbour by
  // another, the number of the first is free again only a few turns of the loop later.
  const std::size_t groups = 2 * link::GroupConfig{}.max_groups * config_.links.size();
  constexpr std::size_t kRetired = 1024;
  return static_cast<std::uint32_t>(config_.neighbour.max_entries * interfaces + groups + kRetired);
}

int NodeImpl::socket_of(unsigned worker) const {
  return static_cast<int>(rte_lcore_to_socket_id(lcores_.workers[worker]));
}

Status NodeImpl::create_buffers() {
  Topology topology;
  topology.management = static_cast<int>(rte_socket_id());
  for (unsigned i = 0; i < config_.worker.count; ++i) topology.workers.push_back(socket_of(i));
  auto buffers = Buffers::create(plan_pools(config_, topology), mbuf_size(), plan_reserve(config_),
                                 topology.management, object_name(""));
  if (!buffers) return tl::make_unexpected(buffers.error());
  buffers_ = std::move(*buffers);
  punt_ =
      std::make_unique<PuntHandler>(interfaces_, workers_,
                                    PuntBuffers{buffers_.on(topology.management),
                                                buffers_.reserve(), buffers_.size() / kHeldShare});
  neighbours_ =
      std::make_unique<NeighbourDirectory>(workers_, *punt_, *retirement_, neighbour_capacity());
  create_routing();
  return {};
}

/// Called before interfaces are created, because they report their addresses to routing.
void NodeImpl::create_routing() {
  route_writer_ = std::make_unique<RouteWriter>(interfaces_, *prefixes_, *prefixes6_, next_hops_,
                                                own_addresses_, *rcu_);
  routes_ = std::make_unique<route::RouteTable>(*route_writer_);
  neighbours_->set_routes(*routes_);
  multicast_ = std::make_unique<MulticastWiring>(interfaces_, workers_, *punt_);
  addresses_ = std::make_unique<AddressBook>(interfaces_, *routes_, multicast_->router());
  punt_->set_multicast(multicast_->router());
  set_time(now());
}

Status NodeImpl::create_ports() {
  for (const PortConfig& p : config_.ports) {
    const unsigned owner = owner_of(config_, p.name, ports_.size());
    auto device = EthDevice::open({p.device, p.mtu, config_.rxd, config_.txd,
                                   buffers_.on(socket_of(owner)), /*promiscuous=*/false});
    if (!device)
      return fail(device.error().code, "{}", interface_error("port", p.name, device.error()));
    InterfaceSlot& slot = interfaces_.add(owner);
    link::EthernetPortConfig config;
    config.name = p.name;
    config.id = static_cast<table::InterfaceId>(interfaces_.size() - 1);
    config.mtu = p.mtu;
    config.addresses = p.addresses;
    config.neighbour = config_.neighbour;
    config.ip6 = p.ip.ip6;
    config.rarp = rarp_config(config_, p, wire::parse_mac);
    ports_.push_back(std::make_unique<PortInstance>(std::move(*device), *punt_, *neighbours_,
                                                    *addresses_, config));
    slot.control = &ports_.back()->control();
  }
  return {};
}

Status NodeImpl::create_hcas() {
  for (const HcaConfig& h : config_.hcas) {
    const auto failed = [&h](const Error& e) {
      return fail(e.code, "{}", interface_error("hca", h.name, e));
    };
    const unsigned owner = owner_of(config_, h.name, ports_.size() + hcas_.size());
    rte_mempool* const pool = buffers_.on(socket_of(owner));
    HcaResources resources{.pool = pool,
                           .control_pool = buffers_.reserve(),
                           .message_mbufs = message_mbufs(config_),
                           .rxd = static_cast<std::uint16_t>(config_.rxd),
                           .txd = static_cast<std::uint16_t>(config_.txd),
                           .worker_node = socket_of(owner),
                           .qsbr = rcu_.get(),
                           .retirement = retirement_.get(),
                           .doorbell = &doorbell_};
    std::optional<EthDevice> ethdev;
    if (h.driver == HcaDriver::kSoft) {
      auto opened = EthDevice::open({h.wire, static_cast<std::uint16_t>(h.mtu + kEthdevOverhead),
                                     config_.rxd, config_.txd, pool, /*promiscuous=*/true});
      if (!opened) return failed(opened.error());
      ethdev.emplace(std::move(*opened));
      resources.ethdev_port = ethdev->port();
    }
    auto hca = make_hca_(h, resources);
    if (!hca) return failed(hca.error());
    hcas_.push_back(
        std::make_unique<HcaInstance>(h, std::move(ethdev), std::move(*hca), owner, *retirement_));
    HcaInstance& instance = *hcas_.back();
    if (h.subnet_administrator)
      if (auto runs = instance.run_administrator(config_.subnet); !runs)
        return failed(runs.error());
    instance.on_port_change(now());
  }
  return {};
}

Status NodeImpl::create_links() {
  for (const LinkConfigEntry& l : config_.links) {
    const auto hca = std::find_if(hcas_.begin(), hcas_.end(),
                                  [&](const auto& h) { return h->config.name == l.hca; });
    if (hca == hcas_.end())
      return fail(Errc::kInvalidArgument, "link {}: no hca {}", l.name, l.hca);
    const auto queues =
        create_queues(*(*hca)->hca, l, receive_depth(config_, (*hca)->config, l, mbuf_size()));
    if (!queues)
      return fail(queues.error().code, "{}", interface_error("link", l.name, queues.error()));
    InterfaceSlot& slot = interfaces_.add((*hca)->owner);
    link::LinkConfig config;
    config.name = l.name;
    config.id = static_cast<table::InterfaceId>(interfaces_.size() - 1);
    config.pkey = l.pkey;
    config.scope = l.scope;
    config.addresses = l.addresses;
    config.neighbour = config_.neighbour;
    config.ip6 = l.ip.ip6;
    config.all_nodes = l.all_nodes;
    config.connected = connection_config(l);
    config.group.send_only = l.send_only;
    config.group.flood_absent = l.flood_absent;
    config.group.multicast_router = l.ip.multicast_router;
    if (l.create_broadcast) config.create_broadcast = broadcast_attributes(l.broadcast);
    config.rarp = rarp_config(config_, l, wire::parse_link_addr);
    links_.push_back(
        std::make_unique<LinkInstance>(**hca, *queues, *punt_, *neighbours_, *addresses_, config));
    slot.control = &links_.back()->control();
  }
  return {};
}

Status NodeImpl::create_workers() {
  entries_ = std::vector<fwd::InterfaceEntry>(interfaces_.size());
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const auto& p = ports_[i];
    fwd::InterfaceEntry& e = entries_[p->config().id];
    e.kind = fwd::InterfaceKind::kEthernet;
    e.owner = static_cast<std::uint8_t>(interfaces_.find(p->config().id)->owner);
    e.ethdev_port = p->device().port();
    e.mac = p->device().mac();
    e.max_segments = p->device().capabilities().max_segments;
    e.tcp_offload = config_.ports[i].tcp_offload;
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const auto& l = links_[i];
    fwd::InterfaceEntry& e = entries_[l->config().id];
    e.kind = fwd::InterfaceKind::kIpoib;
    e.owner = static_cast<std::uint8_t>(l->hca().owner);
    e.ud_queue = l->queues().ud;
    e.receive_queue = l->queues().receive;
    e.max_segments = l->hca().hca->capabilities().max_segments;
    e.set_gid(l->port().gid());
    e.copy_to_routers = config_.links[i].copy_to_routers;
  }
  for (unsigned i = 0; i < config_.worker.count; ++i) {
    auto channel = WorkerChannel::create(i, socket_of(i), object_name(""));
    if (!channel) return tl::make_unexpected(channel.error());
    workers_.all().push_back({std::move(*channel), nullptr, lcores_.workers[i]});
  }
  return connect_workers();
}

Status NodeImpl::connect_workers() {
  const unsigned n = config_.worker.count;
  std::vector<rte_ring*> handoff(std::size_t{n} * n, nullptr);  // [from * n + to]
  for (unsigned from = 0; from < n; ++from) {
    for (unsigned to = 0; to < n; ++to) {
      if (from == to) continue;
      rte_ring* ring =
          rte_ring_create(object_name(fmt::format("handoff_{}_{}", from, to)).c_str(),
                          handoff_depth(n), socket_of(to), RING_F_SP_ENQ | RING_F_SC_DEQ);
      if (ring == nullptr)
        return fail(Errc::kNoResources, "no memory for the rings between workers");
      handoff_rings_.emplace_back(ring);
      retirement_->watch(*ring);
      handoff[from * n + to] = ring;
    }
  }
  for (unsigned i = 0; i < n; ++i) {
    WorkerHandle& handle = workers_.all()[i];
    fwd::WorkerConfig config;
    config.number = i;
    config.socket = socket_of(i);
    config.interfaces = entries_;
    for (const auto& h : hcas_)
      if (h->owner == i && h->hca->poll_function() != nullptr) config.hcas.push_back(h->hca.get());
    config.settings = &settings_;
    config.up = handle.channel->up();
    config.down = handle.channel->down();
    config.doorbell = &doorbell_;
    if (n > 1) {
      for (unsigned other = 0; other < n; ++other) {
        config.handoff_out.push_back(handoff[i * n + other]);
        config.handoff_in.push_back(handoff[other * n + i]);
      }
    }
    config.next_hops = &next_hops_;
    config.prefixes = prefixes_.get();
    config.prefixes6 = prefixes6_.get();
    config.own_addresses = &own_addresses_;
    config.rcu = rcu_.get();
    config.fragment_pool = buffers_.on(config.socket);
    config.neighbour_capacity = neighbour_capacity();
    config.epoch_tsc = epoch_tsc_;
    config.tsc = tsc_;
    config.run_id = run_id_;
    auto worker = fwd::Worker::create(config);
    if (!worker) return tl::make_unexpected(worker.error());
    handle.worker = std::move(*worker);
  }
  return {};
}

/// IPv6 addresses are in use only after duplicate address detection.
Status NodeImpl::add_address(table::InterfaceId iface, const wire::IpPrefix& a) {
  if (a.addr.is_v4()) return routes_->add_address(iface, a);
  if (auto s = routes_->add_network(iface, a); !s || wire::is_link_local6(a.addr)) return s;
  return routes_->suspend_local(iface, a);
}

Status NodeImpl::add_routes() {
  for (const auto& slot : interfaces_)
    for (const wire::IpPrefix& a : slot->control->addresses())
      if (auto s = add_address(slot->control->id(), a); !s) return s;
  for (const RouteConfig& r : config_.routes)
    if (auto s = add_route(r); !s) return s;
  for (const MulticastRouteConfig& r : config_.multicast_routes)
    if (auto s = add_multicast_route(r); !s) return s;
  return {};
}

Status NodeImpl::add_groups() {
  const auto add = [&](const std::string& name, const IpConfig& ip) -> Status {
    InterfaceSlot& slot = *interfaces_.find(name);
    if (ip.multicast_router)
      if (auto s = multicast_->add_router(slot, ip, now()); !s) return s;
    for (const wire::IpAddr& group : ip.groups)
      if (auto s = slot.control->join_group(group, now()); !s) return s;
    return {};
  };
  for (const PortConfig& p : config_.ports)
    if (auto s = add(p.name, p.ip); !s) return s;
  for (const LinkConfigEntry& l : config_.links)
    if (auto s = add(l.name, l.ip); !s) return s;
  return {};
}

}  // namespace ipoib::mgmt
