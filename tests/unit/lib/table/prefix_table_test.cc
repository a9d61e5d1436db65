// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/prefix_table.h"

#include <rte_malloc.h>
#include <rte_rcu_qsbr.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/addresses.h"

namespace ipoib::table {
namespace {

using ipoib::test::prefix;

std::uint32_t addr(const char* text) {
  return wire::parse_ip(text)->v4_host();
}

/// Slots: the networks of two interfaces, and a route to somewhere else.
constexpr NextHopIndex kIb0 = 1, kIb1 = 2, kElsewhere = 3;
NextHopIndex host(NeighbourIndex neighbour) {
  return adjacency_of(neighbour, false);
}

class PrefixTableTest : public testing::Test {
 protected:
  void SetUp() override {
    rcu_ = static_cast<rte_rcu_qsbr*>(
        rte_zmalloc("rcu", rte_rcu_qsbr_get_memsize(4), RTE_CACHE_LINE_SIZE));
    ASSERT_EQ(rte_rcu_qsbr_init(rcu_, 4), 0);
    make({});
  }
  void TearDown() override {
    table_.reset();
    rte_free(rcu_);
  }
  void make(const PrefixTable::Config& config) {
    table_.reset();
    auto table = PrefixTable::create(config, rcu_);
    ASSERT_TRUE(table) << table.error().what;
    table_ = std::move(*table);
  }

