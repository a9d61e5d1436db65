// SPDX-License-Identifier: BSD-3-Clause
// The record of a multicast group in an answer of the SA, checked before a link uses it.
#pragma once

#include <cstdint>

#include "lib/base/result.h"
#include "lib/sa/client.h"
#include "lib/wire/gid.h"
#include "lib/wire/sa_records.h"

namespace ipoib::link {

/// Returns the record of the group `mgid`. `port_mtu`: MTU code of the port. Errors:
///   kProtocol     the answer says nothing about the group: it is too short, or about another one;
///   kUnavailable  the port cannot use the group: MLID, MTU or rate is invalid, the MTU is larger
///                 than the port's, or the partition is another one.
/// Source: IBA vol 1 §15.2.5.17; RFC 4391 §4, §10.
[[nodiscard]] Result<wire::McMemberRecord> read_group(const sa::Reply& reply, const wire::Gid& mgid,
                                                      std::uint16_t pkey, std::uint8_t port_mtu);

}  // namespace ipoib::link
