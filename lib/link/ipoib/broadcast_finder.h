// SPDX-License-Identifier: BSD-3-Clause
// Discovery of a link's broadcast group where the MGID does not follow from the P_Key, and its
// announcement to other nodes.
#pragma once

#include <functional>
#include <optional>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/link/link_info.h"
#include "lib/wire/ibarp.h"

namespace ipoib::link {

/// Finds the broadcast group before it is joined.
class BroadcastFinder {
 public:
  using Found = std::function<void(const Status& status, TimePoint now)>;

  virtual ~BroadcastFinder() = default;
  /// Starts a search, in place of an open one. `found` is called once, maybe before the return,
  /// unless cancel() comes first.
  virtual void find(Found found, TimePoint now) = 0;
  virtual void cancel() = 0;
  /// The group of the last search that found one; empty before that.
  [[nodiscard]] virtual const std::optional<wire::IbarpBroadcast>& group() const = 0;
};

/// Answers the searches of other hosts.
class BroadcastServer {
 public:
  virtual ~BroadcastServer() = default;
  /// From now on the answer has these parameters.
  virtual void offer(const LinkParameters& parameters) = 0;
  virtual void withdraw() = 0;
};

}  // namespace ipoib::link
