// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/verbs_ah_table.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/contract.h"
#include "lib/wire/ipoib.h"

namespace ipoib::verbs {

VerbsAhTable::VerbsAhTable(std::string name, fabric::Retirement& retirement, SendProgress progress)
    : name_{std::move(name)},
      retirement_{retirement},
      progress_{std::move(progress)},
      slots_{std::make_unique<Slot[]>(kCapacity)},
      attrs_{std::make_unique<std::atomic<const fabric::AhAttr*>[]>(kCapacity)} {}

VerbsAhTable::Key VerbsAhTable::key_of(const fabric::AhAttr& to) {
  return {to.dlid,   to.sl,        to.rate,       to.src_path_bits, to.global,
          to.tclass, to.hop_limit, to.flow_label, to.dgid,          to.qkey};
}

Result<AhPtr> VerbsAhTable::make(ibv_pd* pd, ibv_ah_attr attr, const fabric::AhAttr& to) const {
  AhPtr handle{ibv_create_ah(pd, &attr)};
  if (handle == nullptr)
    return fail(Errc::kNoResources, "{}: cannot create an address handle to {}: {}", name_,
                to.global ? wire::to_string(to.dgid) : fmt::format("LID {:#06x}", to.dlid),
                std::strerror(errno));
  return handle;
}

Result<fabric::AhIndex> VerbsAhTable::add(ibv_pd* pd, const PortTables& tables,
                                          const fabric::AhAttr& to) {
  expects_management();
  const Key key = key_of(to);
  if (const auto it = by_key_.find(key); it != by_key_.end()) {
    ++entries_[it->second].users;
    return it->second;
  }
  auto attr = make_ah_attr(tables, to);
  if (!attr) return tl::make_unexpected(attr.error());
  reclaim();
  if (free_.empty() && entries_.size() >= kCapacity)
    return fail(Errc::kNoResources,
                "{}: all {} address handles are in use or not yet reclaimed ({})", name_, kCapacity,
                doomed_.size());
  auto handle = make(pd, *attr, to);
  if (!handle) return tl::make_unexpected(handle.error());
  fabric::AhIndex ah = static_cast<fabric::AhIndex>(entries_.size());
  if (free_.empty()) {
    entries_.emplace_back();
  } else {
    ah = free_.back();
    free_.pop_back();
  }
  // The worker gets the number from a ring, whose release and acquire also order these stores.
  slots_[ah].qkey.store(to.qkey ? kHasQkey | *to.qkey : 0, std::memory_order_relaxed);
  auto kept = std::make_unique<const fabric::AhAttr>(to);
  attrs_[ah].store(kept.get(), std::memory_order_relaxed);
  slots_[ah].handle.store(handle->get(), std::memory_order_release);
  entries_[ah] = {key, std::move(*handle), 1, std::move(kept), attr->static_rate};
  by_key_.emplace(key, ah);
  return ah;
}

void VerbsAhTable::remove(fabric::AhIndex ah) {
  expects_management();
  if (ah >= entries_.size() || entries_[ah].users == 0 || --entries_[ah].users != 0) return;
  Entry& entry = entries_[ah];
  if (const auto it = by_key_.find(entry.key); it != by_key_.end() && it->second == ah)
    by_key_.erase(it);
  doomed_.push_back({std::move(entry.handle), std::nullopt, retirement_.start(), ah});
  reclaim();
}

Status VerbsAhTable::renew(ibv_pd* pd, const PortTables& tables) {
  expects_management();
  if (rate_ == tables.rate) return {};
  for (fabric::AhIndex ah = 0; ah < entries_.size(); ++ah) {
    Entry& entry = entries_[ah];
    if (entry.handle == nullptr || entry.static_rate == static_rate(entry.attr->rate, tables.rate))
      continue;
    const auto attr = make_ah_attr(tables, *entry.attr);
    if (!attr) continue;  // The port has no such path any more; its user removes the handle.
    auto handle = make(pd, *attr, *entry.attr);
    if (!handle) return tl::make_unexpected(handle.error());
    slots_[ah].handle.store(handle->get(), std::memory_order_release);
    entry.static_rate = attr->static_rate;
    doomed_.push_back({std::exchange(entry.handle, std::move(*handle)), std::nullopt,
                       retirement_.start(), fabric::kNoAh});
  }
  rate_ = tables.rate;
  return {};
}

void VerbsAhTable::reclaim() {
  expects_management();
  while (!doomed_.empty()) {
    Doomed& first = doomed_.front();
    if (!first.waits_for) {
      if (!retirement_.over(first.retirement)) return;
      if (first.ah != fabric::kNoAh)
        slots_[first.ah].handle.store(nullptr, std::memory_order_relaxed);
      first.waits_for = first.handle != nullptr ? progress_.posted() : SendMarks{};
    }
    const SendMarks done = progress_.done();
    const bool over =
        std::all_of(first.waits_for->begin(), first.waits_for->end(), [&](const auto& mark) {
          const auto now = done.find(mark.first);
          return now == done.end() || now->second >= mark.second;
        });
    if (!over) return;
    if (first.ah != fabric::kNoAh) free_.push_back(first.ah);
    doomed_.pop_front();
  }
}

void VerbsAhTable::forget_device() {
  expects_management();
  for (fabric::AhIndex ah = 0; ah < entries_.size(); ++ah) {
    slots_[ah].handle.store(nullptr, std::memory_order_relaxed);
    entries_[ah].handle.reset();
  }
  by_key_.clear();
  for (Doomed& doomed : doomed_) doomed.handle.reset();
}

}  // namespace ipoib::verbs
