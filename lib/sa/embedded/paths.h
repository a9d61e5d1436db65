// PathRecord. Every path of this subnet is one hop of the subnet's MTU, rate and SL; what can be
// asked of it is which ports, which partition, and limits it has to keep.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/sa/embedded/subnet.h"

namespace ipoib::sa {

using PathQuery = Query<wire::PathRecord>;

/// Get and GetTable: paths that match, at most `limit`; none where a port is unknown, no partition
/// is shared, or a limit cannot be kept. A multicast DGID gives the group's MLID as DLID.
/// Teaches the administrator the asking port (PortTable::hear) and the P_Key it names.
/// Without DGID and DLID: to every port.
///   kSaInsufficientComponents  neither SGID nor SLID;
///   kSaInvalidGid              a unicast GID of another subnet.
[[nodiscard]] Answer<std::vector<wire::PathRecord>> find_paths(Subnet& subnet,
                                                               const PathQuery& query,
                                                               std::size_t limit);

}  // namespace ipoib::sa
