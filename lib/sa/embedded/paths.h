// SPDX-License-Identifier: BSD-3-Clause
// PathRecord. Every path of this subnet is one hop of the subnet's MTU, rate and SL; what can be
// asked of it is which ports, which partition, and limits it has to keep.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/sa/embedded/subnet.h"

namespace ipoib::sa {

using PathQuery = Query<wire::PathRecord>;

/// Get and GetTable: paths that match, at most `limit`; none where a port is unknown, no partition
/// is shared, or a limit cannot be kept. An end that is not named is any port, but of paths from
/// any to any only the asking port's are told. A multicast DGID gives the group's MLID as DLID, to
/// members only. Teaches the administrator the asking port (PortTable::hear) and the P_Key it
/// names.
///   kSaRequestInvalid  GID and LID of an end are different ports', or no such MTU or rate.
[[nodiscard]] Answer<std::vector<wire::PathRecord>> find_paths(Subnet& subnet,
                                                               const PathQuery& query,
                                                               std::size_t limit);

}  // namespace ipoib::sa
