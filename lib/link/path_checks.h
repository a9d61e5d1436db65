// SPDX-License-Identifier: BSD-3-Clause
// Finds out which of several paths to a port carry packets, by messages that the port answers. This
// class chooses the path of each check and judges the results; its user sends the messages.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/fabric_types.h"
#include "lib/link/time_order.h"

namespace ipoib::link {

/// A path is left when two checks of it in a row are not answered and one of another path is answered
/// between them. Each check that fails is followed by one of another path at once, so a broken path is
/// left within kInterval and two times kTimeout. One that is left is checked like the others, and used
/// again once it carries an answer. If no path carries answers, none is left: the host is silent.
class PathChecks {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(10);  ///< For the checks of one path.
  static constexpr Duration kTimeout = std::chrono::seconds(1);    ///< For the answer to a check.

  /// The different paths, by their address handles. Known ones keep their state. If all of them were
  /// left, all are used.
  void set_paths(std::span<const fabric::AhIndex> handles, TimePoint now);
  [[nodiscard]] bool is_left(fabric::AhIndex ah) const;
  /// Path of the open check; kNoAh: none is open.
  [[nodiscard]] fabric::AhIndex open() const { return open_; }
  /// The port has answered. The answer belongs to the open check.
  void answered(TimePoint now);
  /// Time of the next judge() and start().
  [[nodiscard]] TimePoint due() const { return due_; }
  /// Ends a check without an answer. Returns true if is_left() has changed for a path.
  [[nodiscard]] bool judge(TimePoint now);
  /// Opens the next check if it is due. Returns its path, or kNoAh. Precondition: judge() was called.
  fabric::AhIndex start(TimePoint now);
  /// The check that start() has opened was not sent; it is due after `wait`.
  void put_off(Duration wait, TimePoint now);
  /// The port is not in use: forgets the checks that were not answered.
  void forget_misses();
  /// Number of times that no path in use has carried an answer.
  [[nodiscard]] unsigned silences() const { return silences_; }

 private:
  struct Path {
    fabric::AhIndex ah = fabric::kNoAh;
    bool left = false;
    unsigned misses = 0;    ///< Checks in a row without an answer, of a path in use.
    TimePoint missed_at{};  ///< Time of the first one.
    TimePoint checked_at = TimePoint::min();
    TimePoint answered_at = TimePoint::min();
  };
  [[nodiscard]] Path* find(fabric::AhIndex ah);
  [[nodiscard]] bool other_answers(const Path& missing) const;
  [[nodiscard]] Path* urgent();
  /// Interval of checks that no other one requires.
  [[nodiscard]] Duration turn() const;

  std::vector<Path> paths_;
  fabric::AhIndex open_ = fabric::kNoAh;
  unsigned silences_ = 0;
  bool changed_ = false;        ///< A path that was left has answered.
  TimePoint turn_at_ = kNever;  ///< Time of the next check that no other one requires.
  TimePoint due_ = kNever;
};

}  // namespace ipoib::link
