// SPDX-License-Identifier: BSD-3-Clause
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_rcu_qsbr.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/rte_free.h"
#include "lib/mgmt/node/filter_list.h"
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {
namespace {

using fwd::FilterAction;
using fwd::FilterDirection;

FilterConfig filter(const char* iface, const char* source) {
  return {iface, {.source = *wire::parse_prefix(source)}};
}

/// A list whose jobs run when the test says, and a worker that is in a loop until the test ends it.
class FilterListTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(rcu, nullptr);
    ASSERT_EQ(rte_rcu_qsbr_init(rcu.get(), 1), 0);
    rte_rcu_qsbr_thread_register(rcu.get(), 0);
    rte_rcu_qsbr_thread_online(rcu.get(), 0);
    list = std::make_unique<FilterList>(FilterList::Surroundings{
        .settings = settings,
        .grace = fabric::Grace{rcu.get()},
        .interface_of = [](std::string_view name) -> table::InterfaceId {
          return name == "eth0" ? table::InterfaceId{0} : table::kNoInterface;
        },
        .compile = [this](const FilterList::Rules& rules) -> FilterList::Compiled {
          if (no_memory) return fail(Errc::kNoResources, "no memory");
          return fwd::FilterTable::create(rules, {.interfaces = 1});
        },
        .start_thread = [this](std::function<void()> job) -> Status {
          if (no_threads) return fail(Errc::kNoResources, "no threads");
          jobs.push_back(std::move(job));
          return {};
        },
        .wake = [this] { ++wakes; }});
  }
  void TearDown() override {
    run_jobs();
    list.reset();
    rte_rcu_qsbr_thread_offline(rcu.get(), 0);
    rte_rcu_qsbr_thread_unregister(rcu.get(), 0);
  }
  void run_jobs() {
    for (const auto& job : std::exchange(jobs, {})) job();
  }
  void turn(Duration later = Duration::zero()) { list->advance(now += later); }
  /// The worker ends its loop.
  void worker_loop() { rte_rcu_qsbr_quiescent(rcu.get(), 0); }
  /// Compiles and publishes what has changed, and frees what was replaced.
  void settle() {
    turn();
    run_jobs();
    turn();
    worker_loop();
    turn();
  }
  fwd::FilterTable* table() { return settings.filters.load(); }
  /// Memory of EAL that is in use.
  static std::size_t octets_of_eal() {
    std::size_t sum = 0;
    for (unsigned i = 0; i < rte_socket_count(); ++i) {
      rte_malloc_socket_stats stats{};
      if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &stats) == 0)
        sum += stats.heap_allocsz_bytes;
    }
    return sum;
  }
  /// The rows as text: their sources, packets, and a star if they are not in effect.
  std::string rows() {
    std::string text;
    for (const FilterInfo& row : list->rows())
      text +=
          fmt::format("{}{}:{}{}", text.empty() ? "" : " ",
                      wire::to_string(*row.config.rule.source), row.packets, row.active ? "" : "*");
    return text;
  }

  bool no_memory = false, no_threads = false;
  unsigned wakes = 0;
  std::vector<std::function<void()>> jobs;
  TimePoint now{};
  fwd::Settings settings;
  std::unique_ptr<rte_rcu_qsbr, RteFree> rcu{static_cast<rte_rcu_qsbr*>(
      rte_zmalloc(nullptr, rte_rcu_qsbr_get_memsize(1), RTE_CACHE_LINE_SIZE))};
  std::unique_ptr<FilterList> list;
};

TEST_F(FilterListTest, P23_ChangesTakeEffectWhenTheyAreCompiled) {
  EXPECT_TRUE(list->add(filter("eth0", "10.1.0.0/16"), std::nullopt));
  EXPECT_EQ(rows(), "10.1.0.0/16:0*");
  turn();
  EXPECT_EQ(jobs.size(), 1U);
  turn();
  EXPECT_EQ(jobs.size(), 1U);
  EXPECT_EQ(table(), nullptr);
  run_jobs();
  EXPECT_EQ(wakes, 1U);
  EXPECT_EQ(table(), nullptr) << "only management publishes";
  turn();
  ASSERT_NE(table(), nullptr);
  EXPECT_EQ(table()->size(), 1U);
  EXPECT_EQ(rows(), "10.1.0.0/16:0");
}

