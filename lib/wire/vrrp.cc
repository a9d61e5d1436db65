// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/vrrp.h"

#include <algorithm>
#include <array>

#include "lib/base/contract.h"
#include "lib/wire/append.h"
#include "lib/wire/pseudo_checksum.h"

namespace ipoib::wire {
namespace {

constexpr std::uint8_t kVrrpTos = 0xc0;  // Internetwork control.
constexpr std::uint16_t kIntervalMask = 0x0fff;

/// The place of an advertisement in its packet.
struct VrrpPlace {
  IpAddr src;
  IpAddr dst;
  std::uint8_t hops;
  bool fragment;
  std::span<const std::byte> message;
};

std::optional<VrrpPlace> vrrp_place4(std::span<const std::byte> packet, const Ipv4Hdr& ip) {
  const std::size_t len = ip.total_len.host();
  if (ip.protocol != kVrrpProtocol || ip.header_len() < sizeof(ip) || len < ip.header_len() ||
      len > packet.size())
    return std::nullopt;
  return VrrpPlace{IpAddr::v4(ip.src.host()), IpAddr::v4(ip.dst.host()), ip.ttl, ip.is_fragment(),
                   packet.first(len).subspan(ip.header_len())};
}

std::optional<VrrpPlace> vrrp_place(std::span<const std::byte> packet) {
  const auto v4 = read<Ipv4Hdr>(packet);
  if (v4 && v4->version() == 4) return vrrp_place4(packet, *v4);
  const auto v6 = read<Ipv6Hdr>(packet);
  if (!v6 || v6->version() != 6 || v6->next_header != kVrrpProtocol) return std::nullopt;
  const std::size_t len = v6->payload_len.host();
  if (len > packet.size() - sizeof(*v6)) return std::nullopt;
  return VrrpPlace{v6->src, v6->dst, v6->hop_limit, false, packet.subspan(sizeof(*v6), len)};
}

std::size_t address_len(bool v4) {
  return v4 ? sizeof(Be32) : sizeof(IpAddr);
}

IpAddr address_at(std::span<const std::byte> octets, bool v4) {
  return v4 ? IpAddr::v4(read<Be32>(octets)->host()) : *read<IpAddr>(octets);
}

}  // namespace

std::string_view vrrp_error_name(VrrpError error) noexcept {
  static constexpr std::array<std::string_view, static_cast<std::size_t>(VrrpError::kCount)>
      kNames = {"none", "length", "hops", "version", "checksum", "group"};
  return kNames[static_cast<std::size_t>(error)];
}

std::optional<std::uint8_t> vrrp_router_of(std::span<const std::byte> packet) {
  const auto place = vrrp_place(packet);
  const auto hdr = place ? read<VrrpHdr>(place->message) : std::nullopt;
  if (!hdr || hdr->version_type >> 4 != VrrpHdr::kVersion3Advertisement >> 4) return std::nullopt;
  return hdr->vrid;
}

tl::expected<VrrpAdvertisement, VrrpError> parse_vrrp(std::span<const std::byte> packet) {
  const auto place = vrrp_place(packet);
  const auto hdr = place ? read<VrrpHdr>(place->message) : std::nullopt;
  if (!hdr || place->fragment) return tl::make_unexpected(VrrpError::kLength);
  if (place->hops != kVrrpHops) return tl::make_unexpected(VrrpError::kHops);
  if (hdr->version_type != VrrpHdr::kVersion3Advertisement)
    return tl::make_unexpected(VrrpError::kVersion);
  const bool v4 = place->src.is_v4();
  const auto addresses = place->message.subspan(sizeof(*hdr));
  if (addresses.size() != hdr->count * address_len(v4))
    return tl::make_unexpected(VrrpError::kLength);
  if (pseudo_checksum(place->src, place->dst, kVrrpProtocol, place->message) != 0)
    return tl::make_unexpected(VrrpError::kChecksum);
  if (place->dst != (v4 ? vrrp_group4() : vrrp_group6()))
    return tl::make_unexpected(VrrpError::kGroup);

  VrrpAdvertisement a{place->src,
                      hdr->vrid,
                      hdr->priority,
                      static_cast<std::uint16_t>(hdr->interval.host() & kIntervalMask),
                      {}};
  for (std::size_t i = 0; i < hdr->count; ++i)
    a.addresses.push_back(address_at(addresses.subspan(i * address_len(v4)), v4));
  return a;
}

std::vector<std::byte> build_vrrp(const VrrpAdvertisement& advertisement) {
  const IpAddr& src = advertisement.source;
  const bool v4 = src.is_v4();
  const auto is_other = [v4](const IpAddr& addr) { return addr.is_v4() != v4; };
  expects(advertisement.addresses.size() <= 0xff &&
              std::ranges::none_of(advertisement.addresses, is_other),
          "at most 255 addresses of the family of the source");
  const IpAddr dst = v4 ? vrrp_group4() : vrrp_group6();
  VrrpHdr hdr{VrrpHdr::kVersion3Advertisement,
              advertisement.vrid,
              advertisement.priority,
              static_cast<std::uint8_t>(advertisement.addresses.size()),
              Be16{static_cast<std::uint16_t>(advertisement.interval_cs & kIntervalMask)},
              Be16{}};
  std::vector<std::byte> message;
  append(message, bytes_of(hdr));
  for (const IpAddr& addr : advertisement.addresses)
    append(message, std::span{addr.bytes}.last(address_len(v4)));
  const Be16 sum{pseudo_checksum(src, dst, kVrrpProtocol, message)};
  static_cast<void>(write(std::span{message}, offsetof(VrrpHdr, checksum), sum));

  std::vector<std::byte> packet;
  if (v4) {
    const auto len = static_cast<std::uint16_t>(sizeof(Ipv4Hdr) + message.size());
    Ipv4Hdr ip{0x45,
               kVrrpTos,
               Be16{len},
               Be16{},
               Be16{},
               kVrrpHops,
               kVrrpProtocol,
               Be16{},
               Be32{src.v4_host()},
               Be32{dst.v4_host()}};
    ip.checksum = Be16{internet_checksum(bytes_of(ip))};
    append(packet, bytes_of(ip));
  } else {
    const Ipv6Hdr ip{Be32{Ipv6Hdr::kVersion6 | std::uint32_t{kVrrpTos} << 20},
                     Be16{static_cast<std::uint16_t>(message.size())},
                     kVrrpProtocol,
                     kVrrpHops,
                     src,
                     dst};
    append(packet, bytes_of(ip));
  }
  append(packet, message);
  return packet;
}

}  // namespace ipoib::wire
