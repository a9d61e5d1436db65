// SPDX-License-Identifier: BSD-3-Clause
// The loops of a node in virtual time.
#pragma once

#include <rte_cycles.h>

#include <gtest/gtest.h>

#include <chrono>

#include "lib/mgmt/stepped_node.h"
#include "tests/support/sim_tsc.h"

namespace ipoib::mgmt {

/// Runs the loops of management and of worker 0 every 10 ms.
inline void pass(SteppedNode& node, Duration d) {
  for (const TimePoint end = node.now() + d; node.now() < end;) {
    ipoib::test::sim_tsc += rte_get_tsc_hz() / 100;
    node.iterate(0);
    node.run_once();
  }
  node.iterate(0);
}

/// The node announces its departure, and has left after a second.
inline void leave(SteppedNode& node) {
  node.begin_to_leave();
  pass(node, std::chrono::seconds(1));
  EXPECT_TRUE(node.has_left());
}

}  // namespace ipoib::mgmt