TEST_F(FilterListTest, P23_RulesHaveTheirPlaces) {
  EXPECT_TRUE(list->add(filter("", "10.1.0.0/16"), std::nullopt));
  EXPECT_TRUE(list->add(filter("", "10.2.0.0/16"), 1));
  EXPECT_TRUE(list->add(filter("", "10.3.0.0/16"), 2));
  EXPECT_TRUE(list->add(filter("", "10.4.0.0/16"), 4));
  EXPECT_EQ(rows(), "10.2.0.0/16:0* 10.3.0.0/16:0* 10.1.0.0/16:0* 10.4.0.0/16:0*");
  EXPECT_TRUE(list->remove(2));
  EXPECT_EQ(rows(), "10.2.0.0/16:0* 10.1.0.0/16:0* 10.4.0.0/16:0*");
  EXPECT_EQ(list->add(filter("", "10.5.0.0/16"), 5).error().what,
            "no place 5 for a filter rule; allowed: 1-4");
  EXPECT_EQ(list->remove(4).error().what, "no filter rule 4; there are 3");
  EXPECT_EQ(list->remove(0).error().code, Errc::kNotFound);
  EXPECT_EQ(list->add(filter("eth7", "10.5.0.0/16"), 1).error().what, "no link or port eth7");
  FilterConfig odd = filter("", "10.5.0.0/16");
  odd.rule.destination = *wire::parse_prefix("fd00::/8");
  EXPECT_EQ(list->add(odd, std::nullopt).error().code, Errc::kInvalidArgument);
  EXPECT_FALSE(list->add(filter("", "10.5.0.1/16"), std::nullopt)) << "host bits";
  EXPECT_EQ(list->size(), 3U);
}

/// All changes of that time together are the next list.
TEST_F(FilterListTest, P23_AChangeDuringACompilationIsCompiledNext) {
  EXPECT_TRUE(list->add(filter("eth0", "10.1.0.0/16"), std::nullopt));
  turn();
  EXPECT_TRUE(list->add(filter("eth0", "10.2.0.0/16"), std::nullopt));
  EXPECT_TRUE(list->add(filter("eth0", "10.3.0.0/16"), std::nullopt));
  turn();
  EXPECT_EQ(jobs.size(), 1U);
  run_jobs();
  turn();
  EXPECT_EQ(rows(), "10.1.0.0/16:0 10.2.0.0/16:0* 10.3.0.0/16:0*");
  EXPECT_EQ(jobs.size(), 1U);
  run_jobs();
  turn();
  EXPECT_EQ(rows(), "10.1.0.0/16:0 10.2.0.0/16:0 10.3.0.0/16:0");
  EXPECT_EQ(table()->size(), 3U);
}

TEST_F(FilterListTest, P23_CountersOfRulesThatStayKeepTheirValues) {
  EXPECT_TRUE(list->add(filter("eth0", "10.1.0.0/16"), std::nullopt));
  EXPECT_TRUE(list->add(filter("eth0", "10.2.0.0/16"), std::nullopt));
  settle();
  fwd::FilterTable* const first = table();
  first->count(0, 0);
  first->count(0, 1);
  first->count(0, 1);
  EXPECT_EQ(rows(), "10.1.0.0/16:1 10.2.0.0/16:2");

  EXPECT_TRUE(list->add(filter("eth0", "10.3.0.0/16"), 1));
  EXPECT_TRUE(list->remove(2));
  EXPECT_EQ(rows(), "10.3.0.0/16:0* 10.2.0.0/16:2");
  turn();
  run_jobs();
  turn();
  ASSERT_NE(table(), first);
  first->count(0, 1);  // the worker is still in a loop that began before
  table()->count(0, 1);
  table()->count(0, 0);
  EXPECT_EQ(rows(), "10.3.0.0/16:1 10.2.0.0/16:4");
  worker_loop();
  turn();
  EXPECT_EQ(rows(), "10.3.0.0/16:1 10.2.0.0/16:4");
  EXPECT_TRUE(list->remove(1));
  settle();
  EXPECT_EQ(rows(), "10.2.0.0/16:4");
}

