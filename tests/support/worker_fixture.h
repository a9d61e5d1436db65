// SPDX-License-Identifier: BSD-3-Clause
// A worker in a test. The wires of its Ethernet ports are rings, the queues of its IPoIB links are
// lists, and the test itself is the management lcore of its tables and rings.
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
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/fabric/hca.h"
#include "lib/fabric/packet_meta.h"
#include "lib/fwd/worker.h"
#include "lib/msg/worker_messages.h"
#include "tests/support/packets.h"

namespace ipoib::fwd::test {

inline constexpr table::InterfaceId kEth0 = 0, kEth1 = 1, kIb0 = 2, kIb1 = 3;

/// UD queue of which the test has both ends of the wire.
class FakeUdQueue final : public fabric::UdQueue {
 public:
  enum class Takes : bool { kPackets, kFrames };
  explicit FakeUdQueue(Takes takes, std::uint32_t qpn = 0x123456)
      : UdQueue{qpn, &receive, &send, takes == Takes::kFrames ? &kFrames : nullptr} {}
  ~FakeUdQueue();

  std::deque<rte_mbuf*> incoming;
  std::deque<rte_mbuf*> sent;           ///< Frames are checked and made packets again.
  std::size_t frames_sent = 0;          ///< Number of packets that came as frames.
  bool has_keys = true;                 ///< False: no frame can be sent now.
  std::uint32_t first_by_handle = ~0U;  ///< Address handles from here on have no frame head.
  std::uint32_t first_group = ~0U;      ///< Address handles from here on are those of groups.
  std::uint32_t first_odd = ~0U;        ///< Groups from here on have another GRH,
  std::size_t odd_word = 0;             ///< in this of the words that groups share.
  bool takes_groups = true;             ///< False: no frame can be sent to a group now.
  std::atomic<std::uint32_t> heads_version{0};
  std::uint8_t generation = 0;  ///< Part of all heads.
  std::size_t room = 1000;      ///< Packets that it still accepts.
  bool loses = false;  ///< True: it loses accepted packets, like a device whose port is down.
  std::vector<std::uint16_t> tx_bursts;

 private:
  static const fabric::UdFrames kFrames;
  static bool keys(UdQueue& queue, fabric::FrameKeys& keys) noexcept;
  static bool head(const UdQueue& queue, fabric::AhIndex ah, fabric::FrameHead& head) noexcept;
  static const std::atomic<std::uint32_t>& version(const UdQueue& queue) noexcept;
  static std::uint16_t send_frames(UdQueue& queue, rte_mbuf** frames, std::uint16_t n) noexcept;
  [[nodiscard]] fabric::GroupGrh grh_of(fabric::AhIndex ah) const;
  rte_mbuf* packet_of(rte_mbuf* frame);

  std::uint32_t psn_ = 0xff'fff0;       ///< It wraps soon.
  std::uint32_t next_psn_ = 0xff'fff0;  ///< The lowest that the next frame may have.

