// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/queue_spread.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

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

std::vector<wire::Gid> PeerSpread::balance(std::span<const QueueLoad> loads,
                                           const std::function<PortsByLid()>& ports,
                                           TimePoint now) {
  if (loads.empty()) return {};
  const auto [idlest, busiest] = std::ranges::minmax_element(loads, {}, &QueueLoad::busy);
  double difference = busiest->busy - idlest->busy;
  if (busiest->busy < kBusy || difference < kUneven || busiest->senders.size() < kMinSample)
    return {};
  const PortsByLid known = ports();
  std::set<wire::Gid> present;
  for (const auto& [lid, gid] : known) present.insert(gid);
  std::erase_if(moved_, [&](const auto& entry) { return !present.contains(entry.first); });

  const auto from = static_cast<unsigned>(busiest - loads.begin());
  const auto to = static_cast<unsigned>(idlest - loads.begin());
  std::vector<wire::Gid> gids;
  for (const Candidate& c : candidates(from, loads, known, now)) {
    if (difference < kEven || gids.size() == kMovesAtOnce) break;
    if (c.load * kFits > difference) continue;
    moved_.insert_or_assign(c.gid, Moved{to, now});
    gids.push_back(c.gid);
    difference -= 2 * c.load;
  }
  return gids;
}

}  // namespace ipoib::link
