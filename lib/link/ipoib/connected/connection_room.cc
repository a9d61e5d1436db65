// SPDX-License-Identifier: BSD-3-Clause
// Room for one more connection at the limit of a link: which one gives way. A connection costs a
// queue pair, and peers without one are reached by UD, but Linux loses packets to a node that
// refuses it one.
#include <algorithm>

#include "lib/link/ipoib/connected/connections.h"

namespace ipoib::link {
namespace {

/// A connection that is unused this long gives way.
constexpr Duration kUnused = std::chrono::seconds(10);
/// One in use gives way if its port has so many more than the port that needs the place, so that no
/// two ports displace each other in turn.
constexpr std::size_t kTooMany = 2;

}  // namespace

cm::PortName Connections::name_of(const fabric::MadAddress& port) const {
  return cm::PortName::of(port, cm::PortIdentity::of(port_));
}

/// True if there is room for one more connection with the port. At the limit, one whose peer never
/// became ready is dropped for it, or else, if it `displaces` others, one that is unused, or one of a
/// port that has more.
bool Connections::has_room(const fabric::MadAddress& port, bool displaces, TimePoint now) {
  if (!may_add()) return false;
  const bool full = open_ >= config_.max_connections;
  if (full && !drop_half_open(now) && displaces) {
    auto victim = longest_unused(now);
    if (!victim) victim = one_too_many(name_of(port));
    if (victim) close(*victim, all_.at(*victim), ConnectionEnd::kDisplaced, now);
  }
  return open_ < config_.max_connections;
}

/// Drops the oldest connection whose peer never became ready. Returns false if there is none.
bool Connections::drop_half_open(TimePoint now) {
  if (half_open_.empty()) return false;
  const cm::Handle oldest = half_open_.begin()->second;
  static_cast<void>(manager_.drop(oldest, now));  // It may be over, with the event still queued.
  finish(all_.at(oldest), ConnectionEnd::kDropped, now);
  return true;
}

/// Returns the connection that is unused for the longest time, if that is long enough. check_use()
/// comes rarely, so the counters of its queue decide.
std::optional<cm::Handle> Connections::longest_unused(TimePoint now) {
  while (const auto handle = uses_.first()) {
    Connection& c = all_.at(*handle);
    if (now - c.active_at < kUnused) break;
    const Use use = note_use(*handle, c, now);
    if (!use.sent && !use.heard) return handle;
  }
  return std::nullopt;
}

/// Returns the longest unused connection of the port that has the most, if these are more than those
/// of the port that needs a place.
std::optional<cm::Handle> Connections::one_too_many(const cm::PortName& port) const {
  const auto most =
      std::ranges::max_element(open_of_port_, {}, [](const auto& entry) { return entry.second; });
  if (most == open_of_port_.end()) return std::nullopt;
  const auto own = open_of_port_.find(port);
  const std::size_t own_number = own == open_of_port_.end() ? 0 : own->second;
  if (most->second < own_number + kTooMany) return std::nullopt;
  std::optional<cm::Handle> found;
  for (const auto& [handle, c] : all_) {
    if (!c.up || c.over || c.port_name != most->first) continue;
    if (!found || c.active_at < all_.at(*found).active_at) found = handle;
  }
  return found;
}

Connections::Use Connections::note_use(cm::Handle handle, Connection& c, TimePoint now) {
  const auto counters = actions_.info(*c.queue).counters;
  const Use use{
      .sent = std::exchange(c.tx_messages, counters.tx_messages) != counters.tx_messages,
      .heard = std::exchange(c.rx_messages, counters.rx_messages) != counters.rx_messages};
  if (use.heard) c.heard_at = now;
  if (use.sent || use.heard) uses_.set(handle, c.use, c.active_at = now);
  return use;
}

void Connections::count_port(const Connection& c, bool more) {
  open_ = more ? open_ + 1 : open_ - 1;
  std::size_t& n = open_of_port_[c.port_name];
  n = more ? n + 1 : n - 1;
  if (n == 0) open_of_port_.erase(c.port_name);
}

}  // namespace ipoib::link
