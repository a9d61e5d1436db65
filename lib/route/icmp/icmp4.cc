// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/icmp/icmp4.h"

#include <algorithm>
#include <cstring>

namespace ipoib::route {
namespace {

using wire::Be16;
using wire::Be32;
using wire::IcmpHdr;
using wire::IcmpType;
using wire::IpProto;
using wire::Ipv4Hdr;

constexpr std::size_t kMaxErrorLen = 576;
constexpr std::uint8_t kTtl = 64;

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
  if (ip.protocol != static_cast<std::uint8_t>(IpProto::kIcmp)) return true;
  const auto icmp = wire::read<IcmpHdr>(packet, ip.header_len());
  return icmp && !is_icmp_error(icmp->type);
}

/// `icmp`: without its checksum.
std::optional<std::vector<std::byte>> tell_sender_of(std::span<const std::byte> offending,
                                                     IcmpHdr icmp, std::uint32_t source) {
  const auto ip = wire::read<Ipv4Hdr>(offending);
  if (!ip || ip->header_len() < sizeof(Ipv4Hdr) || !may_answer(offending, *ip)) return std::nullopt;

  constexpr std::size_t kHeaders = sizeof(Ipv4Hdr) + sizeof(IcmpHdr);
  const std::size_t quoted = std::min(offending.size(), kMaxErrorLen - kHeaders);
  std::vector<std::byte> packet(kHeaders + quoted);
  std::memcpy(packet.data() + kHeaders, offending.data(), quoted);

  std::memcpy(packet.data() + sizeof(Ipv4Hdr), &icmp, sizeof icmp);
  icmp.checksum.set(wire::internet_checksum(std::span{packet}.subspan(sizeof(Ipv4Hdr))));
  std::memcpy(packet.data() + sizeof(Ipv4Hdr), &icmp, sizeof icmp);

  constexpr std::uint8_t kInternetControl = 0xc0;  // precedence of errors, RFC 1812 §4.3.2.5
  Ipv4Hdr header{0x45,
                 kInternetControl,
                 Be16{static_cast<std::uint16_t>(packet.size())},
                 Be16{},
                 Be16{},
                 kTtl,
                 static_cast<std::uint8_t>(IpProto::kIcmp),
                 Be16{},
                 Be32{source},
                 ip->src};
  header.checksum.set(wire::internet_checksum(wire::bytes_of(header)));
  std::memcpy(packet.data(), &header, sizeof header);
  return packet;
}

}  // namespace

std::optional<std::vector<std::byte>> icmp4_error(std::span<const std::byte> offending,
                                                  const IcmpError& error, std::uint32_t source) {
  return tell_sender_of(offending, {error.type, error.code, Be16{}, Be32{error.mtu}}, source);
}

std::optional<std::vector<std::byte>> icmp4_redirect(std::span<const std::byte> offending,
                                                     std::uint32_t gateway, std::uint32_t source) {
  constexpr std::uint8_t kForTheHost = 1;
  return tell_sender_of(
      offending,
      {static_cast<std::uint8_t>(IcmpType::kRedirect), kForTheHost, Be16{}, Be32{gateway}}, source);
}

LocalVerdict answer_local4(std::span<std::byte> packet) {
  auto ip = wire::read<Ipv4Hdr>(packet);
  if (!ip || ip->header_len() < sizeof(Ipv4Hdr) || ip->header_len() > packet.size())
    return LocalVerdict::kIgnore;
  if (ip->is_fragment()) return LocalVerdict::kIgnore;

  switch (static_cast<IpProto>(ip->protocol)) {
    case IpProto::kIcmp: break;
    case IpProto::kIgmp: return LocalVerdict::kIgnore;
    case IpProto::kUdp: return LocalVerdict::kPortUnreachable;
    default: return LocalVerdict::kProtocolUnreachable;
  }

  const auto body = packet.subspan(ip->header_len());
  auto icmp = wire::read<IcmpHdr>(body);
  if (!icmp || icmp->type != static_cast<std::uint8_t>(IcmpType::kEchoRequest) || icmp->code != 0 ||
      !is_single_host(ip->src.host()) || wire::internet_checksum(body) != 0)
    return LocalVerdict::kIgnore;

  icmp->type = static_cast<std::uint8_t>(IcmpType::kEchoReply);
  icmp->checksum = Be16{};
  std::memcpy(body.data(), &*icmp, sizeof *icmp);
  icmp->checksum.set(wire::internet_checksum(body));
  std::memcpy(body.data(), &*icmp, sizeof *icmp);

  std::swap(ip->src, ip->dst);
  ip->ttl = kTtl;
  ip->checksum = Be16{};
  std::memcpy(packet.data(), &*ip, sizeof *ip);  // options, if any, stay after it
  ip->checksum.set(wire::internet_checksum(packet.first(ip->header_len())));
  std::memcpy(packet.data(), &*ip, sizeof *ip);
  return LocalVerdict::kEchoReply;
}

}  // namespace ipoib::route
