// SPDX-License-Identifier: BSD-3-Clause
// Parameters of the broadcast group by service ID resolution: SidrFinder asks for them, SidrServer
// answers. Source: draft-pelissier-ipoib-encaparp-00 §6.2.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/cm/manager.h"
#include "lib/link/ipoib/broadcast_finder.h"
#include "lib/link/ipoib/ipoib_types.h"

namespace ipoib::link {

/// The draft does not say whom to ask. The subnet manager is the one node whose LID every node
/// knows, so it is asked unless the configuration names another LID.
class SidrFinder final : public BroadcastFinder {
 public:
  /// References are kept. Shape: config.ibarp is set.
  SidrFinder(const LinkConfig& config, LinkActions& actions, cm::Manager& manager,
             LinkCounters& counters);
  ~SidrFinder() override;

  void find(Found found, TimePoint now) override;
  void cancel() override;
  [[nodiscard]] const std::optional<wire::IbarpBroadcast>& group() const override { return group_; }

 private:
  Status accept(const tl::expected<wire::CmSidrRep, Errc>& outcome);

  const LinkConfig& config_;
  LinkActions& actions_;
  cm::Manager& manager_;
  SidrCounters& counters_;
  std::uint16_t lid_ = 0;  ///< LID of the server that received the question.
  std::optional<cm::SidrId> question_;
  std::optional<wire::IbarpBroadcast> group_;
};

class SidrServer final : public BroadcastServer {
 public:
  /// References are kept. Shape: config.ibarp is set.
  SidrServer(const LinkConfig& config, cm::Manager& manager, LinkCounters& counters);
  ~SidrServer() override { withdraw(); }

  void offer(const LinkParameters& parameters) override;
  void withdraw() override;

 private:
  const LinkConfig& config_;
  cm::Manager& manager_;
  SidrCounters& counters_;
};

}  // namespace ipoib::link
