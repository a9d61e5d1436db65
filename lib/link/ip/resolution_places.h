// SPDX-License-Identifier: BSD-3-Clause
// The addresses of an interface that may be asked for at one time, and who gets a place. A scan of
// absent addresses holds each place until its requests time out; hosts that are present give theirs
// back at once, so a few places are enough for them. Source: RFC 6583 §7.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "lib/base/clock.h"
#include "lib/base/keyed_hash.h"
#include "lib/link/interface.h"
#include "lib/link/ip/held_packets.h"
#include "lib/link/time_order.h"
#include "lib/wire/ip.h"

namespace ipoib::link {

class ResolutionPlaces {
 public:
  struct Sizes {
    std::size_t all;             ///< All places.
    std::size_t for_others;      ///< The part of them for senders that have few.
    std::size_t for_neighbours;  ///< The part of `for_others` for senders that are neighbours.
    std::size_t for_known;  ///< The part of `for_neighbours` for addresses that answered before.
  };
  /// Places of neighbours. Each costs one request to all hosts a second, so this is their rate, too.
  static constexpr Sizes kOfNeighbours{
      .all = 2048, .for_others = 512, .for_neighbours = 384, .for_known = 256};
  /// A sender with fewer places than this has few.
  static constexpr std::size_t kFew = 4;
  /// Addresses that are remembered because they answered.
  static constexpr std::size_t kMaxKnown = 16'384;

  struct Place {
    wire::IpAddr sender;
    std::uint32_t link;  ///< PacketSender::link.
    HeldShare share;     ///< For packets that wait for the address.
  };

  explicit ResolutionPlaces(std::uint64_t seed, const Sizes& sizes = kOfNeighbours)
      : sizes_{sizes}, by_sender_{0, KeyedHash{seed}}, known_{0, KeyedHash{seed}} {}

  /// Returns a place to ask for `addr`, which a packet of `sender` needs; empty: none is left for it.
  [[nodiscard]] std::optional<Place> take(const wire::IpAddr& addr, const PacketSender& sender);
  void give_back(const Place& place);
  /// `addr` last answered at `when`, and is forgotten otherwise.
  void remember(const wire::IpAddr& addr, TimePoint when);

 private:
  /// Places of one sender, at most, for addresses that have not answered before: a sixteenth. The
  /// limit applies only while half of all places are taken, because a host that sends in the name of
  /// another could otherwise keep it from new neighbours with few packets.
  [[nodiscard]] std::size_t for_one() const { return sizes_.all / 16; }
  /// All IP addresses of one link-layer sender, which may be forged or behind a router.
  [[nodiscard]] std::size_t for_link() const { return sizes_.all / 4; }

  Sizes sizes_;
  std::size_t taken_ = 0;
  std::unordered_map<wire::IpAddr, std::uint16_t, KeyedHash> by_sender_;  ///< Places of each.
  std::unordered_map<std::uint32_t, std::uint16_t> by_link_;      ///< Its keys are digests already.
  std::unordered_map<wire::IpAddr, TimePoint, KeyedHash> known_;  ///< With their position.
  TimeOrder<wire::IpAddr> known_order_;
};

}  // namespace ipoib::link
