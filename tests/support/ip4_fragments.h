// SPDX-License-Identifier: BSD-3-Clause
// Fragments of IPv4 packets, as hosts send them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "lib/wire/append.h"
#include "lib/wire/ip.h"

namespace ipoib::test {

/// Octets [from, from + len) of the payload of an IPv4 packet without options, as its fragment.
inline std::vector<std::byte> fragment4(std::span<const std::byte> packet, std::size_t from,
                                        std::size_t len, std::uint16_t id = 7) {
  auto ip = *wire::read<wire::Ipv4Hdr>(packet);
  const auto payload = packet.subspan(sizeof ip);
  const auto part = payload.subspan(from, std::min(len, payload.size() - from));
  const bool more = from + part.size() < payload.size();
  ip.id.set(id);
  ip.flags_offset.set(
      static_cast<std::uint16_t>(from / 8 | (more ? wire::Ipv4Hdr::kMoreFragments : 0U)));
  ip.total_len.set(static_cast<std::uint16_t>(sizeof ip + part.size()));
  ip.checksum = {};
  ip.checksum.set(wire::internet_checksum(wire::bytes_of(ip)));
  std::vector<std::byte> out;
  wire::append(out, wire::bytes_of(ip));
  wire::append(out, part);
  return out;
}

/// All fragments of the packet with `step` octets of payload.
inline std::vector<std::vector<std::byte>> fragments4(std::span<const std::byte> packet,
                                                      std::size_t step, std::uint16_t id = 7) {
  std::vector<std::vector<std::byte>> out;
  for (std::size_t at = 0; at < packet.size() - sizeof(wire::Ipv4Hdr); at += step)
    out.push_back(fragment4(packet, at, step, id));
  return out;
}

}  // namespace ipoib::test
