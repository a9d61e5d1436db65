// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/kernel_state.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>

#include "tests/unit/lib/mgmt/kernel_messages.h"

namespace ipoib::mgmt {
namespace {

constexpr std::uint16_t kListed = NLM_F_MULTI;
constexpr std::uint16_t kAppend = NLM_F_CREATE | NLM_F_APPEND;

struct KernelStateTest : ::testing::Test {
  void SetUp() override {
    snapshot([this] {
      link(1);
      link(2);
    });
  }
  void TearDown() override { EXPECT_FALSE(sink.twice); }

  template <class List>
  void snapshot(List&& list) {
    state.on_snapshot_begin();
    list();
    state.on_snapshot_end();
    while (state.advance()) continue;
  }
  void give(const KernelMessage& message) {
    state.on_message(message.header());
    while (state.advance()) continue;
  }
  void link(int ifindex, bool up = true, bool carrier = true) {
    ifinfomsg info{};
    info.ifi_index = ifindex;
    if (up) info.ifi_flags |= IFF_UP;
    if (carrier) info.ifi_flags |= IFF_RUNNING;
    KernelMessage message{RTM_NEWLINK, info};
    give(message.add(IFLA_IFNAME, "v" + std::to_string(ifindex)));
  }
  void link_gone(int ifindex) {
    ifinfomsg info{};
    info.ifi_index = ifindex;
    give(KernelMessage{RTM_DELLINK, info});
  }
  void address(std::uint16_t type, int ifindex, const std::string& addr) {
    ifaddrmsg info{};
    info.ifa_family = ip(addr).is_v4() ? AF_INET : AF_INET6;
    info.ifa_prefixlen = 24;
    info.ifa_index = static_cast<unsigned>(ifindex);
    KernelMessage message{type, info};
    give(message.add(IFA_ADDRESS, ip(addr)));
  }
  void route(std::uint16_t type, const std::string& to, const std::vector<KernelPath>& paths,
             std::uint16_t flags = 0, std::uint32_t metric = 0) {
    const wire::IpPrefix net = prefix(to);
    KernelMessage message{type, route_header(net), flags};
    message.add(RTA_DST, net.addr).add(RTA_PRIORITY, metric);
    const auto put = [&message](const KernelPath& path) {
      if (path.via) message.add(RTA_GATEWAY, *path.via);
    };
    if (paths.size() == 1) {
      message.add(RTA_OIF, static_cast<std::uint32_t>(paths[0].ifindex));
      put(paths[0]);
    } else {
      const std::size_t list = message.begin(nlattr{0, RTA_MULTIPATH});
      for (const KernelPath& path : paths) {
        const std::size_t at = message.begin(
            rtnexthop{0, 0, static_cast<std::uint8_t>(path.weight - 1), path.ifindex});
        put(path);
        message.end(at);
      }
      message.end(list);
    }
    give(message);
  }
  void route_by_object(const std::string& to, std::uint32_t object) {
    KernelMessage message{RTM_NEWROUTE, route_header(prefix(to))};
    give(message.add(RTA_DST, prefix(to).addr).add(RTA_NH_ID, object));
  }
  void object(std::uint32_t id, const KernelPath& path) {
    nhmsg info{};
    info.nh_family = AF_INET;
    KernelMessage message{RTM_NEWNEXTHOP, info};
    message.add(NHA_ID, id).add(NHA_OIF, static_cast<std::uint32_t>(path.ifindex));
    give(message.add(NHA_GATEWAY, *path.via));
  }
  void group(std::uint32_t id, const std::vector<nexthop_grp>& members) {
    KernelMessage message{RTM_NEWNEXTHOP, nhmsg{}};
    give(message.add(NHA_ID, id)
             .add(NHA_GROUP, members.data(), members.size() * sizeof(nexthop_grp)));
  }
  void object_gone(std::uint32_t id) {
    KernelMessage message{RTM_DELNEXTHOP, nhmsg{}};
    give(message.add(NHA_ID, id));
  }

