// SPDX-License-Identifier: BSD-3-Clause
// SA requests of an IPoIB node, as records and component masks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/fabric/fabric_types.h"
#include "lib/sa/client.h"
#include "lib/wire/gid.h"
#include "lib/wire/notice.h"
#include "lib/wire/sa_records.h"

namespace ipoib::sa {

/// Joins an existing group; the SA refuses an absent one with "insufficient components". P_Keys
/// here get the full-membership bit, regardless of the port's table. Source: RFC 4391 §4.1, §5.
[[nodiscard]] Request join_group(const wire::Gid& mgid, const wire::Gid& port_gid,
                                 std::uint16_t pkey, std::uint8_t join_state);

/// Joins a group, and creates it if absent with the attributes of `like` (the broadcast group):
/// P_Key, Q_Key, MTU, TClass, rate, SL, FlowLabel, HopLimit, all exactly. Source: RFC 4391 §10.
[[nodiscard]] Request create_group(const wire::Gid& mgid, const wire::Gid& port_gid,
                                   std::uint8_t join_state, const wire::McMemberRecord& like);

/// Gives up the membership bits `join_state`; the port keeps its other bits.
[[nodiscard]] Request leave_group(const wire::Gid& mgid, const wire::Gid& port_gid,
                                  std::uint16_t pkey, std::uint8_t join_state);

/// Looks up a group. The answer is its record, or a refusal with "no records".
[[nodiscard]] Request find_group(const wire::Gid& mgid);

/// Looks up a membership of the asking port. The answer is the group's record, or a refusal with "no
/// records" if the port is no member of it.
[[nodiscard]] Request find_member(const wire::Gid& mgid, const wire::Gid& port_gid);

/// Lists all groups of a partition: a table of McMemberRecord.
[[nodiscard]] Request list_groups(std::uint16_t pkey);

/// Asks for one path; without `tclass`, the SA chooses the traffic class. The request always has the
/// P_Key: without it an SA may answer for any partition that both ports share. Source: RFC 4391
/// §9.1.2; iba-wire.md §3.4.
[[nodiscard]] Request find_path(const wire::Gid& sgid, const wire::Gid& dgid, std::uint16_t pkey,
                                std::optional<std::uint8_t> tclass = 0);
/// Asks for a table of up to `count` (1-127) different paths, those between other LIDs of the two
/// ports among them.
[[nodiscard]] Request find_paths(const wire::Gid& sgid, const wire::Gid& dgid, std::uint16_t pkey,
                                 std::optional<std::uint8_t> tclass, std::uint8_t count);

/// Asks for the path between these LIDs of the ports. The SA chooses the traffic class.
[[nodiscard]] Request find_path_between(const wire::Gid& sgid, const wire::Gid& dgid,
                                        std::uint16_t pkey, const fabric::LidPair& lids);

[[nodiscard]] Request class_port_info();

/// Subscribes QP1 of the requesting port to Reports of one trap (wire::Trap), or of all, about any
/// port. A second subscription is harmless. The SA forgets subscriptions when the port goes out of
/// service or the SA restarts, so a link subscribes again when it joins again. The answer is the
/// InformInfo. Source: RFC 4391 §10.
[[nodiscard]] Request subscribe(std::uint16_t trap = wire::kAllTraps);
[[nodiscard]] Request subscribe(wire::Trap trap);

/// Ends the subscription of subscribe() with the same trap. The SA refuses with "request invalid"
/// if there is none.
[[nodiscard]] Request unsubscribe(std::uint16_t trap = wire::kAllTraps);
[[nodiscard]] Request unsubscribe(wire::Trap trap);

/// Text for logs and `show`, for example "SA refused: no records" or "SA did not answer".
[[nodiscard]] std::string describe(const Failure& failure);

}  // namespace ipoib::sa
