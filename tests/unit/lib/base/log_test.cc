#include "lib/base/log.h"

#include <rte_log.h>

#include <gtest/gtest.h>

#include <string>

#include "lib/base/log_level.h"
#include "tests/logged.h"

namespace ipoib {
namespace {

TEST(Log, OneLineWithItsArea) {
  EXPECT_EQ(logged([] { log(LogArea::kLink, LogLevel::kNotice, "{} is {}", "ib0", "up"); }),
            "ipoib.link: ib0 is up\n");
  EXPECT_EQ(logged([] { log_line(LogArea::kSa, LogLevel::kErr, "100 %s"); }), "ipoib.sa: 100 %s\n");
}

TEST(Log, LevelsBelowTheAreasAreSilent) {
  EXPECT_FALSE(log_enabled(LogArea::kRoute, LogLevel::kDebug));
  EXPECT_EQ(logged([] { log(LogArea::kRoute, LogLevel::kDebug, "unheard"); }), "");
  ASSERT_EQ(rte_log_set_level_pattern("ipoib.route", RTE_LOG_DEBUG), 0);
  EXPECT_TRUE(log_enabled(LogArea::kRoute, LogLevel::kDebug));
  EXPECT_FALSE(log_enabled(LogArea::kMgmt, LogLevel::kDebug));
  EXPECT_EQ(logged([] { log(LogArea::kRoute, LogLevel::kDebug, "heard"); }),
            "ipoib.route: heard\n");
}

TEST(Log, LevelsAreSetByArea) {
  EXPECT_EQ(log_level(LogArea::kSa), LogLevel::kNotice);
  set_log_level(LogArea::kSa, LogLevel::kInfo);
  EXPECT_EQ(log_level(LogArea::kSa), LogLevel::kInfo);
  EXPECT_EQ(log_level(LogArea::kLink), LogLevel::kNotice);
  EXPECT_TRUE(log_enabled(LogArea::kSa, LogLevel::kInfo));
  EXPECT_FALSE(log_enabled(LogArea::kSa, LogLevel::kDebug));
  set_log_level(LogArea::kSa, std::nullopt);
  EXPECT_EQ(log_level(LogArea::kSa), std::nullopt);
  EXPECT_EQ(logged([] { log(LogArea::kSa, LogLevel::kErr, "unheard"); }), "");
  set_log_level(LogArea::kSa, LogLevel::kNotice);
}

// Levels that EAL set, --log-level=ipoib.fabric:7, are told by our names.
TEST(Log, LevelsAreThoseOfEal) {
  ASSERT_EQ(rte_log_set_level_pattern("ipoib.fabric", RTE_LOG_INFO), 0);
  EXPECT_EQ(log_level(LogArea::kFabric), LogLevel::kInfo);
  ASSERT_EQ(rte_log_set_level_pattern("ipoib.fabric", RTE_LOG_CRIT), 0);
  EXPECT_EQ(log_level(LogArea::kFabric), std::nullopt);
  ASSERT_EQ(rte_log_set_level_pattern("ipoib.fabric", RTE_LOG_NOTICE), 0);
}

TEST(Log, EveryAreaIsRegistered) {
  for (int area = 0; area < static_cast<int>(LogArea::kCount); ++area) {
    const auto line =
        logged([&] { log(static_cast<LogArea>(area), LogLevel::kErr, "area {}", area); });
    EXPECT_EQ(line.rfind("ipoib.", 0), 0U) << area;
    EXPECT_NE(line.find(": area " + std::to_string(area) + "\n"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace ipoib
