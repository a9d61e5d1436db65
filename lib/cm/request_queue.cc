// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cm/request_queue.h"

#include <algorithm>
#include <utility>

namespace ipoib::cm {

bool RequestQueue::add(const WaitingRequest& request) {
  const std::size_t places = request.known ? kPlaces : kPlacesOfStrangers;
  const std::size_t taken = request.known ? all_.size() : strangers_;
  if (taken >= places || all_.size() >= kPlaces) return false;
  const auto port = of_port_.find(request.port);
  const std::size_t of_port = port == of_port_.end() ? 0 : port->second;
  // The port's own requests do not make its share smaller than it is.
  const std::size_t free = places - (taken - std::min(taken, of_port));
  if (of_port >= std::min(kPlacesOfPort, free / 2)) return false;
  const Key key{.stranger = !request.known, .serial = next_serial_++};
  all_.emplace(key, request);
  ++of_port_[request.port];
  strangers_ += key.stranger ? 1 : 0;
  count(key, request.ready, true);
  return true;
}

void RequestQueue::erase(const Key& key) {
  const auto it = all_.find(key);
  if (it == all_.end()) return;
  if (const auto port = of_port_.find(it->second.port); --port->second == 0) of_port_.erase(port);
  strangers_ -= key.stranger ? 1 : 0;
  count(key, it->second.ready, false);
  all_.erase(it);
}

void RequestQueue::clear() {
  all_.clear();
  of_port_.clear();
  strangers_ = 0;
  ready_ = {};
}

std::optional<RequestQueue::Key> RequestQueue::find(const PortName& port, std::uint64_t ca_guid,
                                                    std::uint32_t id) const {
  if (!of_port_.contains(port)) return std::nullopt;
  const auto it = std::ranges::find_if(all_, [&](const auto& entry) {
    const WaitingRequest& waiting = entry.second;
    return waiting.port == port && waiting.ca_guid == ca_guid && waiting.id == id;
  });
  if (it == all_.end()) return std::nullopt;
  return it->first;
}

const WaitingRequest* RequestQueue::find(const Key& key) const {
  const auto it = all_.find(key);
  return it == all_.end() ? nullptr : &it->second;
}

void RequestQueue::update(const Key& key, bool known, bool ready) {
  const auto it = all_.find(key);
  if (it == all_.end()) return;
  count(key, it->second.ready, false);
  auto node = all_.extract(it);
  node.mapped().known = known;
  node.mapped().ready = ready;
  if (node.key().stranger == known) {
    strangers_ = known ? strangers_ - 1 : strangers_ + 1;
    node.key().stranger = !known;
  }
  count(node.key(), ready, true);
  all_.insert(std::move(node));
}

std::vector<RequestQueue::Key> RequestQueue::keys() const {
  std::vector<Key> keys;
  keys.reserve(all_.size());
  for (const auto& [key, request] : all_) keys.push_back(key);
  return keys;
}

void RequestQueue::count(const Key& key, bool ready, bool more) {
  if (!ready) return;
  std::size_t& n = ready_[key.stranger ? 1 : 0];
  n = more ? n + 1 : n - 1;
}

}  // namespace ipoib::cm
