// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/igmp_mld.h"

#include <bit>

namespace ipoib::wire {
namespace {

constexpr std::byte kPad{0};          // IPv6 Pad1 and IPv4 end of options.
constexpr std::byte kNoOperation{1};  // IPv4.
constexpr std::byte kRouterAlert6{5};

/// Decodes a value. If the top bit of the code is set, `mantissa` bits stand below an implied one,
/// and an exponent of 3 bits above them.
constexpr std::uint32_t decode_float(std::uint32_t code, unsigned mantissa) noexcept {
  if (code >> (mantissa + 3) == 0) return code;
  const std::uint32_t exponent = (code >> mantissa) & 7U;
  return ((code & ((1U << mantissa) - 1)) | 1U << mantissa) << (exponent + 3);
}

constexpr std::uint32_t encode_float(std::uint32_t value, unsigned mantissa) noexcept {
  if (value >> (mantissa + 3) == 0) return value;
  const auto width = static_cast<unsigned>(std::bit_width(value));
  if (width > mantissa + 11) return (1U << (mantissa + 4)) - 1;
  const unsigned exponent = width - (mantissa + 4);
  const std::uint32_t low = (value >> (exponent + 3)) & ((1U << mantissa) - 1);
  return 1U << (mantissa + 3) | exponent << mantissa | low;
}

}  // namespace

std::uint32_t decode_float8(std::uint8_t code) noexcept {
  return decode_float(code, 4);
}

std::uint32_t decode_float16(std::uint16_t code) noexcept {
  return decode_float(code, 12);
}

std::uint8_t encode_float8(std::uint32_t value) noexcept {
  return static_cast<std::uint8_t>(encode_float(value, 4));
}

std::uint16_t encode_float16(std::uint32_t value) noexcept {
  return static_cast<std::uint16_t>(encode_float(value, 12));
}

tl::expected<bool, MembershipFault> has_router_alert(std::span<const std::byte> options) noexcept {
  bool found = false;
  while (!options.empty() && options[0] != kPad) {
    if (options[0] == kNoOperation) {
      options = options.subspan(1);
      continue;
    }
    if (options.size() < 2) return tl::make_unexpected(MembershipFault::kIpHeader);
    const auto len = std::to_integer<std::size_t>(options[1]);
    if (len < 2 || len > options.size()) return tl::make_unexpected(MembershipFault::kIpHeader);
    found = found || (options[0] == kRouterAlertOption[0] && len == kRouterAlertOption.size());
    options = options.subspan(len);
  }
  return found;
}

tl::expected<HopByHop, MembershipFault> parse_hop_by_hop(
    std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < 8) return tl::make_unexpected(MembershipFault::kIpHeader);
  HopByHop header{std::to_integer<std::uint8_t>(bytes[0]),
                  8 + 8 * std::to_integer<std::size_t>(bytes[1]), false};
  if (header.len > bytes.size()) return tl::make_unexpected(MembershipFault::kIpHeader);
  auto options = bytes.first(header.len).subspan(2);
  while (!options.empty()) {
    if (options[0] == kPad) {
      options = options.subspan(1);
      continue;
    }
    if (options.size() < 2) return tl::make_unexpected(MembershipFault::kIpHeader);
    const auto len = 2 + std::to_integer<std::size_t>(options[1]);
    if (len > options.size()) return tl::make_unexpected(MembershipFault::kIpHeader);
    header.router_alert = header.router_alert || (options[0] == kRouterAlert6 && len == 4);
    options = options.subspan(len);
  }
  return header;
}

}  // namespace ipoib::wire
