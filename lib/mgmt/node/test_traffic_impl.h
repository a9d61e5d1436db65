// SPDX-License-Identifier: BSD-3-Clause
// Keeps the workers supplied with a generator that fits mode, configuration and egress.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/fabric/retirement.h"
#include "lib/fwd/generator.h"
#include "lib/mgmt/test_traffic.h"
#include "lib/table/neighbour.h"

namespace ipoib::mgmt {

struct NodeParts;

/// Owns the generators that the workers use.
class TestTrafficImpl final : public TestTraffic {
 public:
  explicit TestTrafficImpl(NodeParts& parts) : parts_{parts} {}

  void set_forward_mode(fwd::ForwardMode mode) override;
  Status set_generator(const fwd::GeneratorConfig& generator) override;
  void send_first(unsigned bursts) override;
  void set_burst(unsigned packets) override;

  /// Gives the workers a generator of the configured packets. Errors: those of set_generator().
  Status publish();
  /// Adapts the generator to the speed of the egress, and starts waiting first bursts once the
  /// egress is up. Call periodically.
  void update();
  /// Frees generators that no worker uses any more. Call once per turn of the loop.
  void collect();
  /// Interface that leads to the first test destination; of an ECMP group, that of bucket 0.
  [[nodiscard]] table::InterfaceId egress() const;
  /// Bursts of send_first() that wait until the egress is up.
  [[nodiscard]] unsigned waiting_bursts() const { return first_bursts_; }

 private:
  NodeParts& parts_;
  std::unique_ptr<const fwd::Generator> generator_;
  std::uint64_t generator_bps_ = 0;  ///< Speed of the egress that generator_ was made for.
  unsigned first_bursts_ = 0;
  fabric::Retired<std::unique_ptr<const fwd::Generator>> old_generators_;
};

}  // namespace ipoib::mgmt
