// SPDX-License-Identifier: BSD-3-Clause
// The packet trace in the view of the CLI and telemetry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/msg/trace_records.h"

namespace ipoib::mgmt {

/// Packets to record. Absent conditions match every packet.
struct TraceRequest {
  unsigned packets = 0;  ///< 1 to msg::trace::Session::kMaxRecords, of all workers together.
  std::string in{};      ///< Name of the ingress interface; empty: any.
  std::optional<wire::IpPrefix> src{}, dst{};  ///< Both have one IP version.
  std::optional<std::uint8_t> protocol{};
  std::optional<std::uint16_t> port{};  ///< TCP or UDP, source or destination.
  bool dropped_only = false;
};

/// A record with the names of what it refers to, as they were when management read it, at most some
/// tenths of a second later.
struct TracedPacket {
  struct StepNames {
    std::string iface{};                     ///< Interface of the step, if it has one.
    std::optional<wire::IpPrefix> prefix{};  ///< Routed: the route that was found.
    std::uint16_t lid = 0;                   ///< Resolved, IPoIB: 0 if it is not known.
    std::vector<std::string> out{};          ///< Delivered: egress interfaces.
  };

  msg::trace::Record record;
  Duration since_start{};  ///< From the start of the trace to the receive call.
  unsigned lcore = 0;
  std::string in{};                ///< Ingress interface; empty: none.
  std::vector<StepNames> names{};  ///< One for each step.
};

struct TraceInfo {
  enum class State : std::uint8_t {
    kNone,
    kRunning,
    kComplete,  ///< All requested packets are recorded.
    kStopped,
  };
  State state = State::kNone;
  TraceRequest request{};
  std::uint64_t missed = 0;  ///< Matching packets that a worker had no room to follow.
};

/// Management lcore only.
class Trace {
 public:
  virtual ~Trace() = default;

  /// Starts a trace in place of the previous one and its records. Errors: kInvalidArgument and
  /// kNotFound name the faulty part of the request; the previous trace then continues.
  virtual Status start(const TraceRequest& request) = 0;
  /// Ends the trace; its records stay. kUnavailable: no trace runs.
  virtual Status stop() = 0;
  /// Ends the trace and discards the records.
  virtual void clear() = 0;

  [[nodiscard]] virtual TraceInfo info() = 0;
  /// Records so far: those of one worker in order. Valid until the next turn of the loop or the
  /// next call of a function.
  [[nodiscard]] virtual const std::vector<TracedPacket>& packets() = 0;
};

}  // namespace ipoib::mgmt
