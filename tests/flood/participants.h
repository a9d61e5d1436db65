// SPDX-License-Identifier: BSD-3-Clause
// Honest traffic beside a flood, and what becomes of it: a stream between established hosts in both
// directions (the participating stream of RFC 8161), packets to hosts that have just appeared, hosts
// that look for their router, joins of groups, requests of the command line, and packets that are
// too long for the next link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "tests/flood/flood_frames.h"
#include "tests/flood/flood_node.h"
#include "tests/flood/sim_hosts.h"

namespace ipoib::flood {

/// `good` of `all`.
struct Share {
  std::uint64_t good = 0, all = 0;
  [[nodiscard]] double percent() const {
    return all == 0 ? 100.0 : 100.0 * static_cast<double>(good) / static_cast<double>(all);
  }
};

struct Outcome {
  Share to_cable;     ///< Packets of the stream from Ethernet to IPoIB that arrived.
  Share to_ethernet;  ///< The other direction.
  Share first_1s;     ///< New hosts whose first packet arrived within a second, of all.
  Share first_3s;     ///< Within three seconds, of all.
  Share resolved;     ///< New hosts that some packet reached within three seconds.
  Share found;     ///< New Ethernet hosts whose request for their router was answered within 3 s.
  Share joins;     ///< Hosts whose join at the subnet administrator was answered within a second.
  Share reports;   ///< IGMP reports whose group was known within a second.
  Share too_big;   ///< Packets too long for the next link whose sender got an ICMP error.
  Share commands;  ///< Requests of the command line handled within 100 ms.
  std::uint64_t lost_neighbours = 0;  ///< Most established ones without a valid entry, at one time.
};

class Participants {
 public:
  static constexpr unsigned kEstablished = 500;  ///< On each side.
  /// Packets a second in each direction of the stream.
  static constexpr unsigned kStreamRate = 5'000;

  /// `reports`: hosts join groups by IGMP; `long_packets`: they send packets that are too long.
  Participants(FloodNode& node, SimHosts& hosts, bool reports, bool long_packets);

  /// Lets the established hosts become neighbours. Returns false if that fails.
  bool establish();
  /// One step: sends what is due.
  void step();
  /// No new hosts and requests any more: those under way have time to come to an end.
  void wind_down() { winding_down_ = true; }
  /// Counts from zero.
  void restart();
  [[nodiscard]] Outcome outcome() const;

 private:
  enum Kind : std::uint32_t { kStream, kNew, kLong };
  /// A host that has just appeared.
  struct Newcomer {
    Host host;
    TimePoint appeared{};
    TimePoint joined = TimePoint::min();  ///< On the cable: answer of the administrator.
    TimePoint asked = TimePoint::min();   ///< Last request to join.
    TimePoint first_sent = TimePoint::min();
    TimePoint last_sent = TimePoint::min();
    TimePoint first_arrived = TimePoint::min();  ///< Arrival of the first packet.
    TimePoint reached = TimePoint::min();        ///< Arrival of any packet.
    TimePoint router_asked = TimePoint::min();
    TimePoint router_found = TimePoint::min();
    std::uint32_t sent = 0;
  };
  struct Report {
    std::uint32_t group = 0;
    TimePoint sent{};
    bool known = false;
  };
  /// Due at a regular interval.
  struct Pace {
    Duration interval;
    TimePoint due{};
    [[nodiscard]] bool is_due(TimePoint now) {
      if (now < due) return false;
      due = std::max(due, now - interval) + interval;
      return true;
    }
  };

  void stream(std::uint64_t number);
  void newcomers(TimePoint now);
  void advance(Newcomer& n, TimePoint now);
  void report(TimePoint now);
  void look_at_neighbours();
  void command(TimePoint now);
  void on_packet(const Host& host, const Mark& mark);

  FloodNode& node_;
  SimHosts& hosts_;
  bool reports_on_, long_packets_;
  bool winding_down_ = false;
  std::uint64_t streamed_ = 0;
  TimePoint stream_begin_{};
  std::uint32_t epoch_ = 0;  ///< Packets of earlier epochs do not count.
  std::vector<Newcomer> newcomers_;
  std::unordered_map<std::uint32_t, std::size_t> by_key_;  ///< Host of a side -> newcomer.
  std::size_t settled_ = 0;                                ///< Newcomers before this one are old.
  std::vector<Report> reports_;
  Pace appear_{std::chrono::milliseconds(50)};
  Pace report_{std::chrono::milliseconds(250)};
  Pace long_{std::chrono::milliseconds(20)};
  Pace command_{std::chrono::milliseconds(100)};
  Pace look_{std::chrono::milliseconds(500)};
  std::vector<bool> joined_;  ///< Hosts on the cable, by number.
  std::uint32_t next_group_ = 0;
  Outcome outcome_;
};

}  // namespace ipoib::flood
