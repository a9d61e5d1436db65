// SPDX-License-Identifier: BSD-3-Clause
// The node that a flood is sent to: whole, with one worker, in virtual time. Its devices are rings,
// whose far ends belong to the bench.
//
// Time advances in steps. In each, the worker makes loops until it finds no packet, like one that is
// fast enough for the link. The management lcore makes a turn when it has work and its previous turn
// is over: each message and MAD that a turn handles takes kMessageCost, and a device's requests the
// time of DeviceWork. So what strangers make the management lcore do delays everybody's work as on a
// machine, and each run gives the same picture of it.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/mgmt/node/node_assembly.h"
#include "lib/wire/iba.h"
#include "lib/wire/ip.h"
#include "tests/flood/slow_hca.h"
#include "tests/support/ring_device.h"

namespace ipoib::flood {

enum class Side : std::uint8_t { kEthernet, kCable };

struct FloodNodeConfig {
  unsigned links = 1;  ///< Partitions of the one HCA.
  bool connected = false;
  std::size_t max_connections = 4096;  ///< The limit of each link.
  std::uint8_t rnr_retry = 6;          ///< The option of each link; 7: for ever.
  bool multicast_router = false;
  Duration queue_pair_cost{};  ///< The device needs it for each connected queue pair.
  /// Time after which a neighbour is probed. Short in a short run, so that all are probed in it.
  Duration reachable = std::chrono::seconds(30);
};

class FloodNode {
 public:
  static constexpr Duration kStep = std::chrono::microseconds(100);
  /// About what it costs a core of 3 GHz to handle a message or MAD; some cost less.
  static constexpr Duration kMessageCost = std::chrono::microseconds(5);
  static constexpr std::uint16_t kLid = 1;
  static constexpr std::uint32_t kEthIp = 0xac10'0001;  ///< 172.16.0.1/16

  explicit FloodNode(const FloodNodeConfig& config);
  ~FloodNode();
  FloodNode(const FloodNode&) = delete;
  FloodNode& operator=(const FloodNode&) = delete;

  /// The node's address on a link: 10.j.0.1/16.
  static constexpr std::uint32_t ib_ip(unsigned link) { return 0x0a00'0001U + (link << 16); }
  /// fd00:b::/64 on Ethernet, fd00:a:j::/64 on a link.
  [[nodiscard]] static wire::IpAddr ip6(Side side, unsigned link, std::uint64_t id);
  /// Interface identifier of the node's own addresses.
  static constexpr std::uint64_t kOwnId = 0x1;
  static std::uint16_t pkey(unsigned link);

  /// One step of time.
  void step();
  [[nodiscard]] TimePoint now() const { return node_->parts->now(); }

  /// Puts a frame into the device's receive queue, in an mbuf of the node, as a device does, after
  /// `patch` has changed it. Returns false if no mbuf is free or the queue is full: the frame is
  /// lost, and counted in missed().
  template <class Patch>
  bool give(Side side, std::span<const std::byte> frame, Patch patch) {
    rte_mbuf* const m = rte_pktmbuf_alloc(pool_);
    if (m == nullptr) return ++missed_, false;
    auto* const octets = reinterpret_cast<std::byte*>(
        rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())));
    std::copy(frame.begin(), frame.end(), octets);
    patch(octets);
    if (rte_ring_enqueue(device(side).to_node, m) == 0) return true;
    rte_pktmbuf_free(m);
    return ++missed_, false;
  }
  bool give(Side side, std::span<const std::byte> frame) {
    return give(side, frame, [](std::byte*) {});
  }
  /// Returns the next frame that the node sent, or null. The caller frees it.
  rte_mbuf* take(Side side) { return test::next_of(device(side).from_node); }

  [[nodiscard]] mgmt::NodeAssembly& node() { return *node_; }
  [[nodiscard]] const mgmt::NodeFaces& faces() const { return node_->faces; }
  [[nodiscard]] const wire::MacAddr& mac() const { return mac_; }
  [[nodiscard]] std::uint32_t qpn(unsigned link) const { return qpn_[link]; }
  [[nodiscard]] std::uint32_t qkey() const { return qkey_; }

  /// Measurements since the last restart_figures().
  struct Figures {
    Duration longest_turn{};
    std::uint64_t most_messages = 0;  ///< Messages and MADs of one turn.
    unsigned least_free = 0;          ///< mbufs of the node.
    std::uint64_t missed = 0;
    std::uint64_t queue_pairs = 0;
  };
  [[nodiscard]] const Figures& figures() const { return figures_; }
  void restart_figures();
  [[nodiscard]] unsigned mbufs() const { return node_->parts->buffers.size(); }
  /// Octets of the process's resident memory.
  [[nodiscard]] static std::size_t resident();

 private:
  [[nodiscard]] test::RingDevice& device(Side side) {
    return side == Side::kEthernet ? ethernet_ : cable_;
  }
  [[nodiscard]] mgmt::NodeConfig config(const FloodNodeConfig& wanted) const;
  void turn();

  test::RingDevice ethernet_{"eth", 2048};
  test::RingDevice cable_{"cable", 2048};
  std::unique_ptr<mgmt::NodeAssembly> node_;
  rte_mempool* pool_ = nullptr;
  wire::MacAddr mac_{};
  std::vector<std::uint32_t> qpn_;
  std::uint32_t qkey_ = 0;
  TimePoint turn_ends_{};  ///< The management lcore is free from then on.
  TimePoint wakes_{};
  std::uint64_t missed_ = 0;
  Figures figures_;
};

}  // namespace ipoib::flood
