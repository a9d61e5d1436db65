// SPDX-License-Identifier: BSD-3-Clause
// Two whole nodes in one thread and in virtual time, on a software fabric between them and with
// hosts on their Ethernet ports: what the fuzz target `node` plays with.
//
//   hosts -- eth0 [node 0: LID 1, the SA] ib0, ib1 == cable == ib0, ib1 [node 1: LID 2] eth0 --
//   hosts
//
// Frames between the nodes are carried by this program, which may lose, repeat, keep or change
// them.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/mgmt/stepped_node.h"
#include "lib/wire/ip.h"
#include "lib/wire/ipoib.h"

struct rte_mbuf;
struct rte_ring;

namespace ipoib::mgmt::test {

using Bytes = std::vector<std::byte>;

/// An ethdev whose far end is this program's.
class FarEnd {
 public:
  explicit FarEnd(const std::string& name);
  ~FarEnd();
  FarEnd(const FarEnd&) = delete;
  FarEnd& operator=(const FarEnd&) = delete;

  [[nodiscard]] const std::string& device() const { return device_; }
  /// The node is to receive the frame; false: it has too many waiting. `exact`: its octets lie in a
  /// block of just their size, so that AddressSanitizer sees one too many.
  bool give(std::span<const std::byte> frame, bool exact = false);
  /// What the node sent; empty: nothing.
  [[nodiscard]] Bytes take();
  [[nodiscard]] bool has_frame() const;
  void set_carrier(bool up);
  /// The device is taken away from the node, for good, with the frames that wait in it.
  void pull_out();
  [[nodiscard]] bool pulled_out() const { return pulled_out_; }

 private:
  std::string device_;
  std::uint16_t port_ = 0;
  bool pulled_out_ = false;
  rte_ring* to_node_;
  rte_ring* from_node_;
};

/// What befalls the next frames on the cable.
enum class CableFault : std::uint8_t { kNone, kLose, kRepeat, kKeep, kChange, kReverse, kCount };

/// Parts of a node that requests or devices may have changed, and that are to be put back.
enum class Change : std::uint8_t {
  kHca,
  kPort,
  kInterfaces,  ///< Up or down, and how much they carry.
  kForwarding,
  kRoutes,
  kMulticastRoutes,
  kNeighbours,
  kGroups,
  kCount
};

struct Side {
  std::unique_ptr<FarEnd> cable;
  std::unique_ptr<FarEnd> port;
  std::unique_ptr<SteppedNode> stepped;
  wire::MacAddr mac{};  ///< Of the node's port.
  unsigned workers = 1;
  std::bitset<static_cast<std::size_t>(Change::kCount)> changed;
  bool asked = true;  ///< Something was asked of it since its last turn.
  TimePoint wakes{};  ///< When its management is to have its next turn, whatever comes before.
  std::vector<std::pair<std::string, wire::IpAddr>> joined;  ///< By request.

  [[nodiscard]] Node& node() const { return stepped->node(); }
  void change(Change what) { changed.set(static_cast<std::size_t>(what)); }
  [[nodiscard]] bool has(Change what) const { return changed[static_cast<std::size_t>(what)]; }
  /// Takes a turn if there is something to do, like Node::run(). False: there was nothing.
  bool run_once();
};

class NodeWorld {
 public:
  static constexpr std::array<std::uint16_t, 2> kLid = {1, 2};
  static constexpr std::size_t kRemembered = 32;

  NodeWorld();
  ~NodeWorld();
  NodeWorld(const NodeWorld&) = delete;
  NodeWorld& operator=(const NodeWorld&) = delete;

  /// One loop of each worker, a turn of each node that has something to do, and every frame one hop
  /// further. Returns how much was done.
  unsigned round();
  /// Rounds until nothing moves, `most` at most; false: something still moves.
  bool settle(unsigned most = 64);
  static void pass(Duration d);
  /// To the next deadline of either node, and `longest` at most.
  void pass_to_deadline(Duration longest);

  /// Of all pools: mbufs that somebody has.
  [[nodiscard]] static std::size_t mbufs_in_use();
  /// Neighbours and connections: what traffic leaves behind.
  [[nodiscard]] std::size_t learned() const;
  /// What else is there: of the SA's client, the communication managers and the neighbours'
  /// numbers.
  [[nodiscard]] std::size_t unfinished() const;
  /// A device was pulled out, which comes back with a new node only.
  [[nodiscard]] bool spent() const;
  /// Takes back whatever requests may have changed, forgets what was learned, and lets time pass
  /// until no packet is left. False: something stays, or a packet is under no counter or under two
  /// (mgmt::PacketBalance).
  bool come_to_rest();
  /// Likewise, until nothing is unfinished that was not so at the start.
  bool come_to_full_rest();

  /// Those with a last octet below this are there, and answer for their addresses.
  static constexpr unsigned kHosts = 100;
  static wire::MacAddr host_mac(unsigned side, unsigned n);

  std::array<Side, 2> sides;
  bool hosts_answer = true;
  CableFault fault = CableFault::kNone;
  unsigned faulty_frames = 0;    ///< That `fault` is still to befall.
  std::uint32_t damage = 0;      ///< kChange: where (16 bits) and what (8 bits).
  std::deque<Bytes> kept;        ///< kKeep.
  std::deque<Bytes> remembered;  ///< The last frames of the cable, whoever sent them.

 private:
  [[nodiscard]] NodeConfig config(unsigned side) const;
  unsigned carry(unsigned from);
  unsigned serve_hosts(unsigned side);
  void answer(unsigned side, std::span<const std::byte> frame);
  void put_back(unsigned side);
  void put_back_devices(unsigned side, const NodeConfig& original);
  static void put_back_routes(Node& node, const NodeConfig& original);
  static void put_back_multicast_routes(Node& node);
  void forget();
  /// Says on stderr what come_to_rest() found.
  void tell_left() const;

  [[nodiscard]] bool is_balanced() const;

  std::size_t at_rest_ = 0;             ///< What learned() is then.
  std::size_t unfinished_at_rest_ = 0;  ///< And unfinished().
};

/// Makes LRH.PktLen one that the frame holds, and its ICRC right.
void mend_frame(Bytes& frame);

}  // namespace ipoib::mgmt::test
