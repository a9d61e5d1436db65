// SPDX-License-Identifier: BSD-3-Clause
// MCMemberRecord: joining, creating, leaving and listing groups. The rules are those a real subnet
// manager was seen to follow (iba-wire.md §3.3); where it leaves a choice, the comment says which
// was taken.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/sa/embedded/subnet.h"

namespace ipoib::sa {

using McQuery = Query<wire::McMemberRecord>;

/// Creates the broadcast groups of the configuration.
void create_broadcast_groups(Subnet& subnet);

/// Set. Joins, and creates where the group is absent. The answer is the group's record with PortGID
/// and all JoinState bits the port now has. Nothing changes on refusal:
///   kSaInsufficientComponents  MGID, PortGID, JoinState not in the mask; or the group is absent
///                              and Q_Key, TClass, P_Key, SL or FlowLabel are not;
///   kSaInvalidGid              PortGID is not of this subnet;
///   kSaRequestInvalid          JoinState 0, attributes that do not match, no such MTU or rate,
///                              unusable MGID, foreign partition, absent group joined by no keeper,
///                              headers unlike the broadcast group's, PortGID in use elsewhere
///                              (PortTable::may_claim);
///   kSaNoResources             groups, members or ports have reached their bound.
/// Where ports are addressed by GID (AdministratorConfig::elsewhere_lid) any kind of member joins
/// an absent IPoIB group of a partition that has a broadcast group, and then it is there. A new
/// group that names no MTU, rate or lifetime gets the subnet's; its scope is its MGID's, its
/// lifetime the one named whatever the selector, and its MLID the one named where that is free.
[[nodiscard]] Answer<wire::McMemberRecord> join(Subnet& subnet, const McQuery& query);

/// Delete. The answer is the request with the JoinState that remains, as a real SM gives it.
/// Of the attributes only PortGID's subnet and that MTU and rate exist are looked at, as in a join.
/// kSaRequestInvalid: no such group, not all of these bits there, or asked from another port's LID
/// without the SM_Key.
[[nodiscard]] Answer<wire::McMemberRecord> leave(Subnet& subnet, const McQuery& query);

/// Get and GetTable: records that match, at most `limit`. Trusted: one a member, with exactly the
/// JoinState asked for. Untrusted: one a group, PortGID and JoinState zero; to match by them
/// reveals the asking port's own membership only. kSaRequestInvalid: no such MTU or rate. Where
/// ports are addressed by GID, a group that could be joined is found by its MGID, with the MLID of
/// the broadcast group: MLIDs mean nothing there.
[[nodiscard]] Answer<std::vector<wire::McMemberRecord>> find(const Subnet& subnet,
                                                             const McQuery& query,
                                                             std::size_t limit);

}  // namespace ipoib::sa
