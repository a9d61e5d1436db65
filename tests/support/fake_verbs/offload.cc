// SPDX-License-Identifier: BSD-3-Clause
// The checksum offloads of a device for IP packets behind an IPoIB header: checksums are made and
// verified.
#include <optional>

#include "lib/wire/ip.h"
#include "lib/wire/ipoib.h"
#include "tests/support/fake_verbs/objects.h"

namespace ipoib::fake_verbs {
namespace {

constexpr std::size_t kIp = sizeof(wire::IpoibHdr);

/// Positions of IP, TCP or UDP and of their checksums in a packet.
struct Layout {
  bool v4 = false;
  std::uint8_t protocol = 0;
  std::size_t l4 = 0;
  std::size_t end = 0;
  /// Offset in the packet; 0 if the packet has none that a device knows.
  std::size_t l4_checksum = 0;
};

std::optional<Layout> layout_of(std::span<const std::byte> packet) {
  const auto ipoib = wire::read<wire::IpoibHdr>(packet);
  if (!ipoib) return std::nullopt;
  Layout at;
  if (ipoib->type.host() == static_cast<std::uint16_t>(wire::EtherType::kIpv4)) {
    const auto ip = wire::read<wire::Ipv4Hdr>(packet, kIp);
    if (!ip || ip->version() != 4 || ip->header_len() < sizeof(*ip)) return std::nullopt;
    at = {.v4 = true,
          .protocol = ip->is_fragment() ? std::uint8_t{0} : ip->protocol,
          .l4 = kIp + ip->header_len(),
          .end = kIp + ip->total_len.host()};
  } else if (ipoib->type.host() == static_cast<std::uint16_t>(wire::EtherType::kIpv6)) {
    const auto ip = wire::read<wire::Ipv6Hdr>(packet, kIp);
    if (!ip || ip->version() != 6) return std::nullopt;
    at = {.protocol = ip->next_header,
          .l4 = kIp + sizeof(*ip),
          .end = kIp + sizeof(*ip) + ip->payload_len.host()};
  } else {
    return std::nullopt;
  }
  if (at.l4 > at.end || at.end > packet.size()) return std::nullopt;
  const bool tcp = at.protocol == static_cast<std::uint8_t>(wire::IpProto::kTcp);
  const bool udp = at.protocol == static_cast<std::uint8_t>(wire::IpProto::kUdp);
  if (tcp && at.end - at.l4 >= 20) at.l4_checksum = at.l4 + 16;
  if (udp && at.end - at.l4 >= 8) at.l4_checksum = at.l4 + 6;
  return at;
}

/// Checksum of the pseudo-header and everything after it.
std::uint16_t l4_sum(std::span<const std::byte> packet, const Layout& at) {
  const std::size_t addresses = at.v4 ? kIp + 12 : kIp + 8;
  const std::size_t addresses_len = at.v4 ? 8 : 32;
  const std::size_t len = at.end - at.l4;
  std::vector<std::byte> summed(
      packet.begin() + static_cast<std::ptrdiff_t>(addresses),
      packet.begin() + static_cast<std::ptrdiff_t>(addresses + addresses_len));
  for (const std::size_t octet : {len >> 8, len & 0xff, std::size_t{0}, std::size_t{at.protocol}})
    summed.push_back(static_cast<std::byte>(octet));
  const auto l4 = packet.subspan(at.l4, len);
  summed.insert(summed.end(), l4.begin(), l4.end());
  return wire::internet_checksum(summed);
}

void put16(std::span<std::byte> packet, std::size_t offset, std::uint16_t value) {
  packet[offset] = static_cast<std::byte>(value >> 8);
  packet[offset + 1] = static_cast<std::byte>(value);
}

}  // namespace

void fill_checksums(std::span<std::byte> packet) {
  const auto at = layout_of(packet);
  if (!at) return;
  if (at->v4) {
    put16(packet, kIp + 10, 0);
    put16(packet, kIp + 10, wire::internet_checksum(packet.subspan(kIp, at->l4 - kIp)));
  }
  if (at->l4_checksum == 0) return;
  put16(packet, at->l4_checksum, 0);
  const std::uint16_t sum = l4_sum(packet, *at);
  put16(packet, at->l4_checksum, sum == 0 ? 0xffff : sum);
}

bool checksums_good(std::span<const std::byte> packet) {
  const auto at = layout_of(packet);
  if (!at || !at->v4) return false;
  if (wire::internet_checksum(packet.subspan(kIp, at->l4 - kIp)) != 0) return false;
  return at->l4_checksum == 0 || l4_sum(packet, *at) == 0;
}

}  // namespace ipoib::fake_verbs