  rte_rcu_qsbr* rcu_ = nullptr;
  std::unique_ptr<PrefixTable> table_;
};

TEST_F(PrefixTableTest, EmptyTableFindsNothing) {
  EXPECT_EQ(table_->lookup(0), kNextHopNone);
  EXPECT_EQ(table_->lookup(0xffff'ffff), kNextHopNone);
}

TEST_F(PrefixTableTest, P05_LongestPrefixWins) {
  ASSERT_TRUE(table_->add(prefix("10.0.0.0/8"), 1));
  ASSERT_TRUE(table_->add(prefix("10.1.0.0/16"), 2));
  ASSERT_TRUE(table_->add(prefix("10.1.2.0/24"), 3));
  ASSERT_TRUE(table_->add(prefix("10.1.2.128/25"), 4));
  ASSERT_TRUE(table_->add(prefix("10.1.2.200/32"), 5));
  ASSERT_TRUE(table_->add(prefix("0.0.0.0/0"), 6));
  const std::vector<std::pair<const char*, NextHopIndex>> rows = {
      {"10.2.0.1", 1},   {"10.1.3.1", 2}, {"10.1.2.1", 3}, {"10.1.2.129", 4},     {"10.1.2.200", 5},
      {"10.1.2.201", 4}, {"11.0.0.1", 6}, {"0.0.0.0", 6},  {"255.255.255.255", 6}};
  for (const auto& [address, expected] : rows)
    EXPECT_EQ(table_->lookup(addr(address)), expected) << address;

  ASSERT_TRUE(table_->remove(prefix("10.1.2.200/32")));
  EXPECT_EQ(table_->lookup(addr("10.1.2.200")), 4U);
  ASSERT_TRUE(table_->remove(prefix("10.0.0.0/8")));
  EXPECT_EQ(table_->lookup(addr("10.2.0.1")), 6U) << "the default route again";
}

TEST_F(PrefixTableTest, DefaultRouteStandsBesideTheTwoHalves) {
  ASSERT_TRUE(table_->add(prefix("0.0.0.0/0"), 1));
  ASSERT_TRUE(table_->add(prefix("0.0.0.0/1"), 2));
  ASSERT_TRUE(table_->add(prefix("128.0.0.0/1"), 3));
  EXPECT_EQ(table_->lookup(addr("1.1.1.1")), 2U);
  EXPECT_EQ(table_->lookup(addr("200.1.1.1")), 3U);
  ASSERT_TRUE(table_->remove(prefix("0.0.0.0/1")));
  EXPECT_EQ(table_->lookup(addr("1.1.1.1")), 1U);
  ASSERT_TRUE(table_->remove(prefix("0.0.0.0/0")));
  EXPECT_EQ(table_->lookup(addr("1.1.1.1")), kNextHopNone);
  EXPECT_EQ(table_->lookup(addr("200.1.1.1")), 3U);
}

TEST_F(PrefixTableTest, AddReplacesAndIgnoresHostBits) {
  ASSERT_TRUE(table_->add(prefix("10.0.0.77/24"), 1));
  EXPECT_EQ(table_->lookup(addr("10.0.0.1")), 1U);
  ASSERT_TRUE(table_->add(prefix("10.0.0.78/24"), 2));
  EXPECT_EQ(table_->lookup(addr("10.0.0.1")), 2U);
  ASSERT_TRUE(table_->add(prefix("10.0.0.0/24"), 2)) << "once more the same";
  ASSERT_TRUE(table_->remove(prefix("10.0.0.1/24")));
  EXPECT_EQ(table_->lookup(addr("10.0.0.1")), kNextHopNone);
  EXPECT_EQ(table_->remove(prefix("10.0.0.0/24")).error().code, Errc::kNotFound);
  EXPECT_EQ(table_->remove(prefix("0.0.0.0/0")).error().code, Errc::kNotFound);
}

TEST_F(PrefixTableTest, RefusesWhatItCannotHold) {
  EXPECT_EQ(table_->add(prefix("fd00::/64"), 1).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(table_->remove(prefix("fd00::/64")).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(table_->add({wire::IpAddr::v4(0), 33}, 1).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(table_->add(prefix("10.0.0.0/8"), kMaxNextHops).error().code, Errc::kInvalidArgument);
}

TEST_F(PrefixTableTest, FullTableTakesReplacementsOnly) {
  make({.name = "full", .max_prefixes = 2, .max_groups = 1});
  ASSERT_TRUE(table_->add(prefix("10.0.0.0/8"), 1));
  ASSERT_TRUE(table_->add(prefix("0.0.0.0/0"), 2));
  EXPECT_EQ(table_->add(prefix("10.0.0.1/32"), 3).error().code, Errc::kNoResources);
  EXPECT_EQ(table_->lookup(addr("10.0.0.1")), 1U);
  ASSERT_TRUE(table_->add(prefix("10.0.0.0/8"), 4));
  EXPECT_EQ(table_->lookup(addr("10.0.0.1")), 4U);
  ASSERT_TRUE(table_->remove(prefix("0.0.0.0/0")));
  ASSERT_TRUE(table_->add(prefix("10.0.0.1/32"), 3)) << "the refused prefix kept no group";
  EXPECT_EQ(table_->lookup(addr("10.0.0.1")), 3U);
  EXPECT_EQ(table_->lookup(addr("11.0.0.1")), kNextHopNone);
}

/// Adds, replaces and removes prefixes of all lengths in a small space, where they nest and share
/// groups, and compares each address with a linear search.
TEST_F(PrefixTableTest, P05_ChangesAgreeWithALinearSearch) {
  std::mt19937 random{7};
  std::map<wire::IpPrefix, NextHopIndex> rows;
  constexpr std::uint32_t kBase = 0x0a00'0000;
  constexpr std::uint32_t kSpace = 4 * 256;
  for (NextHopIndex step = 1; step <= 3000; ++step) {
    wire::IpPrefix p{
        wire::IpAddr::v4(kBase + random() % kSpace),
        static_cast<std::uint8_t>(random() % 3 == 0 ? random() % 33 : 20 + random() % 13)};
    p.addr = wire::network(p);
    if (random() % 2 == 0) {
      ASSERT_TRUE(table_->add(p, step));
      rows[p] = step;
    } else {
      ASSERT_EQ(table_->remove(p).has_value(), rows.erase(p) == 1);
    }
    ASSERT_EQ(table_->size(), rows.size());
    if (step % 50 != 0) continue;
    for (std::uint32_t a = kBase - 300; a < kBase + kSpace + 300; ++a) {
      NextHopIndex expected = kNextHopNone;
      int best = -1;
      for (const auto& [q, hop] : rows)
        if (q.len > best && wire::contains(q, wire::IpAddr::v4(a))) {
          best = q.len;
          expected = hop;
        }
      ASSERT_EQ(table_->lookup(a), expected) << "step " << step << " address " << a;
    }
  }
}

/// The bursts have lengths that are multiples of the vector width, and lengths that are not.
TEST_F(PrefixTableTest, P05_BurstsAgreeWithALinearSearch) {
  std::independent_bits_engine<std::mt19937, 32, std::uint32_t> random{1};
  std::vector<std::pair<wire::IpPrefix, NextHopIndex>> rows;
  for (NextHopIndex hop = 1; hop <= 300; ++hop) {
    // The prefixes have all lengths and are close together, so that they nest.
    const auto base = 0x0a00'0000U | (random() & 0x0003'ffffU);
    wire::IpPrefix p{wire::IpAddr::v4(base), static_cast<std::uint8_t>(hop % 33)};
    p.addr = wire::network(p);
    bool known = false;
    for (auto& [q, h] : rows)
      if (q == p) {
        h = hop;
        known = true;
      }
    if (!known) rows.emplace_back(p, hop);
    ASSERT_TRUE(table_->add(p, hop));
  }
  for (std::size_t n = 0; n <= 64; ++n) {
    alignas(16) std::array<std::uint32_t, 64> addrs;
    alignas(16) std::array<NextHopIndex, 64> out;
    for (auto& a : addrs) a = random() % 8 == 0 ? random() : 0x0a00'0000U | (random() & 0x3'ffffU);
    table_->lookup(std::span{addrs}.first(n), out);
    for (std::size_t i = 0; i < n; ++i) {
      NextHopIndex expected = kNextHopNone;
      int best = -1;
      for (const auto& [p, hop] : rows)
        if (p.len > best && wire::contains(p, wire::IpAddr::v4(addrs[i]))) {
          best = p.len;
          expected = hop;
        }
      ASSERT_EQ(out[i], expected);
    }
  }
}

/// A reader that passes no quiescent state prevents the reuse of freed groups. After its next
/// quiescent state they are reused.
TEST_F(PrefixTableTest, P07_GroupsAreUsedAgainOnlyAfterTheGracePeriod) {
  make({.name = "rcu", .max_prefixes = 64, .max_groups = 2, .socket = -1});
  rte_rcu_qsbr_thread_register(rcu_, 0);
  rte_rcu_qsbr_thread_online(rcu_, 0);
  ASSERT_TRUE(table_->add(prefix("10.0.0.1/32"), 1));
  ASSERT_TRUE(table_->add(prefix("10.0.1.1/32"), 2));
  EXPECT_EQ(table_->add(prefix("10.0.2.1/32"), 3).error().code, Errc::kNoResources);
  ASSERT_TRUE(table_->remove(prefix("10.0.0.1/32")));
  EXPECT_EQ(table_->add(prefix("10.0.2.1/32"), 3).error().code, Errc::kNoResources)
      << "a reader may still look into the group";
  rte_rcu_qsbr_quiescent(rcu_, 0);
  EXPECT_TRUE(table_->add(prefix("10.0.2.1/32"), 3));
  EXPECT_EQ(table_->lookup(addr("10.0.2.1")), 3U);
  EXPECT_EQ(table_->lookup(addr("10.0.1.1")), 2U);
  rte_rcu_qsbr_thread_offline(rcu_, 0);
  rte_rcu_qsbr_thread_unregister(rcu_, 0);
}

TEST_F(PrefixTableTest, ANeighbourIsFoundByItsAddressUntilItIsRemoved) {
  ASSERT_TRUE(table_->add(prefix("10.0.0.0/8"), kIb0));
  ASSERT_TRUE(table_->add_neighbour(addr("10.0.0.7"), kIb0, host(5)));
  EXPECT_EQ(table_->lookup(addr("10.0.0.7")), host(5));
  EXPECT_EQ(table_->lookup(addr("10.0.0.8")), kIb0);
  EXPECT_EQ(table_->size(), 1U);
  ASSERT_TRUE(table_->add_neighbour(addr("10.0.0.7"), kIb0, host(6))) << "another number";
  EXPECT_EQ(table_->lookup(addr("10.0.0.7")), host(6));
  table_->remove_neighbour(addr("10.0.0.7"), kIb1);
  EXPECT_EQ(table_->lookup(addr("10.0.0.7")), host(6)) << "that was no neighbour";
  table_->remove_neighbour(addr("10.0.0.7"), kIb0);
  EXPECT_EQ(table_->lookup(addr("10.0.0.7")), kIb0);
}

TEST_F(PrefixTableTest, AnyOtherRouteToANeighbourWinsBeforeAndAfter) {
  for (const char* other :
       {"10.0.0.0/16", "10.0.0.0/17", "10.0.0.0/24", "10.0.0.4/30", "10.0.0.7/32"}) {
    SCOPED_TRACE(other);
    ASSERT_TRUE(table_->add(prefix("10.0.0.0/8"), kElsewhere));
    ASSERT_TRUE(table_->add(prefix("10.0.0.0/16"), kIb0));
    ASSERT_TRUE(table_->add_neighbour(addr("10.0.0.7"), kIb0, host(5)));
    ASSERT_TRUE(table_->add(prefix(other), kElsewhere));
    EXPECT_EQ(table_->lookup(addr("10.0.0.7")), kElsewhere) << "after it";
    table_->remove_neighbour(addr("10.0.0.7"), kIb0);
    EXPECT_EQ(table_->lookup(addr("10.0.0.7")), kElsewhere);
    ASSERT_TRUE(table_->add_neighbour(addr("10.0.0.7"), kIb0, host(5)));
    EXPECT_EQ(table_->lookup(addr("10.0.0.7")), kElsewhere) << "before it";
    ASSERT_TRUE(table_->remove(prefix(other)));
    ASSERT_TRUE(table_->add(prefix("10.0.0.0/16"), kIb0));
    EXPECT_EQ(table_->lookup(addr("10.0.0.7")), host(5)) << "without it";
    table_->remove_neighbour(addr("10.0.0.7"), kIb0);
  }
}

TEST_F(PrefixTableTest, ANeighbourWaitsForItsNetwork) {
  ASSERT_TRUE(table_->add_neighbour(addr("10.0.0.7"), kIb0, host(5)));
  EXPECT_EQ(table_->lookup(addr("10.0.0.7")), kNextHopNone);
  ASSERT_TRUE(table_->add(prefix("0.0.0.0/0"), kIb0));
  EXPECT_EQ(table_->lookup(addr("10.0.0.7")), kIb0) << "length 0 leads to no neighbour";
  ASSERT_TRUE(table_->add(prefix("10.0.0.0/24"), kIb0));
  EXPECT_EQ(table_->lookup(addr("10.0.0.7")), host(5));
  ASSERT_TRUE(table_->add(prefix("10.0.0.7/32"), kIb0));
  EXPECT_EQ(table_->lookup(addr("10.0.0.7")), host(5)) << "a longer route to the same interface";
  ASSERT_TRUE(table_->remove(prefix("10.0.0.7/32")));
  ASSERT_TRUE(table_->remove(prefix("10.0.0.0/24")));
  EXPECT_EQ(table_->lookup(addr("10.0.0.7")), kIb0);
}

TEST_F(PrefixTableTest, OfTwoNeighboursWithOneAddressTheRouteDecides) {
  ASSERT_TRUE(table_->add(prefix("10.0.0.0/8"), kIb0));
  ASSERT_TRUE(table_->add_neighbour(addr("10.0.0.7"), kIb1, host(6)));
  ASSERT_TRUE(table_->add_neighbour(addr("10.0.0.7"), kIb0, host(5)));
  EXPECT_EQ(table_->lookup(addr("10.0.0.7")), host(5));
  ASSERT_TRUE(table_->add(prefix("10.0.0.0/16"), kIb1));
  EXPECT_EQ(table_->lookup(addr("10.0.0.7")), host(6));
  table_->remove_neighbour(addr("10.0.0.7"), kIb1);
  EXPECT_EQ(table_->lookup(addr("10.0.0.7")), kIb1);
  ASSERT_TRUE(table_->remove(prefix("10.0.0.0/16")));
  EXPECT_EQ(table_->lookup(addr("10.0.0.7")), host(5));
}

TEST_F(PrefixTableTest, TheGroupOfTheLastNeighbourIsUsedAgainAfterTheGracePeriod) {
  make({.name = "rcu", .max_prefixes = 64, .max_groups = 1, .socket = -1});
  rte_rcu_qsbr_thread_register(rcu_, 0);
  rte_rcu_qsbr_thread_online(rcu_, 0);
  ASSERT_TRUE(table_->add(prefix("10.0.0.0/8"), kIb0));
  ASSERT_TRUE(table_->add_neighbour(addr("10.0.0.7"), kIb0, host(5)));
  ASSERT_TRUE(table_->add_neighbour(addr("10.0.0.8"), kIb0, host(6)));
  table_->remove_neighbour(addr("10.0.0.7"), kIb0);
  rte_rcu_qsbr_quiescent(rcu_, 0);
  EXPECT_FALSE(table_->add(prefix("10.0.1.1/32"), kElsewhere)) << "the group is in use";
  table_->remove_neighbour(addr("10.0.0.8"), kIb0);
  EXPECT_EQ(table_->lookup(addr("10.0.0.8")), kIb0);
  EXPECT_FALSE(table_->add(prefix("10.0.1.1/32"), kElsewhere)) << "a reader may look into it";
  rte_rcu_qsbr_quiescent(rcu_, 0);
  EXPECT_TRUE(table_->add(prefix("10.0.1.1/32"), kElsewhere));
  rte_rcu_qsbr_thread_offline(rcu_, 0);
  rte_rcu_qsbr_thread_unregister(rcu_, 0);
}

TEST_F(PrefixTableTest, NeighboursLeaveAQuarterOfTheGroupsToRoutes) {
  make({.name = "share", .max_prefixes = 64, .max_groups = 4});
  ASSERT_TRUE(table_->add(prefix("10.0.0.0/8"), kIb0));
  for (const char* text : {"10.0.0.1", "10.0.1.1", "10.0.2.1", "10.0.2.2"})
    ASSERT_TRUE(table_->add_neighbour(addr(text), kIb0, host(5)));
  EXPECT_EQ(table_->add_neighbour(addr("10.0.3.1"), kIb0, host(6)).error().code,
            Errc::kNoResources);
  EXPECT_EQ(table_->lookup(addr("10.0.3.1")), kIb0);
  table_->remove_neighbour(addr("10.0.3.1"), kIb0);
  ASSERT_TRUE(table_->add(prefix("10.0.3.2/32"), kElsewhere));
  EXPECT_EQ(table_->lookup(addr("10.0.3.1")), kIb0) << "the refused one has left nothing";
  EXPECT_FALSE(table_->add(prefix("10.0.4.1/32"), kElsewhere));
  EXPECT_TRUE(table_->add_neighbour(addr("10.0.3.1"), kIb0, host(6))) << "the group is there";
  EXPECT_EQ(table_->lookup(addr("10.0.3.1")), host(6));
}

/// Prefixes and neighbours of a small space come and go, and so do groups, of which there are too
/// few. After each step, each address is compared with a new table.
TEST_F(PrefixTableTest, ChangesOfPrefixesAndNeighboursAgreeWithANaiveTable) {
  make({.name = "naive", .max_prefixes = 1024, .max_groups = 5});
  std::independent_bits_engine<std::mt19937, 32, std::uint32_t> random{11};
  constexpr std::uint32_t kBase = 0x0a00'0000, kSpace = 6 * 256;
  std::map<std::pair<std::uint8_t, std::uint32_t>, NextHopIndex> routes;
  std::map<std::pair<NextHopIndex, std::uint32_t>, NextHopIndex> neighbours;
  unsigned refused = 0;
  for (NeighbourIndex step = 1; step <= 4000; ++step) {
    const std::uint32_t a = kBase + random() % kSpace;
    const NextHopIndex via = 1 + random() % 3;
    switch (random() % 6) {
      case 0:
      case 1:
        if (!table_->add_neighbour(a, via, host(step)))
          ++refused;
        else
          neighbours[{via, a}] = host(step);
        break;
      case 2:
        for (int n = 0; n < 3 && !neighbours.empty(); ++n) {
          const auto it =
              std::next(neighbours.begin(), static_cast<int>(random() % neighbours.size()));
          table_->remove_neighbour(it->first.second, it->first.first);
          neighbours.erase(it);
        }
        break;
      case 3:
      case 4: {
        wire::IpPrefix p{wire::IpAddr::v4(a), static_cast<std::uint8_t>(random() % 33)};
        p.addr = wire::network(p);
        if (!table_->add(p, via))
          ++refused;
        else
          routes[{p.len, p.addr.v4_host()}] = via;
        break;
      }
      default:
        if (routes.empty()) break;
        const auto it = std::next(routes.begin(), static_cast<int>(random() % routes.size()));
        ASSERT_TRUE(table_->remove({wire::IpAddr::v4(it->first.second), it->first.first}));
        routes.erase(it);
    }
    ASSERT_EQ(table_->size(), routes.size());
    std::array<NextHopIndex, kSpace> expected{};
    NextHopIndex all = kNextHopNone;  // the route of length 0
    for (const auto& [p, hop] : routes) {
      const std::uint64_t first = std::max(p.second, kBase);
      const std::uint64_t end = p.second + (std::uint64_t{1} << (32 - p.first));
      if (p.first == 0) all = hop;
      for (std::uint64_t i = first; p.first > 0 && i < end && i < kBase + kSpace; ++i)
        expected[i - kBase] = hop;
    }
    for (const auto& [key, number] : neighbours)
      if (expected[key.second - kBase] == key.first) expected[key.second - kBase] = number;
    for (std::uint32_t i = 0; i < kSpace; ++i)
      ASSERT_EQ(table_->lookup(kBase + i), expected[i] != 0 ? expected[i] : all)
          << "step " << step << " address " << i;
  }
  EXPECT_GT(refused, 10U);
}

TEST(NextHopTable, AdjacenciesNameNeighboursWithTheirInterface) {
  NextHopTable hops{0, 10};
  hops.set(adjacency_of(9, false), {NextHopKind::kConnected, 0, 3, kNoNeighbour});
  EXPECT_EQ(hops.get(adjacency_of(9, false)), (NextHop{NextHopKind::kConnected, 0, 3, 9}));
  EXPECT_EQ(hops.get(adjacency_of(9, true)), (NextHop{NextHopKind::kGateway, 0, 3, 9}));
  EXPECT_EQ(hops.get(adjacency_of(8, true)), (NextHop{NextHopKind::kGateway, 0, kNoInterface, 8}));
  for (const bool gateway : {false, true}) {
    const NextHopIndex last = adjacency_of(kMaxAdjacencies - 1, gateway);
    EXPECT_TRUE(is_adjacency(last) && is_next_hop(last));
    EXPECT_EQ(neighbour_of(last), kMaxAdjacencies - 1);
  }
  EXPECT_FALSE(is_next_hop(kMaxNextHops) || is_next_hop(1U << kNextHopBits | kAdjacency));
}

TEST(NextHopTable, HoldsWhatWasSet) {
  NextHopTable hops;
  EXPECT_EQ(hops.get(kNextHopNone).kind, NextHopKind::kNone);
  EXPECT_EQ(hops.get(kMaxNextHops - 1).kind, NextHopKind::kNone);
  const NextHop hop{NextHopKind::kGateway, 0, 3, 77};
  hops.set(5, hop);
  EXPECT_EQ(hops.get(5), hop);
}

}  // namespace
}  // namespace ipoib::table
