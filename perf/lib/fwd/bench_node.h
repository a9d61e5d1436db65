// SPDX-License-Identifier: BSD-3-Clause
// A worker between fake devices, with routes and neighbours: 172.16.0.0/12 is on eth0, 10.0.0.0/8
// on ib0. For IPv6 the same 32 bits are the end of an address in fd00::/96.
#pragma once

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/fwd/filter/filter_table.h"
#include "lib/fwd/generator.h"
#include "lib/fwd/ip4_header.h"
#include "lib/fwd/worker.h"
#include "lib/msg/worker_messages.h"
#include "perf/lib/fwd/fake_devices.h"

namespace ipoib::fwd {

inline constexpr std::size_t kFlows = 2048;
inline constexpr std::uint16_t kIpLen = 46;  // an Ethernet frame of 64 octets with its FCS
inline constexpr std::uint32_t kEthNet = 0xac10'0000;  // 172.16.0.0/12 on eth0
inline constexpr std::uint32_t kIbNet = 0x0a00'0000;   // 10.0.0.0/8 on ib0
inline constexpr table::InterfaceId kEth0 = 0, kIb0 = 1, kEth1 = 2, kIb1 = 3;
inline constexpr std::uint32_t kGroupNet = 0xef00'0000;  // 239/8

/// Numbers of packets: kHot fit into the L2 cache, kCold do not.
enum : std::int64_t { kHot = 64, kCold = 32'768 };

enum class Traffic { k4, k6, kGroups };
using wire::Encapsulation;

class Node {
 public:
  /// `spread`: the worker hands all packets on, by a ring to itself.
  explicit Node(std::size_t neighbours, Traffic traffic = Traffic::k4,
                Encapsulation of_ib0 = Encapsulation::kTypeFirst, bool spread = false)
      : neighbours_{neighbours}, of_ib0_{of_ib0} {
    copies_ = rte_pktmbuf_pool_create("copies", 4095, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, -1);
    pool_ = rte_pktmbuf_pool_create("bench", kCold + 64, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, -1);
    rcu_ = static_cast<rte_rcu_qsbr*>(
        rte_zmalloc("rcu", rte_rcu_qsbr_get_memsize(1), RTE_CACHE_LINE_SIZE));
    rte_rcu_qsbr_init(rcu_, 1);
    prefixes_ = std::move(*table::PrefixTable::create({.name = "bench"}, rcu_));
    prefixes6_ = std::move(*table::Prefix6Table::create({}, rcu_));
    up_ = ring("up", sizeof(msg::Up));
    down_ = ring("down", sizeof(msg::Down));
    handoff_ = ring("handoff", sizeof(void*));
    for (InterfaceEntry& entry : entries_) {
      entry.up = true;
      entry.max_segments = fabric::kAnySegments;
    }
    entries_[kEth0].ethdev_port = eth0.port();
    entries_[kEth1].ethdev_port = eth1.port();
    entries_[kEth0].mac = entries_[kEth1].mac = kOwnMac;
    entries_[kEth0].mtu = entries_[kEth1].mtu = 1500;
    entries_[kIb0].kind = InterfaceKind::kIpoib;
    entries_[kIb0].ud_queues = {&ud_queues_[0], 1};
    entries_[kIb0].encapsulation = of_ib0_;
    entries_[kIb0].mtu = 2044;
    entries_[kIb1].kind = InterfaceKind::kIpoib;
    entries_[kIb1].ud_queues = {&ud_queues_[1], 1};
    entries_[kIb1].mtu = 2044;
    settings_.forwarding = true;
    route(kEthNet, 12, kEth0);
    route(kIbNet, 8, kIb0);
    WorkerConfig config;
    // Only groups use ib1. Without them it would cost one receive call per loop.
    config.interfaces = std::span{entries_}.first(traffic == Traffic::kGroups ? 4 : 3);
    config.queues = queues_of_owner(config.interfaces, 0);
    config.settings = &settings_;
    config.up = up_;
    config.down = down_;
    config.doorbell = &doorbell_;
    config.next_hops = &hops_;
    config.prefixes = prefixes_.get();
    config.prefixes6 = prefixes6_.get();
    config.own_addresses = &own_addresses_;
    config.rcu = rcu_;
    config.fragment_pool = copies_;
    if (spread) config.handoff_out = config.handoff_in = {nullptr, handoff_};
    worker = std::move(*Worker::create(config));
    for (std::uint32_t i = 0; i < neighbours; ++i)
      traffic == Traffic::k6 ? add_neighbour6(i) : add_neighbour(i);
    if (spread) worker->spread_over(0b10);
  }
  ~Node() {
    worker.reset();
    for (auto* source : {&eth0.source, &eth1.source, &ib0.source}) source->free_all();
    rte_ring_free(up_);
    rte_ring_free(down_);
    rte_ring_free(handoff_);
    prefixes_.reset();
    prefixes6_.reset();
    rte_free(rcu_);
    rte_mempool_free(pool_);
    rte_mempool_free(copies_);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  void set_mode(ForwardMode mode) { settings_.mode = mode; }
  /// From now on the worker generates packets.
  void generate(const GeneratorConfig& config, ForwardMode mode) {
    generator_ = std::move(*Generator::create(config, {.tsc_hz = rte_get_tsc_hz(),
                                                       .max_size = 2048,
                                                       .all_flows = mode == ForwardMode::kFlowgen,
                                                       .stamped = mode == ForwardMode::kLatency}));
    settings_.generator = generator_.get();
    set_mode(mode);
    ib0.copies = copies_;
  }
  /// Checks the sources of packets from eth0, which all pass.
  void check_sources() {
    route(0xc0a8'0000, 16, kEth0);
    entries_[kEth0].source_check = SourceCheck::kStrict;
  }
  /// Packets must pass this many rules: the last one accepts and counts those of
  /// feed() and feed6(), the others drop other packets.
  void filter(std::size_t rules, FilterDirection direction) {
    if (rules == 0) return;
    std::vector<NumberedRule> list;
    for (std::uint32_t i = 0; list.size() + 1 < rules; ++i) {
      FilterRule rule{.direction = direction,
                      .protocol = i % 3 == 0 ? std::uint8_t{6} : std::uint8_t{17}};
      const bool v4 = i % 4 != 0;
      const std::uint32_t net = 0x0b00'0000 + (i << 12);
      rule.source = v4 ? wire::IpPrefix{wire::IpAddr::v4(net), 20} : wire::IpPrefix{ip6(net), 116};
      const auto port = static_cast<std::uint16_t>(1 + i * 61 % 60'000);
      if (i % 2 == 0) rule.destination_ports = PortRange{port, port};
      if (i % 5 == 0) rule.source_ports = PortRange{1024, 65'535};
      list.push_back({i % 2 == 0 ? table::kNoInterface : kEth0, rule});
    }
    list.push_back(
        {table::kNoInterface, {.direction = direction, .action = FilterAction::kAccept}});
    filters_ = std::move(*FilterTable::create(list, {.interfaces = entries_.size()}));
    settings_.filters = filters_.get();
  }
  void set_burst(std::int64_t n) { settings_.burst = static_cast<std::uint16_t>(n); }

  /// Adds `n` IPv4 packets to `source`: kFlows flows in scattered order.
  void feed(perf::PacketSource& source, std::int64_t n, bool ethernet) {
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t flow = i * 1'103'515'245U % kFlows;
      const auto to = static_cast<std::uint32_t>(flow % neighbours_);
      wire::Ipv4Hdr hdr{};
      hdr.version_ihl = 0x45;
      hdr.total_len.set(kIpLen);
      hdr.id.set(static_cast<std::uint16_t>(i));
      hdr.ttl = 64;
      hdr.protocol = 17;
      hdr.src.set(0xc0a8'0000 + flow);
      hdr.dst.set((ethernet ? kIbNet : kEthNet) + to);
      set_ip4_checksum(hdr, sizeof(hdr));
      source.add(packet(ethernet, 0x0800, wire::bytes_of(hdr)));
    }
  }

  /// Like feed(), with IPv6: the last 32 bits of the addresses are those of feed().
  void feed6(perf::PacketSource& source, std::int64_t n, bool ethernet) {
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t flow = i * 1'103'515'245U % kFlows;
      const auto to = static_cast<std::uint32_t>(flow % neighbours_);
      wire::Ipv6Hdr hdr{};
      hdr.version_class_flow.set(wire::Ipv6Hdr::kVersion6);
      hdr.payload_len.set(kIpLen - sizeof(hdr));
      hdr.hop_limit = 64;
      hdr.next_header = 59;
      hdr.src = ip6(0xc0a8'0000 + flow);
      hdr.dst = ip6((ethernet ? kIbNet : kEthNet) + to);
      source.add(packet(ethernet, 0x86dd, wire::bytes_of(hdr)));
    }
  }
  /// Adds `n` IPv4 packets, whose destinations are as many groups as the Node has neighbours. Each
  /// group is delivered to the interfaces in the mask `out`.
  void feed_groups(perf::PacketSource& source, std::int64_t n, std::uint64_t out) {
    ib0.to_groups = ib1.to_groups = true;
    for (std::uint32_t i = 0; i < neighbours_; ++i) {
      msg::Down message{};
      message.kind = msg::Down::Kind::kDeliverySet;
      message.delivery = {wire::IpAddr::v4(kGroupNet + i), {}, kEth0, false, {}, false, out};
      rte_ring_sp_enqueue_elem(down_, &message, sizeof(message));
      message = {};
      message.neighbour.state = table::NeighbourState::kValid;
      for (const table::InterfaceId iface : {kIb0, kIb1}) {
        message.index =
            static_cast<std::uint32_t>(2 * neighbours_ + 2 * i + (iface == kIb0 ? 0 : 1));
        message.neighbour.addr = wire::IpAddr::v4(kGroupNet + i);
        message.neighbour.iface = iface;
        message.neighbour.mtu = 2044;
        rte_ring_sp_enqueue_elem(down_, &message, sizeof(message));
      }
      worker->iterate();
    }
    ib0.copies = ib1.copies = copies_;
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto flow = static_cast<std::uint32_t>(i * 1'103'515'245U % neighbours_);
      wire::Ipv4Hdr hdr{};
      hdr.version_ihl = 0x45;
      hdr.total_len.set(kIpLen);
      hdr.ttl = 64;
      hdr.protocol = 17;
      hdr.src.set(0xc0a8'0001);
      hdr.dst.set(kGroupNet + flow);
      set_ip4_checksum(hdr, sizeof(hdr));
      rte_mbuf* const m = packet(true, 0x0800, wire::bytes_of(hdr));
      const wire::MacAddr mac = wire::group_mac(wire::IpAddr::v4(kGroupNet + flow));
      std::memcpy(rte_pktmbuf_mtod(m, std::byte*), mac.data(), mac.size());
      source.add(m);
    }
  }

  static wire::IpAddr ip6(std::uint32_t low) {
    wire::IpAddr a = *wire::parse_ip("fd00::");
    const wire::Be32 last{low};
    std::memcpy(&a.bytes[12], &last, sizeof(last));
    return a;
  }

  perf::FakePort eth0{30}, eth1{31};
  perf::FakeUdQueue ib0, ib1;
  std::unique_ptr<Worker> worker;

 private:
  static constexpr wire::MacAddr kOwnMac = {std::byte{2}, {}, {}, {}, {}, std::byte{1}};

  /// A frame with kIpLen octets behind its link header, the first of which are `header`.
  rte_mbuf* packet(bool ethernet, std::uint16_t type, std::span<const std::byte> header) {
    rte_mbuf* const m = rte_pktmbuf_alloc(pool_);
    const std::uint16_t header_len = ethernet ? 14 : 4;
    m->data_len = static_cast<std::uint16_t>(header_len + kIpLen);
    m->pkt_len = m->data_len;
    auto* const data = rte_pktmbuf_mtod(m, std::byte*);
    std::memset(data, 0, m->data_len);
    if (ethernet) std::memcpy(data, kOwnMac.data(), 6);
    const wire::Be16 be{type};
    const std::size_t type_at = ethernet ? 12 : of_ib0_ == Encapsulation::kTypeLast ? 2 : 0;
    std::memcpy(data + type_at, &be, 2);
    std::memcpy(data + header_len, header.data(), header.size());
    return m;
  }

  static rte_ring* ring(const char* name, unsigned size) {
    return rte_ring_create_elem(name, size, 512, -1, RING_F_SP_ENQ | RING_F_SC_DEQ);
  }
  void route(std::uint32_t net, std::uint8_t len, table::InterfaceId iface) {
    const table::NextHopIndex index = iface + 1U;
    hops_.set(index, {table::NextHopKind::kConnected, 0, iface, table::kNoNeighbour});
    (void)prefixes_->add({wire::IpAddr::v4(net), len}, index);
    (void)prefixes6_->add({ip6(net), static_cast<std::uint8_t>(96 + len)}, index);
  }
  /// Adds the i-th neighbour of ib0 and that of eth0.
  void add_neighbour(std::uint32_t i) {
    msg::Down message{};
    message.kind = msg::Down::Kind::kNeighbourSet;
    message.neighbour.state = table::NeighbourState::kValid;
    message.index = 2 * i;
    message.neighbour.addr = wire::IpAddr::v4(kIbNet + i);
    message.neighbour.iface = kIb0;
    message.neighbour.mtu = 2044;
    message.neighbour.ah = i;
    rte_ring_sp_enqueue_elem(down_, &message, sizeof(message));
    message.index = 2 * i + 1;
    message.neighbour.addr = wire::IpAddr::v4(kEthNet + i);
    message.neighbour.iface = kEth0;
    message.neighbour.mode = table::NeighbourMode::kEthernet;
    message.neighbour.mtu = 1500;
    rte_ring_sp_enqueue_elem(down_, &message, sizeof(message));
    worker->iterate();
    (void)table::add_neighbour(*prefixes_, hops_, kIbNet + i, kIb0 + 1U, 2 * i);
    (void)table::add_neighbour(*prefixes_, hops_, kEthNet + i, kEth0 + 1U, 2 * i + 1);
  }
  /// Like add_neighbour(), with IPv6 addresses.
  void add_neighbour6(std::uint32_t i) {
    msg::Down message{};
    message.neighbour.state = table::NeighbourState::kValid;
    message.index = 2 * i;
    message.neighbour.addr = ip6(kIbNet + i);
    message.neighbour.iface = kIb0;
    message.neighbour.mtu = 2044;
    message.neighbour.ah = i;
    rte_ring_sp_enqueue_elem(down_, &message, sizeof(message));
    message.index = 2 * i + 1;
    message.neighbour.addr = ip6(kEthNet + i);
    message.neighbour.iface = kEth0;
    message.neighbour.mode = table::NeighbourMode::kEthernet;
    message.neighbour.mtu = 1500;
    rte_ring_sp_enqueue_elem(down_, &message, sizeof(message));
    worker->iterate();
  }

  std::size_t neighbours_;
  Encapsulation of_ib0_;
  rte_mempool* pool_;
  rte_mempool* copies_;
  rte_rcu_qsbr* rcu_;
  std::unique_ptr<table::PrefixTable> prefixes_;
  std::unique_ptr<table::Prefix6Table> prefixes6_;
  table::OwnAddresses own_addresses_;
  table::NextHopTable hops_;
  rte_ring* up_;
  rte_ring* down_;
  rte_ring* handoff_;
  std::array<fabric::UdQueue*, 2> ud_queues_{&ib0, &ib1};
  std::vector<InterfaceEntry> entries_ = std::vector<InterfaceEntry>(4);
  Settings settings_;
  std::unique_ptr<const Generator> generator_;
  std::unique_ptr<FilterTable> filters_;
  Doorbell doorbell_;
};

}  // namespace ipoib::fwd
