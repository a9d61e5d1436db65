// SPDX-License-Identifier: BSD-3-Clause
// One simulated run of a fabric, determined by a seed. Nodes come, go, send and listen while all
// kinds of faults occur; then the faults end, and the properties must hold again.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/lib/link/sim_fabric.h"

namespace ipoib::link {

/// Kinds of events, as bits.
struct SimKinds {
  static constexpr unsigned kWire = 1U << 0;           ///< Loss, copies, delay and disorder.
  static constexpr unsigned kAdministrator = 1U << 1;  ///< It restarts or is silent.
  static constexpr unsigned kAnswers = 1U << 2;        ///< They are late, repeated or wrong.
  static constexpr unsigned kPorts = 1U << 3;  ///< LID change, reregister, port down and up.
  static constexpr unsigned kIslands = 1U << 4;
  static constexpr unsigned kPartition = 1U << 5;  ///< The P_Key is removed and returns.
  static constexpr unsigned kCrash = 1U << 6;
  static constexpr unsigned kStop = 1U << 7;
  static constexpr unsigned kGroups = 1U << 8;
  static constexpr unsigned kUnicast = 1U << 9;
  static constexpr unsigned kAll = (1U << 10) - 1;
};

/// Bounds of the properties.
struct SimBounds {
  /// The longest pause between attempts to join (back-off and its jitter), and before the
  /// repetition of a lost request.
  static constexpr Duration kUp = std::chrono::milliseconds(19'200 + 5'000 + 1'000);
  /// After that: a refresh of memberships and its back-off; a neighbour's confirmation, its probes
  /// and requests, the negative caches of neighbours and groups.
  static constexpr Duration kSettled = std::chrono::seconds(60);
  /// Longest wait of a packet for its neighbour or group.
  static constexpr Duration kHeld = std::chrono::seconds(3);
  /// After a crash or the order to stop, all messages that the node sent have arrived or are lost
  /// within this time.
  static constexpr Duration kParting = std::chrono::seconds(3);
  /// Requests to the SA in any one second, for each object of the node (groups, neighbours, the
  /// link, two subscriptions) and each event at its port.
  static constexpr std::uint64_t kRequestsPerThing = 4;
};

class SimRun {
 public:
  explicit SimRun(std::uint64_t seed, unsigned kinds = SimKinds::kAll);

  /// Runs all parts.
  void run();
  // Parts of a run:
  void begin();
  void suffer();
  void heal();
  void settle();
  void check();
  void end();

  [[nodiscard]] const std::vector<std::string>& violations() const { return violations_; }
  [[nodiscard]] SimFabric& fabric() { return f_; }

  // Properties; each adds the violations that it finds.
  void check_held();
  void check_requests();
  void check_up();
  void check_neighbours();
  void check_members();
  void check_unicast();
  void check_groups();

 private:
  /// The simulation's knowledge of a node that the node itself does not have.
  struct Life {
    std::map<wire::IpAddr, unsigned> joined;
    std::set<wire::IpAddr> talks_to;
    std::map<std::int64_t, std::uint64_t> events;  ///< Number of events in each second.
    bool stopped = false;
    bool no_pkey = false;
    bool no_port = false;
    bool left_behind = false;  ///< It may have memberships that it does not know of.
    TimePoint parted{};        ///< Time of the crash or the order to stop.
    std::uint64_t things = 0;
  };

  [[nodiscard]] std::size_t pick(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  [[nodiscard]] bool chance(double p) {
    return std::uniform_real_distribution<double>{0, 1}(random_) < p;
  }
  [[nodiscard]] bool may(unsigned kind) const { return (kinds_ & kind) != 0; }
  [[nodiscard]] std::string name(std::size_t i) const;
  void step();
  void trouble(std::size_t i);
  void talk(std::size_t i);
  void group_life(std::size_t i);
  void restart_administrator();
  void event(std::size_t i, fabric::PortEvent e);
  void note_event(std::size_t i);
  void crash(std::size_t i);
  void revive(std::size_t i);
  void keep_talking();
  void leave_groups();
  void wrong(std::string what);
  [[nodiscard]] std::string members_wrong(std::size_t i) const;
  [[nodiscard]] std::string neighbours_wrong(std::size_t i) const;
  [[nodiscard]] std::uint64_t things_of(std::size_t i) const;

  unsigned kinds_;
  std::mt19937_64 random_;
  SimFabric f_;
  std::size_t n_ = 0;
  unsigned steps_ = 0;
  std::vector<Life> lives_;
  std::vector<wire::IpAddr> groups_;
  std::uint16_t next_lid_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace ipoib::link
