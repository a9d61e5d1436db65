// SPDX-License-Identifier: BSD-3-Clause
// A test fixture on top of ConnectedWorld.
#pragma once

#include <gtest/gtest.h>

#include "tests/unit/drivers/soft/connected_fixture.h"

namespace ipoib::soft {

class ConnectedTest : public testing::Test, public ConnectedWorld {
 protected:
  void SetUp() override { ASSERT_EQ(mbufs_in_use(), 0U); }
  /// Expects that every mbuf is back in the pool.
  void TearDown() override {
    clear();
    EXPECT_EQ(mbufs_in_use(), 0U);
  }
  static unsigned mbufs_in_use() { return rte_mempool_in_use_count(pool()); }
};

}  // namespace ipoib::soft
