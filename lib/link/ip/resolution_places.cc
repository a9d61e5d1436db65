// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/resolution_places.h"

namespace ipoib::link {
namespace {

template <class Counts, class Key>
std::size_t count_of(const Counts& counts, const Key& key) {
  const auto it = counts.find(key);
  return it == counts.end() ? 0 : it->second;
}

template <class Counts, class Key>
void give_one_back(Counts& counts, const Key& key) {
  const auto it = counts.find(key);
  if (--it->second == 0) counts.erase(it);
}

}  // namespace

auto ResolutionPlaces::take(const wire::IpAddr& addr, const PacketSender& sender)
    -> std::optional<Place> {
  const bool known = known_.count(addr) != 0;
  const std::size_t of_sender = count_of(by_sender_, sender.addr);
  const bool link_has_share = count_of(by_link_, sender.link) < for_link();
  const bool in_share = of_sender < for_one() && link_has_share;
  if (!known && !in_share && taken_ >= sizes_.all / 2) return std::nullopt;
  const bool few = of_sender < kFew && (sender.neighbour || link_has_share);
  const std::size_t kept_free = known              ? 0
                                : !few             ? sizes_.for_others
                                : sender.neighbour ? sizes_.for_known
                                                   : sizes_.for_neighbours;
  if (taken_ >= sizes_.all - kept_free) return std::nullopt;
  ++taken_;
  ++by_sender_[sender.addr];
  ++by_link_[sender.link];
  const HeldShare share = known || (few && sender.neighbour) ? HeldShare::kAll
                          : few                              ? HeldShare::kFew
                                                             : HeldShare::kOthers;
  return Place{sender.addr, sender.link, share};
}

void ResolutionPlaces::give_back(const Place& place) {
  --taken_;
  give_one_back(by_sender_, place.sender);
  give_one_back(by_link_, place.link);
}

void ResolutionPlaces::remember(const wire::IpAddr& addr, TimePoint when) {
  const auto [it, added] = known_.try_emplace(addr, kNever);
  known_order_.set(addr, it->second, when);
  if (known_.size() <= kMaxKnown) return;
  const wire::IpAddr oldest = *known_order_.first();
  known_order_.set(oldest, known_.find(oldest)->second, kNever);
  known_.erase(oldest);
}

}  // namespace ipoib::link
