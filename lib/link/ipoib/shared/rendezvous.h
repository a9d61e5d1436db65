// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous hashing (highest random weight): which of several nodes serves a host. All nodes that
// know the same members agree without a message, and a member that leaves or comes moves only the
// hosts that it served or will serve. Source: Thaler and Ravishankar, "Using Name-Based Mappings to
// Increase Hit Rates", IEEE/ACM Transactions on Networking 6(1), 1998.
//
// The rule, for implementers of other nodes. All numbers have 64 bits, and overflow wraps. A member or
// a host is its port GUID: the low half of its GID, read as a big-endian number.
//
//   mix(z):  z += 0x9e3779b97f4a7c15
//            z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9
//            z = (z ^ z >> 27) * 0x94d049bb133111eb
//            return z ^ z >> 31                            (SplitMix64)
//   weight(host, member) = mix(mix(host) ^ member)
//
// The member with the largest weight serves the host. mix() is a bijection, so that two members never
// have the same weight. The hash has no key: a host that chooses its GUID chooses its node, which it
// can do anyway by a packet to that node's link-layer address.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace ipoib::link {

[[nodiscard]] constexpr std::uint64_t rendezvous_mix(std::uint64_t z) noexcept {
  z += 0x9e37'79b9'7f4a'7c15ULL;
  z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9ULL;
  z = (z ^ z >> 27) * 0x94d0'49bb'1331'11ebULL;
  return z ^ z >> 31;
}

[[nodiscard]] constexpr std::uint64_t rendezvous_weight(std::uint64_t host,
                                                        std::uint64_t member) noexcept {
  return rendezvous_mix(rendezvous_mix(host) ^ member);
}

/// Returns the GUID of the member that serves the host; empty without members. The order of the
/// members does not matter.
[[nodiscard]] constexpr std::optional<std::uint64_t> rendezvous_winner(
    std::uint64_t host, std::span<const std::uint64_t> members) noexcept {
  std::optional<std::uint64_t> winner;
  std::uint64_t most = 0;
  for (const std::uint64_t member : members) {
    const std::uint64_t weight = rendezvous_weight(host, member);
    if (winner && weight <= most) continue;
    winner = member;
    most = weight;
  }
  return winner;
}

}  // namespace ipoib::link