/// One generation at a time: the worker may use the old table until it has ended its loop.
TEST_F(FilterListTest, P23_ATableIsFreedAfterTheLoopsThatUseIt) {
  EXPECT_TRUE(list->add(filter("eth0", "10.1.0.0/16"), std::nullopt));
  settle();
  fwd::FilterTable* const first = table();
  EXPECT_TRUE(list->add(filter("eth0", "10.2.0.0/16"), std::nullopt));
  turn();
  run_jobs();
  turn();
  first->count(0, 0);
  EXPECT_TRUE(list->add(filter("eth0", "10.3.0.0/16"), std::nullopt));
  turn();
  EXPECT_TRUE(jobs.empty()) << "the old table is in use";
  EXPECT_EQ(rows(), "10.1.0.0/16:1 10.2.0.0/16:0 10.3.0.0/16:0*");
  worker_loop();
  turn();
  EXPECT_EQ(jobs.size(), 1U);
}

TEST_F(FilterListTest, P23_TheLastRuleLeavesNoTable) {
  EXPECT_TRUE(list->add(filter("eth0", "10.1.0.0/16"), std::nullopt));
  settle();
  EXPECT_TRUE(list->remove(1));
  turn();
  EXPECT_EQ(table(), nullptr);
  EXPECT_TRUE(jobs.empty());
  worker_loop();
  turn();
  EXPECT_EQ(rows(), "");
}

TEST_F(FilterListTest, P23_AFailureKeepsTheOldRulesAndIsTriedAgain) {
  EXPECT_TRUE(list->add(filter("eth0", "10.1.0.0/16"), std::nullopt));
  settle();
  fwd::FilterTable* const first = table();
  no_memory = true;
  EXPECT_TRUE(list->add(filter("eth0", "10.2.0.0/16"), std::nullopt));
  for (Duration pause = FilterList::kFirstPause; pause < 4 * FilterList::kFirstPause; pause *= 2) {
    turn();
    ASSERT_EQ(jobs.size(), 1U);
    run_jobs();
    turn();
    EXPECT_EQ(table(), first);
    EXPECT_EQ(rows(), "10.1.0.0/16:0 10.2.0.0/16:0*");
    turn(pause - 1ms);
    EXPECT_TRUE(jobs.empty());
    turn(1ms);
  }
  run_jobs();
  turn();
  no_memory = false;
  no_threads = true;
  turn(4 * FilterList::kFirstPause);
  EXPECT_TRUE(jobs.empty());
  no_threads = false;
  turn(FilterList::kLongestPause);
  run_jobs();
  turn();
  EXPECT_EQ(rows(), "10.1.0.0/16:0 10.2.0.0/16:0");
}

/// The change may mend the list: it does not wait as long as the list that cannot be compiled.
TEST_F(FilterListTest, P23_AChangeDoesNotWaitForTheNextAttempt) {
  no_memory = true;
  EXPECT_TRUE(list->add(filter("eth0", "10.1.0.0/16"), std::nullopt));
  for (int failures = 0; failures < 8; ++failures) {
    turn(FilterList::kLongestPause);
    ASSERT_EQ(jobs.size(), 1U);
    run_jobs();
    turn();
  }
  EXPECT_TRUE(list->add(filter("eth0", "10.2.0.0/16"), std::nullopt));
  turn();
  EXPECT_EQ(jobs.size(), 1U);
  run_jobs();
  turn();
  EXPECT_TRUE(jobs.empty());
  turn(FilterList::kFirstPause);
  EXPECT_EQ(jobs.size(), 1U) << "pauses begin again with the first";
  run_jobs();
  turn();
  no_memory = false;
  EXPECT_TRUE(list->remove(2));
  settle();
  EXPECT_EQ(rows(), "10.1.0.0/16:0");
}

