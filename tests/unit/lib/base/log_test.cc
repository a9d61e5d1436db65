// SPDX-License-Identifier: BSD-3-Clause
#include "lib/base/log.h"

#include <rte_log.h>

#include <gtest/gtest.h>

#include <string>

#include "lib/base/log_level.h"
#include "tests/support/logged.h"

namespace ipoib {
namespace {

/// Every test begins with the levels of a program that has just started. The first use of an area
/// registers it with EAL, and EAL sets levels of registered types only.
class Log : public testing::Test {
 protected:
  Log() {
    for (int area = 0; area < static_cast<int>(LogArea::kCount); ++area)
      set_log_level(static_cast<LogArea>(area), LogLevel::kNotice);
  }
};

TEST_F(Log, OneLineWithItsArea) {
  EXPECT_EQ(logged([] { log(LogArea::kLink, LogLevel::kNotice, "{} is {}", "ib0", "up"); }),
            "ipoib.link: ib0 is up\n");
  EXPECT_EQ(logged([] { log_line(LogArea::kSa, LogLevel::kErr, "100 %s"); }), "ipoib.sa: 100 %s\n");
}

TEST_F(Log, LevelsBelowTheAreasAreSilent) {
  EXPECT_FALSE(log_enabled(LogArea::kRoute, LogLevel::kDebug));
  EXPECT_EQ(logged([] { log(LogArea::kRoute, LogLevel::kDebug, "unheard"); }), "");
  ASSERT_EQ(rte_log_set_level_pattern("ipoib.route", RTE_LOG_DEBUG), 0);
  EXPECT_TRUE(log_enabled(LogArea::kRoute, LogLevel::kDebug));
  EXPECT_FALSE(log_enabled(LogArea::kMgmt, LogLevel::kDebug));
  EXPECT_EQ(logged([] { log(LogArea::kRoute, LogLevel::kDebug, "heard"); }),
            "ipoib.route: heard\n");
}

TEST_F(Log, LevelsAreSetByArea) {
  EXPECT_EQ(log_level(LogArea::kSa), LogLevel::kNotice);
  set_log_level(LogArea::kSa, LogLevel::kInfo);
  EXPECT_EQ(log_level(LogArea::kSa), LogLevel::kInfo);
  EXPECT_EQ(log_level(LogArea::kLink), LogLevel::kNotice);
  EXPECT_TRUE(log_enabled(LogArea::kSa, LogLevel::kInfo));
  EXPECT_FALSE(log_enabled(LogArea::kSa, LogLevel::kDebug));
  set_log_level(LogArea::kSa, std::nullopt);
  EXPECT_EQ(log_level(LogArea::kSa), std::nullopt);
  EXPECT_EQ(logged([] { log(LogArea::kSa, LogLevel::kErr, "unheard"); }), "");
}

// log_level() returns levels that EAL set, for example by --log-level=ipoib.fabric:7.
TEST_F(Log, LevelsAreThoseOfEal) {
  ASSERT_EQ(rte_log_set_level_pattern("ipoib.fabric", RTE_LOG_INFO), 0);
  EXPECT_EQ(log_level(LogArea::kFabric), LogLevel::kInfo);
  ASSERT_EQ(rte_log_set_level_pattern("ipoib.fabric", RTE_LOG_CRIT), 0);
  EXPECT_EQ(log_level(LogArea::kFabric), std::nullopt);
}

TEST_F(Log, EveryAreaIsRegistered) {
  for (int area = 0; area < static_cast<int>(LogArea::kCount); ++area) {
    const auto line =
        logged([&] { log(static_cast<LogArea>(area), LogLevel::kErr, "area {}", area); });
    EXPECT_EQ(line.rfind("ipoib.", 0), 0U) << area;
    EXPECT_NE(line.find(": area " + std::to_string(area) + "\n"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace ipoib
