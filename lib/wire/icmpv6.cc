// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/icmpv6.h"

#include <bit>

namespace ipoib::wire {
namespace {

struct PseudoHdr {
  IpAddr src;
  IpAddr dst;
  Be32 length;
  std::byte zero[3];
  std::uint8_t next_header;
};
static_assert(WireRecord<PseudoHdr> && sizeof(PseudoHdr) == 40);

constexpr IpAddr of_halves(std::uint64_t high, std::uint64_t low) noexcept {
  IpAddr a;
  for (std::size_t i = 0; i < 8; ++i) {
    a.bytes[i] = static_cast<std::byte>(high >> (56 - 8 * i));
    a.bytes[8 + i] = static_cast<std::byte>(low >> (56 - 8 * i));
  }
  return a;
}

}  // namespace

std::uint16_t icmp6_checksum(const IpAddr& src, const IpAddr& dst,
                             std::span<const std::byte> message) noexcept {
  const PseudoHdr pseudo{src,
                         dst,
                         Be32{static_cast<std::uint32_t>(message.size())},
                         {},
                         static_cast<std::uint8_t>(IpProto::kIcmpv6)};
  const auto a = static_cast<std::uint16_t>(~internet_checksum(bytes_of(pseudo)));
  const auto b = static_cast<std::uint16_t>(~internet_checksum(message));
  return static_cast<std::uint16_t>(~fold_carries(std::uint32_t{a} + b));
}

IpAddr solicited_node(const IpAddr& addr) noexcept {
  IpAddr group = of_halves(0xff02'0000'0000'0000, 0x1'ff00'0000);
  for (std::size_t i = 13; i < 16; ++i) group.bytes[i] = addr.bytes[i];
  return group;
}

IpAddr link_local(std::uint64_t interface_id) noexcept {
  return of_halves(0xfe80'0000'0000'0000, interface_id);
}

}  // namespace ipoib::wire
