// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "app/cli/cli.h"
#include "app/export/json.h"
#include "lib/base/log_level.h"
#include "tests/support/fake_node.h"

namespace ipoib::app {
namespace {

TEST(CliLog, LevelsAreSetByArea) {
  FakeNode node;
  Cli cli{node.faces};
  const auto text = [&](const char* line) { return cli.execute(line); };
  const auto json = [&](const char* line) { return Json::parse(cli.execute(line)); };
  EXPECT_EQ(text("set log all error"), "");
  EXPECT_EQ(text("set log link debug"), "");
  EXPECT_EQ(text("set log sa off"), "");
  EXPECT_TRUE(log_enabled(LogArea::kLink, LogLevel::kDebug));
  EXPECT_FALSE(log_enabled(LogArea::kMgmt, LogLevel::kWarning));
  const Json rows = json("show log json");
  ASSERT_EQ(rows.size(), kLogAreaNames.size());
  for (const Json& row : rows)
    EXPECT_EQ(row.at("level"), row.at("area") == "link" ? "debug"
                               : row.at("area") == "sa" ? "off"
                                                        : "error");
  EXPECT_TRUE(text("show log").starts_with("AREA    LEVEL\napp     error\n")) << text("show log");
  EXPECT_EQ(text("set verbose 1"), "");
  for (const Json& row : json("show log json")) EXPECT_EQ(row.at("level"), "info");
  EXPECT_EQ(text("set log lnik debug"),
            "error: at word 3 \"lnik\": expected one of all, AREA (app, config, fabric, link, sa, "
            "route, mgmt, worker)\n");
  EXPECT_EQ(
      text("set log link loud"),
      "error: at word 4 \"loud\": expected LEVEL (off, error, warning, notice, info, debug)\n");
  EXPECT_EQ(text("set verbose 0"), "");
}

TEST(CliLog, AreasAndLevelsComplete) {
  FakeNode node;
  const Cli cli{node.faces};
  const auto areas = cli.complete({"set", "log"});
  EXPECT_EQ(areas.size(), kLogAreaNames.size() + 1);
  EXPECT_EQ(areas.front(), "all");
  EXPECT_EQ(cli.complete({"set", "log", "sa"}),
            (std::vector<std::string>{"error", "warning", "notice", "info", "debug", "off"}));
}

}  // namespace
}  // namespace ipoib::app
