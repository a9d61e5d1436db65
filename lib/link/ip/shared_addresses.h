// SPDX-License-Identifier: BSD-3-Clause
// Addresses that the interface shares with interfaces of other nodes: the rule which of them answers
// a host.
#pragma once

#include <optional>

#include "lib/base/clock.h"
#include "lib/wire/hw_addr.h"
#include "lib/wire/ip.h"

namespace ipoib::link {

/// A shared address is an own address, except that it is never announced to all hosts, is used
/// without duplicate address detection, and that hosts are answered as answers() says. ARP and
/// neighbour discovery ask.
class SharedAddresses {
 public:
  virtual ~SharedAddresses() = default;
  [[nodiscard]] virtual bool has(const wire::IpAddr& addr) const = 0;
  /// `host` asks for the shared address; `hw`: its link-layer address, empty if the message does not
  /// name it. Returns true if this node answers. Precondition: has(shared).
  [[nodiscard]] virtual bool answers(const wire::IpAddr& shared, const wire::IpAddr& host,
                                     const std::optional<wire::HwAddr>& hw, TimePoint now) = 0;
  /// Another interface claims the shared address; `hw` as for answers(). Returns true if it may,
  /// because it is one that shares it; otherwise the hosts of this node are reminded of it.
  virtual bool claimed(const wire::IpAddr& shared, const std::optional<wire::HwAddr>& hw,
                       TimePoint now) = 0;
  /// The link-layer address of the interface has changed, or leads elsewhere.
  virtual void announce(TimePoint now) = 0;
};

}  // namespace ipoib::link
