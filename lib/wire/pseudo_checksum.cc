// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/pseudo_checksum.h"

#include "lib/base/contract.h"

namespace ipoib::wire {

/// The fields of both pseudo-headers are the same words in another order, and zeros, so that their sum
/// is that of the addresses, the length and the protocol.
std::uint16_t pseudo_checksum(const IpAddr& src, const IpAddr& dst, std::uint8_t protocol,
                              std::span<const std::byte> message) {
  expects(src.is_v4() == dst.is_v4() && message.size() <= 0xffff,
          "one family, and a length of 16 bits");
  const std::size_t len = src.is_v4() ? sizeof(Be32) : sizeof(IpAddr);
  const auto sum_of = [](std::span<const std::byte> octets) {
    return std::uint32_t{static_cast<std::uint16_t>(~internet_checksum(octets))};
  };
  std::uint32_t sum = sum_of(std::span{src.bytes}.last(len));
  sum += sum_of(std::span{dst.bytes}.last(len));
  sum += static_cast<std::uint16_t>(message.size());
  sum += protocol;
  sum += sum_of(message);
  return static_cast<std::uint16_t>(~fold_carries(sum));
}

}  // namespace ipoib::wire
