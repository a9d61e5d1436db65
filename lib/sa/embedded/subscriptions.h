// SPDX-License-Identifier: BSD-3-Clause
// Subscriptions: the InformInfo of each subscriber, as ports set it. reporter.h sends the Reports.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "lib/fabric/qp1.h"
#include "lib/wire/notice.h"
#include "lib/wire/sa_records.h"

namespace ipoib::sa {

/// Destination of Reports. The administrator identifies requesters by LID only.
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

  SubscriptionTable(std::size_t max, std::size_t max_per_port)
      : max_{max}, max_per_port_{max_per_port} {}

  /// kOk also if the subscription exists already; kSaNoResources: a limit is reached.
  [[nodiscard]] wire::MadStatus subscribe(const fabric::MadAddress& from,
                                          const wire::InformInfo& info);
  /// kSaRequestInvalid, as from a real SA: no such subscription. All fields must match those of the
  /// subscription, except reserved ones.
  [[nodiscard]] wire::MadStatus unsubscribe(const fabric::MadAddress& from,
                                            const wire::InformInfo& info);
  void drop(const Subscriber& subscriber);
  void drop_port(std::uint16_t lid);

  /// True if one of the subscriptions matches the notice. Its GID or LID range is compared with the
  /// issuer of the notice, as in a real SA.
  [[nodiscard]] static bool wants(const Subscriptions& subscriptions, const wire::Notice& notice);

  [[nodiscard]] const std::map<Subscriber, Subscriptions>& all() const { return by_subscriber_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::size_t max_;
  std::size_t max_per_port_;
  std::size_t size_ = 0;
  std::map<Subscriber, Subscriptions> by_subscriber_;
};

}  // namespace ipoib::sa
