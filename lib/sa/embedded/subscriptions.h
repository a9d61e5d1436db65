// SPDX-License-Identifier: BSD-3-Clause
// Who wants to be told what: InformInfo as ports set it. Knows nothing of how they are told
// (reporter.h).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "lib/fabric/types.h"
#include "lib/wire/mad.h"
#include "lib/wire/notice.h"

namespace ipoib::sa {

/// Where reports go. The administrator knows who asks by the LID only.
struct Subscriber {
  std::uint16_t lid = 0;
  std::uint32_t qpn = 1;
  friend auto operator<=>(const Subscriber&, const Subscriber&) = default;
};

class SubscriptionTable {
 public:
  struct Subscriptions {
    fabric::MadAddress to;
    std::vector<wire::InformInfo> wanted;  ///< Not empty; the newest first.
  };

  SubscriptionTable(std::size_t most, std::size_t most_per_port)
      : most_{most}, most_per_port_{most_per_port} {}

  /// kOk where it is there already; kSaNoResources: a bound is reached.
  [[nodiscard]] wire::MadStatus subscribe(const fabric::MadAddress& from,
                                          const wire::InformInfo& info);
  /// kSaRequestInvalid, as a real SA says: no such subscription. All fields have to be those of the
  /// subscription.
  [[nodiscard]] wire::MadStatus unsubscribe(const fabric::MadAddress& from,
                                            const wire::InformInfo& info);
  void drop(const Subscriber& subscriber);
  void drop_port(std::uint16_t lid);

  /// Whether one of them is for the notice. A GID or LID range is that of the notice's issuer, as a
  /// real SA takes it.
  [[nodiscard]] static bool wants(const Subscriptions& subscriptions, const wire::Notice& notice);

  [[nodiscard]] const std::map<Subscriber, Subscriptions>& all() const { return by_subscriber_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::size_t most_;
  std::size_t most_per_port_;
  std::size_t size_ = 0;
  std::map<Subscriber, Subscriptions> by_subscriber_;
};

}  // namespace ipoib::sa
