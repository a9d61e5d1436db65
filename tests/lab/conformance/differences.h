// SPDX-License-Identifier: BSD-3-Clause
// The intended differences between the answers of OpenSM and of the embedded administrator, with
// the reasons. Any other difference is a fault.
#pragma once

#include "lib/wire/sa_records.h"

namespace ipoib::conformance {

/// The status of both answers to one request.
struct Difference {
  wire::MadStatus opensm;
  wire::MadStatus embedded;
  const char* why;
};

using wire::MadStatus;

inline constexpr Difference kPortNotInPartition{
    MadStatus::kSaRequestInvalid, MadStatus::kOk,
    "without a sweep it knows no P_Key tables: a port is in the partitions it names"};
inline constexpr Difference kOwnPathInAnothersPartition{MadStatus::kSaNoRecords, MadStatus::kOk,
                                                        "for the same reason"};
inline constexpr Difference kPortNotSweptYet{
    MadStatus::kSaRequestInvalid, MadStatus::kOk,
    "without a sweep it learns a port from its first request"};
inline constexpr Difference kProxyJoin{MadStatus::kOk, MadStatus::kSaRequestInvalid,
                                       "it learns ports by who speaks: nobody speaks for another"};
inline constexpr Difference kTrustedLeave{
    MadStatus::kSaRequestInvalid, MadStatus::kOk,
    "without a sweep somebody has to tidy up after ports that are gone: who knows the SM_Key"};
inline constexpr Difference kReservedScope{MadStatus::kOk, MadStatus::kSaRequestInvalid,
                                           "scopes 0 and 15 are reserved; OpenSM does not look"};
inline constexpr Difference kBroadcastOfAnother{
    MadStatus::kOk, MadStatus::kSaRequestInvalid,
    "OpenSM lets a broadcast group be of another partition than its MGID says"};
inline constexpr Difference kSelectorWithoutValue{
    MadStatus::kSaRequestInvalid, MadStatus::kOk,
    "a selector without its value limits nothing; OpenSM compares with what is not there"};

// Other differences than the status, for which the tests use embedded():
//   Create.LifetimeIsThatAskedFor, Create.ScopeIsTheMgids: OpenSM copies the contents of components
//     without a mask bit, even zeros; the embedded administrator fills in the subnet's values.
//   Inform.RangeWithoutEnd: OpenSM accepts LIDRangeEnd 0 and never finds an issuer in the range.
//   Query.ByPort: OpenSM shows the members of a group to every port, which only trusted requests
//     should get.
//   Inform.SubscriptionsAreListed: OpenSM shows subscriptions to every port, all with number 0.
//   Query.PartitionsOfOthers: without a sweep there are no P_Key tables by which to hide groups.
//   Query.WrongSmKeyIsDenied, Query.MethodsAndAttributesNotServed: OpenSM does not answer, and the
//     client has to wait for its timeout; the embedded administrator refuses.
//   Query.ListOf62GroupsIsWholeOrCutByTheSimulator: libumad2sim has no RMPP.
//   Paths between any two ports: the embedded administrator gives a port only its own (paths.h).

}  // namespace ipoib::conformance
