// SPDX-License-Identifier: BSD-3-Clause
// The embedded administrator in virtual time: MADs arrive at once, and the clock jumps to the next
// deadline when no MAD is pending.
#pragma once

#include <deque>
#include <utility>

#include "lib/sa/embedded/administrator.h"
#include "tests/lab/conformance/subnet_under_test.h"

namespace ipoib::conformance {

class EmbeddedSubnet final : public SubnetUnderTest {
 public:
  EmbeddedSubnet();

  [[nodiscard]] std::string_view name() const override { return "embedded"; }
  [[nodiscard]] PortUnderTest port(PortId id) const override;
  [[nodiscard]] PortUnderTest administrator() const override;
  [[nodiscard]] TimePoint now() const override { return now_; }
  Status send(PortId from, const fabric::MadAddress& to,
              std::span<const std::byte, wire::kMadLen> mad) override;
  void step(TimePoint until, const Deliver& deliver) override;
  /// There is no sweep: a port that was silent for long goes out of service when another port
  /// claims its LID.
  void unplug(PortId id) override;
  void plug(PortId id) override;
  [[nodiscard]] std::size_t longest_answer() const override { return 1U << 20; }

 private:
  void claim(const wire::Gid& gid, std::uint16_t lid);
  void put(std::uint16_t lid, const wire::SaMad& mad);

  TimePoint now_{std::chrono::seconds(1)};
  sa::Administrator sa_;
  std::deque<std::pair<std::uint16_t, wire::SaMad>> on_their_way_;  ///< With the destination LID.
};

}  // namespace ipoib::conformance