TEST_F(FilterListTest, P23_AChangeDuringACompilationThatFailsDoesNotWait) {
  EXPECT_TRUE(list->add(filter("eth0", "10.1.0.0/16"), std::nullopt));
  settle();
  no_memory = true;
  EXPECT_TRUE(list->add(filter("eth0", "10.2.0.0/16"), std::nullopt));
  turn();
  run_jobs();
  EXPECT_TRUE(list->remove(2));
  no_memory = false;
  turn();
  EXPECT_EQ(jobs.size(), 1U);
  run_jobs();
  turn();
  EXPECT_EQ(rows(), "10.1.0.0/16:0");
}

/// It needs no memory, which the list before it did not get.
TEST_F(FilterListTest, P23_AnEmptyListIsInEffectAtOnceAfterAFailure) {
  EXPECT_TRUE(list->add(filter("eth0", "10.1.0.0/16"), std::nullopt));
  settle();
  no_memory = no_threads = true;
  EXPECT_TRUE(list->add(filter("eth0", "10.2.0.0/16"), std::nullopt));
  turn();
  EXPECT_NE(table(), nullptr);
  EXPECT_TRUE(list->remove(1));
  EXPECT_TRUE(list->remove(1));
  turn();
  EXPECT_EQ(table(), nullptr);
}

/// The thread may be the last that has the job, after EAL has ended.
TEST_F(FilterListTest, P23_AJobThatOutlivesTheListHasNothingOfEal) {
  EXPECT_TRUE(list->add(filter("eth0", "10.1.0.0/16"), std::nullopt));
  turn();
  const std::size_t before = octets_of_eal();
  const auto kept = std::exchange(jobs, {});
  ASSERT_EQ(kept.size(), 1U);
  kept[0]();
  EXPECT_GT(octets_of_eal(), before);
  list.reset();
  EXPECT_EQ(octets_of_eal(), before);
}

TEST_F(FilterListTest, P23_TheFirstRulesAreInEffectAtOnce) {
  EXPECT_TRUE(list->begin_with({filter("eth0", "10.1.0.0/16"), filter("", "10.2.0.0/16")}));
  EXPECT_EQ(rows(), "10.1.0.0/16:0 10.2.0.0/16:0");
  turn();
  EXPECT_TRUE(jobs.empty());
  EXPECT_EQ(list->begin_with({filter("eth7", "10.1.0.0/16")}).error().code, Errc::kNotFound);
}

TEST_F(FilterListTest, P23_ThereIsALimit) {
  for (std::size_t i = 0; i < fwd::kMaxFilterRules; ++i)
    ASSERT_TRUE(list->add(filter("eth0", "10.1.0.0/16"), std::nullopt));
  EXPECT_EQ(list->add(filter("eth0", "10.1.0.0/16"), 1).error().what,
            "there are 4096 filter rules, which is the most");
}

struct NodeFilterTest : NodeFixture {
  static std::uint64_t drops(const NodeFaces& node, Drop reason) {
    return ask<std::uint64_t>(node, [reason](const NodeFaces& n) {
      return n.view.ports()[0].traffic.drops[static_cast<std::size_t>(reason)];
    });
  }
  void ping(const NodeFaces& node) {
    const auto mac =
        ask<wire::MacAddr>(node, [](const NodeFaces& n) { return n.view.ports()[0].mac; });
    give(ethernet.to_node, ethernet_frame(0x0800, echo_request(), mac));
  }
  static Status tell(const NodeFaces& node, const std::function<Status(NodeControl&)>& command) {
    return ask<Status>(node, [&](const NodeFaces& n) { return command(n.control); });
  }
  static std::uint64_t packets(const NodeFaces& node, std::size_t row) {
    return ask<std::uint64_t>(
        node, [row](const NodeFaces& n) { return n.view.filters().at(row).packets; });
  }
  static bool is_settled(const NodeFaces& node, std::size_t rules) {
    const auto rows =
        ask<std::vector<FilterInfo>>(node, [](const NodeFaces& n) { return n.view.filters(); });
    return rows.size() == rules && std::ranges::all_of(rows, &FilterInfo::active);
  }
};

