// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/queue_spread.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace ipoib::link {
namespace {

/// A worker below this share of its time has no shortage.
constexpr double kBusy = 0.5;
/// Differences between two workers at which peers begin to move, and at which that is enough.
constexpr double kUneven = 0.2, kEven = 0.05;
/// A peer moves only if the difference is at least this many times its load. At 4/3, the move halves
/// the difference.
constexpr double kFits = 4.0 / 3;
/// Sizes below which a sample, and a peer's part of it, say nothing.
constexpr std::size_t kMinSample = 64, kMinPart = 8;

}  // namespace

bool is_overloaded(double busy, double idlest) {
  return busy >= kBusy && busy - idlest >= kUneven;
}

std::vector<PeerSpread::Candidate> PeerSpread::candidates(unsigned from,
                                                          std::span<const QueueLoad> loads,
                                                          const PortsByLid& ports,
                                                          TimePoint now) const {
  const QueueLoad& load = loads[from];
  const auto n = static_cast<unsigned>(loads.size());
  std::map<std::uint16_t, std::size_t> packets;
  for (const std::uint16_t lid : load.senders) ++packets[lid];
  std::vector<Candidate> found;
  for (const auto& [lid, count] : packets) {
    const auto port = ports.find(lid);
    if (count < kMinPart || port == ports.end()) continue;
    const wire::Gid& gid = port->second;
    // Others send to the queue pair although they are to send elsewhere.
    if (queue_pair_of(gid, n) != from) continue;
    const auto it = moved_.find(gid);
    if (it != moved_.end() && now - it->second.at < kStay) continue;
    const double part = static_cast<double>(count) / static_cast<double>(load.senders.size());
    found.push_back({gid, load.received * part});
  }
  std::ranges::sort(found, std::ranges::greater{}, &Candidate::load);
  return found;
}

std::vector<wire::Gid> PeerSpread::relieve(unsigned from, unsigned to, std::span<QueueLoad> loads,
                                           const PortsByLid& ports, TimePoint now) {
  std::vector<wire::Gid> gids;
  for (const Candidate& c : candidates(from, loads, ports, now)) {
    const double difference = loads[from].busy - loads[to].busy;
    if (difference < kEven || gids.size() == kMovesAtOnce) break;
    if (c.load * kFits > difference) continue;
    moved_.insert_or_assign(c.gid, Moved{to, now});
    gids.push_back(c.gid);
    loads[from].busy -= c.load;
    loads[to].busy += c.load;
  }
  return gids;
}

std::vector<wire::Gid> PeerSpread::balance(std::span<QueueLoad> loads,
                                           const std::function<PortsByLid()>& ports,
                                           TimePoint now) {
  std::vector<unsigned> order(loads.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](unsigned i) { return loads[i].busy; });
  std::optional<PortsByLid> known;
  for (const unsigned from : order) {
    const unsigned to = order.back();
    if (!is_overloaded(loads[from].busy, loads[to].busy)) break;
    if (loads[from].senders.size() < kMinSample) continue;
    if (!known) known = ports();
    if (auto gids = relieve(from, to, loads, *known, now); !gids.empty()) return gids;
  }
  return {};
}

}  // namespace ipoib::link