  RecordingSink sink;
  KernelState state{sink, KernelState::kMainTable, 1};
};

using Paths = std::vector<KernelPath>;

TEST_F(KernelStateTest, P11_RoutesComeChangeAndGo) {
  EXPECT_EQ(sink.in_steps, 1U);
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")});
  EXPECT_EQ(sink.paths("10.0.0.0/8"), Paths{path(1, "1.0.0.1")});
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.1"), path(2, "2.0.0.1", 3)}, NLM_F_REPLACE);
  EXPECT_EQ(sink.paths("10.0.0.0/8"), (Paths{path(1, "1.0.0.1"), path(2, "2.0.0.1", 3)}));
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(2, "2.0.0.9")}, 0, 20);
  EXPECT_EQ(sink.paths("10.0.0.0/8", 20), Paths{path(2, "2.0.0.9")});
  EXPECT_EQ(state.routes().size(), 2U);
  route(RTM_DELROUTE, "10.0.0.0/8", {path(1, "1.0.0.1"), path(2, "2.0.0.1", 3)});
  EXPECT_TRUE(sink.paths("10.0.0.0/8").empty());
  route(RTM_DELROUTE, "10.0.0.0/8", {path(2, "2.0.0.9")}, 0, 20);
  EXPECT_TRUE(sink.routes.empty());
  EXPECT_EQ(state.routes().size(), 0U);
  EXPECT_EQ(state.paths().contents(), 0U) << "nothing is left";
  EXPECT_EQ(state.paths().reports(), 0U);
  EXPECT_FALSE(state.in_doubt());
}

TEST_F(KernelStateTest, P11_FirstOfSeveralRoutesCounts) {
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")});
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.2")}, kAppend);
  EXPECT_EQ(sink.paths("10.0.0.0/8"), Paths{path(1, "1.0.0.1")});
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(2, "2.0.0.3")}, NLM_F_CREATE);
  EXPECT_EQ(sink.paths("10.0.0.0/8"), Paths{path(2, "2.0.0.3")}) << "prepended";
  link(2, true, false);
  EXPECT_EQ(sink.paths("10.0.0.0/8"), Paths{path(1, "1.0.0.1")}) << "the next one is usable";
  link(2);
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(2, "2.0.0.4")}, NLM_F_REPLACE);
  EXPECT_EQ(sink.paths("10.0.0.0/8"), Paths{path(2, "2.0.0.4")});
  route(RTM_DELROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")});
  route(RTM_DELROUTE, "10.0.0.0/8", {path(2, "2.0.0.4")});
  EXPECT_EQ(sink.paths("10.0.0.0/8"), Paths{path(1, "1.0.0.2")});
  EXPECT_FALSE(state.in_doubt());
  route(RTM_DELROUTE, "10.0.0.0/8", {path(1, "1.0.0.7")});
  EXPECT_TRUE(state.in_doubt()) << "that route was not known";
  state.on_snapshot_begin();
  EXPECT_FALSE(state.in_doubt());
}

TEST_F(KernelStateTest, P11_Ipv6PathsOfOneRoute) {
  const Paths one{path(1, "fd00::1")}, two{path(1, "fd00::1"), path(2, "fd00::2")};
  route(RTM_NEWROUTE, "2001:db8::/32", one, NLM_F_CREATE, 1024);
  route(RTM_NEWROUTE, "2001:db8::/32", two, kAppend, 1024);
  EXPECT_EQ(sink.paths("2001:db8::/32", 1024), two);
  EXPECT_EQ(state.routes().size(), 1U);
  route(RTM_NEWROUTE, "2001:db8::/32", {path(1, "")}, kAppend, 1024);
  EXPECT_EQ(state.routes().size(), 2U) << "a route without a gateway is another one";
  route(RTM_DELROUTE, "2001:db8::/32", one, 0, 1024);
  EXPECT_EQ(sink.paths("2001:db8::/32", 1024), Paths{path(2, "fd00::2")});
  route(RTM_NEWROUTE, "2001:db8::/32", {path(2, "fd00::9")}, NLM_F_REPLACE, 1024);
  EXPECT_EQ(sink.paths("2001:db8::/32", 1024), Paths{path(2, "fd00::9")});
  EXPECT_EQ(state.routes().size(), 2U);
  route(RTM_DELROUTE, "2001:db8::/32", {path(2, "fd00::9")}, 0, 1024);
  EXPECT_EQ(sink.paths("2001:db8::/32", 1024), Paths{path(1, "")});
  EXPECT_FALSE(state.in_doubt());
}

TEST_F(KernelStateTest, P11_OtherTablesDoNotCount) {
  rtmsg info = route_header(prefix("10.0.0.0/8"));
  info.rtm_table = RT_TABLE_LOCAL;
  KernelMessage message{RTM_NEWROUTE, info};
  give(message.add(RTA_DST, ip("10.0.0.0")).add(RTA_OIF, 1U));
  EXPECT_TRUE(sink.routes.empty());
  EXPECT_EQ(state.ignored(), 1U);
}

