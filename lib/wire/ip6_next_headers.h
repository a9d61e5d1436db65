// SPDX-License-Identifier: BSD-3-Clause
// Numbers of IPv6 extension headers in the next header field. Source: RFC 8200 §4.1; the registry
// "IPv6 Extension Header Types".
#pragma once

#include <cstdint>

namespace ipoib::wire {

inline constexpr std::uint8_t kHopByHop = 0, kRoutingHeader = 43, kFragmentHeader = 44,
                              kEncryptionHeader = 50, kAuthenticationHeader = 51,
                              kNoNextHeader = 59, kDestinationOptions = 60, kMobilityHeader = 135,
                              kHostIdentity = 139, kShim6 = 140;
/// Numbers for experiments.
inline constexpr std::uint8_t kExperiment1 = 253, kExperiment2 = 254;

}  // namespace ipoib::wire
