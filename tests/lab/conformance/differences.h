// SPDX-License-Identifier: BSD-3-Clause
// Where the embedded administrator does not say what OpenSM says, and why that is left so. Anything
// else that differs is a fault.
#pragma once

#include "lib/wire/mad.h"

namespace ipoib::conformance {

/// The answers to one request, by status.
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

// Those that are no status, where a test asks embedded():
//   Create.LifetimeIsThatAskedFor, Create.ScopeIsTheMgids: OpenSM copies what stands in components
//     that were not asked for, even nothing; the embedded one fills in the subnet's.
//   Inform.RangeWithoutEnd: OpenSM takes LIDRangeEnd 0 and never finds an issuer in the range.
//   Query.ByPort: OpenSM tells anybody who is member, which only the trusted should learn.
//   Inform.SubscriptionsAreListed: OpenSM tells anybody, and gives all the number 0.
//   Query.PartitionsOfOthers: without a sweep there are no P_Key tables to hide groups by.
//   Query.WrongSmKeyIsDenied, Query.MethodsAndAttributesNotServed: OpenSM keeps silent, which the
//     asker has to sit out; the embedded one refuses.
//   Query.ListOf62GroupsIsWholeOrCutByTheSimulator: libumad2sim has no RMPP.
//   Paths from any port to any: the embedded one tells the asker's own only (paths.h).

}  // namespace ipoib::conformance
