// SPDX-License-Identifier: BSD-3-Clause
// PathRecord. Every path of this subnet is one hop with the subnet's MTU, rate and SL; a query
// selects ports, partition and limits.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/sa/embedded/subnet.h"

namespace ipoib::sa {

using PathQuery = Query<wire::PathRecord>;

/// Handles Get and GetTable: returns at most `limit` matching paths; none if a port is unknown, no
/// partition is shared, or a limit cannot be met. An end that is not named matches any port, except
/// that a query that names no end returns the requester's paths only. A multicast DGID gives the
/// group's MLID as DLID, to a named SGID only if it is a member. The administrator learns the
/// requesting port (PortTable::hear) and the P_Key that it names.
///   kSaRequestInvalid  GID and LID of an end name different ports, or invalid MTU or rate.
[[nodiscard]] Answer<std::vector<wire::PathRecord>> find_paths(Subnet& subnet,
                                                               const PathQuery& query,
                                                               std::size_t limit);

}  // namespace ipoib::sa
