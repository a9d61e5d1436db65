// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/icmp/icmp4.h"

#include <cstring>
#include <utility>

#include "lib/route/icmp/icmp_message.h"

namespace ipoib::route {
namespace {

using wire::Be16;
using wire::Be32;
using wire::IcmpHdr;
using wire::IcmpType;
using wire::IcmpUnreachable;
using wire::IpAddr;
using wire::IpProto;
using wire::Ipv4Hdr;

constexpr std::size_t kMaxErrorLen = 576;
constexpr std::uint8_t kIcmp = static_cast<std::uint8_t>(IpProto::kIcmp);

bool is_icmp_error(std::uint8_t type) {
  switch (static_cast<IcmpType>(type)) {
    case IcmpType::kEchoReply:
    case IcmpType::kEchoRequest: return false;
    default: break;
  }
  // Timestamp, information, address mask and router discovery are queries too.
  return !(type == 9 || type == 10 || (type >= 13 && type <= 18));
}

bool is_single_host(std::uint32_t addr) {
  return addr != 0 && (addr >> 24) != 127 && (addr >> 24) != 0 && (addr >> 28) < 0xe;
}

/// RFC 1812 §4.3.2.7.
bool may_answer(std::span<const std::byte> packet, const Ipv4Hdr& ip) {
  if (!is_single_host(ip.src.host()) || (ip.dst.host() >> 28) >= 0xe) return false;
  if ((ip.flags_offset.host() & Ipv4Hdr::kOffsetMask) != 0) return false;
  if (ip.protocol != kIcmp) return true;
  const auto icmp = wire::read<IcmpHdr>(packet, ip.header_len());
  return icmp && !is_icmp_error(icmp->type);
}

/// `icmp`: without its checksum.
std::optional<std::vector<std::byte>> tell_sender_of(std::span<const std::byte> offending,
                                                     const IcmpHdr& icmp, const IpAddr& source) {
  const auto ip = wire::read<Ipv4Hdr>(offending);
  if (!ip || ip->header_len() < sizeof(Ipv4Hdr) || !source.is_v4() || !may_answer(offending, *ip))
    return std::nullopt;

  auto packet = quote(offending, icmp, sizeof(Ipv4Hdr), kMaxErrorLen);
  set_checksum(std::span{packet}.subspan(sizeof(Ipv4Hdr)), wire::internet_checksum);
  constexpr std::uint8_t kInternetControl = 0xc0;  // precedence of errors, RFC 1812 §4.3.2.5
  Ipv4Hdr header{0x45,   kInternetControl, Be16{static_cast<std::uint16_t>(packet.size())},
                 Be16{}, Be16{},           kIcmpHops,
                 kIcmp,  Be16{},           Be32{source.v4_host()},
                 ip->src};
  header.checksum.set(wire::internet_checksum(wire::bytes_of(header)));
  std::memcpy(packet.data(), &header, sizeof header);
  return packet;
}

/// Turns an echo request that may be answered into its reply.
LocalAnswer answer_icmp(std::span<std::byte> packet, Ipv4Hdr ip, const IpAddr& own) {
  const auto message = packet.subspan(ip.header_len());
  auto icmp = wire::read<IcmpHdr>(message);
  if (!icmp || icmp->type != static_cast<std::uint8_t>(IcmpType::kEchoRequest) || icmp->code != 0 ||
      !is_single_host(ip.src.host()) || wire::internet_checksum(message) != 0)
    return {};
  ip.dst = ip.src;
  ip.src.set(own.v4_host());
  ip.ttl = kIcmpHops;
  // A reply that is too long for the way back is fragmented, and then needs an identification, which
  // a request that must not be fragmented need not have. Source: RFC 6864 §4.
  if (std::exchange(ip.flags_offset, Be16{}).host() != 0)
    ip.id.set(static_cast<std::uint16_t>(icmp->rest.host() ^ icmp->rest.host() >> 16));
  ip.checksum = Be16{};
  std::memcpy(packet.data(), &ip, sizeof ip);  // options, if any, stay after it
  ip.checksum.set(wire::internet_checksum(packet.first(ip.header_len())));
  std::memcpy(packet.data(), &ip, sizeof ip);
  icmp->type = static_cast<std::uint8_t>(IcmpType::kEchoReply);
  std::memcpy(message.data(), &*icmp, sizeof *icmp);
  set_checksum(message, wire::internet_checksum);
  return {LocalVerdict::kEchoReply, {}};
}

}  // namespace

std::optional<std::vector<std::byte>> icmp4_error(std::span<const std::byte> offending,
                                                  const wire::IcmpError& error,
                                                  const IpAddr& source) {
  return tell_sender_of(offending, {error.type, error.code, Be16{}, Be32{error.value}}, source);
}

std::optional<std::vector<std::byte>> icmp4_redirect(std::span<const std::byte> offending,
                                                     const IpAddr& gateway, const IpAddr& source) {
  constexpr std::uint8_t kForTheHost = 1;
  return tell_sender_of(offending,
                        {static_cast<std::uint8_t>(IcmpType::kRedirect), kForTheHost, Be16{},
                         Be32{gateway.v4_host()}},
                        source);
}

bool is_echo_request4(std::span<const std::byte> packet) {
  const auto ip = wire::read<Ipv4Hdr>(packet);
  if (!ip || ip->protocol != static_cast<std::uint8_t>(IpProto::kIcmp)) return false;
  const auto icmp = wire::read<IcmpHdr>(packet, ip->header_len());
  return icmp && icmp->type == static_cast<std::uint8_t>(IcmpType::kEchoRequest);
}

LocalAnswer answer_local4(std::span<std::byte> packet, const IpAddr& own) {
  const auto ip = wire::read<Ipv4Hdr>(packet);
  if (!ip || ip->header_len() < sizeof(Ipv4Hdr) || ip->header_len() > packet.size()) return {};
  if (ip->is_fragment() || wire::is_multicast(IpAddr::v4(ip->dst.host()))) return {};
  switch (static_cast<IpProto>(ip->protocol)) {
    case IpProto::kIcmp: return answer_icmp(packet, *ip, own);
    case IpProto::kIgmp: return {};
    case IpProto::kUdp: return {LocalVerdict::kError, wire::unreachable4(IcmpUnreachable::kPort)};
    default: return {LocalVerdict::kError, wire::unreachable4(IcmpUnreachable::kProtocol)};
  }
}

}  // namespace ipoib::route
