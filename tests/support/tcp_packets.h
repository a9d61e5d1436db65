// SPDX-License-Identifier: BSD-3-Clause
// TCP packets, built field by field, and their interpretation by a receiver, which computes the
// checksum octet by octet, without the code under test.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/wire/tcp.h"
#include "tests/support/packets.h"

namespace ipoib::fwd::test {

/// Returns at most 64 KiB: octets of a sequence with a period of 64 KiB, from offset `from` on.
inline Bytes pattern(std::size_t len, std::uint32_t from = 0) {
  constexpr std::size_t kPeriod = 65'536;
  static const Bytes twice = [] {
    Bytes all;
    for (std::size_t at = 0; at < 2 * kPeriod; ++at)
      all.push_back(static_cast<std::byte>(at * 31 + (at >> 8)));
    return all;
  }();
  const auto begin = twice.begin() + from % kPeriod;
  return {begin, begin + static_cast<std::ptrdiff_t>(len)};
}

/// Returns 0 if the checksum is correct. Source: RFC 9293 §3.1, RFC 8200 §8.1.
inline std::uint16_t tcp_checksum_of(const Bytes& packet) {
  const bool v6 = std::to_integer<unsigned>(packet[0]) >> 4 == 6;
  const std::size_t ip_len = v6 ? 40 : (std::to_integer<std::size_t>(packet[0]) & 0xf) * 4;
  const std::size_t addresses = v6 ? 32 : 8;
  Bytes covered;
  append(covered, std::span{packet}.subspan((v6 ? 40 : 20) - addresses, addresses));
  append(covered, wire::Be32{static_cast<std::uint32_t>(packet.size() - ip_len)});
  append(covered, wire::Be32{6});
  append(covered, std::span{packet}.subspan(ip_len));
  return wire::internet_checksum(covered);
}

/// A TCP segment in an IPv4 or IPv6 packet, with `checksum_off` added to its correct checksum.
struct Tcp {
  bool v6 = false;
  std::uint16_t src_port = 40'000;
  std::uint16_t dst_port = 5201;
  std::uint32_t seq = 1000;
  std::uint32_t ack = 77;
  std::uint16_t flags = wire::TcpHdr::kAck;
  std::uint16_t window = 501;
  std::uint16_t urgent = 0;
  Bytes options{};  ///< A multiple of 4 octets.
  Bytes payload{};
  std::uint16_t checksum_off = 0;
  // Fields of the IP header:
  std::uint8_t ttl = 64;
  std::uint8_t tos = 0;  ///< Only in IPv4.
  std::uint16_t id = 0x100;
  std::uint16_t flags_offset = wire::Ipv4Hdr::kDontFragment;
  Bytes ip_options{};
  std::uint32_t flow = 0;  ///< Traffic class and flow label of IPv6.

  [[nodiscard]] Bytes bytes() const {
    wire::TcpHdr hdr{};
    hdr.src_port.set(src_port);
    hdr.dst_port.set(dst_port);
    hdr.seq.set(seq);
    hdr.ack.set(ack);
    hdr.offset_flags.set(static_cast<std::uint16_t>((5 + options.size() / 4) << 12 | flags));
    hdr.window.set(window);
    hdr.urgent.set(urgent);
    Bytes segment;
    append(segment, hdr);
    append(segment, options);
    append(segment, payload);
    Bytes out = v6 ? Ip6{.hop_limit = ttl, .body = segment, .next_header = 6, .flow = flow}.bytes()
                   : ip4(segment);
    const std::size_t at = out.size() - segment.size() + offsetof(wire::TcpHdr, checksum);
    const wire::Be16 checksum{static_cast<std::uint16_t>(tcp_checksum_of(out) + checksum_off)};
    std::memcpy(&out[at], &checksum, sizeof(checksum));
    return out;
  }

 private:
  [[nodiscard]] Bytes ip4(const Bytes& segment) const {
    const std::size_t len = sizeof(wire::Ipv4Hdr) + ip_options.size() + segment.size();
    Bytes out = Ip4{.ttl = ttl,
                    .payload_len = 0,
                    .flags_offset = flags_offset,
                    .protocol = wire::IpProto::kTcp,
                    .options = ip_options,
                    .total_len = static_cast<std::uint16_t>(len),
                    .id = id}
                    .bytes();
    out[1] = std::byte{tos};
    out[10] = out[11] = std::byte{0};
    const wire::Be16 checksum{wire::internet_checksum(out)};
    std::memcpy(&out[10], &checksum, sizeof(checksum));
    append(out, segment);
    return out;
  }
};

/// Fields of a TCP packet without IP options.
struct TcpView {
  wire::TcpHdr hdr;
  Bytes payload;
  std::uint16_t id;  ///< Only in IPv4.
};

inline TcpView view(const Bytes& packet) {
  const bool v6 = std::to_integer<unsigned>(packet[0]) >> 4 == 6;
  const std::size_t ip_len = v6 ? 40 : 20;
  TcpView v{*wire::read<wire::TcpHdr>(packet, ip_len), {}, 0};
  const std::size_t header_len = ip_len + v.hdr.header_len();
  v.payload.assign(packet.begin() + static_cast<std::ptrdiff_t>(header_len), packet.end());
  if (!v6) v.id = wire::read<wire::Ipv4Hdr>(packet)->id.host();
  return v;
}

/// Returns true if the lengths and, in IPv4, the header checksum are correct.
inline bool ip_is_valid(const Bytes& packet) {
  if (std::to_integer<unsigned>(packet[0]) >> 4 == 6)
    return wire::read<wire::Ipv6Hdr>(packet)->payload_len.host() + 40U == packet.size();
  const auto hdr = *wire::read<wire::Ipv4Hdr>(packet);
  return hdr.total_len.host() == packet.size() &&
         wire::internet_checksum(std::span{packet}.first(hdr.header_len())) == 0;
}

}  // namespace ipoib::fwd::test
