// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/kernel_multicast_routes.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/lib/mgmt/kernel_messages.h"

namespace ipoib::mgmt {
namespace {

/// An entry as the kernel sends it.
struct ListedEntry {
  std::string group, source;
  std::int32_t in = 0;
  std::vector<std::int32_t> out;
  std::uint32_t table = 0;  ///< 0: the default one.
  unsigned flags = 0;
};

template <class Use>
void with_message(std::uint16_t type, const ListedEntry& l, Use&& use) {
  const std::uint32_t table = l.table != 0          ? l.table
                              : ip(l.group).is_v4() ? KernelMulticastRoutes::kTable4
                                                    : KernelMulticastRoutes::kTable6;
  rtmsg info{};
  info.rtm_family = ip(l.group).is_v4() ? RTNL_FAMILY_IPMR : RTNL_FAMILY_IP6MR;
  info.rtm_dst_len = info.rtm_src_len = ip(l.group).is_v4() ? 32 : 128;
  info.rtm_table = static_cast<std::uint8_t>(table);
  info.rtm_type = RTN_MULTICAST;
  info.rtm_flags = l.flags;
  KernelMessage message{type, info};
  message.add(RTA_TABLE, table).add(RTA_SRC, ip(l.source)).add(RTA_DST, ip(l.group));
  if (l.in != 0) message.add(RTA_IIF, static_cast<std::uint32_t>(l.in));
  const std::size_t list = message.begin(nlattr{0, RTA_MULTIPATH});
  for (const std::int32_t out : l.out) message.end(message.begin(rtnexthop{0, 0, 1, out}));
  message.end(list);
  use(message);
}

struct MulticastSink final : KernelStateSink {
  using Key = std::pair<wire::IpAddr, wire::IpAddr>;

  void link_changed(std::int32_t, const KernelLink*) override {}
  void address_added(std::int32_t, const KernelAddress&) override {}
  void address_removed(std::int32_t, const KernelAddress&) override {}
  void route_set(const KernelRouteEntry&) override { ++unicast; }
  void route_removed(const wire::IpPrefix&, std::uint32_t) override { ++unicast; }
  void multicast_route_set(const KernelMulticastRoute& route) override {
    ++calls;
    routes[{route.group, route.source}] = route;
  }
  void multicast_route_removed(const wire::IpAddr& group, const wire::IpAddr& source) override {
    ++calls;
    EXPECT_EQ(routes.erase({group, source}), 1U);
  }
  void in_step() override {}

  std::map<Key, KernelMulticastRoute> routes;
  unsigned calls = 0, unicast = 0;
};

struct KernelMulticastRoutesTest : ::testing::Test {
  void give(std::uint16_t type, const ListedEntry& l) {
    with_message(type, l, [this](const KernelMessage& m) { state.on_message(m.header()); });
  }
  void set(const ListedEntry& l) { give(RTM_NEWROUTE, l); }
  void remove(const ListedEntry& l) { give(RTM_DELROUTE, l); }
  const KernelMulticastRoute* find(const std::string& group, const std::string& source) const {
    const auto it = sink.routes.find({ip(group), source.empty() ? wire::IpAddr{} : ip(source)});
    return it == sink.routes.end() ? nullptr : &it->second;
  }

