// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups: attributes, MLIDs and members. MADs and the rules of requests are in
// membership.h; the only rule here is that a group exists while it is configured or a member keeps
// it.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lib/wire/gid.h"
#include "lib/wire/sa_records.h"

namespace ipoib::sa {

struct McGroup {
  wire::McMemberRecord record{};  ///< Attributes; PortGID zero, JoinState 0, selectors "exactly".
  bool configured = false;        ///< The group exists without members.
  std::map<wire::Gid, std::uint8_t> members;  ///< PortGID -> JoinState bits, never 0.
};

/// A group was created or deleted.
struct GroupEvent {
  bool created = false;
  wire::Gid mgid;
  std::uint16_t pkey = 0;
};

class McGroupTable {
 public:
  /// `kept_by_any`: members of any kind keep a group; otherwise only keepers do (see leave()).
  McGroupTable(std::size_t max_groups, std::size_t max_members, bool kept_by_any = false)
      : max_groups_{max_groups}, max_members_{max_members}, kept_by_any_{kept_by_any} {}

  [[nodiscard]] const McGroup* find(const wire::Gid& mgid) const;
  /// Ordered by MGID.
  [[nodiscard]] const std::map<wire::Gid, McGroup>& all() const { return groups_; }

  [[nodiscard]] bool is_member_somewhere(const wire::Gid& port) const;
  /// True if there is room for one more group and its MLID.
  [[nodiscard]] bool room_for_group() const;
  [[nodiscard]] bool room_for_member() const { return members_ < max_members_; }

  /// Adds a group with a new MGID; room_for_group() must be true. Its MLID is the record's if that
  /// is a free multicast LID, else the lowest free one.
  const McGroup& create(const wire::McMemberRecord& attributes, bool configured);

  /// Adds JoinState bits; the group must exist. Returns all bits that the port now has.
  std::uint8_t join(const wire::Gid& mgid, const wire::Gid& port, std::uint8_t bits);
  /// Removes JoinState bits and returns the remaining ones. When its last keeper (FullMember or
  /// SendOnlyFullMember) leaves, a group that is not configured is deleted with the memberships of
  /// other ports, and its MLID is free again. Nothing changes if the port has none of the bits.
  std::uint8_t leave(const wire::Gid& mgid, const wire::Gid& port, std::uint8_t bits);
  /// Removes all memberships of a port.
  void remove_port(const wire::Gid& port);
  /// Removes a port from the groups whose MTU code is larger. Returns their number.
  std::size_t remove_from_larger(const wire::Gid& port, std::uint8_t mtu);

  /// Returns the events since the last call, in order.
  [[nodiscard]] std::vector<GroupEvent> take_events() { return std::exchange(events_, {}); }

 private:
  using Iterator = std::map<wire::Gid, McGroup>::iterator;
  template <class Concerns>
  std::size_t remove_from(const wire::Gid& port, Concerns concerns);
  std::uint16_t take_mlid(std::uint16_t wanted);
  void free_mlid(std::uint16_t mlid);
  [[nodiscard]] bool is_kept(const McGroup& group) const;
  void drop_unless_kept(Iterator it);

  std::size_t max_groups_;
  std::size_t max_members_;
  bool kept_by_any_;
  std::size_t members_ = 0;
  std::map<wire::Gid, McGroup> groups_;
  std::bitset<0x3fff> used_mlids_;  ///< Bit 0 is MLID 0xC000.
  std::size_t lowest_free_ = 0;     ///< All lower bits are set.
  std::vector<GroupEvent> events_;
};

}  // namespace ipoib::sa