TEST_F(NodeFilterTest, P23_RulesOfTheConfigurationAndOfCommands) {
  NodeConfig c = config();
  c.filters = {{"eth0", {.source = *wire::parse_prefix("192.168.1.2/32"), .protocol = 1}}};
  run(c, [this](const NodeFaces& node) {
    ping(node);
    EXPECT_TRUE(eventually([&] { return drops(node, Drop::kIpFilter) == 1; }));
    EXPECT_TRUE(tell(node, [](NodeControl& control) {
      return control.add_filter({"eth0", {.action = FilterAction::kAccept}}, 1);
    }));
    EXPECT_TRUE(eventually([&] { return is_settled(node, 2); }));
    ping(node);
    EXPECT_TRUE(eventually([&] { return packets(node, 0) == 1; }));
    EXPECT_EQ(packets(node, 1), 1U);
    EXPECT_EQ(drops(node, Drop::kIpFilter), 1U);
    EXPECT_EQ(
        ask<std::size_t>(node, [](const NodeFaces& n) { return n.view.config().filters.size(); }),
        2U);
    EXPECT_TRUE(tell(node, [](NodeControl& control) { return control.remove_filter(1); }));
    EXPECT_TRUE(eventually([&] { return is_settled(node, 1); }));
    EXPECT_EQ(ask<std::string>(
                  node, [](const NodeFaces& n) { return n.view.config().filters.at(0).iface; }),
              "eth0");
    EXPECT_FALSE(tell(node, [](NodeControl& control) { return control.remove_filter(2); }));
  });
}

TEST_F(NodeFilterTest, P05_RulesOfHeadersReachTheWorkers) {
  NodeConfig c = config();
  c.worker.headers = {.pass_options = {7}, .drop_options = {130}, .drop_extensions = {{50}}};
  run(c, [this](const NodeFaces& node) {
    const auto mac =
        ask<wire::MacAddr>(node, [](const NodeFaces& n) { return n.view.ports()[0].mac; });
    for (const std::uint8_t type : {std::uint8_t{7}, std::uint8_t{130}}) {
      const fwd::test::Ip4 packet{.options = {std::byte{type}, std::byte{4}, {}, {}}};
      give(ethernet.to_node, ethernet_frame(0x0800, packet.bytes(), mac));
    }
    EXPECT_TRUE(eventually([&] { return drops(node, Drop::kIpOption) == 1; }));
    const fwd::test::Ip6 packet{.body = fwd::test::Bytes(8), .next_header = 50};
    give(ethernet.to_node, ethernet_frame(0x86dd, packet.bytes(), mac));
    EXPECT_TRUE(eventually([&] { return drops(node, Drop::kIp6Extension) == 1; }));
    EXPECT_EQ(drops(node, Drop::kIpOption), 1U) << "the other option passed";
  });
}

