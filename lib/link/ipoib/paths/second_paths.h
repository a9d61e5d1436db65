// SPDX-License-Identifier: BSD-3-Clause
// Queries the SA for second paths to ports, which lead from another LID of this port to another LID of
// the other one than the first: a peer finds no fault in packets only if they come from the LID that
// its own path leads to. Source: IBA vol 1 §9.6.1.5, §17.2.8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>

#include "lib/base/clock.h"
#include "lib/fabric/fabric_types.h"
#include "lib/link/ipoib/ipoib_types.h"
#include "lib/link/ipoib/paths/path_table.h"
#include "lib/sa/client.h"
#include "lib/sa/queries.h"

namespace ipoib::link {

/// Management lcore only.
class SecondPaths {
 public:
  using Handler = std::function<void(const std::optional<PathTable::ReadyPath>&, TimePoint now)>;
  /// Limit of queries without an answer. Further ones wait.
  static constexpr std::size_t kMaxQueries = 32;

  SecondPaths(std::uint16_t pkey, LinkActions& actions, sa::Client& sa)
      : pkey_{pkey}, actions_{actions}, sa_{sa} {}
  ~SecondPaths() { clear(); }
  SecondPaths(const SecondPaths&) = delete;
  SecondPaths& operator=(const SecondPaths&) = delete;

  /// Passes the path to `handler` later, or none if the SA has none of this MTU (code) or a larger one.
  /// Returns false if there can be no second path: ports have one LID each (LMC 0), or the path leads
  /// through routers.
  bool ask(const wire::Gid& gid, const fabric::AhAttr& first, std::uint8_t least_mtu,
           Handler handler, TimePoint now);
  /// Ends all queries without a call of their handlers.
  void clear();

 private:
  struct Question {
    wire::Gid gid;
    fabric::AhAttr first;
    std::uint8_t least_mtu;
    Handler handler;
  };
  void submit_waiting(TimePoint now);
  void submit(Question question, TimePoint now);
  [[nodiscard]] std::optional<PathTable::ReadyPath> accept(const wire::Gid& gid,
                                                           const fabric::LidPair& lids,
                                                           std::uint8_t least_mtu,
                                                           const sa::Outcome& outcome) const;

  std::uint16_t pkey_;
  LinkActions& actions_;
  sa::Client& sa_;
  std::set<sa::TransactionId> queries_;
  std::deque<Question> waiting_;
};

}  // namespace ipoib::link
