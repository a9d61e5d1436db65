// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/sim_nodes.h"

#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_random.h>
#include <rte_ring.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <set>
#include <utility>

#include "drivers/soft/soft_hca.h"
#include "lib/wire/arp.h"
#include "lib/wire/frame.h"
#include "lib/wire/nd.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/addresses.h"
#include "tests/support/device_faults.h"
#include "tests/support/eal.h"
#include "tests/support/packets.h"
#include "tests/support/sim_tsc.h"
#include "tests/support/soft_hcas.h"

namespace ipoib::mgmt::test {
namespace {

using ipoib::test::prefix;
using ipoib::test::read_sim_tsc;
using ipoib::test::require;
using ipoib::test::sim_tsc;

const soft::SoftHca* made_last = nullptr;

constexpr unsigned kWireMbufs = 4095;
constexpr std::size_t kMaxFrameLen = 4096;

rte_mempool* wire_pool() {
  static rte_mempool* const pool =
      rte_pktmbuf_pool_create("wire", kWireMbufs, 0, 0, kMaxFrameLen + 128, SOCKET_ID_ANY);
  return pool;
}

void start_once() {
  static const bool started = [] {
    require(start_eal("fuzz"));
    rte_log_set_global_level(RTE_LOG_CRIT);
    rte_srand(1);
    return true;
  }();
  require(started);
}

Result<std::unique_ptr<fabric::Hca>> make_watched_soft(const HcaConfig& config,
                                                       const HcaResources& r) {
  auto hca = make_timed_soft(config, r);
  if (hca) made_last = static_cast<const soft::SoftHca*>(hca->get());
  return hca;
}

/// In the order of SimNodes::Counts.
constexpr std::array kUnfinished = {
    "mbufs held",      "questions to the SA", "connections",       "neighbours' numbers", "timers",
    "joins of groups", "address handles",     "waiting fragments", "multicast entries"};
static_assert(kUnfinished.size() == std::tuple_size_v<SimNodes::Counts>);

/// Groups that are only sent to, or that a multicast router hears of, come and go by themselves.
std::size_t joins(const NodeFaces& node) {
  std::size_t n = 0;
  for (const link::GroupInfo& g : node.view.groups("")) n += g.joins;
  return n;
}

/// None is more than at rest.
bool all_within(const SimNodes::Counts& counts, const SimNodes::Counts& at_rest) {
  return std::equal(counts.begin(), counts.end(), at_rest.begin(), std::less_equal<>{});
}

/// Returns nothing if no host has this address.
std::optional<unsigned> host_number(const wire::IpAddr& addr) {
  const auto n = std::to_integer<unsigned>(addr.bytes[15]);
  if (n < 2 || n >= SimNodes::kHosts) return std::nullopt;
  return n;
}

Bytes ethernet(const wire::MacAddr& to, const wire::MacAddr& from, wire::EtherType type,
               std::span<const std::byte> payload) {
  return fwd::test::ethernet(to, from, static_cast<std::uint16_t>(type),
                             {payload.begin(), payload.end()});
}

void free_block(void*, void* block) {
  std::free(block);
}

}  // namespace

FarEnd::~FarEnd() {
  static_cast<void>(rte_vdev_uninit(ends_.name.c_str()));
  for (rte_ring* ring : {ends_.to_node, ends_.from_node}) {
    ipoib::test::empty(ring);
    rte_ring_free(ring);
  }
}

bool FarEnd::give(std::span<const std::byte> frame, bool exact) {
  if (pulled_out_ || frame.empty() || frame.size() > kMaxFrameLen) return false;
  rte_mbuf* const m = rte_pktmbuf_alloc(wire_pool());
  require(m != nullptr);
  const auto len = static_cast<std::uint16_t>(frame.size());
  if (exact) {
    // The reference count lies before the octets, so the block ends with the last octet.
    constexpr std::size_t kHead = sizeof(rte_mbuf_ext_shared_info);
    auto* const block = static_cast<std::byte*>(std::malloc(kHead + frame.size()));
    require(block != nullptr);
    auto* const shared = new (block) rte_mbuf_ext_shared_info{};
    shared->free_cb = free_block;
    shared->fcb_opaque = block;
    rte_mbuf_ext_refcnt_set(shared, 1);
    rte_pktmbuf_attach_extbuf(m, block + kHead, RTE_BAD_IOVA, len, shared);
  }
  char* const to = rte_pktmbuf_append(m, len);
  require(to != nullptr);
  std::copy(frame.begin(), frame.end(), reinterpret_cast<std::byte*>(to));
  if (rte_ring_enqueue(ends_.to_node, m) == 0) return true;
  rte_pktmbuf_free(m);
  return false;
}

Bytes FarEnd::take() {
  rte_mbuf* const m = ipoib::test::next_of(ends_.from_node);
  return m == nullptr ? Bytes{} : ipoib::test::take(m);
}

bool FarEnd::has_frame() const {
  return rte_ring_empty(ends_.from_node) == 0;
}

void FarEnd::set_carrier(bool up) {
  static_cast<void>(up ? rte_eth_dev_set_link_up(ends_.port)
                       : rte_eth_dev_set_link_down(ends_.port));
}

void FarEnd::pull_out() {
  pulled_out_ = true;
  ipoib::test::empty(ends_.to_node);
  DeviceFaults::remove(ends_.port);
}

bool SimNode::run_once() {
  if (!asked && stepped->now() < wakes && !stepped->work_waiting()) return false;
  asked = false;
  stepped->run_once();
  wakes = stepped->next_wake();
  return true;
}

wire::MacAddr SimNodes::host_mac(unsigned side, unsigned n) {
  return {std::byte{2},
          {},
          {},
          std::byte{0xaa},
          static_cast<std::byte>(side),
          static_cast<std::byte>(n)};
}

NodeConfig SimNodes::config(unsigned side) const {
  const std::string n = std::to_string(side + 1);
  const std::string other = std::to_string(2 - side);
  const auto addr = [](const std::string& text) { return *wire::parse_ip(text); };
  NodeConfig c;
  HcaConfig hca;
  hca.name = "soft0";
  hca.wire = sides[side].cable->device();
  hca.guid = 0x0002'c903'000a'0b00 + kNumber[side];
  hca.lid = lid(side);
  hca.lmc = several_paths_ ? 1 : 0;
  hca.sm_lid = lid(0);
  hca.subnet_administrator = side == 0;
  hca.pkeys = {0xffff, 0x8001};
  hca.first_qpn = 0x100 * (side + 1);
  c.hcas = {hca};

  LinkConfigEntry ib0;
  ib0.name = "ib0";
  ib0.hca = "soft0";
  ib0.addresses = {prefix("10.0.0." + n + "/24"), prefix("fd00:a::" + n + "/64")};
  ib0.mode = LinkMode::kConnected;
  ib0.ip.multicast_router = side == 0;
  ib0.copy_to_routers = true;
  ib0.paths = several_paths_ ? 2 : 1;
  LinkConfigEntry ib1 = ib0;
  ib1.name = "ib1";
  ib1.pkey = 0x8001;
  ib1.addresses = {prefix("10.1.0." + n + "/24"), prefix("fd00:b::" + n + "/64")};
  ib1.mode = LinkMode::kDatagram;
  ib1.copy_to_routers = false;
  ib1.dialect = LinkDialect::kIbarp2001;
  ib1.ibarp.server = side == 0;
  c.links = {ib0, ib1};

  PortConfig eth0;
  eth0.name = "eth0";
  eth0.device = sides[side].port->device();
  eth0.addresses = {prefix("192.168." + n + ".1/24"), prefix("fd00:" + n + "::1/64")};
  eth0.tcp_offload = side == 0;
  eth0.ip.multicast_router = side == 0;
  eth0.ip.ip6.accept_ra = side == 1;
  eth0.ip.ip6.routing = side == 0;
  eth0.ip.ip6.router_advertisement = side == 0;
  c.ports = {eth0};

  c.routes = {{prefix("192.168." + other + ".0/24"), {addr("10.0.0." + other)}},
              {prefix("fd00:" + other + "::/64"), {addr("fd00:a::" + other)}},
              {prefix("10.8.0.0/16"), {addr("10.0.0." + other), addr("10.1.0." + other)}},
              {prefix("10.7.0.0/16"), {addr("192.168." + n + ".200")}},
              {prefix("10.9.0.0/16"), {}, true}};
  c.worker.count = sides[side].workers;
  if (side == 0) c.worker.assign = {{"eth0", {0}}, {"soft0", {1}}};
  c.total_num_mbufs = 4095;
  c.neighbour.max_entries = 64;
  c.rxd = c.txd = 128;
  c.auto_start = true;
  return c;
}

/// The LIDs of a port begin at a multiple of their number. Source: IBA vol 1 §4.1.3.
std::uint16_t SimNodes::lid(unsigned side) const {
  return static_cast<std::uint16_t>(kNumber[side] << (several_paths_ ? 1 : 0));
}

SimNodes::SimNodes(bool several_paths) : several_paths_{several_paths} {
  start_once();
  sim_tsc = 1000 * rte_get_tsc_hz();
  static unsigned made = 0;
  const std::string number = std::to_string(made++);
  for (unsigned i : {0U, 1U}) {
    SimNode& side = sides[i];
    side.workers = 2 - i;
    side.cable = std::make_unique<FarEnd>("c" + std::to_string(i) + "_" + number);
    side.port = std::make_unique<FarEnd>("e" + std::to_string(i) + "_" + number);
    auto node = SteppedNode::create(config(i), make_watched_soft, &read_sim_tsc, i + 1);
    require(node.has_value());
    side.stepped = std::move(*node);
    side.hca = made_last;
    side.stepped->start();
  }
  for (int i = 0; i < 200; ++i) {
    settle();
    pass(std::chrono::milliseconds(50));
  }
  for (SimNode& side : sides) {
    for (const LinkInfo& l : side.node().view.links()) require(l.state == "up");
    for (const EthernetPortInfo& p : side.node().view.ports()) require(p.state == "up");
    side.mac = side.node().view.ports()[0].mac;
  }
  at_rest_ = learned();
  require(come_to_rest());
  at_rest_ = learned();
  unfinished_at_rest_ = unfinished();
}

SimNodes::~SimNodes() {
  for (SimNode& side : sides) {
    side.stepped->begin_to_leave();
    side.asked = true;
  }
  for (int i = 0; i < 100; ++i) {
    settle();
    pass(std::chrono::milliseconds(100));
  }
  for (SimNode& side : sides) {
    require(side.stepped->has_left());
    side.stepped.reset();
  }
}

void SimNodes::pass(Duration d) {
  const auto ns = static_cast<std::uint64_t>(d.count());
  const std::uint64_t hz = rte_get_tsc_hz();
  sim_tsc += ns / 1'000'000'000 * hz + ns % 1'000'000'000 * hz / 1'000'000'000 + 1;
}

void SimNodes::pass_to_deadline(Duration longest) {
  Duration least = longest;
  for (const SimNode& side : sides)
    if (const auto due = side.stepped->next_deadline())
      least = std::min(least, *due - side.stepped->now());
  pass(std::max(least, Duration{0}));
}

unsigned SimNodes::round() {
  unsigned done = 0;
  for (unsigned i : {0U, 1U}) {
    for (unsigned w = 0; w < sides[i].workers; ++w) done += sides[i].stepped->iterate(w);
    done += sides[i].run_once() ? 1 : 0;
    done += carry(i);
    done += serve_hosts(i);
  }
  pass(std::chrono::microseconds(10));
  return done;
}

bool SimNodes::settle(unsigned most) {
  while (round() != 0)
    if (--most == 0) return false;
  return true;
}

unsigned SimNodes::carry(unsigned from) {
  unsigned n = 0;
  FarEnd& to = *sides[1 - from].cable;
  while (sides[from].cable->has_frame()) {
    Bytes frame = sides[from].cable->take();
    ++n;
    if (remembered.size() == kRemembered) remembered.pop_front();
    remembered.push_back(frame);
    const CableFault befalls = faulty_frames != 0 ? fault : CableFault::kNone;
    faulty_frames -= faulty_frames != 0 ? 1 : 0;
    switch (befalls) {
      case CableFault::kLose: continue;
      case CableFault::kKeep:
        if (kept.size() < kRemembered) kept.push_back(std::move(frame));
        continue;
      case CableFault::kRepeat: to.give(frame); break;
      case CableFault::kReverse: sides[from].cable->give(frame); break;
      case CableFault::kChange:
        if (frame.size() > 14)
          frame[14 + (damage >> 8) % (frame.size() - 14)] ^= static_cast<std::byte>(damage);
        mend_frame(frame);
        break;
      default: break;
    }
    to.give(frame);
  }
  return n;
}

unsigned SimNodes::serve_hosts(unsigned side) {
  unsigned n = 0;
  for (; sides[side].port->has_frame(); ++n) {
    const Bytes frame = sides[side].port->take();
    if (hosts_answer) answer(side, frame);
  }
  return n;
}

void SimNodes::answer(unsigned side, std::span<const std::byte> frame) {
  if (frame.size() < 14) return;
  const auto type = wire::EtherType{wire::read<wire::Be16>(frame, 12)->host()};
  const auto body = frame.subspan(14);
  if (type == wire::EtherType::kArp) {
    const auto arp = wire::parse_arp(wire::LinkKind::kEthernet, body);
    if (!arp || arp->op != wire::ArpOp::kRequest || arp->sender_ip == arp->target_ip) return;
    const auto n = host_number(wire::IpAddr::v4(arp->target_ip));
    if (!n) return;
    const auto mac = host_mac(side, *n);
    const auto reply =
        wire::build_arp({wire::ArpOp::kReply, mac, arp->target_ip, arp->sender_hw, arp->sender_ip});
    sides[side].port->give(ethernet(arp->sender_hw.mac(), mac, type, reply));
  } else if (type == wire::EtherType::kIpv6) {
    const auto nd = wire::parse_nd(wire::LinkKind::kEthernet, body);
    if (!nd || nd->type != wire::Icmp6Type::kNeighbourSolicitation || !nd->source_hw) return;
    const auto n = host_number(nd->target);
    if (!n || wire::is_link_local6(nd->target)) return;
    wire::NdMessage na;
    na.type = wire::Icmp6Type::kNeighbourAdvertisement;
    na.src = na.target = nd->target;
    na.dst = nd->src;
    na.solicited = na.override_it = true;
    na.target_hw = host_mac(side, *n);
    sides[side].port->give(
        ethernet(nd->source_hw->mac(), na.target_hw->mac(), type, wire::build_nd(na)));
  }
}

std::size_t SimNodes::mbufs_in_use() {
  std::size_t n = 0;
  const auto add = [](rte_mempool* pool, void* sum) {
    *static_cast<std::size_t*>(sum) += rte_mempool_in_use_count(pool);
  };
  rte_mempool_walk(add, &n);
  return n;
}

std::size_t SimNodes::learned() const {
  std::size_t n = 0;
  for (const SimNode& side : sides)
    n += side.node().view.neighbour_keys("").size() + side.node().view.connections("").size();
  return n;
}

bool SimNodes::without_cable() const {
  return std::any_of(sides.begin(), sides.end(),
                     [](const SimNode& s) { return s.cable->pulled_out(); });
}

bool SimNodes::spent() const {
  return std::any_of(sides.begin(), sides.end(), [](const SimNode& s) {
    return s.cable->pulled_out() || s.port->pulled_out();
  });
}

void SimNodes::put_back_devices(unsigned i, const NodeConfig& original) {
  SimNode& side = sides[i];
  if (side.has(Change::kHca)) {
    side.cable->set_carrier(true);
    const HcaConfig& hca = original.hcas[0];
    fabric::PortChange change;
    change.sm_lid = hca.sm_lid;
    if (i != 0) change.lid = hca.lid;
    if (i != 0) change.gid_prefix = wire::kDefaultGidPrefix;
    change.pkeys = hca.pkeys;
    change.up = true;
    require(side.node().control.change_hca(hca.name, change).has_value());
  }
  if (side.has(Change::kPort)) {
    side.port->set_carrier(true);
    static_cast<void>(side.node().control.set_port_started("eth0", true));
  }
}

/// All addresses leave first, so that none is where another one belongs, and their order is the same
/// as at the start.
void SimNodes::put_back_addresses(const NodeFaces& node, const NodeConfig& original) {
  const auto all_of = [](const NodeConfig& config) {
    std::vector<std::pair<std::string, std::vector<wire::IpPrefix>>> all;
    for (const LinkConfigEntry& l : config.links) all.emplace_back(l.name, l.addresses);
    for (const PortConfig& p : config.ports) all.emplace_back(p.name, p.addresses);
    return all;
  };
  const auto now = all_of(node.view.config()), before = all_of(original);
  if (now == before) return;
  for (const auto& [iface, addresses] : now)
    for (const wire::IpPrefix& address : addresses)
      require(node.control.remove_address(iface, address).has_value());
  for (const auto& [iface, addresses] : before)
    for (const wire::IpPrefix& address : addresses)
      require(node.control.add_address(iface, address).has_value());
}

void SimNodes::put_back_routes(const NodeFaces& node, const NodeConfig& original) {
  for (const RouteInfo& r : node.view.routes({}, 1000))
    if (r.kind == "static") require(node.control.remove_route(r.to).has_value());
  for (const RouteConfig& r : original.routes) require(node.control.add_route(r).has_value());
}

void SimNodes::put_back_multicast_routes(const NodeFaces& node) {
  for (const MulticastRouteInfo& r : node.view.multicast_routes())
    if (r.origin.starts_with("static"))
      static_cast<void>(node.control.remove_multicast_route(
          {{r.group, static_cast<std::uint8_t>(r.group.is_v4() ? 32 : 128)},
           r.source.value_or(wire::IpAddr{}),
           r.in,
           {}}));
}

/// The node may refuse a request for a good reason. Only the final state matters.
void SimNodes::put_back(unsigned i) {
  SimNode& side = sides[i];
  const NodeFaces& node = side.node();
  side.asked = true;
  const NodeConfig original = config(i);
  put_back_devices(i, original);
  if (side.has(Change::kPort) || side.has(Change::kInterfaces)) {
    for (const char* name : {"ib0", "ib1", "eth0"})
      static_cast<void>(node.control.set_interface_up(name, true));
    static_cast<void>(node.control.set_mtu("eth0", original.ports[0].mtu));
    for (const char* name : {"ib0", "ib1"}) static_cast<void>(node.control.set_mtu(name, 2044));
  }
  if (side.has(Change::kForwarding)) {
    node.traffic.set_forward_mode(ForwardMode::kRoute);
    node.control.set_forwarding(true);
    node.traffic.set_burst(original.worker.burst);
    require(node.traffic.set_generator(original.generator).has_value());
  }
  if (side.has(Change::kMulticastRoutes)) put_back_multicast_routes(node);
  if (side.has(Change::kNeighbours)) {
    const std::array<const char*, 3> names = {"eth0", "ib0", "ib1"};
    for (const NeighbourKey& key : node.view.neighbour_keys(""))
      static_cast<void>(node.control.remove_neighbour(names.at(key.iface), key.addr));
  }
  if (side.has(Change::kAddresses)) put_back_addresses(node, original);
  // The network of an address takes the place of a route to it.
  if (side.has(Change::kRoutes) || side.has(Change::kAddresses)) put_back_routes(node, original);
  for (const auto& [iface, group] : std::exchange(side.joined, {}))
    require(node.control.leave_group(iface, group).has_value());
  side.changed.reset();
}

void SimNodes::forget() {
  for (SimNode& side : sides) {
    const NodeFaces& node = side.node();
    side.asked = true;
    for (const link::ConnectionInfo& c : node.view.connections(""))
      static_cast<void>(node.control.close_connection("ib0", c.handle));
    require(node.control.flush_neighbours("").has_value());
  }
}

bool SimNodes::come_to_rest() {
  fault = CableFault::kNone;
  faulty_frames = 0;
  kept.clear();
  hosts_answer = true;
  for (unsigned i : {0U, 1U})
    if (sides[i].changed.any()) put_back(i);
  // Nodes without a cable have many short timers, and waiting packets have a longer one, so the
  // loop also goes on until 30 s have passed.
  constexpr int kMinWaits = 300, kMaxWaits = 30'000;
  const TimePoint end = sides[0].stepped->now() + std::chrono::seconds(30);
  for (int i = 0; i < kMinWaits || (i < kMaxWaits && sides[0].stepped->now() < end); ++i) {
    const bool quiet = settle();
    if (quiet && mbufs_in_use() == 0 && learned() <= at_rest_)
      return is_balanced() && has_just_next_hops();
    // Packets in transit may create more entries, which are forgotten too.
    forget();
    settle();
    if (mbufs_in_use() != 0 || learned() > at_rest_) pass_to_deadline(std::chrono::seconds(1));
  }
  tell_left();
  return false;
}

bool SimNodes::come_to_full_rest() {
  // Senders to groups last longest. Deadlines may be frequent, so their number alone is no measure.
  constexpr int kMaxWaits = 30'000;
  const TimePoint end = sides[0].stepped->now() + std::chrono::hours(1);
  for (int i = 0; i < kMaxWaits && sides[0].stepped->now() < end; ++i) {
    if (!come_to_rest()) return false;
    if (all_within(unfinished(), unfinished_at_rest_)) return true;
    // A node resolves a forgotten gateway again, which takes some deadlines.
    if (i % 16 == 0) forget();
    pass_to_deadline(std::chrono::seconds(60));
  }
  tell_left();
  return false;
}

SimNodes::Counts SimNodes::unfinished() const {
  Counts n{};
  for (const SimNode& side : sides) {
    const Unfinished u = side.stepped->unfinished();
    const Counts more = {u.held,
                         u.sa_requests,
                         u.connections,
                         u.neighbours,
                         u.timers,
                         joins(side.node()),
                         side.hca->address_handles(),
                         u.fragments,
                         u.multicast};
    for (std::size_t i = 0; i < n.size(); ++i) n[i] += more[i];
  }
  return n;
}

bool SimNodes::has_just_next_hops() const {
  for (const SimNode& side : sides) {
    // A link-local address may be a gateway on several interfaces.
    std::set<std::pair<std::string, wire::IpAddr>> gateways;
    std::set<std::vector<wire::IpAddr>> groups;
    for (const RouteInfo& r : side.node().view.routes({}, 1000)) {
      for (const wire::IpAddr& via : r.via)
        gateways.emplace(wire::is_link_local6(via) ? r.iface : "", via);
      if (r.via.size() > 1) groups.insert(r.via);
    }
    const std::size_t in_use = side.stepped->unfinished().next_hops;
    if (in_use == gateways.size() + groups.size()) continue;
    std::fprintf(stderr, "node of LID %u: %zu next hops, of %zu gateways and %zu groups\n",
                 side.node().view.config().hcas[0].lid, in_use, gateways.size(), groups.size());
    return false;
  }
  return true;
}

bool SimNodes::is_balanced() const {
  bool all = true;
  for (const SimNode& side : sides) {
    const PacketBalance b = side.stepped->packet_balance();
    if (b.came() == b.went()) continue;
    all = false;
    std::fprintf(
        stderr,
        "node of LID %u: came %lu: received %lu, originated %lu, generated %lu, copies %lu;"
        " went %lu: sent %lu, lost %lu, dropped %lu, joined %lu, consumed %lu, delivered "
        "%lu\n",
        side.node().view.config().hcas[0].lid, b.came(), b.received, b.originated, b.generated,
        b.copies, b.went(), b.sent, b.lost, b.dropped, b.joined, b.consumed, b.delivered);
    for (const DropInfo& d : side.node().stats.drops())
      std::fprintf(stderr, "  %s %s: %lu\n", d.where.c_str(),
                   std::string{drop_name(d.reason)}.c_str(), d.packets);
  }
  return all;
}

void SimNodes::tell_left() const {
  std::fprintf(stderr, "left: %u mbufs of the wire, %zu learned, %zu at rest\n",
               rte_mempool_in_use_count(wire_pool()), learned(), at_rest_);
  const Counts counts = unfinished();
  for (std::size_t i = 0; i < counts.size(); ++i)
    std::fprintf(stderr, "  %s: %zu, at rest %zu\n", kUnfinished[i], counts[i],
                 unfinished_at_rest_[i]);
  for (const SimNode& side : sides) {
    const NodeFaces& node = side.node();
    const NodeTotals t = node.stats.totals();
    std::fprintf(stderr, "node of LID %u: %zu mbufs\n", node.view.config().hcas[0].lid,
                 t.mbufs - t.mbufs_free);
    for (const NeighbourKey& key : node.view.neighbour_keys(""))
      std::fprintf(stderr, "  neighbour %s on %u\n", wire::to_string(key.addr).c_str(), key.iface);
    for (const link::ConnectionInfo& c : node.view.connections(""))
      std::fprintf(stderr, "  connection to %s: %s\n", c.peer.c_str(),
                   std::string{c.state}.c_str());
    for (const link::GroupInfo& g : node.view.groups(""))
      std::fprintf(stderr, "  group %s (%s) on %s: %s, joins %u%s%s %s\n",
                   wire::to_string(g.group).c_str(), g.lladdr.c_str(), g.iface.c_str(),
                   std::string{g.state}.c_str(), g.joins, g.routed ? ", routed" : "",
                   g.sending ? ", sending" : "", g.reason.c_str());
    for (const LinkInfo& l : node.view.links())
      std::fprintf(stderr, "  link %s: %s: %s\n", l.name.c_str(), l.state.c_str(),
                   l.reason.c_str());
  }
}

void mend_frame(Bytes& frame) {
  constexpr std::size_t kAt = 14, kMin = sizeof(wire::Lrh) + sizeof(wire::Bth) + wire::kIcrcLen;
  if (frame.size() < kAt + kMin) return;
  auto lrh = *wire::read<wire::Lrh>(frame, kAt);
  if (lrh.packet_len() < kMin || lrh.packet_len() > frame.size() - kAt) {
    lrh.resv_pktlen.set(static_cast<std::uint16_t>((frame.size() - kAt) / 4));
    std::memcpy(&frame[kAt], &lrh, sizeof lrh);
  }
  const bool global = (lrh.sl_lnh & 3) == static_cast<unsigned>(wire::Lnh::kGlobal);
  if (global && lrh.packet_len() < kMin + sizeof(wire::Grh)) return;
  wire::put_icrc({&frame[kAt], lrh.packet_len()});
}

}  // namespace ipoib::mgmt::test
