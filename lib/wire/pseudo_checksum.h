// SPDX-License-Identifier: BSD-3-Clause
// The Internet checksum over the pseudo-header of IPv4 or IPv6 and a message.
// Source: RFC 768, RFC 8200 §8.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/wire/ip.h"

namespace ipoib::wire {

/// Checksum of a message whose checksum field is zero, host order. The result is 0 for a message with
/// a correct checksum. Shape: both addresses are of one family, and the message has at most 65,535
/// octets.
[[nodiscard]] std::uint16_t pseudo_checksum(const IpAddr& src, const IpAddr& dst,
                                            std::uint8_t protocol,
                                            std::span<const std::byte> message);

}  // namespace ipoib::wire
