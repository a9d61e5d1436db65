// SPDX-License-Identifier: BSD-3-Clause
#include "lib/base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace ipoib {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return fail(Errc::kInvalidArgument, "{} is odd, as {} says", n, "the caller");
  return n / 2;
}
Status check(int n) {
  if (const auto r = half(n); !r) return tl::make_unexpected(r.error());
  return {};
}

TEST(Result, HoldsAValueOrWhatFailed) {
  ASSERT_TRUE(half(4));
  EXPECT_EQ(*half(4), 2);
  const auto failed = half(3);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Errc::kInvalidArgument);
  EXPECT_EQ(failed.error().what, "3 is odd, as the caller says");
}

TEST(Result, ErrorsPassThroughAStatus) {
  EXPECT_TRUE(check(2));
  const auto failed = check(5);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().what, "5 is odd, as the caller says");
}

TEST(Result, CarriesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(7);
  ASSERT_TRUE(made);
  const std::unique_ptr<int> taken = std::move(*made);
  EXPECT_EQ(*taken, 7);
}

}  // namespace
}  // namespace ipoib