TEST_F(KernelStateTest, P17_SilentEndOfIpv4Routes) {
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")});
  route(RTM_NEWROUTE, "11.0.0.0/8", {path(1, "1.0.0.1"), path(2, "2.0.0.1")});
  route(RTM_NEWROUTE, "12.0.0.0/8", {path(2, "2.0.0.1")});
  link(1, false, false);
  EXPECT_TRUE(sink.paths("10.0.0.0/8").empty());
  EXPECT_EQ(sink.paths("11.0.0.0/8"), Paths{path(2, "2.0.0.1")});
  link(1);
  EXPECT_TRUE(sink.paths("10.0.0.0/8").empty()) << "the kernel has removed it";
  EXPECT_EQ(sink.paths("11.0.0.0/8"), (Paths{path(1, "1.0.0.1"), path(2, "2.0.0.1")}));
  link_gone(1);
  EXPECT_TRUE(sink.paths("11.0.0.0/8").empty()) << "removed with the link of one path";
  EXPECT_EQ(sink.routes.size(), 1U);
  EXPECT_EQ(state.routes().size(), 1U);
  EXPECT_EQ(sink.links.size(), 1U);
}

TEST_F(KernelStateTest, P17_RoutesWithoutCarrierWait) {
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")});
  link(1, true, false);
  EXPECT_TRUE(sink.routes.empty());
  EXPECT_EQ(state.routes().size(), 1U);
  link(1);
  EXPECT_EQ(sink.paths("10.0.0.0/8"), Paths{path(1, "1.0.0.1")});
}

TEST_F(KernelStateTest, P17_LastIpv4AddressEndsRoutes) {
  address(RTM_NEWADDR, 1, "1.0.0.8");
  address(RTM_NEWADDR, 1, "1.0.1.8");
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")});
  route(RTM_NEWROUTE, "11.0.0.0/8", {path(1, "1.0.0.1"), path(2, "2.0.0.1")});
  route(RTM_NEWROUTE, "fd00::/8", {path(1, "fe80::1")}, 0, 1024);
  address(RTM_DELADDR, 1, "1.0.0.8");
  EXPECT_EQ(sink.routes.size(), 3U);
  address(RTM_DELADDR, 1, "1.0.1.8");
  EXPECT_TRUE(sink.addresses.empty());
  EXPECT_TRUE(sink.paths("10.0.0.0/8").empty());
  EXPECT_EQ(sink.paths("11.0.0.0/8"), Paths{path(2, "2.0.0.1")});
  EXPECT_EQ(sink.paths("fd00::/8", 1024), Paths{path(1, "fe80::1")});
  address(RTM_NEWADDR, 1, "1.0.0.8");
  EXPECT_EQ(sink.paths("11.0.0.0/8"), (Paths{path(1, "1.0.0.1"), path(2, "2.0.0.1")}));
  EXPECT_EQ(sink.routes.size(), 2U);
}

TEST_F(KernelStateTest, P17_RoutesEndWithTheirSource) {
  address(RTM_NEWADDR, 1, "1.0.0.8");
  address(RTM_NEWADDR, 2, "2.0.0.8");
  KernelMessage message{RTM_NEWROUTE, route_header(prefix("10.0.0.0/8"))};
  message.add(RTA_DST, ip("10.0.0.0")).add(RTA_OIF, 1U).add(RTA_PREFSRC, ip("2.0.0.8"));
  give(message);
  EXPECT_EQ(sink.routes.size(), 1U);
  address(RTM_DELADDR, 2, "2.0.0.8");
  EXPECT_TRUE(sink.routes.empty());
}

