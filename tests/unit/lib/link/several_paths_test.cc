// SPDX-License-Identifier: BSD-3-Clause
// Several paths to one neighbour of an IPoIB link, from a table of the SA or without one.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "lib/wire/iba.h"
#include "tests/support/logged.h"
#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

/// A link with up to four paths to each neighbour, on a subnet with LMC 2.
class SeveralPaths : public ::testing::Test {
 protected:
  static inline const wire::IpAddr kPeer = ip("10.0.0.2");
  static constexpr std::uint16_t kOwn = 8, kTheirs = 20;
  using Lids = std::pair<int, int>;  ///< Source, destination.

  SeveralPaths() {
    b.actions.attr.lid = kOwn;
    b.actions.attr.lmc = 2;
    b.bring_up();
    b.run_for(3s);
    hw = b.add_host(0xb, 0x50, kTheirs);
  }
  /// The SA has further paths, between these LIDs beyond the base LIDs.
  void add_paths(std::initializer_list<std::pair<std::uint16_t, std::uint16_t>> more) {
    for (const auto& [slid, dlid] : more) {
      wire::PathRecord path = b.sa.paths[hw.gid];
      path.slid.set(static_cast<std::uint16_t>(kOwn + slid));
      path.dlid.set(static_cast<std::uint16_t>(kTheirs + dlid));
      b.sa.more_paths.push_back(path);
    }
  }
  void ask_again() {
    b.run_for(2s);
    b.on_port_event(fabric::PortEvent::kClientReregister, 200ms);
  }
  /// The LIDs that flows of each hash use.
  [[nodiscard]] std::vector<Lids> ways() const {
    std::vector<Lids> all;
    const auto* n = b.sink.find(kPeer);
    for (unsigned hash = 0; hash < table::Neighbour::kMaxPaths; ++hash) {
      const bool several = n->mode == table::NeighbourMode::kUdPaths;
      const auto& way = b.actions.ahs.at(several ? n->handle_of(hash) : n->ah);
      all.emplace_back(kOwn + way.src_path_bits, way.dlid);
    }
    return all;
  }

  SimIpoibLink b{SimIpoibLink::config_with([](LinkConfig& c) { c.paths = 4; })};
  wire::LinkAddr hw;
};

TEST_F(SeveralPaths, U41_FlowsAreSpreadOverThePathsOfTheSa) {
  add_paths({{1, 1}, {2, 2}, {3, 3}});
  b.resolve("10.0.0.2", hw);
  const auto& query = b.sa.path_queries.at(0);
  EXPECT_EQ(query.hdr.mad.method, static_cast<std::uint8_t>(wire::Method::kGetTable));
  EXPECT_EQ(wire::read<wire::PathRecord>(query.data)->reversible_numb, 4);
  EXPECT_EQ(b.sink.find(kPeer)->mode, table::NeighbourMode::kUdPaths);
  EXPECT_EQ(ways(), (std::vector<Lids>{{8, 20}, {9, 21}, {10, 22}, {11, 23}}));
  const auto row = b.row("10.0.0.2");
  ASSERT_EQ(row.paths.size(), 4U);
  EXPECT_EQ(row.paths[3].slid, 11);
  EXPECT_EQ(row.paths[3].dlid, 23);
}

TEST_F(SeveralPaths, U41_OnlyTheFlowsOfALostPathMove) {
  add_paths({{1, 1}, {2, 2}, {3, 3}});
  b.resolve("10.0.0.2", hw);
  const auto handles = b.actions.ahs.size();
  b.sa.more_paths.erase(b.sa.more_paths.begin());
  ask_again();
  EXPECT_EQ(ways(), (std::vector<Lids>{{8, 20}, {8, 20}, {10, 22}, {11, 23}}));
  EXPECT_EQ(b.actions.ahs.size(), handles - 1);
  EXPECT_EQ(b.row("10.0.0.2").paths.size(), 3U);
  // It returns.
  add_paths({{1, 1}});
  ask_again();
  EXPECT_EQ(ways(), (std::vector<Lids>{{8, 20}, {9, 21}, {10, 22}, {11, 23}}));
  // The only one that is left is one as without other paths.
  b.sa.more_paths.clear();
  ask_again();
  EXPECT_EQ(ways(), std::vector<Lids>(4, Lids{8, 20}));
  EXPECT_EQ(b.sink.find(kPeer)->mode, table::NeighbourMode::kUd);
  EXPECT_EQ(b.actions.ahs.size(), handles - 3);
}