  MulticastSink sink;
  KernelState state{sink, KernelState::kMainTable, 1};
};

TEST_F(KernelMulticastRoutesTest, P17_EntriesAreFollowed) {
  set({"239.1.1.1", "10.0.0.9", 3, {5, 4, 5}});
  const auto* route = find("239.1.1.1", "10.0.0.9");
  ASSERT_NE(route, nullptr);
  EXPECT_EQ(route->in, 3);
  EXPECT_EQ(route->out, (std::vector<std::int32_t>{4, 5}));
  set({"239.1.1.1", "10.0.0.9", 3, {4, 5}});
  EXPECT_EQ(sink.calls, 1U) << "nothing has changed";
  set({"239.1.1.1", "10.0.0.9", 4, {}});
  EXPECT_EQ(find("239.1.1.1", "10.0.0.9")->in, 4);
  set({"239.1.1.1", "0.0.0.0", 3, {4}});
  set({"ff0e::1", "fd00::9", 3, {4}});
  set({"ff0e::1", "::", 3, {4}});
  EXPECT_EQ(sink.routes.size(), 4U);
  EXPECT_NE(find("239.1.1.1", ""), nullptr) << "any source";
  EXPECT_NE(find("ff0e::1", ""), nullptr);
  remove({"239.1.1.1", "10.0.0.9", 4, {}});
  remove({"239.1.1.1", "10.0.0.9", 4, {}});
  remove({"ff0e::1", "fd00::9", 3, {4}});
  EXPECT_EQ(sink.routes.size(), 2U);
  EXPECT_EQ(sink.unicast, 0U);
}

TEST_F(KernelMulticastRoutesTest, P17_OtherEntriesAreIgnored) {
  set({"239.1.1.1", "10.0.0.9", 3, {4}, 10});                   // of another table
  set({"10.1.1.1", "10.0.0.9", 3, {4}});                        // no group
  set({"239.1.1.1", "10.0.0.9", 0, {}, 0, RTNH_F_UNRESOLVED});  // no daemon has answered
  set({"239.1.1.1", "10.0.0.9", -3, {4}});
  EXPECT_EQ(sink.calls, 0U);
  EXPECT_EQ(state.ignored(), 4U);
  set({"239.1.1.1", "10.0.0.9", 0, {4}});
  EXPECT_EQ(find("239.1.1.1", "10.0.0.9")->in, 0) << "the link is gone";
}

TEST_F(KernelMulticastRoutesTest, P17_SnapshotEndsWhatTheKernelNoLongerHas) {
  set({"239.1.1.1", "10.0.0.9", 3, {4}});
  set({"239.1.1.2", "10.0.0.9", 3, {4}});
  state.on_loss();
  EXPECT_EQ(sink.routes.size(), 2U) << "packets flow meanwhile";
  state.on_snapshot_begin();
  set({"239.1.1.2", "10.0.0.9", 3, {5}});
  set({"239.1.1.3", "10.0.0.9", 3, {4}});
  EXPECT_EQ(sink.routes.size(), 3U);
  state.on_snapshot_end();
  EXPECT_EQ(sink.routes.size(), 2U);
  EXPECT_EQ(find("239.1.1.1", "10.0.0.9"), nullptr);
  EXPECT_EQ(find("239.1.1.2", "10.0.0.9")->out, std::vector<std::int32_t>{5});
}

TEST_F(KernelMulticastRoutesTest, P17_NumberIsLimited) {
  KernelMulticastRoutes few{sink, 2};
  const auto give_few = [&](const std::string& group, bool exists) {
    with_message(RTM_NEWROUTE, {group, "10.0.0.9", 3, {4}},
                 [&](const KernelMessage& m) { EXPECT_TRUE(few.on_message(m.header(), exists)); });
  };
  for (const char* group : {"239.1.1.1", "239.1.1.2", "239.1.1.3"}) give_few(group, true);
  EXPECT_EQ(few.size(), 2U);
  EXPECT_EQ(few.refused(), 1U);
  EXPECT_FALSE(few.take_doubt());
  give_few("239.1.1.1", false);
  EXPECT_TRUE(few.take_doubt()) << "the kernel has one that now has room";
  few.begin_snapshot();
  give_few("239.1.1.2", true);
  give_few("239.1.1.3", true);
  few.end_snapshot();
  EXPECT_EQ(few.size(), 2U);
  EXPECT_FALSE(few.take_doubt());
}

/// Messages of this kind, cut or with wrong octets, change nothing or are read as some entry.
TEST_F(KernelMulticastRoutesTest, P17_GarbageIsHarmless) {
  std::minstd_rand random{1};
  for (int i = 0; i < 20'000; ++i) {
    const bool v4 = random() % 2 == 0;
    const ListedEntry l{v4 ? "239.1.1.1" : "ff0e::1", v4 ? "10.0.0.9" : "fd00::9", 3, {4, 5}};
    with_message(RTM_NEWROUTE, l, [&](const KernelMessage& m) {
      std::vector<std::byte> octets = m.octets();
      for (unsigned n = random() % 4; n > 0; --n)
        octets[sizeof(nlmsghdr) + random() % (octets.size() - sizeof(nlmsghdr))] =
            static_cast<std::byte>(random());
      octets.resize(sizeof(nlmsghdr) + random() % (octets.size() - sizeof(nlmsghdr) + 1));
      octets.shrink_to_fit();
      nlmsghdr header;
      std::memcpy(&header, octets.data(), sizeof header);
      header.nlmsg_len = static_cast<std::uint32_t>(octets.size());
      std::memcpy(octets.data(), &header, sizeof header);
      state.on_message(*reinterpret_cast<const nlmsghdr*>(octets.data()));
    });
  }
  EXPECT_GT(state.ignored(), 1'000U);
  for (const auto& [key, route] : sink.routes) {
    EXPECT_TRUE(wire::is_multicast(route.group));
    EXPECT_EQ(route.source == wire::IpAddr{} || route.source.is_v4() == route.group.is_v4(), true);
  }
}

}  // namespace
}  // namespace ipoib::mgmt