TEST_F(KernelStateTest, P11_NextHopObjectsAndGroups) {
  object(1, path(1, "1.0.0.1"));
  object(2, path(2, "2.0.0.1"));
  group(3, {{1, 0, 0, 0}, {2, 3, 0, 0}});
  route_by_object("10.0.0.0/8", 3);
  route_by_object("11.0.0.0/8", 1);
  EXPECT_EQ(sink.paths("10.0.0.0/8"), (Paths{path(1, "1.0.0.1"), path(2, "2.0.0.1", 4)}));
  EXPECT_EQ(sink.paths("11.0.0.0/8"), Paths{path(1, "1.0.0.1")});
  object(1, path(1, "1.0.0.9"));
  EXPECT_EQ(sink.paths("10.0.0.0/8"), (Paths{path(1, "1.0.0.9"), path(2, "2.0.0.1", 4)}));
  EXPECT_EQ(sink.paths("11.0.0.0/8"), Paths{path(1, "1.0.0.9")});
  object_gone(1);
  EXPECT_EQ(sink.paths("10.0.0.0/8"), Paths{path(2, "2.0.0.1")});
  EXPECT_TRUE(sink.paths("11.0.0.0/8").empty());
  link(2, true, false);
  EXPECT_TRUE(sink.routes.empty()) << "the kernel removes objects of links without a carrier";
  link(2);
  EXPECT_TRUE(sink.routes.empty());
  EXPECT_EQ(state.routes().size(), 0U);
  object(3, path(2, "2.0.0.7"));
  EXPECT_TRUE(sink.routes.empty()) << "a new object with an old number has no routes";
  EXPECT_FALSE(state.in_doubt());
}

TEST_F(KernelStateTest, P11_BlackholeObject) {
  KernelMessage message{RTM_NEWNEXTHOP, nhmsg{}};
  give(message.add(NHA_ID, 5U).add(NHA_BLACKHOLE, nullptr, 0));
  route_by_object("10.0.0.0/8", 5);
  ASSERT_EQ(sink.routes.size(), 1U);
  EXPECT_EQ(sink.routes.begin()->second.type, KernelRouteType::kBlackhole);
  object(5, path(1, "1.0.0.1"));
  EXPECT_EQ(sink.paths("10.0.0.0/8"), Paths{path(1, "1.0.0.1")});
}

TEST_F(KernelStateTest, P11_RouteOfAnUnknownObjectWaits) {
  route_by_object("10.0.0.0/8", 5);
  EXPECT_TRUE(state.in_doubt());
  EXPECT_TRUE(sink.routes.empty());
  object(5, path(1, "1.0.0.1"));
  EXPECT_EQ(sink.paths("10.0.0.0/8"), Paths{path(1, "1.0.0.1")});
}

TEST_F(KernelStateTest, P17_SnapshotChangesOnlyWhatDiffers) {
  address(RTM_NEWADDR, 1, "1.0.0.8");
  object(1, path(1, "1.0.0.1"));
  object(2, path(1, "1.0.0.2"));
  for (int i = 0; i < 10; ++i)
    route(RTM_NEWROUTE, std::to_string(10 + i) + ".0.0.0/8", {path(1, "1.0.0.1")});
  route_by_object("30.0.0.0/8", 2);
  const unsigned routes = sink.route_calls, links = sink.link_calls;
  state.on_loss();
  EXPECT_EQ(sink.route_calls, routes) << "what is known stays";
  const auto list = [this](int n) {
    link(1);
    link(2);
    address(RTM_NEWADDR, 1, "1.0.0.8");
    object(1, path(1, "1.0.0.1"));
    for (int i = 0; i < n; ++i)
      route(RTM_NEWROUTE, std::to_string(10 + i) + ".0.0.0/8", {path(1, "1.0.0.1")}, kListed);
  };
  snapshot([&] {
    list(10);
    object(2, path(1, "1.0.0.2"));
    route_by_object("30.0.0.0/8", 2);
  });
  EXPECT_EQ(sink.route_calls, routes);
  EXPECT_EQ(sink.link_calls, links);
  EXPECT_EQ(sink.in_steps, 2U);
  snapshot([&] {
    list(9);
    route(RTM_NEWROUTE, "19.0.0.0/8", {path(2, "2.0.0.1")}, kListed);
  });
  EXPECT_EQ(sink.route_calls, routes + 2) << "one changed, and one went with its object";
  EXPECT_EQ(sink.paths("19.0.0.0/8"), Paths{path(2, "2.0.0.1")});
  EXPECT_EQ(sink.routes.size(), 10U);
  snapshot([this] { link(2); });
  EXPECT_TRUE(sink.addresses.empty());
  EXPECT_EQ(sink.links.size(), 1U);
  EXPECT_TRUE(sink.routes.empty());
  EXPECT_EQ(state.paths().contents(), 0U);
}