  static std::uint16_t receive(UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  static std::uint16_t send(UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
};

/// A packet sent on a link, with its transmit metadata.
struct SentOnLink {
  Bytes bytes;
  fabric::PacketMeta::Tx to;
};

/// A message to management, with its packet as octets.
struct Punted {
  msg::Up message;
  Bytes bytes;
  fabric::PacketMeta::Rx rx;
  fabric::PacketMeta::Held held;
};

class WorkerFixture : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// Worker 0 owns eth0 and ib1, worker 1 the others. Before start().
  void share_between_two_workers();
  /// Creates the workers. Before this call the test may change `configs`, `entries` and `settings`.
  void start();
  /// Puts a link into connected mode: `messages` arrive at its owner. Before start().
  void connect(table::InterfaceId link, fabric::ReceiveQueue& messages);
  /// Makes a worker with this configuration use the tables of the fixture.
  void use_tables(WorkerConfig& c);
  /// Runs one loop of every worker.
  void loop();
  Worker& worker(std::size_t i = 0) { return *workers_.at(i); }

  // Tables:
  void add_route(std::string_view prefix, const table::NextHop& hop);
  /// Also adds the prefix that valid IPv4 neighbours have, as management does.
  void set_neighbour(table::NeighbourIndex index, const table::Neighbour& neighbour);
  /// Valid neighbours: of Ethernet with a MAC address, of IPoIB with address handle and QPN.
  static table::Neighbour eth_neighbour(table::InterfaceId iface, std::string_view addr,
                                        const wire::MacAddr& mac);
  static table::Neighbour ib_neighbour(table::InterfaceId iface, std::string_view addr,
                                       fabric::AhIndex ah, std::uint32_t qpn);

  // Wires. mbuf() puts a packet into one segment, or into segments of the given lengths.
  rte_mbuf* mbuf(const Bytes& bytes, const std::vector<std::size_t>& segments = {});
  void receive(table::InterfaceId iface, const Bytes& frame, bool multicast = false);
  void receive(table::InterfaceId iface, rte_mbuf* m, bool multicast = false);
  void receive_on_queue(table::InterfaceId port, unsigned queue, rte_mbuf* m);
  /// Receives a frame and runs one loop of every worker.
  template <class Frame>
  void feed(table::InterfaceId iface, const Frame& frame, bool multicast = false) {
    receive(iface, frame, multicast);
    loop();
  }
  /// Receives a packet that was sent to the group's MGID, with a GRH that has this source.
  void receive_group(table::InterfaceId iface, const Bytes& frame, const wire::Gid& sgid,
                     std::uint32_t src_qpn);
  Frames sent_by_port(table::InterfaceId iface, unsigned queue = 0);
  unsigned max_tx_segments = 0;  ///< Most segments of a packet in the last sent_by_port().
  std::vector<SentOnLink> sent_by_link(table::InterfaceId iface);
  /// Expects exactly one packet sent on the link, and returns it.
  SentOnLink only_sent_by_link(table::InterfaceId iface, std::string_view what = {});

  // Management:
  std::vector<Punted> punted(std::size_t worker = 0);
  /// Expects exactly one message from worker 0, and returns it.
  Punted only_punted(std::string_view what = {});
  void send_down(const msg::Down& message, std::size_t worker = 0);
  void set_delivery(table::InterfaceId in, std::string_view addr, bool local, std::uint64_t out,
                    std::string_view source = "::", std::uint64_t from_reverse_path = 0,
                    bool stands_by = false);
  void send_on_interface(const Bytes& packet, table::InterfaceId iface);
  void send_routed(const Bytes& packet, table::InterfaceId iface = table::kNoInterface);

  std::uint64_t drops(table::InterfaceId iface, Drop reason);
  /// Returns the sum over all interfaces and workers, drops of this node's own packets included.
  std::uint64_t all_drops();
  /// Expects exactly one drop in total, under this interface and reason.
  void expect_drop(table::InterfaceId iface, Drop reason, std::string_view what = {});

  /// A frame to eth0's own address, and a packet to a link.
  static Bytes to_eth0(const Bytes& ip) { return ethernet(mac(0xa0), mac(0x10), 0x0800, ip); }
  static Bytes to_eth0_6(const Bytes& ip) { return ethernet(mac(0xa0), mac(0x10), 0x86dd, ip); }
  static Bytes to_link(const Bytes& ip) { return encapsulated(0x0800, ip); }

  std::vector<WorkerConfig> configs;
  std::vector<InterfaceEntry> entries;
  std::size_t neighbour_capacity = 1024;
  Settings settings;
  Doorbell doorbell;
  rte_mempool* pool = nullptr;
  /// ib0 takes frames, ib1 does not.
  std::array<FakeUdQueue, 2> links{FakeUdQueue{FakeUdQueue::Takes::kFrames},
                                   FakeUdQueue{FakeUdQueue::Takes::kPackets, 0x123457}};
  std::array<fabric::UdQueue*, 2> ud_queues{&links[0], &links[1]};
  bool neighbours_have_prefixes = true;
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
  std::map<table::InterfaceId, fabric::ReceiveQueue*> messages_;
  std::vector<rte_ring*> rings_;
  /// Indexed by port and queue. Without other configuration workers use queue 0.
  std::array<std::array<rte_ring*, 2>, 2> wire_in_{}, wire_out_{};
  table::NextHopIndex next_hop_ = 1;
  std::map<table::InterfaceId, table::NextHopIndex> connected_;  ///< IPv4 only.
  /// Address and next hop of the network, by the neighbour's number.
  std::map<table::NeighbourIndex, std::pair<std::uint32_t, table::NextHopIndex>> prefixes_of_;
  unsigned made_ = 0;
  unsigned pool_size_ = 0;
};

}  // namespace ipoib::fwd::test
