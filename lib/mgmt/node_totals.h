// SPDX-License-Identifier: BSD-3-Clause
// Totals of a node since its start, which no clear resets, and the sizes of its tables, for readers
// that compute rates and keep records themselves. Filled on the management lcore with as little
// work as possible; plain values, safe to hand to another thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fwd/histogram.h"
#include "lib/fwd/latency_recorder.h"
#include "lib/mgmt/device/device_stats.h"
#include "lib/mgmt/device/xstats.h"
#include "lib/mgmt/node_info.h"

namespace ipoib::mgmt {

/// Packets of a worker on an interface where it has a queue.
struct QueueTotals {
  std::string interface;
  unsigned queue = 0;  ///< The worker's first; the others count here too.
  unsigned worker = 0;
  std::uint64_t rx_packets = 0, tx_packets = 0, rx_bytes = 0, tx_bytes = 0;
};

struct InterfaceTotals {
  std::string name;
  Place place = Place::kLink;  ///< kLink or kPort.
  link::State state{};
  std::uint16_t mtu = 0;
  std::uint64_t speed_bps = 0;  ///< 0: not known.
  TrafficInfo traffic;
  DeviceStats errors;  ///< Device counters of a port.
  link::NeighbourPhases neighbours{};
  std::map<std::string_view, std::size_t> groups;  ///< Number of groups by GroupInfo::state.
  /// Messages of IGMP and MLD, by kind: see NodeCounters.
  std::map<std::string_view, std::uint64_t> membership;
};

struct HcaTotals {
  std::string name;
  std::array<std::uint64_t, kDropCount> drops{};
  sa::ClientCounters client;
  fabric::NamedCounters mads;
  bool administrator = false;
  sa::SmpCounters smps;               ///< SMPs of the administrator.
  std::size_t groups = 0, ports = 0;  ///< Groups and ports that the administrator knows.
};

/// Time-stamped packets of all workers.
struct LatencyTotals {
  struct Stream {
    std::uint64_t received = 0, next = 0;
  };
  std::uint64_t sent = 0, late = 0, duplicates = 0;
  std::array<Stream, fwd::LatencyRecorder::kStreams> streams{};  ///< Indexed by sending worker.
  fwd::Histogram::Counts ns{};                                   ///< Latencies.

  [[nodiscard]] std::uint64_t received() const;
  /// Packets before the last one received that have not arrived yet.
  [[nodiscard]] std::uint64_t missing() const;
};

struct NodeTotals {
  Duration uptime{};
  std::uint64_t tsc_hz = 0;
  std::size_t mbufs = 0, mbufs_free = 0;
  std::size_t reserve_mbufs = 0, reserve_mbufs_free = 0;  ///< Buffers::reserve().
  std::vector<InterfaceTotals> interfaces;
  std::vector<QueueTotals> queues;
  std::vector<HcaTotals> hcas;
  std::vector<WorkerInfo> workers;
  std::array<std::uint64_t, kDropCount> drops{};   ///< Drops of packets from no interface.
  std::map<std::string_view, std::size_t> routes;  ///< Routes in effect, by RouteInfo::kind.
  std::size_t multicast_routes = 0;
  /// Refused by limits of IGMP and MLD, of all interfaces. Keys: see MembershipCounters.
  std::map<std::string_view, std::uint64_t> membership_refused;
  /// For groups that several routers may forward. Keys: see route::ForwarderElectionCounters.
  std::map<std::string_view, std::uint64_t> forwarder_changes;
  IcmpErrorCounters icmp_errors;
  LatencyTotals latency;
  fwd::Histogram::Counts turn_ns{};  ///< Turns of the management lcore's loop.
  std::uint64_t log_lines_lost = 0;  ///< See lib/base/log.h.
};

}  // namespace ipoib::mgmt
