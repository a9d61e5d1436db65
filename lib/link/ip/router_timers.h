// SPDX-License-Identifier: BSD-3-Clause
// Timers of router advertisements and router solicitations. Source: RFC 4861 §6.2.4, §6.2.6,
// §6.3.7.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>

#include "lib/base/clock.h"
#include "lib/link/interface_config.h"
#include "lib/link/link_info.h"

namespace ipoib::link {

/// Schedule of the advertisements of one interface; all are sent to all nodes.
class RouterAdvertiser {
 public:
  RouterAdvertiser(const Ip6Config& config, std::uint64_t seed) : config_{config}, random_{seed} {}

  void start(TimePoint now);
  void stop() { due_.reset(); }
  [[nodiscard]] bool running() const { return due_.has_value(); }
  /// Schedules an answer after a short delay, shared by all requesters, at most one every 3 s.
  void on_solicitation(TimePoint now);
  /// Returns true if an advertisement must be sent now.
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

/// Schedule of solicitations, and the default routers that answered.
class RouterDiscovery {
 public:
  /// Called when a default router appears or is lost.
  using Listener = std::function<void(const wire::IpAddr& router, bool usable)>;

  RouterDiscovery(const Ip6Config& config, Listener listener, std::uint64_t seed)
      : config_{config}, listener_{std::move(listener)}, random_{seed} {}

  void start(TimePoint now);
  void stop();
  void on_advertisement(const wire::IpAddr& router, std::uint16_t lifetime_s, TimePoint now);
  /// The node is no router any more.
  void lost(const wire::IpAddr& router);
  [[nodiscard]] bool knows(const wire::IpAddr& router) const { return routers_.count(router) != 0; }
  /// Returns true if a solicitation must be sent now.
  [[nodiscard]] bool tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

 private:
  static constexpr std::size_t kMaxRouters = 16;

  const Ip6Config& config_;
  Listener listener_;
  std::mt19937_64 random_;
  unsigned solicitations_sent_ = 0;
  std::optional<TimePoint> ask_;
  std::map<wire::IpAddr, TimePoint> routers_;  ///< With the end of their lifetime.
};

}  // namespace ipoib::link
