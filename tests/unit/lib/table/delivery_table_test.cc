// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/delivery_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

#include "tests/support/addresses.h"

namespace ipoib::table {
namespace {

using ipoib::test::ip;
using wire::IpAddr;

const IpAddr kAny{};

Delivery delivery(InterfaceId in, const IpAddr& addr, const IpAddr& source, std::uint64_t out,
                  bool local = false) {
  return {.addr = addr, .source = source, .in = in, .local = local, .out = out};
}

std::unique_ptr<DeliveryTable> make_deliveries(std::size_t capacity, std::uint64_t seed = 1) {
  auto table = DeliveryTable::create(capacity, seed);
  EXPECT_TRUE(table) << table.error().what;
  return std::move(*table);
}

TEST(DeliveryTable, P06_FindsByInterfaceGroupAndSource) {
  const auto table = make_deliveries(16);
  const IpAddr group = ip("239.1.2.3");
  ASSERT_TRUE(table->set(delivery(1, group, kAny, 0x4, true)));
  const Delivery* const found = table->lookup(1, group, ip("10.0.0.9"));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->out, 0x4U);
  EXPECT_TRUE(found->local);
  EXPECT_EQ(table->lookup(2, group, ip("10.0.0.9")), nullptr) << "another interface";
  EXPECT_EQ(table->lookup(1, ip("239.1.2.4"), ip("10.0.0.9")), nullptr) << "another group";

  ASSERT_TRUE(table->set(delivery(1, group, ip("10.0.0.9"), 0x8)));
  EXPECT_EQ(table->lookup(1, group, ip("10.0.0.9"))->out, 0x8U) << "its own before any";
  EXPECT_EQ(table->lookup(1, group, ip("10.0.0.8"))->out, 0x4U);
  ASSERT_TRUE(table->remove(delivery(1, group, ip("10.0.0.9"), 0)));
  EXPECT_EQ(table->lookup(1, group, ip("10.0.0.9"))->out, 0x4U);
  ASSERT_TRUE(table->remove(delivery(1, group, kAny, 0)));
  EXPECT_EQ(table->lookup(1, group, ip("10.0.0.9")), nullptr);
  EXPECT_EQ(table->size(), 0U);
}

TEST(DeliveryTable, ASourceWithoutAnEntryForAnyIsItselfOnly) {
  const auto table = make_deliveries(16);
  ASSERT_TRUE(table->set(delivery(1, ip("ff0e::5"), ip("fd00::9"), 0x2)));
  EXPECT_NE(table->lookup(1, ip("ff0e::5"), ip("fd00::9")), nullptr);
  EXPECT_EQ(table->lookup(1, ip("ff0e::5"), ip("fd00::8")), nullptr);
}

TEST(DeliveryTable, SettingAgainReplaces) {
  const auto table = make_deliveries(1);
  ASSERT_TRUE(table->set(delivery(1, ip("ff0e::5"), kAny, 0x2)));
  table->lookup(1, ip("ff0e::5"), ip("fd00::8"))->last_neighbour = 3;
  ASSERT_TRUE(table->set(delivery(1, ip("ff0e::5"), kAny, 0x6)));
  EXPECT_EQ(table->lookup(1, ip("ff0e::5"), ip("fd00::8"))->last_neighbour, kNoNeighbour);
  EXPECT_EQ(table->size(), 1U);
  EXPECT_EQ(table->lookup(1, ip("ff0e::5"), ip("fd00::8"))->out, 0x6U);
}

TEST(DeliveryTable, RefusesWhatDoesNotFit) {
  const auto table = make_deliveries(2);
  EXPECT_FALSE(table->set(delivery(kNoInterface, ip("ff0e::5"), kAny, 1)));
  EXPECT_FALSE(table->remove(delivery(kNoInterface, ip("ff0e::5"), kAny, 1)));
  EXPECT_FALSE(table->remove(delivery(1, ip("ff0e::5"), kAny, 1)));
  ASSERT_TRUE(table->set(delivery(1, ip("ff0e::1"), kAny, 1)));
  ASSERT_TRUE(table->set(delivery(1, ip("ff0e::2"), kAny, 1)));
  EXPECT_FALSE(table->set(delivery(1, ip("ff0e::3"), kAny, 1)));
  EXPECT_TRUE(table->set(delivery(1, ip("ff0e::2"), kAny, 3))) << "what is there may change";
  ASSERT_TRUE(table->remove(delivery(1, ip("ff0e::1"), kAny, 0)));
  EXPECT_TRUE(table->set(delivery(1, ip("ff0e::3"), kAny, 1)));
  EXPECT_FALSE(DeliveryTable::create(0, 1));
  EXPECT_FALSE(DeliveryTable::create(DeliveryTable::kMaxCapacity + 1, 1));
}

TEST(DeliveryTable, MemoryIsFixed) {
  const auto table = make_deliveries(16'384);
  EXPECT_EQ(table->memory_size(), std::size_t{16'384} * 2 * 64);
}

/// Compares the table with a std::map while entries come and go. Each new key beyond the capacity
/// of 64 must be refused.
TEST(DeliveryTable, AgreesWithAMapUnderRandomChanges) {
  std::independent_bits_engine<std::mt19937, 32, std::uint32_t> random{7};
  for (const std::uint64_t seed : {1ULL, 2ULL, 3ULL}) {
    const auto table = make_deliveries(64, seed);
    using Key = std::tuple<InterfaceId, IpAddr, IpAddr>;
    std::map<Key, std::uint64_t> model;
    const auto group = [&] {
      IpAddr g = ip("ff0e::");
      g.bytes[15] = static_cast<std::byte>(random() % 32);
      return g;
    };
    const auto source = [&] {
      if (random() % 2 == 0) return kAny;
      return IpAddr::v4(0x0a00'0001 + random() % 4);
    };
    for (int i = 0; i < 20'000; ++i) {
      const Delivery d =
          delivery(static_cast<InterfaceId>(random() % 3), group(), source(), random());
      const Key key{d.in, d.addr, d.source};
      if (random() % 2 == 0) {
        const bool fits = model.count(key) != 0 || model.size() < 64;
        ASSERT_EQ(table->set(d), fits);
        if (fits) model[key] = d.out;
      } else {
        ASSERT_EQ(table->remove(d), model.erase(key) == 1);
      }
      ASSERT_EQ(table->size(), model.size());
      const IpAddr asked = IpAddr::v4(0x0a00'0001 + random() % 5);
      const Key any{d.in, d.addr, kAny};
      const Key own{d.in, d.addr, asked};
      const Delivery* const found = table->lookup(d.in, d.addr, asked);
      const auto expected = model.count(own) != 0 ? model.find(own) : model.find(any);
      ASSERT_EQ(found != nullptr, expected != model.end());
      if (found != nullptr) {
        ASSERT_EQ(found->out, expected->second);
      }
    }
  }
}

}  // namespace
}  // namespace ipoib::table
