// SPDX-License-Identifier: BSD-3-Clause
// Groups that an interface needs for itself: joins them, retries failed joins, leaves them.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "lib/base/clock.h"
#include "lib/link/medium.h"

namespace ipoib::link {

class OwnGroups {
 public:
  /// `medium` is kept, and not used before the first add().
  explicit OwnGroups(Medium& medium) : medium_{medium} {}

  /// Has 224.0.0.1, and on a router 224.0.0.2, from here on if `addresses` has IPv4 (RFC 1112 §7.2),
  /// and otherwise not.
  void follow(const std::vector<wire::IpPrefix>& addresses, bool routing, TimePoint now);
  /// Counted: each add() needs its remove().
  void add(const wire::IpAddr& group, TimePoint now);
  void remove(const wire::IpAddr& group, TimePoint now);
  void clear(TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return retry_; }

 private:
  struct Use {
    unsigned users = 0;
    bool joined = false;
  };
  void join(const wire::IpAddr& group, Use& use, TimePoint now);

  Medium& medium_;
  std::map<wire::IpAddr, Use> groups_;
  std::optional<TimePoint> retry_;
  bool v4_ = false;  ///< The IPv4 groups are included.
};

}  // namespace ipoib::link
