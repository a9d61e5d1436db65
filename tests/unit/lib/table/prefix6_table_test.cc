// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/prefix6_table.h"

#include <rte_malloc.h>
#include <rte_rcu_qsbr.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

namespace ipoib::table {
namespace {

using wire::IpAddr;
using wire::IpPrefix;

class Prefix6 : public testing::Test {
 protected:
  void SetUp() override {
    rcu = static_cast<rte_rcu_qsbr*>(
        rte_zmalloc("rcu", rte_rcu_qsbr_get_memsize(4), RTE_CACHE_LINE_SIZE));
    ASSERT_EQ(rte_rcu_qsbr_init(rcu, 4), 0);
    make(1000);
  }
  void TearDown() override {
    table.reset();
    rte_free(rcu);
  }
  void make(std::uint32_t max_prefixes) {
    auto made = Prefix6Table::create({.max_prefixes = max_prefixes}, rcu);
    ASSERT_TRUE(made) << made.error().what;
    table = std::move(*made);
  }
  void add(std::string_view prefix, NextHopIndex hop) {
    const Status status = table->add(*wire::parse_prefix(prefix), hop);
    ASSERT_TRUE(status) << status.error().what;
  }
  void remove(std::string_view prefix) {
    const Status status = table->remove(*wire::parse_prefix(prefix));
    ASSERT_TRUE(status) << status.error().what;
  }
  NextHopIndex find(std::string_view addr) { return table->lookup(*wire::parse_ip(addr)); }

