// SPDX-License-Identifier: BSD-3-Clause
// Seeds of simulated lives. Three environment variables select them: SIM_SEEDS is the number of
// seeds that a test runs, SIM_FIRST is the first of them, SIM_SEED is a single one to run alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace ipoib::test {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IPOIB_INSTRUMENTED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(IPOIB_INSTRUMENTED)
/// Instrumented programs are slow, so they run only one of this many seeds.
inline constexpr std::uint64_t kSeedsPart = 10;
#else
inline constexpr std::uint64_t kSeedsPart = 1;
#endif

/// Calls `life(seed)` for the seeds from 1 to `count`, until one fails. The message of the failure
/// contains the command that repeats it. `life(seed)` reports by EXPECT and ASSERT.
template <class Life>
void for_seeds(std::uint64_t count, Life&& life) {
  const auto from_environment = [](const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
  };
  const auto one = from_environment("SIM_SEED", 0);
  const auto first = one != 0 ? one : from_environment("SIM_FIRST", 1);
  const auto n =
      one != 0 ? 1 : from_environment("SIM_SEEDS", std::max(count / kSeedsPart, std::uint64_t{1}));
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  for (auto seed = first; seed < first + n; ++seed) {
    life(seed);
    ASSERT_FALSE(testing::Test::HasFailure())
        << "to see it again:\n  SIM_SEED=" << seed << " --gtest_filter=" << test->test_suite_name()
        << '.' << test->name();
  }
}

}  // namespace ipoib::test
