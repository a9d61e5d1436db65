// SPDX-License-Identifier: BSD-3-Clause
// The requests an IPoIB node makes, as records and component masks.
#pragma once

#include <cstdint>
#include <string>

#include "lib/sa/client.h"
#include "lib/wire/gid.h"
#include "lib/wire/mad.h"
#include "lib/wire/notice.h"

namespace ipoib::sa {

/// Joins a group that exists; an absent one is refused with "insufficient components". P_Keys here
/// get the full-membership bit, whatever the port's table says. Source: RFC 4391 §4.1, §5.
[[nodiscard]] Request join_group(const wire::Gid& mgid, const wire::Gid& port_gid,
                                 std::uint16_t pkey, std::uint8_t join_state);

/// Joins a group, and creates it where absent with the attributes of `like` (the broadcast group):
/// P_Key, Q_Key, MTU, TClass, rate, SL, FlowLabel, HopLimit, all exactly. Source: RFC 4391 §10.
[[nodiscard]] Request create_group(const wire::Gid& mgid, const wire::Gid& port_gid,
                                   std::uint8_t join_state, const wire::McMemberRecord& like);

/// Gives up the membership bits `join_state`; others of the port stay.
[[nodiscard]] Request leave_group(const wire::Gid& mgid, const wire::Gid& port_gid,
                                  std::uint16_t pkey, std::uint8_t join_state);

/// Is there such a group? Answered by its record, or refused with "no records".
[[nodiscard]] Request find_group(const wire::Gid& mgid);

/// All groups of a partition, a table of McMemberRecord.
[[nodiscard]] Request list_groups(std::uint16_t pkey);

/// One path. The P_Key is always part of the question: without it an SA may answer for any
/// partition both ports share. Source: RFC 4391 §9.1.2; iba-wire.md §3.4.
[[nodiscard]] Request find_path(const wire::Gid& sgid, const wire::Gid& dgid, std::uint16_t pkey,
                                std::uint8_t tclass = 0);

[[nodiscard]] Request class_port_info();

/// Reports of one trap (wire::Trap), or of all, about any port, to QP1 of the asking port. Asking
/// twice is harmless; the SA forgets when the port goes out of service or the SA starts anew, so a
/// link subscribes again when it joins again. Answered by the InformInfo. Source: RFC 4391 §10.
[[nodiscard]] Request subscribe(std::uint16_t trap = wire::kAllTraps);
[[nodiscard]] Request subscribe(wire::Trap trap);

/// Ends what subscribe() with the same trap began; refused with "request invalid" where there is
/// nothing to end.
[[nodiscard]] Request unsubscribe(std::uint16_t trap = wire::kAllTraps);
[[nodiscard]] Request unsubscribe(wire::Trap trap);

/// "SA refused: no records", "SA did not answer" … for logs and `show`.
[[nodiscard]] std::string describe(const Failure& failure);

}  // namespace ipoib::sa
