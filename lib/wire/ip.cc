// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/ip.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "lib/wire/ip_prefix.h"

namespace ipoib::wire {
namespace {

/// Bits of the 16-octet form before an IPv4 prefix, which is mapped.
constexpr unsigned kMappedBits = 96;

/// Octet `i` of a mask in the 16-octet form whose first `bits` bits are set.
constexpr std::byte mask_octet(unsigned bits, std::size_t i) {
  const auto before = static_cast<unsigned>(i) * 8;
  if (bits <= before) return std::byte{0};
  const unsigned here = bits - before;
  return here >= 8 ? std::byte{0xff} : static_cast<std::byte>(0xff00U >> here);
}

unsigned prefix_bits(const IpPrefix& prefix) {
  return prefix.len + (prefix.addr.is_v4() ? kMappedBits : 0U);
}

}  // namespace

std::uint16_t internet_checksum(std::span<const std::byte> bytes) noexcept {
  // The octet order of a one's complement sum matters only at its end (RFC 1071 §2 (B)).
  std::uint64_t sum = 0;
  std::size_t at = 0;
  for (; bytes.size() - at >= 4; at += 4) {
    std::uint32_t word;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    sum += word;
  }
  std::uint32_t tail = 0;  // The remaining octets, padded with zeros.
  if (at < bytes.size()) std::memcpy(&tail, bytes.data() + at, bytes.size() - at);
  sum += tail;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~__builtin_bswap16(static_cast<std::uint16_t>(sum)));
}

std::optional<IpAddr> parse_ip(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> name{};
  if (text.size() >= name.size() || text.find('\0') != std::string_view::npos) return std::nullopt;
  std::copy(text.begin(), text.end(), name.begin());

  Be32 v4;
  if (inet_pton(AF_INET, name.data(), &v4) == 1) return IpAddr::v4(v4.host());
  IpAddr v6;
  if (inet_pton(AF_INET6, name.data(), v6.bytes.data()) != 1 || v6.is_v4()) return std::nullopt;
  return v6;
}

std::string to_string(const IpAddr& addr) {
  std::array<char, INET6_ADDRSTRLEN> name{};
  const bool v4 = addr.is_v4();
  inet_ntop(v4 ? AF_INET : AF_INET6, addr.bytes.data() + (v4 ? 12 : 0), name.data(), name.size());
  return name.data();
}

std::optional<IpPrefix> parse_prefix(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto addr = parse_ip(text.substr(0, slash));
  if (!addr) return std::nullopt;

  const std::string_view digits = text.substr(slash + 1);
  std::uint8_t len = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), len);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  const bool leading_zero = digits.size() > 1 && digits.front() == '0';
  if (!whole || leading_zero || len > host_len(*addr)) return std::nullopt;
  return IpPrefix{*addr, len};
}

std::string to_string(const IpPrefix& prefix) {
  return to_string(prefix.addr) + '/' + std::to_string(prefix.len);
}

IpAddr network(const IpPrefix& prefix) {
  const unsigned bits = prefix_bits(prefix);
  IpAddr net = prefix.addr;
  for (std::size_t i = 0; i < net.bytes.size(); ++i) net.bytes[i] &= mask_octet(bits, i);
  return net;
}

bool contains(const IpPrefix& prefix, const IpAddr& addr) {
  return prefix.addr.is_v4() == addr.is_v4() && network(prefix) == network({addr, prefix.len});
}

std::optional<IpAddr> directed_broadcast(const IpPrefix& prefix) {
  if (!prefix.addr.is_v4() || prefix.len >= 31) return std::nullopt;
  const unsigned bits = prefix_bits(prefix);
  IpAddr last = prefix.addr;
  for (std::size_t i = 0; i < last.bytes.size(); ++i) last.bytes[i] |= ~mask_octet(bits, i);
  return last;
}

bool is_interface_address(const IpPrefix& address) {
  const IpAddr& addr = address.addr;
  if (address.len == 0 || is_multicast(addr)) return false;
  if (addr.is_v4()) {
    const auto first = addr.v4_host() >> 24;
    if (first == 0 || first == 127 || first >= 224) return false;
  } else if (is_reserved6(addr)) {
    return false;
  }
  if (address.len >= host_len(addr) - 1) return true;
  return addr != network(address) && addr != directed_broadcast(address);
}

std::optional<IpPrefix> subnetted_net(const IpPrefix& prefix) {
  if (!prefix.addr.is_v4() || prefix.len >= 31) return std::nullopt;
  const auto first = prefix.addr.v4_host() >> 24;
  if (first == 0 || first == 127 || first >= 224) return std::nullopt;
  const std::uint8_t len = first < 128 ? 8 : first < 192 ? 16 : 24;
  if (prefix.len <= len) return std::nullopt;
  return IpPrefix{network({prefix.addr, len}), len};
}

std::optional<IpAddr> net_broadcast(const IpPrefix& prefix) {
  const auto net = subnetted_net(prefix);
  return net ? directed_broadcast(*net) : std::nullopt;
}

}  // namespace ipoib::wire
