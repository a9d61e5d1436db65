// SPDX-License-Identifier: BSD-3-Clause
// Calls that break the contracts of the tables.
#include <rte_malloc.h>
#include <rte_rcu_qsbr.h>

#include <gtest/gtest.h>

#include <array>

#include "lib/table/neighbour_table.h"
#include "lib/table/own_addresses.h"
#include "lib/table/prefix6_table.h"
#include "lib/table/prefix_table.h"
#include "tests/support/contract_checks.h"

namespace ipoib::table {
namespace {

class TableContractDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    rcu_ = static_cast<rte_rcu_qsbr*>(
        rte_zmalloc("rcu", rte_rcu_qsbr_get_memsize(1), RTE_CACHE_LINE_SIZE));
    ASSERT_EQ(rte_rcu_qsbr_init(rcu_, 1), 0);
  }
  void TearDown() override { rte_free(rcu_); }

  rte_rcu_qsbr* rcu_ = nullptr;
};

TEST_F(TableContractDeathTest, WorkersWriteNoSharedTable) {
  const std::string wrong = "wrong lcore: a worker called";
  NextHopTable hops;
  OwnAddresses own;
  const auto prefixes = *PrefixTable::create({.max_prefixes = 8, .max_groups = 8}, rcu_);
  const auto prefixes6 = *Prefix6Table::create({.max_prefixes = 8}, rcu_);
  const wire::IpPrefix v4 = *wire::parse_prefix("10.0.0.0/8");
  const wire::IpPrefix v6 = *wire::parse_prefix("fd00::/64");
  const ActingAs role{LcoreRole::worker_number(0)};
  expect_broken([&] { hops.set(1, NextHop{}); }, "next_hop.h:[0-9]+: " + wrong);
  expect_broken([&] { own.add(v4.addr); }, wrong);
  expect_broken([&] { own.remove(v4.addr); }, wrong);
  expect_broken([&] { static_cast<void>(prefixes->add(v4, 1)); }, wrong);
  expect_broken([&] { static_cast<void>(prefixes->remove(v4)); }, wrong);
  expect_broken([&] { static_cast<void>(prefixes->add_neighbour(1, 1, kAdjacency)); }, wrong);
  expect_broken([&] { prefixes->remove_neighbour(1, 1); }, wrong);
  expect_broken([&] { static_cast<void>(prefixes6->add(v6, 1)); }, wrong);
  expect_broken([&] { static_cast<void>(prefixes6->remove(v6)); }, wrong);
  // Reading is allowed to every lcore.
  EXPECT_EQ(prefixes->lookup(0x0b000001), kNextHopNone);
  EXPECT_EQ(hops.get(2).kind, NextHopKind::kNone);
}

TEST_F(TableContractDeathTest, LookupsHaveAPlaceForEachAddress) {
  const std::string few = "the caller broke a contract: each address has a place";
  const auto prefixes = *PrefixTable::create({.max_prefixes = 8, .max_groups = 8}, rcu_);
  const auto prefixes6 = *Prefix6Table::create({.max_prefixes = 8}, rcu_);
  const std::array<std::uint32_t, 2> v4{};
  const std::array<wire::IpAddr, 2> v6{};
  std::array<NextHopIndex, 2> out{};
  prefixes->lookup(v4, out);
  prefixes6->lookup(v6, out);
  expect_caught([&] { prefixes->lookup(v4, std::span{out}.first(1)); }, few);
  expect_caught([&] { prefixes6->lookup(v6, std::span{out}.first(1)); }, few);
}

TEST_F(TableContractDeathTest, NumbersAreInRange) {
  NextHopTable hops;
  EXPECT_EQ(hops.get(kMaxNextHops - 1).kind, NextHopKind::kNone);
  expect_caught([&] { static_cast<void>(hops.get(kMaxNextHops)); }, "the number is a next hop's");
  NextHopTable few{0, 10};
  expect_caught([&] { few.set(adjacency_of(10, true), NextHop{}); }, "the number is a next hop's");
  expect_broken([&] { static_cast<void>(hops.member(NextHop{}, 1)); }, "the next hop is a group");
}

TEST_F(TableContractDeathTest, AWorkersTableHasOneOwner) {
  const auto cache = *NeighbourTable::create(4, 1);
  Neighbour valid;
  valid.state = NeighbourState::kValid;
  {
    const ActingAs role{LcoreRole::worker_number(0)};
    ASSERT_TRUE(cache->set(1, valid));
    EXPECT_NE(cache->at(1), nullptr);
  }
  EXPECT_NE(cache->at(1), nullptr) << "set-up and tests may look";
  {
    const ActingAs role{LcoreRole::management()};
    EXPECT_EQ(cache->last_used_s(1), 0U) << "of the stamps anybody may ask";
    expect_broken([&] { static_cast<void>(cache->at(1)); }, "two lcores");
  }
  const ActingAs role{LcoreRole::worker_number(1)};
  expect_broken([&] { static_cast<void>(cache->at(1)); }, "two lcores");
}

}  // namespace
}  // namespace ipoib::table
