// SPDX-License-Identifier: BSD-3-Clause
// Long lists are answered in pieces.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "app/cli/cli.h"
#include "app/cli/cli_rows.h"
#include "app/export/json.h"
#include "tests/support/fake_node.h"

namespace ipoib::app {
namespace {

constexpr unsigned kMany = 1000;

struct CliListsTest : testing::Test {
  CliListsTest() {
    for (unsigned i = 0; i < kMany; ++i) {
      link::NeighbourInfo n;
      n.addr = wire::IpAddr::v4(0x0a00'0001 + i);
      n.iface = i % 2 == 0 ? "ib0" : "eth0";
      node.rows.neighbours.push_back(n);
      node.rows.routes.push_back({{wire::IpAddr::v4(0x0b00'0000 + (i << 8)), 24},
                                  "static",
                                  i % 100 == 0 ? "eth0" : "ib0",
                                  {}});
      link::GroupInfo g;
      g.group = wire::IpAddr::v4(0xef00'0000 + i);
      g.iface = "ib0";
      node.rows.groups.push_back(g);
      mgmt::MulticastRouteInfo r;
      r.group = g.group;
      r.in = i % 2 == 0 ? "ib0" : "eth0";
      node.rows.mroutes.push_back(r);
    }
  }

  FakeNode node;
  Cli cli{node.faces};
};

std::vector<std::string> pieces_of(Output output) {
  std::vector<std::string> pieces;
  for (bool more = true; more;) more = output.append_piece(pieces.emplace_back());
  return pieces;
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_F(CliListsTest, NoPieceIsLarge) {
  for (const char* line : {"show neigh", "show route", "show group", "show mroute"}) {
    const auto pieces = pieces_of(cli.answer(line));
    EXPECT_EQ(pieces.size(), (kMany + kRowsInPiece - 1) / kRowsInPiece + 1) << line;
    std::size_t lines = 0;
    for (const auto& p : pieces) {
      EXPECT_LE(lines_of(p), kRowsInPiece + 1) << line;
      lines += lines_of(p);
    }
    EXPECT_EQ(lines, kMany + 1) << line;
  }
}

TEST_F(CliListsTest, PiecesMakeOneJsonList) {
  for (const char* what : {"neigh", "route", "group", "mroute"}) {
    const auto text = cli.execute(fmt::format("show {} json", what));
    ASSERT_TRUE(Json::accept(text)) << what;
    EXPECT_EQ(Json::parse(text).size(), kMany) << what;
    EXPECT_EQ(lines_of(text), 1U);
  }
  EXPECT_EQ(Json::parse(cli.execute("show neigh eth0 json")).size(), kMany / 2);
  EXPECT_EQ(Json::parse(cli.execute("show mroute ib0 json")).size(), kMany / 2);
  // Some pieces contain no such route.
  const Json routes = Json::parse(cli.execute("show route eth0 json"));
  ASSERT_EQ(routes.size(), kMany / 100);
  EXPECT_EQ(routes.back().at("to"), "11.3.132.0/24");
}

TEST_F(CliListsTest, NothingIsSaidOnce) {
  node.rows.neighbours.clear();
  EXPECT_EQ(cli.execute("show neigh"), "none\n");
  EXPECT_EQ(cli.execute("show neigh json"), "[]\n");
}

// A list omits rows that are removed while it is being shown.
TEST_F(CliListsTest, WhatWentMeanwhileIsLeftOut) {
  Output neighbours = cli.answer("show neigh json");
  std::string text;
  EXPECT_TRUE(neighbours.append_piece(text));
  node.rows.neighbours.resize(kMany / 2);
  EXPECT_EQ(Json::parse(text + std::move(neighbours).all()).size(), kMany / 2);

  Output routes = cli.answer("show route json");
  text.clear();
  EXPECT_TRUE(routes.append_piece(text));
  node.rows.routes.clear();
  EXPECT_EQ(Json::parse(text + std::move(routes).all()).size(), kRowsInPiece);
}

// A column becomes wider in later pieces; the columns before it keep their width.
TEST_F(CliListsTest, ColumnsOfAllPiecesAreInLine) {
  const auto text = cli.execute("show neigh");
  EXPECT_TRUE(text.starts_with("ADDRESS    IFACE  STATE"));
  EXPECT_NE(text.find("\n10.0.0.9   ib0    incomplete "), std::string::npos);
  EXPECT_NE(text.find("\n10.0.3.100  eth0   incomplete "), std::string::npos);
}

}  // namespace
}  // namespace ipoib::app
