// SPDX-License-Identifier: BSD-3-Clause
#include "tests/flood/flood_frames.h"

#include <algorithm>

#include "lib/base/hash_seed.h"
#include "lib/wire/ipoib.h"
#include "tests/support/packets.h"
#include "tests/support/soft_frames.h"

namespace ipoib::flood {
namespace {

constexpr std::uint8_t kUdp = 17;

}  // namespace

wire::MacAddr mac_of(std::uint64_t number) {
  wire::MacAddr mac{std::byte{2}};
  for (std::size_t i = 0; i < 5; ++i) mac[5 - i] = static_cast<std::byte>(number >> 8 * i);
  return mac;
}

wire::Gid gid_of(std::uint64_t number) {
  return wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'0000'0000 | number);
}

Bytes ethernet(const wire::MacAddr& to, const wire::MacAddr& from, wire::EtherType type,
               std::span<const std::byte> payload) {
  return fwd::test::ethernet(to, from, static_cast<std::uint16_t>(type),
                             {payload.begin(), payload.end()});
}

Bytes ud(const CablePort& from, const CablePort& to, std::uint32_t qkey, std::uint16_t pkey,
         std::span<const std::byte> payload) {
  return soft::ud_frame({.dlid = to.lid,
                         .slid = from.lid,
                         .pkey = pkey,
                         .dest_qp = to.qpn,
                         .src_qp = from.qpn,
                         .qkey = qkey},
                        payload);
}

Bytes encapsulated(wire::EtherType type, std::span<const std::byte> payload) {
  return fwd::test::encapsulated(static_cast<std::uint16_t>(type),
                                 {payload.begin(), payload.end()});
}

Bytes ud_to_group(const CablePort& from, const wire::Gid& mgid, std::uint16_t mlid,
                  std::uint32_t qkey, std::uint16_t pkey, std::span<const std::byte> payload) {
  return soft::ud_frame({.dlid = mlid,
                         .slid = from.lid,
                         .grh = wire::GrhSpec{.sgid = from.gid, .dgid = mgid},
                         .pkey = pkey,
                         .dest_qp = wire::kMulticastQpn,
                         .src_qp = from.qpn,
                         .qkey = qkey},
                        payload);
}

Bytes mad_frame(const CablePort& from, std::uint16_t to,
                std::span<const std::byte, wire::kMadLen> mad) {
  return ud({from.lid, 1, from.gid}, {to, 1, {}}, wire::kGsiQkey, wire::kDefaultPkey, mad);
}

Bytes marked(const wire::IpAddr& from, const wire::IpAddr& to, std::uint32_t kind, std::uint32_t id,
             std::uint32_t sequence, std::size_t data_len, bool dont_fragment) {
  Bytes udp(8 + std::max(data_len, sizeof(Mark)));
  put<std::uint16_t>(&udp[0], 0x4000);
  put<std::uint16_t>(&udp[2], 0x4001);
  put<std::uint16_t>(&udp[4], static_cast<std::uint16_t>(udp.size()));
  const Mark mark{wire::Be32{Mark::kMagic}, wire::Be32{kind}, wire::Be32{id}, wire::Be32{sequence}};
  std::memcpy(&udp[8], &mark, sizeof(mark));
  Bytes packet = fwd::test::ip_packet(from, to, kUdp, udp);
  if (dont_fragment && from.is_v4()) {
    put<std::uint16_t>(&packet[6], 0x4000);
    put_checksum4(packet.data());
  }
  return packet;
}

std::optional<Mark> mark_of(std::span<const std::byte> packet) {
  if (packet.empty()) return std::nullopt;
  const bool v4 = std::to_integer<unsigned>(packet[0]) >> 4 == 4;
  const auto mark =
      wire::read<Mark>(packet, (v4 ? sizeof(wire::Ipv4Hdr) : sizeof(wire::Ipv6Hdr)) + 8);
  if (!mark || mark->magic.host() != Mark::kMagic) return std::nullopt;
  return mark;
}

void put_checksum4(std::byte* header) {
  put<std::uint16_t>(header + 10, 0);
  const auto sum = wire::internet_checksum({header, sizeof(wire::Ipv4Hdr)});
  put<std::uint16_t>(header + 10, sum);
}

std::uint64_t Random::next() {
  return next_random(state_);
}

}  // namespace ipoib::flood
