// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/resolution_places.h"

namespace ipoib::link {

auto ResolutionPlaces::take(const wire::IpAddr& addr, const wire::IpAddr& sender)
    -> std::optional<Place> {
  const auto counter = static_cast<std::uint16_t>(hash_(sender) % by_sender_.size());
  const bool known = known_.count(addr) != 0;
  const bool few = by_sender_[counter] < kFew;
  const bool limited = !known && taken_ >= sizes_.all / 2;
  if (limited && by_sender_[counter] >= for_one()) return std::nullopt;
  const std::size_t kept_free = known ? 0 : few ? sizes_.for_known : sizes_.for_others;
  if (taken_ >= sizes_.all - kept_free) return std::nullopt;
  ++taken_;
  ++by_sender_[counter];
  return Place{counter, known || few};
}

void ResolutionPlaces::give_back(const Place& place) {
  --taken_;
  --by_sender_[place.sender];
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
