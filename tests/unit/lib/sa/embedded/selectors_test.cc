// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/selectors.h"

#include <gtest/gtest.h>

#include <optional>

#include "lib/wire/sa_records.h"

namespace ipoib::sa {
namespace {

using wire::Selector;
using Code = std::optional<std::uint8_t>;

std::uint8_t c(Selector s, std::uint8_t value) {
  return wire::with_selector(s, value);
}

TEST(Selectors, MtuIsTheLargestThatSatisfies) {
  struct Row {
    Selector selector;
    std::uint8_t value;
    Code chosen;  ///< The subnet's limit is 2048.
  };
  const Row rows[] = {
      {Selector::kExactly, 4, 4},  {Selector::kExactly, 3, 3}, {Selector::kExactly, 5, {}},
      {Selector::kGreater, 3, 4},  {Selector::kGreater, 1, 4}, {Selector::kGreater, 4, {}},
      {Selector::kLess, 4, 3},     {Selector::kLess, 5, 4},    {Selector::kLess, 1, {}},
      {Selector::kBest, 1, 4},     {Selector::kBest, 5, 4},    {Selector::kBest, 0, {}},
      {Selector::kExactly, 0, {}}, {Selector::kLess, 6, {}},   {Selector::kGreater, 0x3f, {}},
  };
  for (const Row& row : rows)
    EXPECT_EQ(choose_mtu(c(row.selector, row.value), 4), row.chosen)
        << static_cast<int>(row.selector) << " " << int{row.value};
}

TEST(Selectors, RatesAreComparedBySpeedNotByCode) {
  // Codes 2, 5, 3, 6, 4, 7 are 2.5, 5, 10, 20, 30, 40 Gb/s.
  EXPECT_EQ(choose_rate(c(Selector::kLess, 3), 3), Code{5});
  EXPECT_EQ(choose_rate(c(Selector::kLess, 5), 3), Code{2});
  EXPECT_EQ(choose_rate(c(Selector::kLess, 2), 3), Code{});
  EXPECT_EQ(choose_rate(c(Selector::kGreater, 5), 3), Code{3});
  EXPECT_EQ(choose_rate(c(Selector::kGreater, 3), 3), Code{});
  EXPECT_EQ(choose_rate(c(Selector::kExactly, 5), 3), Code{5});
  EXPECT_EQ(choose_rate(c(Selector::kExactly, 4), 3), Code{});  // 30 Gb/s on a subnet of 10
  EXPECT_EQ(choose_rate(c(Selector::kBest, 2), 6), Code{6});
  EXPECT_EQ(choose_rate(c(Selector::kExactly, 1), 6), Code{});
  EXPECT_TRUE(rate_satisfies(c(Selector::kLess, 3), 5));
  EXPECT_FALSE(rate_satisfies(c(Selector::kGreater, 3), 5));
}

TEST(Selectors, LifetimeIsTheLongestThatSatisfies) {
  EXPECT_EQ(choose_lifetime(c(Selector::kBest, 0), 18), Code{18});
  EXPECT_EQ(choose_lifetime(c(Selector::kLess, 19), 18), Code{18});
  EXPECT_EQ(choose_lifetime(c(Selector::kLess, 18), 18), Code{17});
  EXPECT_EQ(choose_lifetime(c(Selector::kLess, 1), 18), Code{});
  EXPECT_EQ(choose_lifetime(c(Selector::kLess, 0), 18), Code{});
  EXPECT_EQ(choose_lifetime(c(Selector::kGreater, 17), 18), Code{18});
  EXPECT_EQ(choose_lifetime(c(Selector::kGreater, 18), 18), Code{});
  EXPECT_EQ(choose_lifetime(c(Selector::kExactly, 17), 18), Code{17});
  EXPECT_EQ(choose_lifetime(c(Selector::kExactly, 20), 18), Code{});
}

TEST(Selectors, GivenValueSatisfies) {
  struct Row {
    Selector selector;
    std::uint8_t value;
    bool satisfied;  ///< True if an MTU of 2048 satisfies it.
  };
  const Row rows[] = {
      {Selector::kExactly, 4, true},  {Selector::kExactly, 5, false},
      {Selector::kGreater, 3, true},  {Selector::kGreater, 4, false},
      {Selector::kLess, 4, false},    {Selector::kLess, 5, true},
      {Selector::kBest, 0, true},     {Selector::kExactly, 0, false},
      {Selector::kGreater, 0, false},
  };
  for (const Row& row : rows)
    EXPECT_EQ(mtu_satisfies(c(row.selector, row.value), 4), row.satisfied)
        << static_cast<int>(row.selector) << " " << int{row.value};
}

}  // namespace
}  // namespace ipoib::sa
