// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/kernel_codec.h"

#include <gtest/gtest.h>
#include <linux/if_addr.h>

#include "tests/unit/lib/mgmt/kernel_messages.h"

namespace ipoib::mgmt {
namespace {

rtnexthop next_hop(int ifindex, std::uint8_t hops, std::uint8_t flags = 0) {
  return {0, flags, hops, ifindex};
}

TEST(KernelCodec, P17_Link) {
  ifinfomsg info{};
  info.ifi_index = 7;
  info.ifi_flags = IFF_UP | IFF_RUNNING;
  KernelMessage message{RTM_NEWLINK, info};
  message.add(IFLA_IFNAME, "ib0\tx").add(IFLA_MTU, 2044U);
  const auto link = read_kernel_link(message.header());
  ASSERT_TRUE(link);
  EXPECT_EQ(*link, (KernelLink{7, "ib0?x", 2044, true, true}));
  info.ifi_family = AF_BRIDGE;
  EXPECT_FALSE(read_kernel_link(KernelMessage{RTM_NEWLINK, info}.header()));
}

TEST(KernelCodec, P17_Addresses) {
  struct Row {
    const char *local, *address;
    std::uint32_t flags;
    const char *prefix, *peer;
    bool usable;
  };
  const Row rows[] = {{"10.0.0.1", "10.0.0.1", IFA_F_PERMANENT, "10.0.0.1/24", "", true},
                      {"10.0.0.1", "10.9.0.2", IFA_F_PERMANENT, "10.0.0.1/24", "10.9.0.2", true},
                      {"", "fd00::1", IFA_F_NODAD, "fd00::1/24", "", true},
                      {"", "fd00::1", IFA_F_TENTATIVE, "fd00::1/24", "", false},
                      {"", "fd00::1", IFA_F_DADFAILED, "fd00::1/24", "", false},
                      {"fd00::1", "fd00::2", 0, "fd00::1/24", "fd00::2", true}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.prefix);
    ifaddrmsg info{};
    info.ifa_family = ip(row.address).is_v4() ? AF_INET : AF_INET6;
    info.ifa_prefixlen = 24;
    info.ifa_index = 3;
    KernelMessage message{RTM_NEWADDR, info};
    message.add(IFA_ADDRESS, ip(row.address)).add(IFA_FLAGS, row.flags);
    if (*row.local != '\0') message.add(IFA_LOCAL, ip(row.local));
    const auto read = read_kernel_address(message.header());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->ifindex, 3);
    EXPECT_EQ(read->address.prefix, prefix(row.prefix));
    EXPECT_EQ(read->address.peer, *row.peer == '\0' ? std::nullopt : std::optional{ip(row.peer)});
    EXPECT_EQ(read->usable, row.usable);
    EXPECT_EQ(read->address.no_dad, (row.flags & IFA_F_NODAD) != 0);
  }
}

TEST(KernelCodec, P11_RouteWithOnePath) {
  KernelMessage message{RTM_NEWROUTE, route_header(prefix("10.1.0.0/16"))};
  message.add(RTA_DST, ip("10.1.2.3")).add(RTA_TABLE, 1000U).add(RTA_PRIORITY, 20U);
  message.add(RTA_OIF, 4U).add(RTA_GATEWAY, ip("10.0.0.9")).add(RTA_PREFSRC, ip("10.0.0.1"));
  const auto route = read_kernel_route(message.header());
  ASSERT_TRUE(route);
  EXPECT_EQ(route->to, prefix("10.1.0.0/16")) << "without host bits";
  EXPECT_EQ(route->table, 1000U);
  EXPECT_EQ(route->metric, 20U);
  EXPECT_EQ(route->hops.protocol, RTPROT_BGP);
  EXPECT_EQ(route->hops.source, ip("10.0.0.1"));
  EXPECT_EQ(route->hops.hops, (std::vector<KernelHop>{{path(4, "10.0.0.9")}}));
  EXPECT_FALSE(route->hops.silent);
}

TEST(KernelCodec, P11_DefaultRoutesAndMetrics) {
  KernelMessage v4{RTM_NEWROUTE, route_header(prefix("0.0.0.0/0"))};
  v4.add(RTA_OIF, 4U);
  ASSERT_TRUE(read_kernel_route(v4.header()));
  EXPECT_EQ(read_kernel_route(v4.header())->to, prefix("0.0.0.0/0"));
  EXPECT_EQ(read_kernel_route(v4.header())->metric, 0U);
  EXPECT_EQ(read_kernel_route(v4.header())->table, std::uint32_t{RT_TABLE_MAIN});
  KernelMessage v6{RTM_NEWROUTE, route_header(prefix("::/0"))};
  v6.add(RTA_OIF, 4U);
  ASSERT_TRUE(read_kernel_route(v6.header()));
  EXPECT_EQ(read_kernel_route(v6.header())->to, prefix("::/0"));
  EXPECT_EQ(read_kernel_route(v6.header())->metric, 1024U);
}

