// SPDX-License-Identifier: BSD-3-Clause
// When routers advertise themselves and hosts ask for them. Source: RFC 4861 §6.2.4, §6.2.6,
// §6.3.7.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>

#include "lib/base/clock.h"
#include "lib/link/ip6_types.h"

namespace ipoib::link {

/// Pace of the advertisements of one interface; all go to all nodes.
class RouterAdvertiser {
 public:
  RouterAdvertiser(const Ip6Config& config, std::uint64_t seed) : config_{config}, random_{seed} {}

  void start(TimePoint now);
  void stop() { due_.reset(); }
  [[nodiscard]] bool running() const { return due_.has_value(); }
  /// Answered after a moment, together with whoever else asks, and at most every 3 s.
  void on_solicitation(TimePoint now);
  /// True: send one now.
  [[nodiscard]] bool tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return due_; }

 private:
  Duration between(Duration low, Duration high);

  const Ip6Config& config_;
  std::mt19937_64 random_;
  unsigned sent_ = 0;
  std::optional<TimePoint> last_;
  std::optional<TimePoint> due_;
};

/// Questions for routers, and the routers that answered.
class RouterDiscovery {
 public:
  /// Told of default routers that come and go.
  using Listener = std::function<void(const wire::IpAddr& router, bool usable)>;

  RouterDiscovery(const Ip6Config& config, Listener listener, std::uint64_t seed)
      : config_{config}, listener_{std::move(listener)}, random_{seed} {}

  void start(TimePoint now);
  void stop();
  void on_advertisement(const wire::IpAddr& router, std::uint16_t lifetime_s, TimePoint now);
  /// It says that it is no router any more.
  void lost(const wire::IpAddr& router);
  [[nodiscard]] bool knows(const wire::IpAddr& router) const { return routers_.count(router) != 0; }
  /// True: send a solicitation now.
  [[nodiscard]] bool tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

 private:
  static constexpr std::size_t kMaxRouters = 16;

  const Ip6Config& config_;
  Listener listener_;
  std::mt19937_64 random_;
  unsigned asked_ = 0;
  std::optional<TimePoint> ask_;
  std::map<wire::IpAddr, TimePoint> routers_;  ///< Until when.
};

}  // namespace ipoib::link