/// One record that is useless does not take the others with it, and the smallest MTU is that of all.
TEST_F(SeveralPaths, U41_RecordsOfATableAreCheckedEach) {
  add_paths({{7, 1}, {0, 0}, {2, 2}});
  b.sa.more_paths[2].mtu = wire::with_selector(wire::Selector::kExactly, 3);
  b.resolve("10.0.0.2", hw);
  EXPECT_EQ(ways(), (std::vector<Lids>{{8, 20}, {10, 22}, {8, 20}, {10, 22}}));
  EXPECT_EQ(b.sink.find(kPeer)->mtu, 1020);
  EXPECT_EQ(b.link.counters().path_records_refused, 1U);
  EXPECT_EQ(b.link.counters().path_failures, 0U);
}

/// An MTU that does not exist is no limit: it must not hide those of the others.
TEST_F(SeveralPaths, U41_RecordWithoutAValidMtuIsNotUsed) {
  add_paths({{7, 1}, {2, 2}});
  b.sa.more_paths[0].mtu = wire::with_selector(wire::Selector::kExactly, 0);
  b.sa.more_paths[1].mtu = wire::with_selector(wire::Selector::kExactly, 3);
  b.resolve("10.0.0.2", hw);
  EXPECT_EQ(ways(), (std::vector<Lids>{{8, 20}, {10, 22}, {8, 20}, {10, 22}}));
  EXPECT_EQ(b.sink.find(kPeer)->mtu, 1020);
  EXPECT_EQ(b.link.counters().path_records_refused, 1U);
}

/// Records of the same two LIDs with other service levels, MTUs and rates, in another order in each
/// answer.
TEST_F(SeveralPaths, U41_RecordsThatContradictEachOther) {
  add_paths({{0, 0}, {0, 0}});
  b.sa.more_paths[0].qos_sl.set(5);
  b.sa.more_paths[0].mtu = wire::with_selector(wire::Selector::kExactly, 3);
  b.sa.more_paths[1].rate = wire::with_selector(wire::Selector::kExactly, 2);
  const auto before = b.actions.ahs.size();
  b.resolve("10.0.0.2", hw);
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(b.sink.valid(kPeer)) << i;
    EXPECT_EQ(ways(), std::vector<Lids>(4, {8, 20})) << i;
    EXPECT_EQ(b.sink.find(kPeer)->mtu, 1020) << i;
    EXPECT_EQ(b.actions.ahs.size(), before + 3) << i;
    std::swap(b.sa.paths[hw.gid], b.sa.more_paths[static_cast<std::size_t>(i % 2)]);
    ask_again();
  }
  EXPECT_EQ(b.link.counters().path_records_refused, 0U);
  EXPECT_EQ(b.link.counters().path_failures, 0U);
}

/// An administrator that has no tables of paths, by refusing them or by silence, is asked for one path,
/// and for tables again after ten minutes.
class PathsWithoutTables : public SeveralPaths, public ::testing::WithParamInterface<bool> {
 protected:
  PathsWithoutTables() {
    add_paths({{1, 1}});
    b.meddle = [this](fabric::ReceivedMad& mad) {
      auto answer = *wire::read<wire::SaMad>(mad.bytes);
      if (tables || answer.hdr.mad.method != static_cast<std::uint8_t>(wire::Method::kGetTableResp))
        return true;
      answer.hdr.mad.status.set(static_cast<std::uint16_t>(wire::MadStatus::kSaRequestInvalid));
      mad = {mad.from, {}};
      static_cast<void>(wire::write(std::span{mad.bytes}, 0, answer));
      return GetParam();
    };
  }
  /// Lets time pass while the peer answers and a worker sends to it.
  void run_using(Duration d) {
    for (const auto end = b.now + d; b.now < end;) {
      b.receive_arp_reply(hw, "10.0.0.2");
      if (const auto index = b.sink.index_of(kPeer)) b.sink.used[*index] = b.now;
      b.run_for(5s);
    }
  }
  [[nodiscard]] std::size_t table_queries() const {
    return static_cast<std::size_t>(
        std::ranges::count(b.sa.path_queries, static_cast<std::uint8_t>(wire::Method::kGetTable),
                           [](const wire::SaMad& query) { return query.hdr.mad.method; }));
  }
  bool tables = false;
};
INSTANTIATE_TEST_SUITE_P(Sa, PathsWithoutTables, ::testing::Bool(), [](const auto& refuses) {
  return refuses.param ? "Refuses" : "IsSilent";
});

