// SPDX-License-Identifier: BSD-3-Clause
// Decides which busy workers spread the packets that they receive, by flow, and over which others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/clock.h"

namespace ipoib::mgmt {

/// Returns the numbers of workers that are given as one bit each.
[[nodiscard]] std::vector<unsigned> worker_numbers(std::uint64_t workers);

/// A worker begins when it has been short of time for two periods in which no neighbour could leave
/// it, and while others have much time. It goes on only while that helps: each received packet must
/// take it clearly less time than before. Otherwise it waits before it tries again, longer each time.
/// It ends when it could do all the work alone again.
///
/// The decisions follow from the measured loads and the time only.
class FlowSpread {
 public:
  /// Other workers that share the packets of one. More make the bursts of each short.
  static constexpr std::size_t kMostOthers = 3;
  /// The pause after a spread that does not help; it doubles up to the longest.
  static constexpr Duration kRest = std::chrono::minutes(5), kLongestRest = std::chrono::hours(1);

  /// A worker in a period.
  struct Load {
    double busy = 0;        ///< Share of the period, 0 to 1.
    double rate = 0;        ///< Packets that it received from queues per second.
    bool hangs = false;     ///< It has not finished a loop.
    bool relieved = false;  ///< Neighbours move away from it.
  };
  struct Change {
    unsigned worker;
    std::uint64_t workers;  ///< The workers that share its packets, one bit each; 0: it alone.
    std::string reason;
  };

  /// Ends a period, with the loads of all workers. `allowed`: false: no worker spreads its packets.
  [[nodiscard]] std::vector<Change> end_period(std::span<const Load> loads, bool allowed,
                                               TimePoint now);
  /// True if the worker spreads its packets or shares those of another one.
  [[nodiscard]] bool takes_part(unsigned worker) const;

 private:
  struct Worker {
    std::uint64_t shared_by = 0;  ///< The workers that share its packets; 0: it alone.
    unsigned short_of_time = 0;   ///< Periods in a row.
    double alone = 0;             ///< Seconds that a packet took before.
    bool on_trial = false;        ///< The first period is not over.
    unsigned without_gain = 0;    ///< Periods in a row.
    Duration rest = kRest;        ///< The next pause.
    TimePoint not_before{};
  };

  void end(Worker& worker);
  void end_in_vain(Worker& worker, TimePoint now);
  [[nodiscard]] std::uint64_t others_for(unsigned worker, std::span<const Load> loads) const;
  [[nodiscard]] std::optional<Change> begin(std::span<const Load> loads, TimePoint now);
  [[nodiscard]] std::optional<Change> leave_out_hanging(unsigned worker,
                                                        std::span<const Load> loads);
  [[nodiscard]] std::optional<std::string> reason_to_end(Worker& worker, unsigned number,
                                                         std::span<const Load> loads,
                                                         TimePoint now);

  std::vector<Worker> workers_;
};

}  // namespace ipoib::mgmt