  rte_rcu_qsbr* rcu = nullptr;
  std::unique_ptr<Prefix6Table> table;
};

TEST_F(Prefix6, P05_LongestPrefixWins) {
  EXPECT_EQ(find("2001:db8::1"), kNextHopNone);
  add("::/0", 1);
  add("2001:db8::/32", 2);
  add("2001:db8:1::/48", 3);
  add("2001:db8:1:2::/64", 4);
  add("2001:db8:1:2::7/128", 5);
  EXPECT_EQ(find("2001:db7:ffff::"), 1U);
  EXPECT_EQ(find("2001:db8::1"), 2U);
  EXPECT_EQ(find("2001:db8:1::1"), 3U);
  EXPECT_EQ(find("2001:db8:1:2::6"), 4U);
  EXPECT_EQ(find("2001:db8:1:2::7"), 5U);
  EXPECT_EQ(find("2001:db8:1:2::8"), 4U);
  EXPECT_EQ(find("2001:db8:1:3::"), 3U);
  EXPECT_EQ(find("2001:db9::"), 1U);
  EXPECT_EQ(find("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), 1U);

  remove("2001:db8:1::/48");
  EXPECT_EQ(find("2001:db8:1::1"), 2U) << "what the shorter one covers";
  EXPECT_EQ(find("2001:db8:1:2::6"), 4U) << "the longer one stays";
  remove("::/0");
  EXPECT_EQ(find("2001:db9::"), kNextHopNone);
  EXPECT_EQ(find("2001:db8:1:2::7"), 5U);
}

TEST_F(Prefix6, BothEndsOfThePossible) {
  add("::/128", 1);
  add("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", 2);
  add("8000::/1", 3);
  EXPECT_EQ(find("::"), 1U);
  EXPECT_EQ(find("::1"), kNextHopNone);
  EXPECT_EQ(find("8000::"), 3U);
  EXPECT_EQ(find("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"), 3U);
  EXPECT_EQ(find("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), 2U);
  remove("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128");
  EXPECT_EQ(find("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), 3U);
}

TEST_F(Prefix6, HostBitsAreIgnoredAndNextHopsReplaced) {
  add("2001:db8::77/32", 1);
  add("2001:db8::/32", 2);
  EXPECT_EQ(table->size(), 1U);
  EXPECT_EQ(find("2001:db8::77"), 2U);
  remove("2001:db8:5::/32");
  EXPECT_EQ(find("2001:db8::77"), kNextHopNone);
}

TEST_F(Prefix6, RefusesWhatItCannotHold) {
  EXPECT_EQ(table->add({IpAddr::v4(0x0a000000), 8}, 1).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(table->add({IpAddr{}, 129}, 1).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(table->add({IpAddr{}, 0}, kMaxNextHops).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(table->remove({IpAddr{}, 0}).error().code, Errc::kNotFound);
  EXPECT_EQ(table->remove({IpAddr::v4(0x0a000000), 8}).error().code, Errc::kInvalidArgument);
  EXPECT_FALSE(Prefix6Table::create({.max_prefixes = 0}, rcu));
  make(2);
  add("2001:db8::/64", 1);
  add("2001:db8:0:2::/64", 2);
  EXPECT_EQ(table->add(*wire::parse_prefix("::/0"), 1).error().code, Errc::kNoResources);
  add("2001:db8:0:2::/64", 3);
  remove("2001:db8::/64");
  add("::/0", 1);
  EXPECT_EQ(find("2001:db8::1"), 1U);
}

/// The table agrees with a linear search of a list. It is full again and again, so a boundary that
/// a removal left behind would soon make an addition fail.
TEST_F(Prefix6, P05_AgreesWithALinearSearchUnderRandomChanges) {
  constexpr std::uint32_t kMax = 40;
  make(kMax);
  std::independent_bits_engine<std::mt19937, 32, std::uint32_t> random{11};
  const auto address = [&] {
    // The addresses differ in few bits, at both ends, so that prefixes nest and touch.
    IpAddr a = *wire::parse_ip("2001:db8::");
    a.bytes[4] = static_cast<std::byte>(random() % 4 << 6);
    a.bytes[15] = static_cast<std::byte>(random() % 8);
    return a;
  };
  constexpr std::array<std::uint8_t, 10> kLens = {0, 31, 32, 33, 34, 64, 125, 126, 127, 128};
  std::map<IpPrefix, NextHopIndex> model;
  const auto expected = [&](const IpAddr& a) {
    NextHopIndex hop = kNextHopNone;
    int best = -1;
    for (const auto& [prefix, next_hop] : model)
      if (prefix.len > best && wire::contains(prefix, a)) best = prefix.len, hop = next_hop;
    return hop;
  };
  for (int i = 0; i < 20'000; ++i) {
    IpPrefix prefix{address(), kLens[random() % kLens.size()]};
    prefix.addr = wire::network(prefix);
    if (random() % 5 < 3) {
      const NextHopIndex hop = 1 + random() % 3;
      const bool fits = model.count(prefix) != 0 || model.size() < kMax;
      ASSERT_EQ(table->add(prefix, hop).has_value(), fits);
      if (fits) model[prefix] = hop;
    } else {
      ASSERT_EQ(table->remove(prefix).has_value(), model.erase(prefix) == 1);
    }
    std::array<IpAddr, 19> addrs;  // more than one round of lanes
    std::array<NextHopIndex, 19> found;
    for (IpAddr& a : addrs) a = address();
    table->lookup(addrs, found);
    for (std::size_t k = 0; k < addrs.size(); ++k) ASSERT_EQ(found[k], expected(addrs[k])) << i;
  }
}

/// Thousands of prefixes have intervals in many blocks, so that blocks are split and joined.
TEST_F(Prefix6, P05_AgreesWithASearchByLengthWhereThereAreManyBlocks) {
  constexpr std::uint32_t kMax = 3000;
  make(kMax);
  std::independent_bits_engine<std::mt19937, 32, std::uint32_t> random{12};
  constexpr std::array<std::uint8_t, 9> kLens = {0, 8, 32, 40, 48, 56, 64, 127, 128};
  const auto address = [&] {
    IpAddr a = *wire::parse_ip("2001:db8::");
    for (const std::size_t byte : {4U, 5U, 6U, 15U})
      a.bytes[byte] = static_cast<std::byte>(random() % 12);
    return a;
  };
  std::map<IpPrefix, NextHopIndex> model;
  const auto expected = [&](const IpAddr& a) {
    for (auto len = kLens.rbegin(); len != kLens.rend(); ++len)
      if (const auto it = model.find({wire::network({a, *len}), *len}); it != model.end())
        return it->second;
    return kNextHopNone;
  };
  // The table fills up, is emptied, and fills up again.
  for (int i = 0; i < 40'000; ++i) {
    IpPrefix prefix{address(), kLens[random() % kLens.size()]};
    prefix.addr = wire::network(prefix);
    const bool emptying = i / 10'000 % 2 == 1;
    if (emptying && !model.empty()) {
      const auto near = model.lower_bound(prefix);
      prefix = near == model.end() ? model.begin()->first : near->first;
    }
    if (!emptying && random() % 8 != 0) {
      const NextHopIndex hop = 1 + random() % 1000;
      const bool fits = model.count(prefix) != 0 || model.size() < kMax;
      ASSERT_EQ(table->add(prefix, hop).has_value(), fits);
      if (fits) model[prefix] = hop;
    } else {
      ASSERT_EQ(table->remove(prefix).has_value(), model.erase(prefix) == 1);
    }
    ASSERT_EQ(table->size(), model.size());
    std::array<IpAddr, 5> addrs;
    std::array<NextHopIndex, 5> found;
    for (IpAddr& a : addrs) a = address();
    addrs[0] = prefix.addr;
    table->lookup(addrs, found);
    for (std::size_t k = 0; k < addrs.size(); ++k) ASSERT_EQ(found[k], expected(addrs[k])) << i;
  }
}

/// Loading many prefixes rewrites a bounded part of the table for each prefix, and waits for no
/// grace period.
TEST_F(Prefix6, ManyPrefixesAreLoadedWithoutWaiting) {
  constexpr std::uint32_t kMany = 65'536;
  make(kMany);
  rte_rcu_qsbr_thread_register(rcu, 0);
  rte_rcu_qsbr_thread_online(rcu, 0);
  std::mt19937 random{13};
  std::vector<IpPrefix> all;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    IpPrefix p{*wire::parse_ip("2001:db8::"), 64};
    p.addr.bytes[4] = static_cast<std::byte>(i >> 8);
    p.addr.bytes[5] = static_cast<std::byte>(i);
    all.push_back(p);
  }
  std::ranges::shuffle(all, random);
  // The reader passes a quiescent state only at every tenth change.
  for (std::uint32_t i = 0; i < kMany; ++i) {
    ASSERT_TRUE(table->add(all[i], 1 + i % 7));
    if (i % 10 == 0) rte_rcu_qsbr_quiescent(rcu, 0);
  }
  for (std::uint32_t i = 0; i < kMany; i += 97) EXPECT_EQ(table->lookup(all[i].addr), 1 + i % 7);
  for (std::uint32_t i = 0; i < kMany; ++i) {
    ASSERT_TRUE(table->remove(all[i]));
    if (i % 10 == 0) rte_rcu_qsbr_quiescent(rcu, 0);
  }
  EXPECT_EQ(table->work().changes, 1 + 2 * kMany);
  EXPECT_EQ(table->work().waits, 0U);
  EXPECT_LT(table->work().intervals / table->work().changes, 600U);
  rte_rcu_qsbr_thread_offline(rcu, 0);
  rte_rcu_qsbr_thread_unregister(rcu, 0);
}

/// One prefix changes all the time while readers look addresses up. They must find one of its valid
/// next hops, the same in a whole burst, and the constant next hop of the adjacent prefix.
TEST_F(Prefix6, P05_ReadersSeeWholeTablesWhileTheyChange) {
  add("2001:db8::/33", 1);
  add("2001:db8:8000::/33", 2);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0}, bursts{0};
  const auto reader = [&](unsigned id) {
    rte_rcu_qsbr_thread_register(rcu, id);
    rte_rcu_qsbr_thread_online(rcu, id);
    std::vector<IpAddr> addrs(32, *wire::parse_ip("2001:db8:1::1"));
    for (std::size_t i = 1; i < addrs.size(); i += 2) addrs[i] = *wire::parse_ip("2001:db8:8000::");
    std::vector<NextHopIndex> out(addrs.size());
    while (!stop.load(std::memory_order_relaxed)) {
      table->lookup(addrs, out);
      for (std::size_t i = 0; i < out.size(); i += 2)
        if ((out[i] != 1 && out[i] != 3) || out[i] != out[0] || out[i + 1] != 2) ++wrong;
      rte_rcu_qsbr_quiescent(rcu, id);
      ++bursts;
    }
    rte_rcu_qsbr_thread_offline(rcu, id);
    rte_rcu_qsbr_thread_unregister(rcu, id);
  };
  std::thread first{reader, 0}, second{reader, 1};
  while (bursts < 10) std::this_thread::yield();
  for (int i = 0; i < 200; ++i) {
    add("2001:db8::/40", 3);
    add("2001:db8:1::/48", 3);
    remove("2001:db8:1::/48");
    remove("2001:db8::/40");
  }
  stop = true;
  first.join();
  second.join();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace ipoib::table
