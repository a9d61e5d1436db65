// SPDX-License-Identifier: BSD-3-Clause
// Packets as octets, built field by field: those that tests send and those that they expect.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "lib/wire/icmpv6.h"
#include "lib/wire/ip.h"
#include "lib/wire/ipoib.h"

namespace ipoib::fwd::test {

using Bytes = std::vector<std::byte>;
using Frames = std::vector<Bytes>;

inline std::uint32_t addr(std::string_view text) {
  return wire::parse_ip(text)->v4_host();
}

inline void append(Bytes& to, std::span<const std::byte> bytes) {
  const std::size_t at = to.size();
  to.resize(at + bytes.size());
  std::copy(bytes.begin(), bytes.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}
template <wire::WireRecord T>
void append(Bytes& to, const T& record) {
  append(to, wire::bytes_of(record));
}

/// An IPv4 packet, with `checksum_off` added to its correct checksum.
struct Ip4 {
  std::string_view src = "192.168.1.10";
  std::string_view dst = "10.0.0.2";
  std::uint8_t ttl = 64;
  std::size_t payload_len = 26;
  std::uint16_t flags_offset = 0;
  wire::IpProto protocol = wire::IpProto::kUdp;
  Bytes options{};               ///< A multiple of 4 octets.
  std::uint8_t version_ihl = 0;  ///< 0 stands for the correct value, also in the next two.
  std::uint16_t total_len = 0;
  std::uint16_t checksum_off = 0;
  std::uint16_t id = 0x1234;
  std::uint8_t first_payload = 0;

  [[nodiscard]] Bytes bytes() const {
    const std::size_t header_len = sizeof(wire::Ipv4Hdr) + options.size();
    wire::Ipv4Hdr hdr{};
    hdr.version_ihl =
        version_ihl != 0 ? version_ihl : static_cast<std::uint8_t>(0x40 | header_len / 4);
    const auto len = static_cast<std::uint16_t>(header_len + payload_len);
    hdr.total_len.set(total_len != 0 ? total_len : len);
    hdr.id.set(id);
    hdr.flags_offset.set(flags_offset);
    hdr.ttl = ttl;
    hdr.protocol = static_cast<std::uint8_t>(protocol);
    hdr.src.set(addr(src));
    hdr.dst.set(addr(dst));
    Bytes out;
    append(out, hdr);
    append(out, options);
    const std::uint16_t sum = wire::internet_checksum(std::span{out}.first(header_len));
    const wire::Be16 checksum{static_cast<std::uint16_t>(sum + checksum_off)};
    std::memcpy(&out[offsetof(wire::Ipv4Hdr, checksum)], &checksum, sizeof(checksum));
    out.resize(header_len + payload_len);
    for (std::size_t i = 0; i < payload_len; ++i)
      out[header_len + i] = static_cast<std::byte>(first_payload + i);
    return out;
  }
};

/// An IPv6 packet; `body` follows the header.
struct Ip6 {
  std::string_view src = "fd00:1::10";
  std::string_view dst = "fd00:a::2";
  std::uint8_t hop_limit = 64;
  Bytes body = Bytes(26, std::byte{0x5a});
  std::uint8_t next_header = 17;
  std::uint32_t flow = 0;
  std::uint32_t version = 6;
  int payload_len = -1;  ///< -1 stands for the correct value.

  [[nodiscard]] Bytes bytes() const {
    wire::Ipv6Hdr hdr{};
    hdr.version_class_flow.set(version << 28 | flow);
    hdr.payload_len.set(static_cast<std::uint16_t>(
        payload_len < 0 ? body.size() : static_cast<std::size_t>(payload_len)));
    hdr.next_header = next_header;
    hdr.hop_limit = hop_limit;
    hdr.src = *wire::parse_ip(src);
    hdr.dst = *wire::parse_ip(dst);
    Bytes out;
    append(out, hdr);
    append(out, body);
    return out;
  }
};
inline Bytes forwarded(Ip6 packet) {
  --packet.hop_limit;
  return packet.bytes();
}

/// Returns an ICMPv6 message of `len` octets.
inline Bytes icmp6(std::uint8_t type, std::size_t len = 24) {
  Bytes out(len, std::byte{0});
  if (len != 0) out[0] = std::byte{type};
  return out;
}
/// Returns `message` behind a hop-by-hop options header with a router alert. Source: RFC 2711.
inline Bytes behind_router_alert(const Bytes& message) {
  Bytes out;
  for (const int octet : {58, 0, 5, 2, 0, 0, 1, 0}) out.push_back(static_cast<std::byte>(octet));
  append(out, message);
  return out;
}

/// Returns the packet as a router forwards it: with its TTL decremented and the new checksum.
inline Bytes forwarded(Ip4 packet) {
  --packet.ttl;
  return packet.bytes();
}

inline wire::MacAddr mac(std::uint8_t last) {
  return {std::byte{2}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{last}};
}
inline constexpr wire::MacAddr kBroadcastMac = {std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                                                std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};

inline Bytes ethernet(const wire::MacAddr& dst, const wire::MacAddr& src, std::uint16_t type,
                      const Bytes& payload) {
  Bytes out;
  append(out, dst);
  append(out, src);
  append(out, wire::Be16{type});
  append(out, payload);
  return out;
}

inline Bytes encapsulated(std::uint16_t type, const Bytes& payload, std::uint16_t reserved = 0) {
  Bytes out;
  append(out, wire::IpoibHdr{wire::Be16{type}, wire::Be16{reserved}});
  append(out, payload);
  return out;
}

/// Returns an IPv4 or IPv6 packet with this message behind its header.
inline Bytes ip_packet(const wire::IpAddr& src, const wire::IpAddr& dst, std::uint8_t protocol,
                       std::span<const std::byte> message, std::uint8_t ttl = 64) {
  Bytes out;
  if (src.is_v4()) {
    wire::Ipv4Hdr hdr{};
    hdr.version_ihl = 0x45;
    hdr.total_len.set(static_cast<std::uint16_t>(sizeof(hdr) + message.size()));
    hdr.ttl = ttl;
    hdr.protocol = protocol;
    hdr.src.set(src.v4_host());
    hdr.dst.set(dst.v4_host());
    hdr.checksum.set(wire::internet_checksum(wire::bytes_of(hdr)));
    append(out, hdr);
  } else {
    const auto len = static_cast<std::uint16_t>(message.size());
    append(out, wire::Ipv6Hdr{wire::Be32{wire::Ipv6Hdr::kVersion6}, wire::Be16{len}, protocol, ttl,
                              src, dst});
  }
  append(out, message);
  return out;
}

/// Returns an echo request with `data_len` octets of data, or the reply to it.
inline Bytes echo_packet(const wire::IpAddr& src, const wire::IpAddr& dst, std::size_t data_len,
                         bool reply = false) {
  const bool v4 = src.is_v4();
  const int type = v4 ? (reply ? 0 : 8) : (reply ? 129 : 128);
  wire::IcmpHdr icmp{static_cast<std::uint8_t>(type), 0, {}, wire::Be32{7}};
  Bytes message;
  append(message, icmp);
  message.resize(sizeof(icmp) + data_len, std::byte{0x42});
  icmp.checksum.set(v4 ? wire::internet_checksum(message)
                       : wire::icmp6_checksum(src, dst, message));
  std::memcpy(message.data(), &icmp, sizeof(icmp));
  return ip_packet(src, dst, v4 ? 1 : 58, message);
}

}  // namespace ipoib::fwd::test