TEST_F(NodeFilterTest, U03_DirectedBroadcastIsSetWhileTheNodeRuns) {
  run(config(), [this](const NodeFaces& node) {
    using fwd::DirectedBroadcast;
    const auto set = [&](const char* name, DirectedBroadcast which) {
      return tell(node, [&](NodeControl& c) { return c.set_directed_broadcast(name, which); });
    };
    const auto setting = [&] {
      return ask<DirectedBroadcast>(
          node, [](const NodeFaces& n) { return n.view.config().links[0].ip.directed_broadcast; });
    };
    const auto mac =
        ask<wire::MacAddr>(node, [](const NodeFaces& n) { return n.view.ports()[0].mac; });
    const auto dropped = [&](const char* dst, Drop reason, std::uint64_t n) {
      const auto packet =
          fwd::test::echo_packet(*wire::parse_ip("192.168.1.7"), *wire::parse_ip(dst), 32);
      give(ethernet.to_node, ethernet_frame(0x0800, packet, mac));
      return eventually([&] { return drops(node, reason) == n; });
    };
    constexpr const char* kAll = "10.255.255.255";  // the net of ib0's prefix
    const auto is_route = [&] {
      return ask<bool>(node, [](const NodeFaces& n) {
        return std::ranges::any_of(n.view.routes(std::nullopt, 100), [](const RouteInfo& r) {
          return r.to == *wire::parse_prefix("10.255.255.255/32");
        });
      });
    };
    EXPECT_EQ(setting(), DirectedBroadcast::kOff);
    EXPECT_TRUE(dropped("10.0.0.255", Drop::kIpBroadcast, 1));
    EXPECT_TRUE(dropped(kAll, Drop::kIpNoRoute, 1)) << "it follows the routes";
    EXPECT_TRUE(set("ib0", DirectedBroadcast::kSubnet));
    EXPECT_EQ(setting(), DirectedBroadcast::kSubnet);
    EXPECT_TRUE(dropped(kAll, Drop::kIpNoRoute, 2));
    EXPECT_FALSE(is_route());
    EXPECT_TRUE(set("ib0", DirectedBroadcast::kAllSubnets));
    EXPECT_EQ(setting(), DirectedBroadcast::kAllSubnets);
    EXPECT_TRUE(is_route());
    EXPECT_EQ(set("eth7", DirectedBroadcast::kSubnet).error().code, Errc::kNotFound);
    EXPECT_TRUE(set("eth0", DirectedBroadcast::kAllSubnets));
    EXPECT_TRUE(set("ib0", DirectedBroadcast::kOff));
    EXPECT_EQ(setting(), DirectedBroadcast::kOff);
    EXPECT_FALSE(is_route());
    EXPECT_TRUE(dropped("10.0.0.255", Drop::kIpBroadcast, 2))
        << "eth0's setting is for its own prefixes";
    EXPECT_TRUE(dropped(kAll, Drop::kIpNoRoute, 3)) << "and for their nets";
  });
}

TEST_F(NodeFilterTest, U03_BroadcastsToAllSubnetsAreConfigured) {
  NodeConfig c = config();
  c.links[0].ip.directed_broadcast = fwd::DirectedBroadcast::kAllSubnets;
  run(c, [](const NodeFaces& node) {
    const auto routes = ask<std::vector<RouteInfo>>(
        node, [](const NodeFaces& n) { return n.view.routes(std::nullopt, 100); });
    EXPECT_EQ(std::ranges::count_if(routes,
                                    [](const RouteInfo& r) {
                                      return r.to == *wire::parse_prefix("10.255.255.255/32") &&
                                             r.kind == "broadcast";
                                    }),
              1);
  });
}

TEST_F(NodeFilterTest, P23_SourceCheckIsSetWhileTheNodeRuns) {
  run(config(), [this](const NodeFaces& node) {
    const auto set = [&](const char* name, fwd::SourceCheck check) {
      return tell(node, [&](NodeControl& c) { return c.set_source_check(name, check); });
    };
    EXPECT_TRUE(set("eth0", fwd::SourceCheck::kStrict));
    EXPECT_TRUE(set("ib0", fwd::SourceCheck::kLoose));
    EXPECT_EQ(set("eth7", fwd::SourceCheck::kLoose).error().code, Errc::kNotFound);
    EXPECT_EQ(
        ask<fwd::SourceCheck>(
            node, [](const NodeFaces& n) { return n.view.config().links[0].ip.source_check; }),
        fwd::SourceCheck::kLoose);
    const auto mac =
        ask<wire::MacAddr>(node, [](const NodeFaces& n) { return n.view.ports()[0].mac; });
    const auto forged =
        fwd::test::echo_packet(*wire::parse_ip("10.0.0.9"), *wire::parse_ip("192.168.1.1"), 32);
    give(ethernet.to_node, ethernet_frame(0x0800, forged, mac));
    EXPECT_TRUE(eventually([&] { return drops(node, Drop::kIpSourceCheck) == 1; }));
    EXPECT_TRUE(set("eth0", fwd::SourceCheck::kOff));
    EXPECT_EQ(
        ask<fwd::SourceCheck>(
            node, [](const NodeFaces& n) { return n.view.config().ports[0].ip.source_check; }),
        fwd::SourceCheck::kOff);
  });
}

}  // namespace
}  // namespace ipoib::mgmt
