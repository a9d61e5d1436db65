// SPDX-License-Identifier: BSD-3-Clause
// Queries the SA for second paths to ports, which lead to another LID of the port than the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>

#include "lib/base/clock.h"
#include "lib/fabric/fabric_types.h"
#include "lib/link/ipoib/ipoib_types.h"
#include "lib/sa/client.h"

namespace ipoib::link {

/// Management lcore only.
class SecondPaths {
 public:
  using Handler = std::function<void(const std::optional<fabric::AhAttr>&, TimePoint now)>;
  /// Limit of queries without an answer. Further ones are not made.
  static constexpr std::size_t kMaxQueries = 32;

  SecondPaths(std::uint16_t pkey, LinkActions& actions, sa::Client& sa)
      : pkey_{pkey}, actions_{actions}, sa_{sa} {}
  ~SecondPaths() { clear(); }
  SecondPaths(const SecondPaths&) = delete;
  SecondPaths& operator=(const SecondPaths&) = delete;

  /// Passes the path to `handler` later, or none if the SA has none. Does nothing if ports have one LID
  /// each (LMC 0) or the path leads through routers.
  void ask(const wire::Gid& gid, const fabric::AhAttr& first, Handler handler, TimePoint now);
  /// Ends all queries without a call of their handlers.
  void clear();

 private:
  [[nodiscard]] std::optional<fabric::AhAttr> accept(const wire::Gid& gid, std::uint16_t dlid,
                                                     const sa::Outcome& outcome) const;

  std::uint16_t pkey_;
  LinkActions& actions_;
  sa::Client& sa_;
  std::set<sa::TransactionId> queries_;
};

}  // namespace ipoib::link
