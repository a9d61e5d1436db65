// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/ipoib.h"

#include <arpa/inet.h>

#include <algorithm>
#include <span>

namespace ipoib::wire {
namespace {

std::string colon_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 3);
  for (const std::byte b : bytes) {
    if (!text.empty()) text += ':';
    text += kDigits[std::to_integer<std::size_t>(b >> 4)];
    text += kDigits[std::to_integer<std::size_t>(b & std::byte{0x0f})];
  }
  return text;
}

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

/// Parses N octets of exactly two digits each, with colons only between them.
template <std::size_t N>
std::optional<std::array<std::byte, N>> parse_colon_hex(std::string_view text) {
  if (text.size() != N * 3 - 1) return std::nullopt;
  std::array<std::byte, N> bytes;
  for (std::size_t i = 0; i < N; ++i) {
    const auto high = hex_digit(text[i * 3]);
    const auto low = hex_digit(text[i * 3 + 1]);
    const bool separated = i + 1 == N || text[i * 3 + 2] == ':';
    if (!high || !low || !separated) return std::nullopt;
    bytes[i] = static_cast<std::byte>(*high << 4 | *low);
  }
  return bytes;
}

template <WireRecord Record>
std::optional<Record> parse_record(std::string_view text) {
  const auto bytes = parse_colon_hex<sizeof(Record)>(text);
  if (!bytes) return std::nullopt;
  return std::bit_cast<Record>(*bytes);
}

}  // namespace

std::string to_string(const LinkAddr& addr) {
  return colon_hex(bytes_of(addr));
}

std::optional<LinkAddr> parse_link_addr(std::string_view text) {
  return parse_record<LinkAddr>(text);
}

std::string to_string(const IbarpAddr& addr) {
  return colon_hex(bytes_of(addr));
}

std::optional<IbarpAddr> parse_ibarp_addr(std::string_view text) {
  return parse_record<IbarpAddr>(text);
}

std::string to_string(const MacAddr& addr) {
  return colon_hex(addr);
}

std::optional<MacAddr> parse_mac(std::string_view text) {
  return parse_colon_hex<sizeof(MacAddr)>(text);
}

std::string to_string(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> name{};
  inet_ntop(AF_INET6, gid.bytes.data(), name.data(), name.size());
  return name.data();
}

std::optional<Gid> parse_gid(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> name{};
  if (text.size() >= name.size() || text.find('\0') != std::string_view::npos) return std::nullopt;
  std::copy(text.begin(), text.end(), name.begin());
  Gid gid;
  if (inet_pton(AF_INET6, name.data(), gid.bytes.data()) != 1) return std::nullopt;
  return gid;
}

MacAddr group_mac(const IpAddr& group) {
  const auto& b = group.bytes;
  if (group.is_v4())
    return {std::byte{0x01},         std::byte{0x00}, std::byte{0x5e},
            b[13] & std::byte{0x7f}, b[14],           b[15]};
  return {std::byte{0x33}, std::byte{0x33}, b[12], b[13], b[14], b[15]};
}

Gid mgid_of(const IpAddr& group, std::uint16_t pkey, std::uint8_t scope) {
  const bool v4 = group.is_v4();
  const std::uint64_t signature = v4 ? kSignature4 : kSignature6;
  const std::uint64_t full_pkey = pkey | kFullMemberBit;
  // ff, flags 0001 (transient), scope, signature, P_Key, and room for 16 bits of the group.
  const std::uint64_t head =
      0xff10ULL << 48 | std::uint64_t{scope & 0x0fU} << 48 | signature << 32 | full_pkey << 16;
  Gid mgid = Gid::of(head, 0);
  if (v4) {
    const bool broadcast = group.v4_host() == 0xffff'ffff;
    const Be32 low{broadcast ? 0xffff'ffff : group.v4_host() & 0x0fff'ffff};
    std::copy_n(bytes_of(low).begin(), sizeof(low), mgid.bytes.begin() + 12);
  } else {
    std::copy(group.bytes.begin() + 6, group.bytes.end(), mgid.bytes.begin() + 6);
  }
  return mgid;
}

}  // namespace ipoib::wire
