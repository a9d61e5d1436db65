// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/icmp/icmp6.h"

#include <algorithm>
#include <cstring>

#include "lib/route/icmp/icmp_message.h"
#include "lib/wire/ip6_next_headers.h"

namespace ipoib::route {
namespace {

using wire::Be16;
using wire::Be32;
using wire::Icmp6Type;
using wire::IcmpHdr;
using wire::IpAddr;
using wire::IpProto;
using wire::Ipv6Hdr;

constexpr std::uint8_t kPacketTooBig = static_cast<std::uint8_t>(Icmp6Type::kPacketTooBig);
constexpr std::uint8_t kParameterProblem = static_cast<std::uint8_t>(Icmp6Type::kParameterProblem);
constexpr std::uint8_t kFirstInformational = 128;
constexpr std::uint8_t kIcmpv6 = static_cast<std::uint8_t>(IpProto::kIcmpv6);

/// Codes of parameter problem. Source: RFC 4443 §3.4.
constexpr std::uint8_t kUnrecognizedNextHeader = 1;
constexpr std::uint8_t kUnrecognizedOption = 2;

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
    const bool extension = kind == wire::kHopByHop || kind == wire::kRoutingHeader ||
                           kind == wire::kFragmentHeader || kind == wire::kDestinationOptions;
    if (!extension || upper.later_fragment) return upper;
    if (packet.size() - upper.offset < 8) return std::nullopt;
    std::size_t len = 8;
    if (kind == wire::kFragmentHeader) {
      const auto word = wire::read<Be16>(packet, upper.offset + 2)->host();
      upper.later_fragment = (word & 0xfff8) != 0;
      upper.fragment = upper.fragment || (word & 0xfff9) != 0;  // not an atomic one, RFC 6946
    } else {
      len = (std::size_t{octet(upper.offset + 1)} + 1) * 8;
      if (kind == wire::kRoutingHeader && octet(upper.offset + 3) != 0) upper.segments_left = true;
    }
    if (packet.size() - upper.offset < len) return std::nullopt;
    upper.next_header_at = upper.offset;
    upper.protocol = octet(upper.offset);
    upper.offset += len;
  }
}

bool is_single_host(const IpAddr& addr) {
  if (wire::is_multicast(addr) || addr.is_v4()) return false;
  // ::, ::1 and the IPv4-compatible ones.
  return std::any_of(addr.bytes.begin(), addr.bytes.begin() + 12,
                     [](std::byte b) { return b != std::byte{0}; });
}

/// RFC 4443 §2.4 e.
bool may_answer(std::span<const std::byte> packet, const Ipv6Hdr& ip,
                const wire::IcmpError& error) {
  if (!is_single_host(ip.src)) return false;
  if (wire::is_multicast(ip.dst) && error.type != kPacketTooBig &&
      !(error.type == kParameterProblem && error.code == kUnrecognizedOption))
    return false;
  const auto upper = upper_of(packet);
  if (!upper) return false;
  if (upper->protocol != kIcmpv6) return true;
  // Later fragments of ICMPv6 do not contain the message type.
  if (upper->later_fragment || packet.size() <= upper->offset) return false;
  const auto type = std::to_integer<std::uint8_t>(packet[upper->offset]);
  return type >= kFirstInformational && type != static_cast<std::uint8_t>(Icmp6Type::kRedirect);
}

void set_checksum6(const Ipv6Hdr& ip, std::span<std::byte> message) {
  set_checksum(message, [&ip](std::span<const std::byte> octets) {
    return wire::icmp6_checksum(ip.src, ip.dst, octets);
  });
}

/// Turns an echo request that may be answered into its reply.
LocalAnswer answer_icmp(std::span<std::byte> packet, Ipv6Hdr ip, const Upper& upper,
                        const IpAddr& own) {
  const auto message = packet.subspan(upper.offset);
  auto icmp = wire::read<IcmpHdr>(message);
  if (!icmp || icmp->type != static_cast<std::uint8_t>(Icmp6Type::kEchoRequest) ||
      icmp->code != 0 || !is_single_host(ip.src) ||
      wire::icmp6_checksum(ip.src, ip.dst, message) != 0)
    return {};
  // A reply has no extension headers of the request, because their options are for its own path.
  if (upper.offset != sizeof(Ipv6Hdr)) return {};
  ip.dst = ip.src;
  ip.src = own;
  ip.hop_limit = kIcmpHops;
  std::memcpy(packet.data(), &ip, sizeof ip);
  icmp->type = static_cast<std::uint8_t>(Icmp6Type::kEchoReply);
  std::memcpy(message.data(), &*icmp, sizeof *icmp);
  set_checksum6(ip, message);
  return {LocalVerdict::kEchoReply, {}};
}

}  // namespace

std::optional<std::vector<std::byte>> icmp6_error(std::span<const std::byte> offending,
                                                  const wire::IcmpError& error,
                                                  const IpAddr& source) {
  const auto ip = wire::read<Ipv6Hdr>(offending);
  if (!ip || ip->version() != 6 || !is_single_host(source) || !may_answer(offending, *ip, error))
    return std::nullopt;

  auto packet = quote(offending, {error.type, error.code, Be16{}, Be32{error.value}},
                      sizeof(Ipv6Hdr), wire::kMinIpv6Mtu);
  const Ipv6Hdr header{Be32{Ipv6Hdr::kVersion6},
                       Be16{static_cast<std::uint16_t>(packet.size() - sizeof(Ipv6Hdr))},
                       kIcmpv6,
                       kIcmpHops,
                       source,
                       ip->src};
  std::memcpy(packet.data(), &header, sizeof header);
  set_checksum6(header, std::span{packet}.subspan(sizeof header));
  return packet;
}

bool is_echo_request6(std::span<const std::byte> packet) {
  const auto upper = upper_of(packet);
  if (!upper || upper->protocol != kIcmpv6) return false;
  const auto icmp = wire::read<IcmpHdr>(packet, upper->offset);
  return icmp && icmp->type == static_cast<std::uint8_t>(Icmp6Type::kEchoRequest);
}

LocalAnswer answer_local6(std::span<std::byte> packet, const IpAddr& own) {
  const auto ip = wire::read<Ipv6Hdr>(packet);
  if (!ip || ip->version() != 6 || ip->payload_len.host() != packet.size() - sizeof(Ipv6Hdr))
    return {};
  const auto upper = upper_of(packet);
  if (!upper || upper->fragment || upper->segments_left) return {};
  switch (upper->protocol) {
    case kIcmpv6: return answer_icmp(packet, *ip, *upper, own);
    case wire::kNoNextHeader: return {};
    case static_cast<std::uint8_t>(IpProto::kUdp):
      return {LocalVerdict::kError, wire::unreachable6(wire::Icmp6Unreachable::kPort)};
    default:
      return {LocalVerdict::kError,
              {kParameterProblem, kUnrecognizedNextHeader,
               static_cast<std::uint32_t>(upper->next_header_at)}};
  }
}

}  // namespace ipoib::route