/// A route may be added to a link that has no address any more.
/// A kernel without a family answers the request for its routes with those of all families.
TEST_F(KernelStateTest, P17_RouteThatASnapshotListsTwiceIsOne) {
  snapshot([&] {
    link(1);
    for (int i = 0; i < 2; ++i) route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")}, kListed);
  });
  EXPECT_EQ(sink.routes.size(), 1U);
  route(RTM_DELROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")});
  EXPECT_TRUE(sink.routes.empty());
}

TEST_F(KernelStateTest, P17_SnapshotWithoutAnAddressKeepsItsRoutes) {
  address(RTM_NEWADDR, 1, "1.0.0.8");
  state.on_loss();
  snapshot([this] {
    link(1);
    link(2);
    route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "")}, kListed);
  });
  EXPECT_TRUE(sink.addresses.empty());
  EXPECT_EQ(sink.paths("10.0.0.0/8"), Paths{path(1, "")});
}

TEST_F(KernelStateTest, P17_SnapshotHasTheOrderOfRoutes) {
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")});
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.2")}, kAppend);
  const unsigned calls = sink.route_calls;
  snapshot([this] {
    link(1);
    // A change meanwhile, which the list has, too.
    route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.3")}, kAppend);
    route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")}, kListed);
    route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.2")}, kListed);
    route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.3")}, kListed);
  });
  EXPECT_EQ(sink.route_calls, calls);
  EXPECT_EQ(state.routes().size(), 3U);
  snapshot([this] {
    link(1);
    route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.2")}, kListed);
    route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")}, kListed);
  });
  EXPECT_EQ(sink.paths("10.0.0.0/8"), Paths{path(1, "1.0.0.2")});
  EXPECT_EQ(state.routes().size(), 2U);
}

