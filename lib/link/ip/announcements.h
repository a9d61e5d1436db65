// SPDX-License-Identifier: BSD-3-Clause
// Own addresses that are announced a second time, because the first announcement may be lost.
// Source: RFC 5227 §2.3, RFC 4861 §7.2.6.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "lib/base/clock.h"
#include "lib/link/time_order.h"
#include "lib/wire/ip.h"

namespace ipoib::link {

class Announcements {
 public:
  /// The address is due at this time only.
  void add(const wire::IpAddr& addr, TimePoint due) { due_.insert_or_assign(addr, due); }
  void remove(const wire::IpAddr& addr) { due_.erase(addr); }
  void clear() { due_.clear(); }
  /// Returns and forgets the addresses that are due.
  [[nodiscard]] std::vector<wire::IpAddr> take(TimePoint now) {
    std::vector<wire::IpAddr> taken;
    std::erase_if(due_, [&](const auto& entry) {
      if (entry.second > now) return false;
      taken.push_back(entry.first);
      return true;
    });
    return taken;
  }
  [[nodiscard]] std::optional<TimePoint> next_deadline() const {
    std::optional<TimePoint> next;
    for (const auto& [addr, due] : due_) next = earlier(next, due);
    return next;
  }

 private:
  std::map<wire::IpAddr, TimePoint> due_;
};

}  // namespace ipoib::link
