// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/subscriptions.h"

#include <algorithm>

namespace ipoib::sa {
namespace {

using wire::InformInfo;
using wire::MadStatus;

/// Keeps only the fields that distinguish subscriptions of one subscriber.
InformInfo normal(InformInfo info) {
  info.reserved = {};
  info.reserved2 = 0;
  info.subscribe = 1;
  return info;
}

bool same(const InformInfo& a, const InformInfo& b) {
  const InformInfo x = normal(a), y = normal(b);
  return std::ranges::equal(wire::bytes_of(x), wire::bytes_of(y));
}

bool is_for(const InformInfo& info, const wire::Notice& n) {
  if (info.is_generic != 1 || !n.is_generic()) return false;
  if (info.type.host() != wire::kAnyNoticeType && info.type.host() != n.type()) return false;
  if (info.trap_number.host() != wire::kAllTraps && info.trap_number != n.trap_number) return false;
  if (info.producer_type.host() != wire::kAnyProducer && info.producer_type != n.producer_type)
    return false;
  if (!info.gid.is_zero()) return info.gid == n.issuer_gid;
  const std::uint16_t begin = info.lid_range_begin.host(), lid = n.issuer_lid.host();
  return begin == wire::kAllLids || begin == lid ||
         (begin < lid && lid <= info.lid_range_end.host());
}

}  // namespace

MadStatus SubscriptionTable::subscribe(const fabric::MadAddress& from, const InformInfo& info) {
  const Subscriber key{from.lid, info.qpn.host()};
  if (const auto it = by_subscriber_.find(key); it != by_subscriber_.end()) {
    const auto& there = it->second.wanted;
    if (std::any_of(there.begin(), there.end(), [&](const auto& i) { return same(i, info); }))
      return MadStatus::kOk;
  }
  std::size_t of_port = 0;
  for (auto it = by_subscriber_.lower_bound({from.lid, 0});
       it != by_subscriber_.end() && it->first.lid == from.lid; ++it)
    of_port += it->second.wanted.size();
  if (size_ >= max_ || of_port >= max_per_port_) return MadStatus::kSaNoResources;

  Subscriptions& s = by_subscriber_[key];
  s.to = {from.lid, from.sl, key.qpn, from.pkey};
  s.wanted.insert(s.wanted.begin(), info);
  ++size_;
  return MadStatus::kOk;
}

MadStatus SubscriptionTable::unsubscribe(const fabric::MadAddress& from, const InformInfo& info) {
  const auto it = by_subscriber_.find({from.lid, info.qpn.host()});
  if (it == by_subscriber_.end()) return MadStatus::kSaRequestInvalid;
  const auto gone =
      std::erase_if(it->second.wanted, [&info](const auto& i) { return same(i, info); });
  size_ -= gone;
  if (it->second.wanted.empty()) by_subscriber_.erase(it);
  return gone != 0 ? MadStatus::kOk : MadStatus::kSaRequestInvalid;
}

void SubscriptionTable::drop(const Subscriber& subscriber) {
  const auto it = by_subscriber_.find(subscriber);
  if (it == by_subscriber_.end()) return;
  size_ -= it->second.wanted.size();
  by_subscriber_.erase(it);
}

void SubscriptionTable::drop_port(std::uint16_t lid) {
  for (auto it = by_subscriber_.lower_bound({lid, 0});
       it != by_subscriber_.end() && it->first.lid == lid;
       it = by_subscriber_.lower_bound({lid, 0}))
    drop(Subscriber{it->first});
}

bool SubscriptionTable::wants(const Subscriptions& s, const wire::Notice& notice) {
  return std::any_of(s.wanted.begin(), s.wanted.end(),
                     [&notice](const auto& info) { return is_for(info, notice); });
}

}  // namespace ipoib::sa