TEST(KernelCodec, P11_RouteWithSeveralPaths) {
  KernelMessage message{RTM_NEWROUTE, route_header(prefix("10.1.0.0/16"))};
  message.add(RTA_DST, ip("10.1.0.0"));
  const std::size_t list = message.begin(nlattr{0, RTA_MULTIPATH});
  const std::size_t first = message.begin(next_hop(5, 3, RTNH_F_ONLINK | RTNH_F_LINKDOWN));
  message.add(RTA_GATEWAY, ip("10.0.0.9"));
  message.end(first);
  const std::size_t second = message.begin(next_hop(4, 0, RTNH_F_DEAD));
  message.add_via(ip("fe80::9"));
  message.end(second);
  const std::size_t third = message.begin(next_hop(6, 0));
  const std::uint16_t mpls = 1;
  message.add(RTA_ENCAP_TYPE, &mpls, sizeof mpls);
  message.end(third);
  message.end(list);
  const auto route = read_kernel_route(message.header());
  ASSERT_TRUE(route);
  EXPECT_EQ(route->hops.hops, (std::vector<KernelHop>{{path(4, "fe80::9"), true, false},
                                                      {path(5, "10.0.0.9", 4), false, false},
                                                      {path(6, ""), false, true}}));
}

TEST(KernelCodec, P11_TypesOfRoutes) {
  struct Row {
    std::uint8_t type, protocol;
    const char* to;
    KernelRouteType read;
    bool silent;
  };
  const Row rows[] = {
      {RTN_UNICAST, RTPROT_STATIC, "10.0.0.0/8", KernelRouteType::kUnicast, false},
      {RTN_BLACKHOLE, RTPROT_STATIC, "10.0.0.0/8", KernelRouteType::kBlackhole, false},
      {RTN_UNREACHABLE, RTPROT_STATIC, "fd00::/8", KernelRouteType::kUnreachable, false},
      {RTN_PROHIBIT, RTPROT_STATIC, "10.0.0.0/8", KernelRouteType::kProhibit, false},
      {RTN_THROW, RTPROT_STATIC, "10.0.0.0/8", KernelRouteType::kUnreachable, false},
      {RTN_LOCAL, RTPROT_STATIC, "10.0.0.0/8", KernelRouteType::kUnicast, true},
      {RTN_UNICAST, RTPROT_KERNEL, "10.0.0.0/8", KernelRouteType::kUnicast, true},
      {RTN_UNICAST, RTPROT_STATIC, "fe80::/64", KernelRouteType::kUnicast, true},
      {RTN_UNICAST, RTPROT_STATIC, "ff00::/8", KernelRouteType::kUnicast, true},
      {RTN_UNICAST, RTPROT_STATIC, "239.0.0.0/8", KernelRouteType::kUnicast, true}};
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << unsigned{row.type} << ' ' << row.to);
    KernelMessage message{RTM_NEWROUTE, route_header(prefix(row.to), row.type, row.protocol)};
    message.add(RTA_DST, prefix(row.to).addr).add(RTA_OIF, 1U);
    const auto route = read_kernel_route(message.header());
    ASSERT_TRUE(route);
    EXPECT_EQ(route->hops.type, row.read);
    EXPECT_EQ(route->hops.silent, row.silent);
    EXPECT_EQ(route->hops.hops.empty(), row.read != KernelRouteType::kUnicast);
  }
}

