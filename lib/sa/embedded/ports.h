// SPDX-License-Identifier: BSD-3-Clause
// The ports an administrator without subnet discovery knows: those that asked it something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/wire/gid.h"
#include "lib/wire/mad.h"

namespace ipoib::sa {

struct Port {
  wire::Gid gid;
  std::uint16_t lid = 0;
  /// P_Keys it named, without the membership bit: a request always carries that set (RFC 4391
  /// §4.1), so it cannot be learned who is a limited member.
  std::set<std::uint16_t> partitions;
  TimePoint heard{};
  std::uint16_t former_lid = 0;  ///< Before it moved; 0: never did.
  TimePoint moved{};
  bool own = false;  ///< The administrator's: never moves.
};

/// A port came, went (`lid`: where it was) or has another LID (`lid`: where it was).
struct PortEvent {
  enum class Kind { kInService, kOutOfService, kMoved } kind;
  wire::Gid gid;
  std::uint16_t lid = 0;
};

/// GID <-> LID, one to one: the software fabric has neither LMC nor alias GIDs.
class PortTable {
 public:
  /// How long a request may have been under way.
  static constexpr Duration kLongestDelay = std::chrono::seconds(2);

  PortTable(std::size_t max_ports, Duration silence) : max_ports_{max_ports}, silence_{silence} {}

  void add_own(const wire::Gid& gid, std::uint16_t lid);

  /// Whether a port that calls itself `gid` may speak from `lid`: kOk; kSaRequestInvalid when one
  /// of the two is the administrator's or the LID is another port's; kSaNoResources when the table
  /// is full; kBusy when the port has just moved away from the LID, since that is a request which
  /// was late. A GID may change its LID at once. A LID changes its port (a node restarted with
  /// another GUID) where the old one holds nothing (`holder_idle`) or has been silent: so one
  /// request with a wrong PortGID does not take a live port down.
  [[nodiscard]] wire::MadStatus may_claim(const wire::Gid& gid, std::uint16_t lid, bool holder_idle,
                                          TimePoint now) const;
  /// Makes it so; may_claim must have said kOk. Returns the port that lost its LID, if any.
  std::optional<wire::Gid> claim(const wire::Gid& gid, std::uint16_t lid, TimePoint now);

  /// A request from `lid` names `gid` as its source, which may be a third party: learned only where
  /// neither is known yet, refreshed where they belong together. True when they do now.
  bool hear(const wire::Gid& gid, std::uint16_t lid, TimePoint now);

  void add_partition(const wire::Gid& gid, std::uint16_t pkey);

  [[nodiscard]] const Port* find(const wire::Gid& gid) const;
  [[nodiscard]] const Port* at(std::uint16_t lid) const;
  [[nodiscard]] const std::map<wire::Gid, Port>& all() const { return by_gid_; }

  /// What happened since the last call, in order; own ports are not told of.
  [[nodiscard]] std::vector<PortEvent> take_events() { return std::exchange(events_, {}); }

 private:
  std::size_t max_ports_;
  Duration silence_;
  std::map<wire::Gid, Port> by_gid_;
  std::map<std::uint16_t, wire::Gid> by_lid_;
  std::vector<PortEvent> events_;
};

/// A P_Key without its membership bit.
[[nodiscard]] constexpr std::uint16_t partition_of(std::uint16_t pkey) noexcept {
  return pkey & 0x7fff;
}

/// The partition two ports share that a path between them is given when none was asked for: the
/// default one before others.
[[nodiscard]] std::optional<std::uint16_t> shared_partition(const Port& a, const Port& b);

}  // namespace ipoib::sa
