// SPDX-License-Identifier: BSD-3-Clause
// A port that this link shares with other users, such as the kernel's ib_ipoib. The SA counts a
// port once in each group, and the kernel counts its own users only: a leave of one user ends the
// membership of all of them. Source: IBA vol 1 §15.2.5.17 (MCMemberRecord, by MGID and PortGID).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "lib/base/clock.h"
#include "lib/link/ipoib/ipoib_types.h"

namespace ipoib::link {

/// True if another user of the port and partition exists, be it idle.
[[nodiscard]] bool has_port_user(const LinkConfig& config, const LinkActions& actions);
/// True if another user may be a member of groups.
[[nodiscard]] bool shares_port(const LinkConfig& config, const LinkActions& actions);
/// True if another user may depend on this port's membership with this bit of wire::join_state. The
/// kernel joins as FullMember or SendOnlyFullMember.
[[nodiscard]] bool shares_membership(const LinkConfig& config, const LinkActions& actions,
                                     std::uint8_t bit);

/// Interval at which the membership of each of `groups` groups is confirmed; empty: never. It is
/// short while the port is shared, because the other user can leave a single group.
[[nodiscard]] std::optional<Duration> confirmation_interval(const LinkConfig& config,
                                                            const LinkActions& actions,
                                                            std::size_t groups);

/// An interface identifier that follows from the port GUID, the partition and the name of the link,
/// with its universal bit clear: users that take the GUID itself never have it. It is the same after
/// a restart. Source: RFC 7217 §5, without a secret, as the port GUID is public in each address.
[[nodiscard]] std::uint64_t interface_id_beside(const LinkConfig& config, std::uint64_t guid);

/// The times at which memberships are joined again after another user may have left: at once and
/// after each of the next seconds, because its leaves may reach the SA later. Changes in rapid
/// succession cause one join in a second.
class RejoinSeries {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);
  static constexpr unsigned kRepeats = 3;

  void begin(TimePoint now);
  void end() { next_.reset(); }
  /// True if it is time to join.
  [[nodiscard]] bool take(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next() const { return next_; }

 private:
  std::optional<TimePoint> next_;
  unsigned left_ = 0;  ///< Number of joins after the next one.
};

}  // namespace ipoib::link
