// SPDX-License-Identifier: BSD-3-Clause
// A worker in a test: Ethernet ports whose wires are rings, IPoIB links whose queues are lists, and
// the tables and rings of a management lcore that is the test itself.
//
//   0 eth0  192.168.1.1/24  own MAC 02:..:a0     2 ib0  10.0.0.1/16, MTU 2044
//   1 eth1  192.168.2.1/24  own MAC 02:..:a1     3 ib1  10.1.0.1/16, MTU 2044
//
// IPv6: fd00:1::1/64 on eth0, fd00:a::1/64 on ib0, fd00:b::/64 on ib1.
#pragma once

#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/fabric/hca.h"
#include "lib/fabric/packet_meta.h"
#include "lib/fwd/worker.h"
#include "lib/msg/messages.h"
#include "tests/unit/lib/fwd/packets.h"

namespace ipoib::fwd::test {

inline constexpr table::InterfaceId kEth0 = 0, kEth1 = 1, kIb0 = 2, kIb1 = 3;

/// UD queue whose wire the test holds both ends of.
class FakeUdQueue final : public fabric::UdQueue {
 public:
  FakeUdQueue() : UdQueue{0x123456, &receive, &send} {}
  ~FakeUdQueue();

  std::deque<rte_mbuf*> incoming;
  std::deque<rte_mbuf*> sent;
  std::size_t room = 1000;  ///< Packets it still takes.
  bool loses = false;       ///< What it takes, as a device does whose port is down.
  std::vector<std::uint16_t> tx_bursts;

 private:
  static std::uint16_t receive(UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  static std::uint16_t send(UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
};

/// What a packet that left by a link says of its way.
struct SentOnLink {
  Bytes bytes;
  fabric::PacketMeta::Tx to;
};

/// A message that went up, its packet as octets.
struct Punted {
  msg::Up message;
  Bytes bytes;
  fabric::PacketMeta::Rx rx;
  fabric::PacketMeta::Held held;
};

class World : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// Makes the workers; before it the test may change `configs`, `entries` and `settings`.
  void start();
  /// One loop of every worker.
  void loop();
  Worker& worker(std::size_t i = 0) { return *workers_.at(i); }

  // Tables.
  void add_route(std::string_view prefix, const table::NextHop& hop);
  void set_neighbour(table::NeighbourIndex index, const table::Neighbour& neighbour);
  /// Valid neighbours as the tests know them: Ethernet by MAC, IPoIB by QPN.
  static table::Neighbour eth_neighbour(table::InterfaceId iface, std::string_view addr,
                                        const wire::MacAddr& mac);
  static table::Neighbour ib_neighbour(table::InterfaceId iface, std::string_view addr,
                                       fabric::AhIndex ah, std::uint32_t qpn);

  // Wires. A packet is in one segment, or in segments of the lengths given.
  rte_mbuf* mbuf(const Bytes& bytes, const std::vector<std::size_t>& segments = {});
  void receive(table::InterfaceId iface, const Bytes& frame, bool multicast = false);
  void receive(table::InterfaceId iface, rte_mbuf* m, bool multicast = false);
  /// By the group's MGID, a GRH with this source in front.
  void receive_group(table::InterfaceId iface, const Bytes& frame, const wire::Gid& sgid,
                     std::uint32_t src_qpn);
  Frames sent_by_port(table::InterfaceId iface);
  unsigned most_segments = 0;  ///< Of any packet that sent_by_port() had the last time.
  std::vector<SentOnLink> sent_by_link(table::InterfaceId iface);

  // Management.
  std::vector<Punted> punted(std::size_t worker = 0);
  void send_down(const msg::Down& message, std::size_t worker = 0);
  void set_delivery(table::InterfaceId in, std::string_view addr, bool local, std::uint64_t out,
                    std::string_view source = "::", std::uint64_t from_reverse_path = 0);
  void send_on(const Bytes& packet, table::InterfaceId iface);
  void send_routed(const Bytes& packet, table::InterfaceId iface = table::kNoInterface);

  std::uint64_t drops(table::InterfaceId iface, Drop reason);
  /// Sum over all interfaces and workers, local ones included.
  std::uint64_t all_drops();
  /// Exactly one drop in all, this one.
  void expect_drop(table::InterfaceId iface, Drop reason, std::string_view what = {});

  /// Frame for eth0's own address; packet for a link.
  static Bytes to_eth0(const Bytes& ip) { return ethernet(mac(0xa0), mac(0x10), 0x0800, ip); }
  static Bytes to_link(const Bytes& ip) { return encapsulated(0x0800, ip); }

  std::vector<WorkerConfig> configs;
  std::vector<InterfaceEntry> entries;
  std::size_t neighbour_capacity = 1024;
  Settings settings;
  Doorbell doorbell;
  rte_mempool* pool = nullptr;
  std::array<FakeUdQueue, 2> links;
  std::unique_ptr<table::PrefixTable> prefixes;
  std::unique_ptr<table::Prefix6Table> prefixes6;
  table::NextHopTable hops;
  table::OwnAddresses own_addresses;
  std::vector<rte_ring*> up, down;
  rte_rcu_qsbr* rcu = nullptr;

 private:
  rte_ring* make_ring(std::string_view name, unsigned element_size, unsigned n);
  void make_port(table::InterfaceId iface);

  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<rte_ring*> rings_;
  std::array<rte_ring*, 2> wire_in_{}, wire_out_{};
  table::NextHopIndex next_hop_ = 1;
  unsigned made_ = 0;
  unsigned pool_size_ = 0;
};

}  // namespace ipoib::fwd::test
