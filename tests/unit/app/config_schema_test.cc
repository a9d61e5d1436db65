// SPDX-License-Identifier: BSD-3-Clause
#include "app/config/config_schema.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

#include "app/config/config.h"
#include "tests/unit/app/config_text.h"

namespace ipoib::app {
namespace {

/// Feeds one TOML value to a row. Returns true if the row takes it.
template <class Entry>
bool take(const Row<Entry>& row, const std::string& value, Entry& entry, Report& report) {
  const toml::table tree = toml::parse("value = " + value, report.file());
  return row.set(Field{*tree.get("value"), "section." + std::string{row.key}, report}, entry);
}

TEST(ConfigSchema, EveryRowSaysWhatItIs) {
  std::set<std::string> seen;
  schema().for_each([&](const auto& section) {
    EXPECT_FALSE(section.help.empty()) << section.name;
    for (const auto& row : section.rows) {
      EXPECT_TRUE(seen.insert(fmt::format("{}.{}", section.name, row.key)).second) << row.key;
      EXPECT_FALSE(row.type.empty()) << row.key;
      EXPECT_FALSE(row.allowed.empty()) << row.key;
      EXPECT_TRUE(row.help.ends_with('.')) << row.key;
    }
  });
  EXPECT_GE(seen.size(), 50U);
}

// A default is itself a valid value of the option, and is written in the form in which it was read.
TEST(ConfigSchema, EveryDefaultIsAllowed) {
  schema().for_each([&]<class Entry>(const Section<Entry>& section) {
    for (const auto& row : section.rows) {
      const auto fallback = row.fallback();
      if (fallback.empty()) continue;
      Report report{"t.toml"};
      Entry entry;
      EXPECT_TRUE(take(row, fallback, entry, report)) << section.name << '.' << row.key;
      EXPECT_EQ(row.get(entry), fallback) << section.name << '.' << row.key;
      EXPECT_TRUE(report.take().empty());
    }
  });
}

// Each option refuses a value of a type that no option has. The error is one line with the option
// and its valid values, and changes nothing.
TEST(ConfigSchema, EveryRowRefusesAWrongType) {
  schema().for_each([&]<class Entry>(const Section<Entry>& section) {
    for (const auto& row : section.rows) {
      Report report{"t.toml"};
      Entry entry;
      EXPECT_FALSE(take(row, "1979-05-27", entry, report)) << section.name << '.' << row.key;
      const Entry fresh;
      EXPECT_EQ(row.get(entry), row.get(fresh));
      const auto diagnostics = report.take();
      ASSERT_EQ(diagnostics.size(), 1U) << section.name << '.' << row.key;
      EXPECT_TRUE(diagnostics[0].to_string().starts_with(
          fmt::format("t.toml:1:9: section.{}: invalid value 1979-05-27, allowed: ", row.key)))
          << diagnostics[0].to_string();
    }
  });
}

// Both ends of an integer range are valid; the integers beyond them are not.
TEST(ConfigSchema, RangesEndWhereTheySay) {
  std::size_t nb_ranges = 0;
  schema().for_each([&]<class Entry>(const Section<Entry>& section) {
    for (const auto& row : section.rows) {
      const bool automatic = row.allowed.starts_with("auto | ");
      const std::string range = row.allowed.substr(automatic ? 7 : 0);
      const auto dash = range.find('-');
      if (row.type != "integer" || dash == std::string::npos ||
          range.find(',') != std::string::npos)
        continue;
      ++nb_ranges;
      const auto min = std::stoll(range.substr(0, dash), nullptr, 0);
      const auto max = std::stoll(range.substr(dash + 1), nullptr, 0);
      Report report{"t.toml"};
      Entry entry;
      EXPECT_TRUE(take(row, std::to_string(min), entry, report)) << row.key;
      EXPECT_TRUE(take(row, std::to_string(max), entry, report)) << row.key;
      EXPECT_EQ(std::stoll(row.get(entry), nullptr, 0), max) << row.key;
      EXPECT_FALSE(take(row, std::to_string(min - 1), entry, report)) << row.key;
      if (max < std::numeric_limits<long long>::max()) {
        EXPECT_FALSE(take(row, std::to_string(max + 1), entry, report)) << row.key;
      }
      if (automatic) {
        EXPECT_TRUE(take(row, "\"auto\"", entry, report)) << row.key;
        EXPECT_EQ(row.get(entry), "\"auto\"") << row.key;
      }
    }
  });
  EXPECT_GE(nb_ranges, 15U);
}

TEST(ConfigSchema, ReferenceNamesEveryOption) {
  const std::string reference = config_reference();
  schema().for_each([&](const auto& section) {
    EXPECT_NE(reference.find("### `" + section.heading() + "`"), std::string::npos);
    for (const auto& row : section.rows) {
      EXPECT_NE(reference.find(fmt::format("| `{}` | ", row.key)), std::string::npos) << row.key;
      EXPECT_NE(reference.find(row.help), std::string::npos) << row.key;
    }
  });
  EXPECT_NE(reference.find("| `wire` | string | required |"), std::string::npos);
  EXPECT_NE(reference.find("| `burst` | integer | `32` | 1-64 |"), std::string::npos);
  EXPECT_NE(reference.find("| `scope` | integer | `2` | auto \\| 2 \\| 5 \\| 8 \\| 14 |"),
            std::string::npos);
}

TEST(ConfigSchema, DefaultsAreThoseOfNodeConfig) {
  const auto result = parse_config(kGoodConfig, "t.toml", {});
  ASSERT_TRUE(result.ok()) << lines_of(result)[0];
  const auto& c = result.config;
  EXPECT_FALSE(c.hcas.at(0).mtu);
  EXPECT_EQ(c.hcas.at(0).max_mtu(), 2048U);
  EXPECT_TRUE(c.hcas.at(0).icrc);
  EXPECT_FALSE(c.hcas.at(0).first_qpn);
  EXPECT_EQ(c.links.at(0).pkey, 0xffff);
  EXPECT_EQ(c.links.at(0).scope, 2);
  EXPECT_EQ(c.ports.at(0).mtu, 1500);
  EXPECT_FALSE(c.ports.at(0).tcp_offload);
  EXPECT_EQ(c.subnet.qkey, 0x8001'0b1bU);
  EXPECT_EQ(c.subnet.mtu, 2048U);
  EXPECT_EQ(c.subnet.rate, 10U);
  EXPECT_EQ(c.worker.count, 1U);
  EXPECT_EQ(c.worker.burst, 32U);
  EXPECT_EQ(c.worker.idle, mgmt::IdlePolicy::kPoll);
  EXPECT_TRUE(c.worker.assign.empty());
  EXPECT_EQ(c.mode, mgmt::ForwardMode::kRoute);
  EXPECT_EQ(c.rxd, 512U);
  EXPECT_EQ(c.neighbour.retransmit, std::chrono::seconds(1));
  EXPECT_EQ(c.neighbour.max_held, 2048U);
}

}  // namespace
}  // namespace ipoib::app
