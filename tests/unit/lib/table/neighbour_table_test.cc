// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/neighbour_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace ipoib::table {
namespace {

using wire::IpAddr;

Neighbour neighbour(const IpAddr& addr, InterfaceId iface, std::uint32_t qpn = 1) {
  Neighbour n;
  n.addr = addr;
  n.iface = iface;
  n.state = NeighbourState::kValid;
  n.qpn = qpn;
  return n;
}
Neighbour neighbour(std::uint32_t addr, InterfaceId iface, std::uint32_t qpn = 1) {
  return neighbour(IpAddr::v4(addr), iface, qpn);
}

std::unique_ptr<NeighbourTable> make_neighbours(std::size_t capacity, std::uint64_t seed = 1) {
  auto cache = NeighbourTable::create(capacity, seed);
  EXPECT_TRUE(cache) << cache.error().what;
  return std::move(*cache);
}

TEST(NeighbourTable, FindsWhatWasSetByAddressAndByNumber) {
  const auto cache = make_neighbours(16);
  EXPECT_EQ(cache->lookup_v4(1, 0x0a000001), nullptr);
  ASSERT_TRUE(cache->set(3, neighbour(0x0a000001, 1, 77)));

  ASSERT_NE(cache->lookup_v4(1, 0x0a000001), nullptr);
  EXPECT_EQ(cache->lookup_v4(1, 0x0a000001)->qpn, 77U);
  EXPECT_EQ(cache->lookup_v4(1, 0x0a000001), cache->at(3));
  EXPECT_EQ(cache->lookup_v4(2, 0x0a000001), nullptr) << "another interface";
  EXPECT_EQ(cache->lookup_v4(1, 0x0a000002), nullptr) << "another address";
  EXPECT_EQ(cache->at(2), nullptr);
  EXPECT_EQ(cache->size(), 1U);
}

TEST(NeighbourTable, StepsOfABurstFindTheSame) {
  const auto cache = make_neighbours(16);
  ASSERT_TRUE(cache->set(3, neighbour(0x0a000001, 1)));
  const std::uint32_t hash = cache->hash_v4(1, 0x0a000001);
  cache->prefetch_slot(hash);
  cache->prefetch_entry(hash);
  EXPECT_EQ(cache->find_v4(hash, 1, 0x0a000001), cache->at(3));
}

TEST(NeighbourTable, SameAddressOnTwoInterfacesIsTwoNeighbours) {
  const auto cache = make_neighbours(16);
  ASSERT_TRUE(cache->set(0, neighbour(0x0a000001, 1, 10)));
  ASSERT_TRUE(cache->set(1, neighbour(0x0a000001, 2, 20)));
  EXPECT_EQ(cache->lookup_v4(1, 0x0a000001)->qpn, 10U);
  EXPECT_EQ(cache->lookup_v4(2, 0x0a000001)->qpn, 20U);
}

TEST(NeighbourTable, KeepsIpv6ApartFromIpv4) {
  const auto cache = make_neighbours(16);
  IpAddr v6 = IpAddr::v4(0x0a000001);
  v6.bytes[0] = std::byte{0xfd};
  ASSERT_TRUE(cache->set(0, neighbour(v6, 1)));
  EXPECT_EQ(cache->lookup_v4(1, 0x0a000001), nullptr);
  ASSERT_TRUE(cache->set(1, neighbour(0x0a000001, 1)));
  EXPECT_EQ(cache->lookup_v4(1, 0x0a000001), cache->at(1));
}

TEST(NeighbourTable, ReplacingTheKeyOfANumberForgetsTheOldKey) {
  const auto cache = make_neighbours(16);
  ASSERT_TRUE(cache->set(0, neighbour(0x0a000001, 1)));
  NeighbourTable::touch(*cache->at(0), 42);
  ASSERT_TRUE(cache->set(0, neighbour(0x0a000001, 1, 5)));
  EXPECT_EQ(cache->last_used_s(0), 42U) << "same key: the stamp stays";
  ASSERT_TRUE(cache->set(0, neighbour(0x0a000002, 1)));
  EXPECT_EQ(cache->lookup_v4(1, 0x0a000001), nullptr);
  EXPECT_EQ(cache->lookup_v4(1, 0x0a000002), cache->at(0));
  EXPECT_EQ(cache->last_used_s(0), 0U) << "another neighbour: not used yet";
  EXPECT_EQ(cache->size(), 1U);
}

TEST(NeighbourTable, NewerNumberOfAKeyWinsAndOutlivesTheOlder) {
  const auto cache = make_neighbours(16);
  ASSERT_TRUE(cache->set(0, neighbour(0x0a000001, 1)));
  ASSERT_TRUE(cache->set(1, neighbour(0x0a000001, 1)));
  EXPECT_EQ(cache->lookup_v4(1, 0x0a000001), cache->at(1));
  ASSERT_TRUE(cache->remove(0));
  EXPECT_EQ(cache->lookup_v4(1, 0x0a000001), cache->at(1));
}

TEST(NeighbourTable, RefusesWhatItCannotHold) {
  const auto cache = make_neighbours(10);
  EXPECT_FALSE(cache->set(10, neighbour(0x0a000001, 1))) << "number out of range";
  EXPECT_FALSE(cache->set(kNoNeighbour, neighbour(0x0a000001, 1)));
  EXPECT_FALSE(cache->set(0, Neighbour{})) << "state kFree";
  EXPECT_FALSE(cache->remove(0)) << "free already";
  EXPECT_FALSE(cache->remove(10));
  EXPECT_EQ(cache->at(kNoNeighbour), nullptr);
  EXPECT_EQ(cache->last_used_s(10), 0U);
  EXPECT_EQ(cache->size(), 0U);
  EXPECT_FALSE(NeighbourTable::create(0, 1));
  EXPECT_FALSE(NeighbourTable::create(NeighbourTable::kMaxCapacity + 1, 1));
}

TEST(NeighbourTable, FullToTheLastNumber) {
  const auto cache = make_neighbours(1000);
  for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_TRUE(cache->set(i, neighbour(i, 1, i)));
  EXPECT_EQ(cache->size(), 1000U);
  for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(cache->lookup_v4(1, i), cache->at(i));
  EXPECT_EQ(cache->lookup_v4(1, 1000), nullptr);
}

TEST(NeighbourTable, StampIsStoredOnlyWhenTheSecondChanges) {
  const auto cache = make_neighbours(4);
  ASSERT_TRUE(cache->set(0, neighbour(1, 1)));
  NeighbourTable::touch(*cache->at(0), 7);
  NeighbourTable::touch(*cache->at(0), 7);
  EXPECT_EQ(cache->last_used_s(0), 7U);
  ASSERT_TRUE(cache->remove(0));
  EXPECT_EQ(cache->last_used_s(0), 0U);
}

TEST(NeighbourTable, P07_NeedsAtMost128OctetsANeighbour) {
  for (const std::size_t capacity : {1UL, 2UL, 3UL, 10UL, 1025UL, 40'000UL, 65'535UL, 65'536UL}) {
    const auto cache = make_neighbours(capacity);
    EXPECT_EQ(cache->capacity(), capacity);
    EXPECT_LE(cache->memory_size(), 128 * capacity) << capacity;
  }
}

/// Random sets and removes agree with a std::map. The table is so small that probe sequences wrap
/// and collide.
TEST(NeighbourTable, AgreesWithAMapUnderRandomChange) {
  constexpr std::size_t kCapacity = 48;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random{seed};
    const auto cache = make_neighbours(kCapacity, seed);
    std::map<NeighbourIndex, std::pair<InterfaceId, std::uint32_t>> model;
    for (int step = 0; step < 2000; ++step) {
      const auto index = static_cast<NeighbourIndex>(random() % kCapacity);
      if (random() % 3 == 0) {
        ASSERT_EQ(cache->remove(index), model.erase(index) == 1);
      } else {
        const auto iface = static_cast<InterfaceId>(random() % 2);
        const auto addr = static_cast<std::uint32_t>(random() % 64);
        // Each key has at most one index, because the management lcore assigns them so.
        bool taken = false;
        for (const auto& [i, key] : model) taken |= i != index && key == std::pair{iface, addr};
        if (taken) continue;
        ASSERT_TRUE(cache->set(index, neighbour(addr, iface)));
        model[index] = {iface, addr};
      }
      ASSERT_EQ(cache->size(), model.size());
    }
    for (InterfaceId iface = 0; iface < 2; ++iface)
      for (std::uint32_t addr = 0; addr < 64; ++addr) {
        Neighbour* expected = nullptr;
        for (const auto& [i, key] : model)
          if (key == std::pair{iface, addr}) expected = cache->at(i);
        ASSERT_EQ(cache->lookup_v4(iface, addr), expected) << "seed " << seed;
      }
  }
}

}  // namespace
}  // namespace ipoib::table
