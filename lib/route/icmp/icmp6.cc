// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/icmp/icmp6.h"

#include <algorithm>
#include <cstring>

namespace ipoib::route {
namespace {

using wire::Be16;
using wire::Be32;
using wire::IcmpHdr;
using wire::IpAddr;
using wire::IpProto;
using wire::Ipv6Hdr;

constexpr std::uint8_t kHopLimit = 64;
constexpr std::uint8_t kRedirect = 137;
constexpr std::uint8_t kFirstInformational = 128;
constexpr std::uint8_t kIcmpv6 = static_cast<std::uint8_t>(IpProto::kIcmpv6);

/// Next headers. Source: RFC 8200 §4.
enum : std::uint8_t {
  kHopByHop = 0,
  kRouting = 43,
  kFragment = 44,
  kNoNextHeader = 59,
  kDestinationOptions = 60,
};

/// Payload of a packet, after its extension headers.
struct Upper {
  std::uint8_t protocol;
  std::size_t offset;
  std::size_t next_header_at;  ///< Octet that names the protocol.
  bool fragment = false;       ///< Part of a packet that is not whole.
  bool later_fragment = false;
  bool segments_left = false;
};

/// Walks the extension headers; empty when they exceed the octets.
std::optional<Upper> upper_of(std::span<const std::byte> packet) {
  const auto ip = wire::read<Ipv6Hdr>(packet);
  if (!ip) return std::nullopt;
  const auto octet = [&](std::size_t at) { return std::to_integer<std::uint8_t>(packet[at]); };
  Upper upper{ip->next_header, sizeof(Ipv6Hdr), offsetof(Ipv6Hdr, next_header)};
  for (;;) {
    const std::uint8_t kind = upper.protocol;
    const bool extension =
        kind == kHopByHop || kind == kRouting || kind == kFragment || kind == kDestinationOptions;
    if (!extension || upper.later_fragment) return upper;
    if (packet.size() - upper.offset < 8) return std::nullopt;
    std::size_t len = 8;
    if (kind == kFragment) {
      const auto word = wire::read<Be16>(packet, upper.offset + 2)->host();
      upper.later_fragment = (word & 0xfff8) != 0;
      upper.fragment = upper.fragment || (word & 0xfff9) != 0;  // not an atomic one, RFC 6946
    } else {
      len = (std::size_t{octet(upper.offset + 1)} + 1) * 8;
      if (kind == kRouting && octet(upper.offset + 3) != 0) upper.segments_left = true;
    }
    if (packet.size() - upper.offset < len) return std::nullopt;
    upper.next_header_at = upper.offset;
    upper.protocol = octet(upper.offset);
    upper.offset += len;
  }
}

bool is_single_node(const IpAddr& addr) {
  if (wire::is_multicast(addr) || addr.is_v4()) return false;
  // ::, ::1 and the IPv4-compatible ones.
  return std::any_of(addr.bytes.begin(), addr.bytes.begin() + 12,
                     [](std::byte b) { return b != std::byte{0}; });
}

/// RFC 4443 §2.4 e.
bool may_answer(std::span<const std::byte> packet, const Ipv6Hdr& ip, const Icmp6Error& error) {
  if (!is_single_node(ip.src)) return false;
  if (wire::is_multicast(ip.dst) && error.type != kIcmp6PacketTooBig &&
      !(error.type == kIcmp6ParameterProblem && error.code == kUnrecognizedOption))
    return false;
  const auto upper = upper_of(packet);
  if (!upper) return false;
  if (upper->protocol != kIcmpv6) return true;
  // Later fragments of ICMPv6 do not contain the message type.
  if (upper->later_fragment || packet.size() <= upper->offset) return false;
  const auto type = std::to_integer<std::uint8_t>(packet[upper->offset]);
  return type >= kFirstInformational && type != kRedirect;
}

void set_checksum(const IpAddr& src, const IpAddr& dst, std::span<std::byte> message) {
  auto icmp = *wire::read<IcmpHdr>(message);
  icmp.checksum = Be16{};
  std::memcpy(message.data(), &icmp, sizeof icmp);
  icmp.checksum.set(wire::icmp6_checksum(src, dst, message));
  std::memcpy(message.data(), &icmp, sizeof icmp);
}

Local6Answer tell(std::uint8_t type, std::uint8_t code, std::size_t value = 0) {
  return {Local6Verdict::kError, {type, code, static_cast<std::uint32_t>(value)}};
}

/// Turns an echo request that may be answered into its reply.
Local6Answer answer_icmp(std::span<std::byte> packet, Ipv6Hdr ip, const Upper& upper,
                         const IpAddr& own) {
  const auto message = packet.subspan(upper.offset);
  auto icmp = wire::read<IcmpHdr>(message);
  if (!icmp || icmp->type != kIcmp6EchoRequest || icmp->code != 0 || !is_single_node(ip.src) ||
      wire::icmp6_checksum(ip.src, ip.dst, message) != 0)
    return {};
  // A reply has no extension headers of the request, because their options are for its own path.
  if (upper.offset != sizeof(Ipv6Hdr)) return {};
  const IpAddr from = wire::is_multicast(ip.dst) ? own : ip.dst;
  ip.dst = ip.src;
  ip.src = from;
  ip.hop_limit = kHopLimit;
  std::memcpy(packet.data(), &ip, sizeof ip);
  icmp->type = kIcmp6EchoReply;
  std::memcpy(message.data(), &*icmp, sizeof *icmp);
  set_checksum(ip.src, ip.dst, message);
  return {Local6Verdict::kEchoReply, {}};
}

}  // namespace

std::optional<std::vector<std::byte>> icmp6_error(std::span<const std::byte> offending,
                                                  const Icmp6Error& error, const IpAddr& source) {
  const auto ip = wire::read<Ipv6Hdr>(offending);
  if (!ip || ip->version() != 6 || !is_single_node(source) || !may_answer(offending, *ip, error))
    return std::nullopt;

  constexpr std::size_t kHeaders = sizeof(Ipv6Hdr) + sizeof(IcmpHdr);
  const std::size_t quoted = std::min<std::size_t>(offending.size(), wire::kMinIpv6Mtu - kHeaders);
  std::vector<std::byte> packet(kHeaders + quoted);
  const Ipv6Hdr header{Be32{Ipv6Hdr::kVersion6},
                       Be16{static_cast<std::uint16_t>(sizeof(IcmpHdr) + quoted)},
                       kIcmpv6,
                       kHopLimit,
                       source,
                       ip->src};
  std::memcpy(packet.data(), &header, sizeof header);
  const IcmpHdr icmp{error.type, error.code, Be16{}, Be32{error.value}};
  std::memcpy(packet.data() + sizeof header, &icmp, sizeof icmp);
  std::memcpy(packet.data() + kHeaders, offending.data(), quoted);
  set_checksum(header.src, header.dst, std::span{packet}.subspan(sizeof header));
  return packet;
}

Local6Answer answer_local6(std::span<std::byte> packet, const IpAddr& own) {
  const auto ip = wire::read<Ipv6Hdr>(packet);
  if (!ip || ip->version() != 6 || ip->payload_len.host() != packet.size() - sizeof(Ipv6Hdr))
    return {};
  const auto upper = upper_of(packet);
  if (!upper || upper->fragment || upper->segments_left) return {};
  switch (upper->protocol) {
    case kIcmpv6: return answer_icmp(packet, *ip, *upper, own);
    case kNoNextHeader: return {};
    case static_cast<std::uint8_t>(IpProto::kUdp):
      return tell(kIcmp6Unreachable, kUnreachable6Port);
    default: return tell(kIcmp6ParameterProblem, kUnrecognizedNextHeader, upper->next_header_at);
  }
}

}  // namespace ipoib::route
