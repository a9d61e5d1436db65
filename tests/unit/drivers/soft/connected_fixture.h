// SPDX-License-Identifier: BSD-3-Clause
// The fixture of tests of connected queue pairs.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/sim_hca_pair.h"

namespace ipoib::soft {

class ConnectedFixture : public testing::Test, public SimHcaPair {
 protected:
  void SetUp() override { ASSERT_EQ(mbufs_in_use(), 0U); }
  /// Expects that every mbuf is back in its pool.
  void TearDown() override {
    clear();
    EXPECT_EQ(mbufs_in_use(), 0U);
    EXPECT_EQ(rte_mempool_in_use_count(share_pool()), 0U);
  }
  static unsigned mbufs_in_use() { return rte_mempool_in_use_count(pool()); }
};

}  // namespace ipoib::soft
