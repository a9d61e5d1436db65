// SPDX-License-Identifier: BSD-3-Clause
// The forward mode of a node and the test packets that its workers make.
#pragma once

#include "lib/base/result.h"
#include "lib/fwd/generator_config.h"
#include "lib/fwd/modes.h"

namespace ipoib::mgmt {

/// Management lcore only. Implemented by TestTrafficImpl, and by a fake in the tests of app/.
class TestTraffic {
 public:
  virtual ~TestTraffic() = default;

  virtual void set_forward_mode(fwd::ForwardMode mode) = 0;
  /// Sets the packets that generating forward modes send; NodeView::config() has it.
  /// kInvalidArgument: fwd::Generator refuses the configuration, and the previous one stays.
  virtual Status set_generator(const fwd::GeneratorConfig& generator) = 0;
  /// Each worker sends `bursts` bursts of the generator's packets, in any mode, as soon as
  /// forwarding is on and the interface that leads to their destination is up.
  virtual void send_first(unsigned bursts) = 0;
  /// `packets`: 1 to fwd::kMaxBurst.
  virtual void set_burst(unsigned packets) = 0;
};

}  // namespace ipoib::mgmt
