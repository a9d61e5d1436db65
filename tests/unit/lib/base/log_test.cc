#include "lib/base/log.h"

#include <rte_log.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace ipoib {
namespace {

/// What EAL's log would print while `body` runs.
template <class Body>
std::string logged(Body body) {
  char* text = nullptr;
  std::size_t len = 0;
  std::FILE* stream = open_memstream(&text, &len);
  rte_openlog_stream(stream);
  body();
  rte_openlog_stream(nullptr);
  std::fclose(stream);
  std::string all{text, len};
  std::free(text);
  return all;
}

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
