// SPDX-License-Identifier: BSD-3-Clause
// MCMemberRecord: joining, creating, leaving and listing groups. The rules are the observed ones of
// a real subnet manager (iba-wire.md §3.3); if they leave a choice, the comment states it.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/sa/embedded/subnet.h"

namespace ipoib::sa {

using McQuery = Query<wire::McMemberRecord>;

/// Creates the broadcast groups of the configuration.
void create_broadcast_groups(Subnet& subnet);

/// Handles Set: joins a group, and creates it if absent. The answer is the group's record with
/// PortGID and all JoinState bits that the port now has. A refusal changes nothing, except that a port
/// whose MTU is too small is read again (PortTable::doubt_mtu):
///   kSaInsufficientComponents  MGID, PortGID or JoinState is not in the mask; or the group is
///                              absent and Q_Key, TClass, P_Key, SL or FlowLabel is not;
///   kSaInvalidGid              PortGID is not of this subnet;
///   kSaRequestInvalid          JoinState 0, attributes that do not match, invalid MTU or rate,
///                              unusable MGID, foreign partition, absent group and no keeper joins,
///                              headers that differ from the broadcast group's, PortGID in use at
///                              another LID (PortTable::may_claim), PortInfo with an MTU below the
///                              group's;
///   kBusy                      PortGID has just moved away from this LID (PortTable::may_claim);
///   kSaNoResources             groups, members or ports have reached their limit.
/// If ports are addressed by GID (AdministratorConfig::elsewhere_lid), any kind of member may join,
/// and so create, an absent IPoIB group of a partition that has a broadcast group. A new group has
/// the subnet's MTU, rate and lifetime unless the request names them. Its scope is its MGID's, its
/// lifetime the named one with any selector, and its MLID the named one if that is free.
[[nodiscard]] Answer<wire::McMemberRecord> join(Subnet& subnet, const McQuery& query);

/// Handles Delete. The answer is the request with the remaining JoinState, as from a real SM. The
/// only attributes checked are PortGID's subnet and valid MTU and rate codes, as in a join.
/// kSaRequestInvalid: no such group, the port does not have all of these bits, or the request comes
/// from another port's LID without the SM_Key.
[[nodiscard]] Answer<wire::McMemberRecord> leave(Subnet& subnet, const McQuery& query);

/// Handles Get and GetTable: returns at most `limit` matching records. A trusted request gets one
/// per member, with exactly the requested JoinState. An untrusted one gets one per group, with
/// PortGID and JoinState zero; a match by these reveals the requester's own membership only, and its
/// PortGID may be learned (PortTable::hear).
/// kSaRequestInvalid: invalid MTU or rate. If ports are addressed by GID, an untrusted lookup by
/// MGID also finds a group that could be joined, with the MLID of the broadcast group, because
/// MLIDs have no meaning there.
[[nodiscard]] Answer<std::vector<wire::McMemberRecord>> find(Subnet& subnet, const McQuery& query,
                                                             std::size_t limit);

}  // namespace ipoib::sa
