// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/router_timers.h"

#include <algorithm>
#include <vector>

namespace ipoib::link {
namespace {

// RFC 4861 §10.
constexpr unsigned kInitialAdvertisements = 3;
constexpr Duration kMaxInitialInterval = std::chrono::seconds(16);
constexpr Duration kMaxAnswerDelay = std::chrono::milliseconds(500);
constexpr Duration kMinBetween = std::chrono::seconds(3);
constexpr unsigned kMaxSolicitations = 3;
constexpr Duration kSolicitationInterval = std::chrono::seconds(4);
constexpr Duration kMaxSolicitationDelay = std::chrono::seconds(1);

}  // namespace

Duration RouterAdvertiser::between(Duration low, Duration high) {
  return Duration{std::uniform_int_distribution<Duration::rep>{
      low.count(), std::max(low, high).count()}(random_)};
}

void RouterAdvertiser::start(TimePoint now) {
  sent_ = 0;
  due_ = now + between(Duration::zero(), kMaxAnswerDelay);
}

void RouterAdvertiser::on_solicitation(TimePoint now) {
  if (!due_) return;
  auto answer = now + between(Duration::zero(), kMaxAnswerDelay);
  if (last_) answer = std::max(answer, *last_ + kMinBetween);
  due_ = std::min(*due_, answer);
}

bool RouterAdvertiser::tick(TimePoint now) {
  if (!due_ || now < *due_) return false;
  ++sent_;
  last_ = now;
  auto interval = std::max(between(config_.ra_min_interval, config_.ra_max_interval), kMinBetween);
  if (sent_ < kInitialAdvertisements) interval = std::min(interval, kMaxInitialInterval);
  due_ = now + interval;
  return true;
}

void RouterDiscovery::start(TimePoint now) {
  solicitations_sent_ = 0;
  if (!config_.accept_ra) return;
  std::uniform_int_distribution<Duration::rep> delay{0, kMaxSolicitationDelay.count()};
  ask_ = now + Duration{delay(random_)};
}

void RouterDiscovery::stop() {
  ask_.reset();
  while (!routers_.empty()) lost(wire::IpAddr{routers_.begin()->first});
}

void RouterDiscovery::on_advertisement(const wire::IpAddr& router, std::uint16_t lifetime_s,
                                       TimePoint now) {
  if (!config_.accept_ra) return;
  if (lifetime_s == 0) return lost(router);
  ask_.reset();
  const auto it = routers_.find(router);
  if (it == routers_.end() && routers_.size() >= kMaxRouters) return;
  routers_[router] = now + std::chrono::seconds(lifetime_s);
  if (it == routers_.end()) listener_(router, true);
}

void RouterDiscovery::lost(const wire::IpAddr& router) {
  if (routers_.erase(router) != 0) listener_(router, false);
}

bool RouterDiscovery::tick(TimePoint now) {
  std::vector<wire::IpAddr> expired;
  for (const auto& [router, until] : routers_)
    if (until <= now) expired.push_back(router);
  for (const auto& router : expired) lost(router);
  if (!ask_ || now < *ask_) return false;
  ask_.reset();
  if (++solicitations_sent_ < kMaxSolicitations) ask_ = now + kSolicitationInterval;
  return true;
}

std::optional<TimePoint> RouterDiscovery::next_deadline() const {
  auto next = ask_;
  for (const auto& [router, until] : routers_) next = earlier(next, until);
  return next;
}

}  // namespace ipoib::link