TEST_P(PathsWithoutTables, U41_OnePathIsUsed) {
  const std::string log = logged([&] {
    b.resolve("10.0.0.2", hw);
    run_using(20s);
    const auto other = b.add_host(0xc, 0x51, 24);
    b.resolve("10.0.0.3", other);
  });
  EXPECT_EQ(ways(), std::vector<Lids>(4, Lids{8, 20}));
  EXPECT_EQ(b.sink.find(kPeer)->mode, table::NeighbourMode::kUd);
  const auto line = log.find("answers no queries for several paths");
  ASSERT_NE(line, std::string::npos) << log;
  EXPECT_EQ(log.find("answers no queries", line + 1), std::string::npos) << "once";
  EXPECT_EQ(table_queries(), GetParam() ? 1U : 5U) << "the second neighbour costs none";
}

TEST_P(PathsWithoutTables, U41_TablesAreTriedAgain) {
  b.resolve("10.0.0.2", hw);
  run_using(20s);
  const auto before = table_queries();
  run_using(9min);
  EXPECT_EQ(table_queries(), before);
  tables = true;
  run_using(2min);
  EXPECT_GT(table_queries(), before);
  EXPECT_EQ(b.row("10.0.0.2").paths.size(), 2U);
}

/// An administrator that answers no queries for a while has tables when it answers again.
TEST_P(PathsWithoutTables, U41_RefusalOfAllQueriesSaysNothingAboutTables) {
  b.meddle = [this](fabric::ReceivedMad& mad) {
    auto answer = *wire::read<wire::SaMad>(mad.bytes);
    const auto method = wire::Method{answer.hdr.mad.method};
    if (tables || (method != wire::Method::kGetTableResp && method != wire::Method::kGetResp))
      return true;
    answer.hdr.mad.status.set(static_cast<std::uint16_t>(wire::MadStatus::kSaRequestInvalid));
    mad = {mad.from, {}};
    static_cast<void>(wire::write(std::span{mad.bytes}, 0, answer));
    return GetParam();
  };
  b.resolve("10.0.0.2", hw);
  run_using(60s);
  EXPECT_EQ(b.sink.find(kPeer), nullptr);
  tables = true;
  b.resolve("10.0.0.2", hw);
  run_using(20s);
  EXPECT_EQ(b.row("10.0.0.2").paths.size(), 2U);
}

/// Even if the neighbour whose query failed is gone.
TEST_P(PathsWithoutTables, U41_TablesAreTriedForOtherNeighbours) {
  const auto other = b.add_host(0xc, 0x51, 24);
  b.resolve("10.0.0.3", other);
  b.run_for(20s);
  b.resolve("10.0.0.2", hw);
  run_using(9min);
  tables = true;
  run_using(20min);
  EXPECT_EQ(b.row("10.0.0.2").paths.size(), 2U);
}

/// Messages of the link itself take the paths in turn.
TEST_F(SeveralPaths, U41_RepliesTakeThePathsInTurn) {
  add_paths({{1, 1}});
  b.resolve("10.0.0.2", hw);
  b.actions.frames.clear();
  for (int i = 0; i < 4; ++i) b.receive_arp_request(hw, "10.0.0.2");
  std::map<int, int> sent;
  for (const auto& frame : b.actions.frames) ++sent[frame.to.dlid];
  EXPECT_EQ(sent, (std::map<int, int>{{20, 2}, {21, 2}}));
}

}  // namespace
}  // namespace ipoib::link
