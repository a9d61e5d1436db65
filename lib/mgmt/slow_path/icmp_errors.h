// SPDX-License-Identifier: BSD-3-Clause
// ICMP errors and redirects that this node sends to the senders of packets, and their rate limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/hash_seed.h"
#include "lib/mgmt/node_info.h"
#include "lib/mgmt/slow_path/interface_table.h"
#include "lib/mgmt/worker/injector.h"
#include "lib/route/icmp/icmp.h"
#include "lib/route/icmp/icmp_limiter.h"
#include "lib/route/route_table.h"

struct rte_mbuf;

namespace ipoib::mgmt {

/// Management lcore only. Packets stay the caller's and start at their IP header. `in`: the
/// interface on which the packet arrived.
class IcmpErrors {
 public:
  IcmpErrors(const InterfaceTable& interfaces, Injector& injector)
      : interfaces_{interfaces}, injector_{injector} {}

  /// Sets the routes, which outlive the last call of send().
  void set_routes(const route::RouteTable& routes) { routes_ = &routes; }

  /// Sends the error to the sender of `offending`. `in`: null for a packet of this node.
  void send(rte_mbuf* offending, InterfaceSlot* in, const wire::IcmpError& error, TimePoint now);
  /// Sends the error to `sender`, the source of `offending`; none if the routes make
  /// its destination a broadcast address (RFC 1812 §4.3.2.7).
  void send(std::span<const std::byte> offending, const wire::IpAddr& sender, InterfaceSlot* in,
            const wire::IcmpError& error, TimePoint now);
  /// Notifies the sender of a better first hop on its own link. Source: RFC 1812 §5.2.7.2,
  /// RFC 4861 §8.2.
  void redirect(rte_mbuf* m, const wire::IpAddr& next_hop, InterfaceSlot& in, TimePoint now);

  /// True if the rate limit lets an echo reply to a group pass, which is sent to `addr`.
  [[nodiscard]] bool allow_reply(const wire::IpAddr& addr, TimePoint now) {
    return allow(addr, route::IcmpBudget::kOther, now);
  }
  [[nodiscard]] const IcmpErrorCounters& counters() const { return counters_; }

 private:
  /// True if Linux sent the packet, on the mirror of `in`: no other one comes with an own source.
  [[nodiscard]] bool is_of_linux(const wire::IpAddr& sender, const InterfaceSlot* in) const;
  [[nodiscard]] bool allow(const wire::IpAddr& addr, route::IcmpBudget budget, TimePoint now) {
    return (addr.is_v4() ? limiter4_ : limiter6_).allow(addr, budget, now);
  }
  void tell(const wire::IpAddr& sender, const std::optional<std::vector<std::byte>>& message,
            route::IcmpBudget budget, InterfaceSlot* in, TimePoint now);

  const InterfaceTable& interfaces_;
  Injector& injector_;
  const route::RouteTable* routes_ = nullptr;
  route::IcmpLimiter limiter4_{secret_seed()};
  route::IcmpLimiter limiter6_{secret_seed()};
  IcmpErrorCounters counters_;
};

}  // namespace ipoib::mgmt
