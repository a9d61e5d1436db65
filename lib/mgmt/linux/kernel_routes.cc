// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/kernel_routes.h"

#include <algorithm>
#include <utility>

#include "lib/base/contract.h"

namespace ipoib::mgmt {
namespace {

/// Limits of a turn of advance(). Looking at a slot costs some nanoseconds, a report microseconds.
constexpr unsigned kReportsPerTurn = 2'000;
constexpr std::size_t kSlotsPerTurn = 65'536;
constexpr std::size_t kSmallestIndex = 64;
/// Cells of an outgrown index that a change moves. It must be empty when the next index is full.
constexpr unsigned kCellsPerChange = 8;

/// True if both are the same to the kernel: dead paths differ in time only.
bool same_content(const KernelHops& a, const KernelHops& b) {
  const auto same_hop = [](const KernelHop& x, const KernelHop& y) { return x.path == y.path; };
  return a.type == b.type && a.silent == b.silent && a.protocol == b.protocol &&
         a.object == b.object && a.source == b.source &&
         std::is_permutation(a.hops.begin(), a.hops.end(), b.hops.begin(), b.hops.end(), same_hop);
}

/// IPv6 joins such routes of one prefix and metric to one with several paths.
bool is_ecmp(const KernelHops& content) {
  return !content.hops.empty() &&
         std::all_of(content.hops.begin(), content.hops.end(),
                     [](const KernelHop& hop) { return hop.path.via.has_value(); });
}

bool same_way(const KernelHop& a, const KernelHop& b) {
  return a.path.ifindex == b.path.ifindex && a.path.via == b.path.via;
}

bool has_way(const KernelHops& content, const KernelHop& hop) {
  return std::any_of(content.hops.begin(), content.hops.end(),
                     [&hop](const KernelHop& other) { return same_way(hop, other); });
}

/// True if `content` has all paths of `part`.
bool has_ways(const KernelHops& content, const KernelHops& part) {
  return std::all_of(part.hops.begin(), part.hops.end(),
                     [&content](const KernelHop& hop) { return has_way(content, hop); });
}

}  // namespace

bool KernelRoutes::take_doubt() {
  return std::exchange(doubt_, false);
}

std::size_t KernelRoutes::memory_octets() const {
  return routes_.size() * sizeof(Route) + (index_.capacity() + outgrown_.capacity()) * sizeof(Slot);
}

// The index.

KernelRoutes::Cell KernelRoutes::find_cell(const Key& key) {
  for (Index* const index : {&index_, &outgrown_}) {
    if (index->empty()) continue;
    std::size_t at = home_of(*index, key);
    for (; (*index)[at] != kNone; at = (at + 1) & (index->size() - 1))
      if (key_of(routes_[(*index)[at]]) == key) return {index, at};
  }
  return {nullptr, 0};
}

/// The key of the route has no cell. There is always a free one.
void KernelRoutes::put_cell(Slot slot) {
  std::size_t at = home_of(index_, key_of(routes_[slot]));
  while (index_[at] != kNone) at = (at + 1) & (index_.size() - 1);
  index_[at] = slot;
}

/// Moves the following cells to the front that would not be found behind an empty one.
void KernelRoutes::erase_cell(Cell cell) {
  Index& index = *cell.index;
  const std::size_t mask = index.size() - 1;
  std::size_t hole = cell.at;
  for (std::size_t i = (hole + 1) & mask; index[i] != kNone; i = (i + 1) & mask) {
    const std::size_t home = home_of(index, key_of(routes_[index[i]]));
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    index[hole] = index[i];
    hole = i;
  }
  index[hole] = kNone;
}

/// Makes room for one more key, and moves some from the outgrown index.
void KernelRoutes::grow_index() {
  if (4 * (keys_ + 1) >= 3 * index_.size()) {
    expects(outgrown_.empty(), "all keys have moved before the index grows again");
    outgrown_.swap(index_);
    index_.assign(std::max(kSmallestIndex, 2 * outgrown_.size()), kNone);
    moved_ = 0;
  }
  for (unsigned n = 0; n < kCellsPerChange && moved_ < outgrown_.size(); ++n) {
    const Slot slot = outgrown_[moved_];
    if (slot == kNone) {
      ++moved_;
      continue;
    }
    erase_cell({&outgrown_, moved_});
    put_cell(slot);
  }
  if (moved_ == outgrown_.size()) Index{}.swap(outgrown_);
}

// Routes of one key.

KernelRoutes::Slot KernelRoutes::make_route(const Key& key, const KernelHops& content,
                                            bool listed) {
  Slot slot = free_;
  if (slot == kNone) {
    slot = static_cast<Slot>(routes_.size());
    routes_.emplace_back();
  } else {
    free_ = routes_[slot].next;
  }
  routes_[slot] = {key.addr,
                   key.metric,
                   paths_.acquire(content),
                   KernelPaths::kNoReport,
                   kNone,
                   snapshot_,
                   static_cast<std::uint8_t>(key.len),
                   false,
                   !listed};
  ++size_;
  return slot;
}

void KernelRoutes::free_route(Slot slot) {
  paths_.release(routes_[slot].paths);
  routes_[slot].paths = 0;
  routes_[slot].first = false;
  routes_[slot].next = std::exchange(free_, slot);
  --size_;
}

/// Brings the routes of a key into `chain_`, without those that are gone. `first`: the first of them.
void KernelRoutes::load(Slot first) {
  chain_.clear();
  Slot slot = first;
  while (slot != kNone) {
    const Slot next = routes_[slot].next;
    if (stale(routes_[slot]))
      free_route(slot);
    else
      chain_.push_back(slot);
    slot = next;
  }
}

void KernelRoutes::store(const Key& key, Cell cell, KernelPaths::ReportId reported) {
  if (chain_.empty()) {
    if (cell.index != nullptr) {
      --keys_;
      erase_cell(cell);
    }
    if (reported == KernelPaths::kNoReport) return;
    paths_.release_report(reported);
    ++reports_;
    return sink_.route_removed({key.addr, static_cast<std::uint8_t>(key.len)}, key.metric);
  }
  if (cell.index != nullptr) {
    (*cell.index)[cell.at] = chain_.front();
  } else {
    ++keys_;
    put_cell(chain_.front());
  }
  for (std::size_t i = 0; i < chain_.size(); ++i) {
    Route& route = routes_[chain_[i]];
    route.first = i == 0;
    route.reported = i == 0 ? reported : KernelPaths::kNoReport;
    route.next = i + 1 < chain_.size() ? chain_[i + 1] : kNone;
  }
  report(chain_.front());
}

/// Calls `change()`, which changes `chain_`, and reports the result.
template <class Change>
void KernelRoutes::edit(const Key& key, Change&& change) {
  grow_index();
  const Cell cell = find_cell(key);
  const Slot first = cell.index != nullptr ? (*cell.index)[cell.at] : kNone;
  const auto reported = first == kNone ? KernelPaths::kNoReport : routes_[first].reported;
  load(first);
  change();
  store(key, cell, reported);
}

void KernelRoutes::report(Slot first) {
  Route& route = routes_[first];
  auto wanted = KernelPaths::kNoReport;
  for (Slot slot = first; slot != kNone && wanted == KernelPaths::kNoReport;
       slot = routes_[slot].next)
    wanted = paths_.report(routes_[slot].paths);
  if (wanted == route.reported) return;
  paths_.add_user_of_report(wanted);
  paths_.release_report(std::exchange(route.reported, wanted));
  ++reports_;
  const wire::IpPrefix to{route.addr, route.len};
  if (wanted == KernelPaths::kNoReport) return sink_.route_removed(to, route.metric);
  const KernelReport& content = paths_.report_of(wanted);
  sink_.route_set({to, route.metric, content.protocol, content.type, content.paths});
}

// Changes.

/// The first route of `chain_` whose content fits.
template <class Fits>
std::optional<std::size_t> KernelRoutes::find(Fits&& fits) const {
  for (std::size_t i = 0; i < chain_.size(); ++i)
    if (fits(paths_.content(routes_[chain_[i]].paths))) return i;
  return std::nullopt;
}

std::optional<std::size_t> KernelRoutes::find_same(const KernelHops& content) const {
  return find([&content](const KernelHops& other) { return same_content(other, content); });
}

void KernelRoutes::remove_at(std::size_t i) {
  free_route(chain_[i]);
  chain_.erase(chain_.begin() + static_cast<std::ptrdiff_t>(i));
}

void KernelRoutes::replace_at(std::size_t i, const Key& key, const KernelHops& content) {
  const Slot slot = make_route(key, content, false);
  free_route(std::exchange(chain_[i], slot));
}

/// A route of a snapshot. A change may have set it before.
void KernelRoutes::list(const Key& key, const KernelHops& content) {
  std::size_t end = 0;  // of the routes that were listed before.
  for (std::size_t i = 0; i < chain_.size(); ++i)
    if (routes_[chain_[i]].stamp == snapshot_ && !routes_[chain_[i]].changed) end = i + 1;
  // A kernel without a family answers for all families, so that a list has routes twice.
  const auto is_listed = [this, &content](Slot slot) {
    return paths_.content(routes_[slot].paths) == content;
  };
  if (std::any_of(chain_.begin(), chain_.begin() + static_cast<std::ptrdiff_t>(end), is_listed))
    return;
  const auto is_same = [this, &content](Slot slot) {
    const Route& route = routes_[slot];
    return (route.stamp != snapshot_ || route.changed) && paths_.content(route.paths) == content;
  };
  const auto known = std::find_if(chain_.begin(), chain_.end(), is_same);
  if (known == chain_.end()) {
    const Slot slot = make_route(key, content, true);
    chain_.insert(chain_.begin() + static_cast<std::ptrdiff_t>(end), slot);
    return;
  }
  Route& route = routes_[*known];
  const bool stays = route.stamp == snapshot_;
  route.stamp = snapshot_;
  route.changed = false;
  const auto to = chain_.begin() + static_cast<std::ptrdiff_t>(end);
  if (!stays && to < known) std::rotate(to, known, known + 1);
}

/// IPv4: a replaced route is not the same as another one of its key, except after the replacement
/// of its next-hop object.
void KernelRoutes::change4(const Key& key, const KernelHops& content, Position position) {
  if (position == Position::kReplace && !chain_.empty())
    return replace_at(find_same(content).value_or(0), key, content);
  const auto at = position == Position::kLast ? chain_.end() : chain_.begin();
  chain_.insert(at, make_route(key, content, false));
}

/// IPv6: a route with several paths is in one message, whichever of them is new. It replaces the
/// first route of its kind, or else the first. No route is there twice.
void KernelRoutes::change6(const Key& key, const KernelHops& content, Position position) {
  auto at = find_same(content);
  if (!at && position != Position::kReplace)
    at = find(
        [&content](const KernelHops& other) { return is_ecmp(other) && has_ways(content, other); });
  if (!at && position == Position::kReplace)
    at = find([&content](const KernelHops& other) { return is_ecmp(other) == is_ecmp(content); });
  if (!at && position == Position::kReplace && !chain_.empty()) at = 0;
  if (at) return replace_at(*at, key, content);
  chain_.push_back(make_route(key, content, false));
}

void KernelRoutes::set(const KernelRouteMessage& route, Position position) {
  expects_management();
  const Key key{route.to.addr, route.metric, route.to.len};
  edit(key, [&] {
    if (position == Position::kListed)
      list(key, route.hops);
    else if (route.hops.v4)
      change4(key, route.hops, position);
    else
      change6(key, route.hops, position);
  });
}

/// IPv6 removes paths one by one, each with a message.
void KernelRoutes::remove_hops(std::size_t i, const Key& key, const KernelHops& removed) {
  KernelHops rest = paths_.content(routes_[chain_[i]].paths);
  std::erase_if(rest.hops, [&removed](const KernelHop& hop) { return has_way(removed, hop); });
  if (rest.hops.empty()) return remove_at(i);
  if (rest.hops.size() == 1) rest.hops.front().path.weight = 1;
  replace_at(i, key, rest);
}

void KernelRoutes::remove(const KernelRouteMessage& route) {
  expects_management();
  const Key key{route.to.addr, route.metric, route.to.len};
  edit(key, [&] {
    if (const auto known = find_same(route.hops)) return remove_at(*known);
    const auto whole = find([&route](const KernelHops& other) {
      return !route.hops.v4 && is_ecmp(route.hops) && is_ecmp(other) && has_ways(other, route.hops);
    });
    if (whole) return remove_hops(*whole, key, route.hops);
    if (!chain_.empty() && !paths_.ended(route.hops)) doubt_ = true;
  });
}

// Snapshots, and changes of many routes.

void KernelRoutes::begin_snapshot() {
  expires_ = false;
  in_step_ = true;
  if (++snapshot_ != 0) return;
  for (Route& route : routes_) route.stamp = 0;
  snapshot_ = 1;
}

void KernelRoutes::end_snapshot() {
  expires_ = true;
  in_step_ = false;
  pending_ = routes_.size();
}

bool KernelRoutes::advance() {
  expects_management();
  if (paths_.take_changed()) pending_ = routes_.size();
  reports_ = 0;
  for (std::size_t n = 0; pending_ != 0 && n < kSlotsPerTurn && reports_ < kReportsPerTurn;
       ++n, --pending_, ++cursor_) {
    if (cursor_ >= routes_.size()) cursor_ = 0;
    const Route& route = routes_[cursor_];
    if (route.paths == 0) continue;
    if (stale(route))
      edit(key_of(route), [] {});
    else if (route.first)
      report(static_cast<Slot>(cursor_));
  }
  if (pending_ != 0) return true;
  expires_ = false;
  if (!std::exchange(in_step_, true)) sink_.in_step();
  return false;
}

}  // namespace ipoib::mgmt
