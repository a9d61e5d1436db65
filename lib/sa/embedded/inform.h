// SPDX-License-Identifier: BSD-3-Clause
// InformInfo and InformInfoRecord: subscribing, unsubscribing, listing subscriptions.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/sa/embedded/subnet.h"
#include "lib/wire/notice.h"

namespace ipoib::sa {

using InformQuery = Query<wire::InformInfo>;
using InformRecordQuery = Query<wire::InformInfoRecord>;

/// Handles Set. The answer is the request. The subscriber is the source LID with the named QPN.
///   kSaRequestInvalid  invalid InformInfo (wire::parse_inform_info), a GID of no known port,
///                      QPN 0, or no such subscription to end;
///   kSaNoResources     subscriptions have reached a limit.
[[nodiscard]] Answer<wire::InformInfo> set_inform_info(Subnet& subnet, const InformQuery& query,
                                                       const fabric::MadAddress& from);

/// Handles Get and GetTable: returns at most `limit` subscriptions that match by SubscriberGID and
/// Enum. An untrusted request gets the requester's own only. The QPN is shown as 0, as from a real
/// SA; the SubscriberGID of a LID without a known port is zero.
[[nodiscard]] std::vector<wire::InformInfoRecord> find_subscriptions(const Subnet& subnet,
                                                                     const InformRecordQuery& query,
                                                                     std::size_t limit);

}  // namespace ipoib::sa
