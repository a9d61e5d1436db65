// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cm/connection.h"

namespace ipoib::cm {
namespace {

constexpr TimePoint kNever = TimePoint::max();

/// Erases an entry if it still belongs to connection `id`.
template <class Map>
void erase_own(Map& map, const typename Map::key_type& key, Handle id) {
  if (const auto it = map.find(key); it != map.end() && it->second == id) map.erase(it);
}

}  // namespace

Connection& ConnectionTable::add() {
  const auto id = ids_.next_unused<Handle>([this](Handle h) { return all_.count(h) != 0; });
  Connection& c = all_[id];
  c.id = id;
  return c;
}

void ConnectionTable::erase(Connection& c) {
  set_due(c, kNever);
  forget_id(c);
  forget_qpn(c);
  leave_crowd(c);
  all_.erase(c.id);
}

Connection* ConnectionTable::find(Handle id) {
  const auto it = all_.find(id);
  return it == all_.end() ? nullptr : &it->second;
}
const Connection* ConnectionTable::find(Handle id) const {
  const auto it = all_.find(id);
  return it == all_.end() ? nullptr : &it->second;
}

void ConnectionTable::set_due(Connection& c, TimePoint when) {
  if (when == c.due) return;
  if (c.due != kNever) due_.erase({c.due, c.id});
  if (when != kNever) due_.emplace(when, c.id);
  c.due = when;
}

std::optional<TimePoint> ConnectionTable::next_due() const {
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

Connection* ConnectionTable::due(TimePoint now) {
  if (due_.empty() || due_.begin()->first > now) return nullptr;
  return find(due_.begin()->second);
}

Connection* ConnectionTable::by_remote_id(const fabric::MadAddress& port, std::uint64_t guid,
                                          std::uint32_t id) {
  const auto it = by_id_.find(key_of(port, guid, id));
  return it == by_id_.end() ? nullptr : find(it->second);
}

Connection* ConnectionTable::by_remote_qpn(const fabric::MadAddress& port, std::uint64_t guid,
                                           std::uint32_t qpn) {
  const auto it = by_qpn_.find(key_of(port, guid, qpn));
  return it == by_qpn_.end() ? nullptr : find(it->second);
}

void ConnectionTable::index(const Connection& c) {
  by_id_[key_of(c.to, c.remote_guid, c.remote_id)] = c.id;
  by_qpn_[key_of(c.to, c.remote_guid, c.remote_qpn)] = c.id;
}

void ConnectionTable::forget_qpn(const Connection& c) {
  erase_own(by_qpn_, key_of(c.to, c.remote_guid, c.remote_qpn), c.id);
}

void ConnectionTable::forget_id(const Connection& c) {
  erase_own(by_id_, key_of(c.to, c.remote_guid, c.remote_id), c.id);
}

void ConnectionTable::join(Connection& c, Crowd crowd) {
  if (c.exchange->serial != 0 && c.exchange->crowd == crowd) return;
  leave_crowd(c);
  c.exchange->crowd = crowd;
  c.exchange->serial = next_serial_++;
  crowds_[static_cast<std::size_t>(crowd)].emplace(c.exchange->serial, c.id);
}

void ConnectionTable::leave_crowd(Connection& c) {
  if (!c.exchange || c.exchange->serial == 0) return;
  crowds_[static_cast<std::size_t>(c.exchange->crowd)].erase(c.exchange->serial);
  c.exchange->serial = 0;
}

Connection* ConnectionTable::oldest(Crowd crowd) {
  const auto& all = crowds_[static_cast<std::size_t>(crowd)];
  return all.empty() ? nullptr : find(all.begin()->second);
}

}  // namespace ipoib::cm
