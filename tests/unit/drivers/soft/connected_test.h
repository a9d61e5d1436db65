// SPDX-License-Identifier: BSD-3-Clause
// The world of connected queue pairs as a test fixture.
#pragma once

#include <gtest/gtest.h>

#include "tests/unit/drivers/soft/connected_fixture.h"

namespace ipoib::soft {

class ConnectedTest : public testing::Test, public ConnectedWorld {
 protected:
  void SetUp() override { ASSERT_EQ(mbufs_in_use(), 0U); }
  /// Every mbuf is back.
  void TearDown() override {
    clear();
    EXPECT_EQ(mbufs_in_use(), 0U);
  }
  static unsigned mbufs_in_use() { return rte_mempool_in_use_count(pool()); }
};

}  // namespace ipoib::soft
