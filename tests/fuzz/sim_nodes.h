// SPDX-License-Identifier: BSD-3-Clause
// The surroundings of the fuzz target `node`: two whole nodes in one thread and in virtual time,
// with a software fabric between them and hosts on their Ethernet ports.
//
//   hosts -- eth0 [node 0: LID 1, the SA] ib0, ib1 == cable == ib0, ib1 [node 1: LID 2] eth0 --
//   hosts
//
// This program carries the frames between the nodes, and may lose, repeat, keep, change or reverse
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

#include "drivers/soft/soft_hca.h"
#include "lib/mgmt/management_loop.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_control.h"
#include "lib/mgmt/node_stats.h"
#include "lib/mgmt/node_totals.h"
#include "lib/mgmt/node_view.h"
#include "lib/mgmt/stepped_node.h"
#include "lib/mgmt/test_traffic.h"
#include "lib/wire/ip.h"
#include "lib/wire/ipoib.h"
#include "tests/support/ring_device.h"

namespace ipoib::mgmt::test {

using Bytes = std::vector<std::byte>;

/// An ethdev of a node, with this program at its far end.
class FarEnd {
 public:
  explicit FarEnd(const std::string& name) : ends_{name, 256} {}
  ~FarEnd();
  FarEnd(const FarEnd&) = delete;
  FarEnd& operator=(const FarEnd&) = delete;

  [[nodiscard]] const std::string& device() const { return ends_.name; }
  /// Gives the node a frame. Returns false if the device is removed, the frame's length is out of
  /// range or too many frames wait. With `exact`, the octets lie in a block of their own size, so
  /// that AddressSanitizer detects an access one octet behind them.
  bool give(std::span<const std::byte> frame, bool exact = false);
  /// Returns the next frame that the node sent, or an empty one.
  [[nodiscard]] Bytes take();
  [[nodiscard]] bool has_frame() const;
  void set_carrier(bool up);
  /// Removes the device from the node for good, with the frames that wait in it.
  void pull_out();
  [[nodiscard]] bool pulled_out() const { return pulled_out_; }

 private:
  ipoib::test::RingDevice ends_;
  bool pulled_out_ = false;
};

/// The fault of the next frames on the cable.
enum class CableFault : std::uint8_t { kNone, kLose, kRepeat, kKeep, kChange, kReverse, kCount };

/// Parts of a node that requests or devices may have changed, and that put_back() restores.
enum class Change : std::uint8_t {
  kHca,
  kPort,
  kInterfaces,  ///< Administrative state and MTU.
  kForwarding,
  kAddresses,
  kRoutes,
  kMulticastRoutes,
  kNeighbours,
  kGroups,
  kCount
};

struct SimNode {
  std::unique_ptr<FarEnd> cable;
  std::unique_ptr<FarEnd> port;
  std::unique_ptr<SteppedNode> stepped;
  wire::MacAddr mac{};  ///< MAC address of the node's port.
  const soft::SoftHca* hca = nullptr;
  unsigned workers = 1;
  std::bitset<static_cast<std::size_t>(Change::kCount)> changed;
  bool asked = true;  ///< The node got a request since its last turn.
  TimePoint wakes{};  ///< Latest time of the next turn of management.
  std::vector<std::pair<std::string, wire::IpAddr>> joined;  ///< Groups joined by request.

  [[nodiscard]] const NodeFaces& node() const { return stepped->faces(); }
  void change(Change what) { changed.set(static_cast<std::size_t>(what)); }
  [[nodiscard]] bool has(Change what) const { return changed[static_cast<std::size_t>(what)]; }
  /// Takes a turn if there is something to do, like Node::run(). Returns false if there is nothing.
  bool run_once();
};

class SimNodes {
 public:
  static constexpr std::array<std::uint16_t, 2> kNumber = {1, 2};
  static constexpr std::size_t kRemembered = 32;

  /// With `several_paths`, each port has two LIDs and each link two paths to a neighbour.
  explicit SimNodes(bool several_paths);
  ~SimNodes();
  SimNodes(const SimNodes&) = delete;
  SimNodes& operator=(const SimNodes&) = delete;

  [[nodiscard]] std::uint16_t lid(unsigned side) const;
  [[nodiscard]] bool has_several_paths() const { return several_paths_; }

  /// Runs one loop of each worker and a turn of each node that has something to do, and moves every
  /// frame one hop further. Returns the amount of work done.
  unsigned round();
  /// Runs rounds until nothing moves, at most `most`. Returns false if something still moves.
  bool settle(unsigned most = 64);
  static void pass(Duration d);
  /// Lets time pass to the next deadline of either node, at most `longest`.
  void pass_to_deadline(Duration longest);

  /// Returns the number of mbufs in use, of all pools.
  [[nodiscard]] static std::size_t mbufs_in_use();
  /// Returns the number of neighbours and connections, which traffic leaves behind.
  [[nodiscard]] std::size_t learned() const;
  /// Numbers of other temporary objects of both nodes together, one of each kind (kUnfinished).
  using Counts = std::array<std::size_t, 9>;
  [[nodiscard]] Counts unfinished() const;
  /// Returns whether the nodes have no more gateways and groups of gateways than their routes name.
  [[nodiscard]] bool has_just_next_hops() const;
  /// Returns whether a device was removed. Such a device comes back only with a new node.
  [[nodiscard]] bool spent() const;
  [[nodiscard]] bool without_cable() const;
  /// Reverts the changes of requests, forgets learned entries, and lets time pass until no packet
  /// is left. Returns false if something stays, or if a packet is under no counter or under two
  /// (mgmt::PacketBalance).
  bool come_to_rest();
  /// Does the same, and lets time pass until unfinished() is no more than at the start.
  bool come_to_full_rest();

  /// Addresses with a last octet from 2 to below this belong to hosts, which answer for them.
  static constexpr unsigned kHosts = 100;
  static wire::MacAddr host_mac(unsigned side, unsigned n);

  std::array<SimNode, 2> sides;
  bool hosts_answer = true;
  CableFault fault = CableFault::kNone;
  unsigned faulty_frames = 0;    ///< Number of further frames with `fault`.
  std::uint32_t damage = 0;      ///< kChange: offset (16 bits) and bits to flip (8 bits).
  std::deque<Bytes> kept;        ///< Frames that kKeep took from the cable.
  std::deque<Bytes> remembered;  ///< The last frames of the cable, from both nodes.

 private:
  [[nodiscard]] NodeConfig config(unsigned side) const;
  unsigned carry(unsigned from);
  unsigned serve_hosts(unsigned side);
  void answer(unsigned side, std::span<const std::byte> frame);
  void put_back(unsigned side);
  void put_back_devices(unsigned side, const NodeConfig& original);
  static void put_back_addresses(const NodeFaces& node, const NodeConfig& original);
  static void put_back_routes(const NodeFaces& node, const NodeConfig& original);
  static void put_back_multicast_routes(const NodeFaces& node);
  void forget();
  /// Prints on stderr the state that come_to_rest() could not remove.
  void tell_left() const;

  [[nodiscard]] bool is_balanced() const;

  bool several_paths_;
  std::size_t at_rest_ = 0;      ///< learned() at rest.
  Counts unfinished_at_rest_{};  ///< unfinished() at rest.
};

/// Corrects LRH.PktLen if the frame cannot have that length, and the ICRC.
void mend_frame(Bytes& frame);

}  // namespace ipoib::mgmt::test
