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

/// Set. The answer is the request. The subscriber is the asking LID with the QPN named.
///   kSaRequestInvalid  senseless (wire::parse_inform_info), a GID no known port has, QPN 0, or
///                      unsubscribing what is not there;
///   kSaNoResources     subscriptions have reached a bound.
[[nodiscard]] Answer<wire::InformInfo> set_inform_info(Subnet& subnet, const InformQuery& query,
                                                       const fabric::MadAddress& from);

/// Get and GetTable: subscriptions that match by SubscriberGID and Enum, at most `limit`; a port's
/// own only, but for the trusted. The QPN is shown as 0, as a real SA does; the SubscriberGID of a
/// LID whose port is not known is zero.
[[nodiscard]] std::vector<wire::InformInfoRecord> find_subscriptions(const Subnet& subnet,
                                                                     const InformRecordQuery& query,
                                                                     std::size_t limit);

}  // namespace ipoib::sa