TEST_F(KernelStateTest, P18_FrozenRoutesStayUntilTheSnapshotAfterTheThaw) {
  address(RTM_NEWADDR, 1, "1.0.0.9");
  object(7, path(2, "2.0.0.7"));
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")});
  route(RTM_NEWROUTE, "11.0.0.0/8", {path(2, "2.0.0.1")});
  route_by_object("12.0.0.0/8", 7);
  const auto before = sink.routes;
  const auto disturb = [&] {
    route(RTM_DELROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")});
    route(RTM_NEWROUTE, "11.0.0.0/8", {path(1, "1.0.0.5")}, NLM_F_REPLACE);
    route(RTM_NEWROUTE, "13.0.0.0/8", {path(1, "1.0.0.5")});
    object(7, path(1, "1.0.0.7"));
    object_gone(7);
    link(2, true, false);
    address(RTM_DELADDR, 1, "1.0.0.9");
    link_gone(2);
    EXPECT_EQ(sink.routes, before);
  };
  state.freeze_routes();
  disturb();
  EXPECT_FALSE(sink.links.contains(2)) << "links are followed";
  EXPECT_TRUE(sink.addresses.empty()) << "and addresses";
  snapshot([&] {
    link(1);
    route(RTM_NEWROUTE, "13.0.0.0/8", {path(1, "1.0.0.5")}, kListed);
  });
  EXPECT_EQ(sink.routes, before) << "a snapshot meanwhile, such as after a loss";
  link(2);
  address(RTM_NEWADDR, 1, "1.0.0.9");
  state.thaw_routes();
  disturb();
  const unsigned calls = sink.route_calls;
  snapshot([&] {
    link(1);
    link(2);
    object(7, path(2, "2.0.0.8"));
    EXPECT_EQ(sink.routes, before) << "nothing goes before all is listed";
    route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")}, kListed);
    route_by_object("12.0.0.0/8", 7);
    EXPECT_EQ(sink.paths("11.0.0.0/8"), Paths{path(2, "2.0.0.1")});
  });
  EXPECT_EQ(sink.paths("10.0.0.0/8"), Paths{path(1, "1.0.0.1")});
  EXPECT_EQ(sink.paths("12.0.0.0/8"), Paths{path(2, "2.0.0.8")});
  EXPECT_EQ(sink.routes.size(), 2U);
  EXPECT_EQ(sink.route_calls, calls + 2) << "what stayed is not reported";
  route(RTM_NEWROUTE, "13.0.0.0/8", {path(1, "1.0.0.5")});
  EXPECT_EQ(sink.paths("13.0.0.0/8"), Paths{path(1, "1.0.0.5")}) << "changes are followed again";
}

TEST_F(KernelStateTest, P18_FreezeDuringTheThawKeepsWhatIsThere) {
  route(RTM_NEWROUTE, "10.0.0.0/8", {path(1, "1.0.0.1")});
  route(RTM_NEWROUTE, "11.0.0.0/8", {path(1, "1.0.0.1")});
  state.freeze_routes();
  state.thaw_routes();
  snapshot([&] {
    link(1);
    link(2);
    state.freeze_routes();
  });
  EXPECT_EQ(sink.routes.size(), 2U);
  snapshot([&] { link(1); });
  EXPECT_EQ(sink.routes.size(), 2U);
  state.thaw_routes();
  snapshot([&] { link(1); });
  EXPECT_TRUE(sink.routes.empty());
  EXPECT_EQ(state.paths().contents(), 0U);
}

// The kernel has random routes, and the node drains at random times.
TEST_F(KernelStateTest, P18_DrainsAtAnyTimeLoseNoRoute) {
  constexpr int kSeeds = 1'000, kSteps = 60;
  const auto net = [](unsigned i) { return "10." + std::to_string(i) + ".0.0/16"; };
  for (int seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::map<unsigned, KernelPath> kernel;
    const auto known = [&] {
      std::map<unsigned, KernelPath> routes;
      for (unsigned i = 0; i < 8; ++i)
        if (const Paths p = sink.paths(net(i)); !p.empty()) routes.emplace(i, p.front());
      return routes;
    };
    const auto list_all = [&] {
      snapshot([&] {
        link(1);
        link(2);
        for (const auto& [i, p] : kernel) route(RTM_NEWROUTE, net(i), {p}, kListed);
      });
    };
    state.thaw_routes();  // The drain before may not have ended.
    list_all();
    std::optional<std::map<unsigned, KernelPath>> frozen;
    for (int step = 0; step < kSteps; ++step) {
      const unsigned i = random() % 8;
      switch (random() % 8) {
        case 0:
          if (!frozen) frozen = known();
          state.freeze_routes();
          break;
        case 1:
          if (frozen) state.thaw_routes();
          if (frozen && random() % 4 == 0)
            state.freeze_routes();  // before the snapshot
          else
            frozen.reset();
          list_all();
          break;
        case 2: list_all(); break;
        case 3:
        case 4:
          if (kernel.contains(i)) route(RTM_DELROUTE, net(i), {kernel.at(i)});
          kernel.erase(i);
          break;
        default: {
          const KernelPath p =
              path(1 + static_cast<int>(random() % 2), "1.0.0." + std::to_string(1 + random() % 3));
          route(RTM_NEWROUTE, net(i), {p}, kernel.contains(i) ? NLM_F_REPLACE : NLM_F_CREATE);
          kernel[i] = p;
        }
      }
      ASSERT_EQ(known(), frozen ? *frozen : kernel) << "seed " << seed << ", step " << step;
    }
  }
}

TEST_F(KernelStateTest, P17_ManyRoutesAreReportedInTurns) {
  constexpr std::uint32_t kRoutes = 50'000;
  object(1, path(1, "1.0.0.1"));
  for (std::uint32_t i = 0; i < kRoutes; ++i) {
    rtmsg info = route_header({wire::IpAddr::v4(0), 24});
    KernelMessage v4{RTM_NEWROUTE, info};
    v4.add(RTA_DST, wire::IpAddr::v4(0x1000'0000 + (i << 8))).add(RTA_NH_ID, 1U);
    state.on_message(v4.header());
  }
  EXPECT_EQ(sink.routes.size(), kRoutes);
  EXPECT_EQ(state.paths().contents(), 1U);
  EXPECT_LE(state.routes().memory_octets(), kRoutes * 64UL);
  unsigned calls = sink.route_calls, turns = 0;
  nhmsg info{};
  info.nh_family = AF_INET;
  KernelMessage message{RTM_NEWNEXTHOP, info};
  message.add(NHA_ID, 1U).add(NHA_OIF, 2U).add(NHA_GATEWAY, ip("2.0.0.1"));
  state.on_message(message.header());
  EXPECT_EQ(sink.route_calls, calls) << "the message itself reports no route";
  for (bool more = true; more; ++turns) {
    more = state.advance();
    EXPECT_LE(sink.route_calls - std::exchange(calls, sink.route_calls), 2'000U);
  }
  EXPECT_GE(turns, kRoutes / 2'000);
  for (const auto& [key, entry] : sink.routes) ASSERT_EQ(entry.paths, Paths{path(2, "2.0.0.1")});
  link_gone(2);
  EXPECT_TRUE(sink.routes.empty());
  EXPECT_EQ(state.routes().size(), 0U);
}

}  // namespace
}  // namespace ipoib::mgmt
