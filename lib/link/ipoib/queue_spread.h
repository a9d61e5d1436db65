// SPDX-License-Identifier: BSD-3-Clause
// The queue pair of a link that receives from a peer or from a multicast group: by a hash of its
// GID, and for peers until measured load moves them to another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/keyed_hash.h"
#include "lib/wire/gid.h"

namespace ipoib::link {

/// Spreads GIDs evenly over queue pairs. The hash has a key, so that hosts cannot choose GIDs
/// of which one queue pair gets all.
class QueueSpread {
 public:
  explicit QueueSpread(std::uint64_t key) : key_{key} {}

  /// Returns a number below `n`, which is at least 1.
  [[nodiscard]] unsigned queue_pair_of(const wire::Gid& gid, unsigned n) const {
    const std::uint64_t hash = mix(gid.guid() ^ mix(gid.prefix() ^ key_));
    return static_cast<unsigned>((hash >> 32) * n >> 32);
  }

 private:
  /// The finalizer of MurmurHash3, so that GIDs in sequence are spread.
  static std::uint64_t mix(std::uint64_t hash) {
    hash = (hash ^ hash >> 33) * 0xff51'afd7'ed55'8ccd;
    hash = (hash ^ hash >> 33) * 0xc4ce'b9fe'1a85'ec53;
    return hash ^ hash >> 33;
  }

  std::uint64_t key_;
};

/// The load of a queue pair and of its worker in a period.
struct QueueLoad {
  double busy = 0;      ///< Share of the period in which the worker had packets, 0 to 1.
  double received = 0;  ///< Part of `busy` for the packets of this queue pair.
  /// Source LIDs of a sample of these packets; 0: multicast.
  std::vector<std::uint16_t> senders;
};

/// True if a worker is short of time while the idlest one has much more of it. Shares, 0 to 1.
[[nodiscard]] bool is_overloaded(double busy, double idlest);

class PeerSpread {
 public:
  /// Peers that one call of balance() moves.
  static constexpr std::size_t kMovesAtOnce = 16;
  /// A peer that moved stays for this time.
  static constexpr Duration kStay = std::chrono::seconds(60);

  using PortsByLid = std::unordered_map<std::uint16_t, wire::Gid>;

  explicit PeerSpread(std::uint64_t key) : hash_{key}, moved_{0, KeyedHash{key}} {}

  /// Returns a number below `n`, which is at least 1.
  [[nodiscard]] unsigned queue_pair_of(const wire::Gid& gid, unsigned n) const {
    const auto it = moved_.find(gid);
    if (it != moved_.end() && it->second.queue_pair < n) return it->second.queue_pair;
    return hash_.queue_pair_of(gid, n);
  }
  /// Moves peers from the busiest of the `loads.size()` queue pairs whose peers can move to the
  /// idlest one, if the first is short of time and the second has much more of it. Adapts `busy` of
  /// both. Returns the moved peers. A peer whose load alone is about the difference stays, because
  /// it would only take the shortage along. `ports` is called only if there is a difference.
  std::vector<wire::Gid> balance(std::span<QueueLoad> loads,
                                 const std::function<PortsByLid()>& ports, TimePoint now);
  /// Forgets the moves of all peers that are not `known`.
  void forget_unless(const std::function<bool(const wire::Gid&)>& known) {
    std::erase_if(moved_, [&](const auto& entry) { return !known(entry.first); });
  }

 private:
  struct Moved {
    unsigned queue_pair;
    TimePoint at;
  };
  struct Candidate {
    wire::Gid gid;
    double load;
  };
  [[nodiscard]] std::vector<Candidate> candidates(unsigned from, std::span<const QueueLoad> loads,
                                                  const PortsByLid& ports, TimePoint now) const;
  std::vector<wire::Gid> relieve(unsigned from, unsigned to, std::span<QueueLoad> loads,
                                 const PortsByLid& ports, TimePoint now);

  QueueSpread hash_;
  std::unordered_map<wire::Gid, Moved, KeyedHash> moved_;
};

}  // namespace ipoib::link