TEST(KernelCodec, P11_RoutesThatAreNoDestinations) {
  const wire::IpPrefix to = prefix("10.0.0.0/8");
  const auto is_read = [&to](auto&& change, std::uint8_t len = 8) {
    rtmsg info = route_header(to);
    info.rtm_dst_len = len;
    change(info);
    KernelMessage message{RTM_NEWROUTE, info};
    message.add(RTA_DST, to.addr).add(RTA_OIF, 4U);
    return read_kernel_route(message.header()).has_value();
  };
  EXPECT_TRUE(is_read([](rtmsg&) {}));
  EXPECT_FALSE(is_read([](rtmsg& info) { info.rtm_tos = 8; }));
  EXPECT_FALSE(is_read([](rtmsg& info) { info.rtm_src_len = 8; }));
  EXPECT_FALSE(is_read([](rtmsg& info) { info.rtm_flags = RTM_F_CLONED; }));
  EXPECT_FALSE(is_read([](rtmsg& info) { info.rtm_family = AF_MPLS; }));
  EXPECT_FALSE(is_read([](rtmsg& info) { info.rtm_family = AF_INET6; })) << "too short";
  EXPECT_FALSE(is_read([](rtmsg&) {}, 33));
  KernelMessage mapped{RTM_NEWROUTE, route_header(prefix("fd00::/120"))};
  const wire::IpAddr addr = wire::IpAddr::v4(0x0a00'0001);
  mapped.add(RTA_DST, &addr, sizeof addr);
  EXPECT_FALSE(read_kernel_route(mapped.header())) << "::ffff:10.0.0.1 is no IPv6 destination";
}

TEST(KernelCodec, P11_NextHopObjects) {
  nhmsg info{};
  info.nh_family = AF_INET6;
  KernelMessage path_message{RTM_NEWNEXTHOP, info};
  path_message.add(NHA_ID, 9U).add(NHA_OIF, 4U).add(NHA_GATEWAY, ip("fe80::9"));
  const auto single = read_kernel_next_hop(path_message.header());
  ASSERT_TRUE(single);
  EXPECT_EQ(*single, (KernelNextHop{9, false, {path(4, "fe80::9")}, {}}));

  const nexthop_grp members[] = {{9, 3, 0, 0}, {10, 0, 1, 0}};
  KernelMessage group_message{RTM_NEWNEXTHOP, nhmsg{}};
  group_message.add(NHA_ID, 11U).add(NHA_GROUP, members, sizeof members);
  const auto group = read_kernel_next_hop(group_message.header());
  ASSERT_TRUE(group);
  EXPECT_EQ(group->group, (std::vector<KernelNextHop::Member>{{9, 4}, {10, 257}}));

  KernelMessage hole_message{RTM_NEWNEXTHOP, info};
  hole_message.add(NHA_ID, 12U).add(NHA_BLACKHOLE, nullptr, 0);
  const auto hole = read_kernel_next_hop(hole_message.header());
  ASSERT_TRUE(hole);
  EXPECT_TRUE(hole->blackhole);
  EXPECT_FALSE(read_kernel_next_hop(KernelMessage{RTM_NEWNEXTHOP, info}.header())) << "no ID";
}

/// Copies that end where the message does, so that a sanitizer sees a read behind the end.
void read_all(const std::vector<std::byte>& octets) {
  std::vector<std::uint32_t> copy(octets.size() / 4);
  std::memcpy(copy.data(), octets.data(), octets.size());
  const auto& message = *reinterpret_cast<const nlmsghdr*>(copy.data());
  (void)read_kernel_link(message);
  (void)read_kernel_address(message);
  (void)read_kernel_next_hop(message);
  (void)read_kernel_route(message);
}

TEST(KernelCodec, P11_DamagedMessagesGiveNothing) {
  KernelMessage message{RTM_NEWROUTE, route_header(prefix("10.1.0.0/16"))};
  message.add(RTA_DST, ip("10.1.0.0"));
  const std::size_t list = message.begin(nlattr{0, RTA_MULTIPATH});
  const std::size_t first = message.begin(next_hop(5, 3));
  message.add(RTA_GATEWAY, ip("10.0.0.9"));
  message.end(first);
  message.end(list);
  const auto whole = message.octets();
  ASSERT_TRUE(read_kernel_route(message.header()));
  for (std::size_t len = sizeof(nlmsghdr); len < whole.size(); len += 4) {
    SCOPED_TRACE(len);
    auto cut = std::vector<std::byte>{whole.begin(), whole.begin() + static_cast<long>(len)};
    std::memcpy(cut.data(), &len, 4);
    read_all(cut);
    // The message is whole without its last attribute, but has no path then.
    std::vector<std::uint32_t> copy(cut.size() / 4);
    std::memcpy(copy.data(), cut.data(), cut.size());
    const auto read = read_kernel_route(*reinterpret_cast<const nlmsghdr*>(copy.data()));
    EXPECT_EQ(read.has_value(), len == list) << "only an end between attributes is no damage";
  }
  for (std::size_t at = sizeof(nlmsghdr); at < whole.size(); ++at)
    for (const unsigned value : {0U, 1U, 3U, 5U, 0x7fU, 0xffU}) {
      auto damaged = whole;
      damaged[at] = static_cast<std::byte>(value);
      read_all(damaged);
    }
}

}  // namespace
}  // namespace ipoib::mgmt
