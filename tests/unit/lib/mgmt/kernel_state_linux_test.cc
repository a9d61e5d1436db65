// SPDX-License-Identifier: BSD-3-Clause
// KernelState beside the kernel itself: after any change, it has the routes that `ip -j route` lists.
#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <nlohmann/json.hpp>
#include <poll.h>

#include <random>
#include <sstream>

#include "lib/linux/netlink_listener.h"
#include "lib/mgmt/linux/kernel_state.h"
#include "tests/support/seeds.h"
#include "tests/unit/lib/mgmt/kernel_messages.h"
#include "tests/unit/lib/mgmt/kernel_namespace.h"

using namespace std::chrono_literals;

namespace ipoib::mgmt {
namespace {

using nlohmann::json;
using Routes = std::map<RecordingSink::Key, KernelRouteEntry>;

bool has_flag(const json& object, const std::string& flag) {
  const json flags = object.value("flags", json::array());
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

/// The routes that the kernel lists, as the node needs them, from the output of ip(8).
class Listed {
 public:
  Listed(const KernelNamespace& space, const std::map<std::int32_t, KernelLink>& links) {
    for (const auto& [ifindex, link] : links) ifindex_[link.name] = ifindex;
    std::istringstream lists{
        space.output("ip -j -d -4 route show table main; ip -j -d -6 route show table main")};
    std::string v4, v6;
    std::getline(lists, v4);
    std::getline(lists, v6);
    add(json::parse(v4), true);
    add(json::parse(v6), false);
  }
  [[nodiscard]] const Routes& routes() const { return routes_; }

 private:
  void add(const json& routes, bool v4) {
    for (const json& route : routes) {
      if (route.contains("tos")) continue;
      KernelRouteEntry entry;
      std::string to = route["dst"];
      if (to == "default") to = v4 ? "0.0.0.0/0" : "::/0";
      if (to.find('/') == std::string::npos) to += v4 ? "/32" : "/128";
      entry.to = prefix(to);
      entry.metric = route.value("metric", 0U);
      entry.protocol = protocol_of(route["protocol"]);
      if (entry.protocol == RTPROT_KERNEL || to.starts_with("fe80") || to.starts_with("ff00"))
        continue;
      entry.type = type_of(route["type"]);
      if (entry.type == KernelRouteType::kUnicast) entry.paths = paths_of(route);
      if (entry.type == KernelRouteType::kUnicast && entry.paths.empty()) continue;
      routes_.try_emplace({entry.to, entry.metric}, entry);
    }
  }
  static std::uint8_t protocol_of(const json& name) {
    if (name.is_number()) return name;
    if (name == "kernel") return RTPROT_KERNEL;
    return name == "bgp" ? RTPROT_BGP : RTPROT_BOOT;
  }
  static KernelRouteType type_of(const std::string& name) {
    if (name == "blackhole") return KernelRouteType::kBlackhole;
    if (name == "prohibit") return KernelRouteType::kProhibit;
    return name == "unicast" ? KernelRouteType::kUnicast : KernelRouteType::kUnreachable;
  }
  std::vector<KernelPath> paths_of(const json& route) const {
    std::vector<KernelPath> paths;
    const json single = route.contains("dev") ? route : route.value("nh_info", route);
    for (const json& hop : route.value("nexthops", json::array({single}))) {
      if (has_flag(hop, "dead") || has_flag(hop, "linkdown")) continue;
      KernelPath path{ifindex_.at(hop["dev"]), {}, hop.value("weight", 1U)};
      if (hop.contains("gateway")) path.via = ip(hop["gateway"]);
      if (hop.contains("via")) path.via = ip(hop["via"]["host"]);
      paths.push_back(path);
    }
    std::sort(paths.begin(), paths.end());
    for (std::size_t i = 1; i < paths.size();) {
      if (paths[i - 1].ifindex == paths[i].ifindex && paths[i - 1].via == paths[i].via) {
        paths[i].weight += paths[i - 1].weight;
        paths.erase(paths.begin() + static_cast<std::ptrdiff_t>(i - 1));
      } else {
        ++i;
      }
    }
    if (paths.size() == 1) paths[0].weight = 1;
    return paths;
  }

  std::map<std::string, std::int32_t> ifindex_;
  Routes routes_;
};

struct KernelStateLinux : ::testing::Test {
  void SetUp() override {
    if (!space.made()) GTEST_SKIP() << "this process may not make network namespaces";
    make_links();
    snapshot();
  }
  void TearDown() override { EXPECT_FALSE(sink.twice); }

  /// v0 and w0 are the links of routes; a far end that goes down takes their carrier.
  void make_links() const {
    space.ip(
        "link set lo up\nlink add v0 type veth peer name v1\nlink add w0 type veth peer name w1\n"
        "link set v1 up\nlink set w1 up");
    set_up("v0", "1");
    set_up("w0", "2");
  }
  void set_up(const std::string& link, const std::string& net) const {
    space.ip("link set " + link + " up\naddr add 10." + net + ".0.1/24 dev " + link +
             "\naddr add fd0" + net + "::1/64 dev " + link + " nodad");
  }
  void receive() {
    pollfd ready{listener->fd(), POLLIN, 0};
    poll(&ready, 1, 100);
    ASSERT_TRUE(listener->receive(now));
    while (state.advance()) continue;
  }
  /// Takes the messages that wait.
  void receive_all() {
    pollfd ready{listener->fd(), POLLIN, 0};
    while (poll(&ready, 1, 0) > 0) ASSERT_TRUE(listener->receive(now));
    while (state.advance()) continue;
  }
  /// Asks for all objects, as after a loss. Each turn of the listener takes the given time.
  void snapshot(Duration turn = {}) {
    const unsigned before = sink.in_steps;
    auto opened =
        kernel::NetlinkListener::open(KernelState::subscription(), space.path(), state, now);
    ASSERT_TRUE(opened) << opened.error().what;
    listener = std::move(*opened);
    for (int i = 0; i < 200 && sink.in_steps == before; ++i, now += turn) receive();
    ASSERT_EQ(sink.in_steps, before + 1);
  }
  /// Compares with the kernel. It says later than the command ends that a link lost its carrier.
  void expect_same(const std::string& after) {
    SCOPED_TRACE(after);
    for (int i = 0; i < 50; ++i) {
      receive_all();
      if (Listed{space, sink.links}.routes() == sink.routes) {
        EXPECT_FALSE(state.in_doubt());
        return;
      }
      pollfd ready{listener->fd(), POLLIN, 0};
      poll(&ready, 1, 100);
    }
    EXPECT_EQ(text(sink.routes), text(Listed{space, sink.links}.routes()));
  }
  static std::string text(const Routes& routes) {
    std::string all;
    for (const auto& [key, route] : routes) {
      all += wire::to_string(route.to) + " metric " + std::to_string(route.metric) + " proto " +
             std::to_string(route.protocol) + " type " +
             std::to_string(static_cast<unsigned>(route.type));
      for (const KernelPath& path : route.paths)
        all += " [" + std::to_string(path.ifindex) + ' ' +
               (path.via ? wire::to_string(*path.via) : "-") + ' ' + std::to_string(path.weight) +
               ']';
      all += '\n';
    }
    return all;
  }
  /// Each line is one command of `ip`.
  void run(const std::vector<std::string>& commands) {
    for (const std::string& command : commands) {
      space.ip(command);
      expect_same(command);
      if (testing::Test::HasFailure()) return;
    }
    const unsigned calls = sink.route_calls;
    snapshot();
    EXPECT_EQ(sink.route_calls, calls) << "a snapshot changes nothing";
    expect_same("snapshot");
  }

  KernelNamespace space;
  TimePoint now{};
  RecordingSink sink;
  KernelState state{sink, KernelState::kMainTable, 1};
  std::unique_ptr<kernel::NetlinkListener> listener;
};

TEST_F(KernelStateLinux, P11_Routes) {
  run({"route add 20.0.0.0/8 via 10.1.0.2", "route append 20.0.0.0/8 via 10.2.0.2",
       "route prepend 20.0.0.0/8 via 10.1.0.9", "route replace 20.0.0.0/8 via 10.1.0.8",
       "route add 20.0.0.0/8 via 10.1.0.8 metric 5", "route del 20.0.0.0/8", "route del 20.0.0.0/8",
       "route add default via 10.1.0.2 proto bgp",
       "route add 21.0.0.0/8 nexthop via 10.1.0.2 weight 3 nexthop via 10.2.0.2",
       "route replace 21.0.0.0/8 via inet6 fe80::9 dev v0", "route add blackhole 22.0.0.0/8",
       "route add unreachable 23.0.0.0/8", "route add prohibit 24.0.0.0/8",
       "route add throw 25.0.0.0/8", "route replace 22.0.0.0/8 via 10.1.0.3",
       "route add 26.0.0.0/8 via 10.9.9.9 dev v0 onlink", "route add 27.0.0.1 dev w0",
       "route add 28.0.0.0/8 via 10.1.0.2 table 100", "route add 29.0.0.0/8 via 10.1.0.2 tos 8"});
  EXPECT_EQ(sink.paths("26.0.0.0/8").size(), 1U);
  EXPECT_EQ(sink.paths("21.0.0.0/8"),
            (std::vector<KernelPath>{{sink.paths("26.0.0.0/8")[0].ifindex, ip("fe80::9"), 1}}));
}

TEST_F(KernelStateLinux, P11_Ipv6Routes) {
  run({"route add 2001:db8::/32 via fd01::2", "route append 2001:db8::/32 via fd02::2",
       "route append 2001:db8::/32 dev v0", "route append 2001:db8::/32 via fd02::3",
       "route del 2001:db8::/32 via fd01::2", "route replace 2001:db8::/32 via fd02::9",
       "route del 2001:db8::/32 via fd02::9",
       "route add 2001:db9::/32 nexthop via fd01::2 weight 3 nexthop via fd02::2",
       "route append 2001:db9::/32 nexthop via fd01::4 nexthop via fd02::4",
       "route del 2001:db9::/32 nexthop via fd01::2 nexthop via fd01::4",
       "route replace 2001:db9::/32 nexthop via fd01::7 nexthop via fd02::7",
       "route del 2001:db9::/32", "route add blackhole 2001:db9::/32",
       "route add default via fd01::2 metric 20", "route add unreachable 2001:dba::/32",
       "route replace 2001:dba::/32 via fe80::1 dev v0"});
  EXPECT_EQ(sink.routes.size(), 4U);
}

TEST_F(KernelStateLinux, P11_NextHopObjects) {
  run({"nexthop add id 1 via 10.1.0.2 dev v0",
       "nexthop add id 2 via 10.2.0.2 dev w0",
       "nexthop add id 3 group 1,4/2",
       "route add 30.0.0.0/8 nhid 3",
       "route add 31.0.0.0/8 nhid 1",
       "nexthop replace id 1 via 10.1.0.3 dev v0",
       "nexthop replace id 3 group 1,7/2,9",
       "nexthop add id 4 blackhole",
       "route add 32.0.0.0/8 nhid 4",
       "nexthop add id 5 via fd01::5 dev v0",
       "route add 2001:db8::/32 nhid 5",
       "route add 33.0.0.0/8 nhid 5",
       "nexthop replace id 5 via fd02::5 dev w0",
       "nexthop del id 1",
       "nexthop add id 6 via fd01::6 dev v0",
       "nexthop add id 7 group 5/6",
       "route add 2001:db9::/32 nhid 7",
       "nexthop del id 5",
       "nexthop del id 2",
       "nexthop replace id 4 via 10.1.0.9 dev v0",
       "nexthop del id 4",
       "nexthop del id 6"});
  EXPECT_TRUE(sink.routes.empty());
  EXPECT_EQ(state.paths().reports(), 0U);
}

const std::vector<std::string> kMixedRoutes{
    "route add 20.0.0.0/8 via 10.1.0.2",
    "route append 20.0.0.0/8 via 10.2.0.2",
    "route add 21.0.0.0/8 nexthop via 10.1.0.2 weight 3 nexthop via 10.2.0.2",
    "route add 2001:db8::/32 via fd01::2",
    "route add 2001:db9::/32 nexthop via fd01::2 weight 3 nexthop via fd02::2",
    "nexthop add id 1 via 10.1.0.2 dev v0",
    "nexthop add id 2 via 10.2.0.2 dev w0",
    "nexthop add id 3 group 1,4/2",
    "route add 30.0.0.0/8 nhid 3",
    "route add 31.0.0.0/8 nhid 1",
    "nexthop add id 5 via fd01::5 dev v0",
    "nexthop add id 6 via fd02::5 dev w0",
    "nexthop add id 7 group 5/6",
    "route add 2001:dba::/32 nhid 7",
    "route add 2001:dbb::/32 nhid 5",
    "route add 32.0.0.0/8 via 10.1.0.2 src 10.2.0.1"};

TEST_F(KernelStateLinux, P17_LinkWithoutCarrier) {
  run(kMixedRoutes);
  run({"link set v1 down", "link set v1 up", "link set w1 down", "link set v1 down",
       "link set w1 up", "link set v1 up"});
}

TEST_F(KernelStateLinux, P17_LinkDownAndUp) {
  run(kMixedRoutes);
  run({"link set v0 down", "link set v0 up", "route add 20.0.0.0/8 via 10.1.0.2",
       "link set w0 down", "link set v0 down", "link set w0 up", "link set v0 up"});
}

TEST_F(KernelStateLinux, P17_LinkDeletedAndMadeAgain) {
  run(kMixedRoutes);
  run({"link del v0", "link add v0 type veth peer name v1", "link set v0 up", "link set v1 up",
       "addr add 10.1.0.1/24 dev v0", "route add 20.0.0.0/8 via 10.1.0.2", "link set v0 name x0",
       "link del w0"});
}

TEST_F(KernelStateLinux, P17_AddressesRemoved) {
  run(kMixedRoutes);
  EXPECT_GE(sink.addresses.size(), 4U);
  run({"addr add 10.1.5.1/24 dev v0", "addr del 10.2.0.1/24 dev w0", "addr add 10.2.0.1/24 dev w0",
       "addr del 10.1.0.1/24 dev v0", "addr del 10.1.5.1/24 dev v0", "addr flush dev w0",
       "addr add 10.1.0.1/24 dev v0"});
}

TEST_F(KernelStateLinux, P17_SilentKernelSettings) {
  const std::string set =
      "sysctl -qw net.ipv6.route.skip_notify_on_dev_down=1 "
      "net.ipv4.nexthop_compat_mode=0";
  (void)space.output(set);
  run({"nexthop add id 1 via 10.1.0.2 dev v0", "route add 31.0.0.0/8 nhid 1",
       "route add 2001:db8::/32 via fd01::2"});
  space.ip("link set v0 down");
  receive_all();
  EXPECT_TRUE(sink.routes.empty());
  expect_same("link set v0 down");
}

/// Random commands, many of which the kernel refuses.
std::string random_command(std::mt19937_64& random) {
  const auto number = [&random](unsigned n) { return static_cast<unsigned>(random() % n); };
  const auto text = [](unsigned n) { return std::to_string(n); };
  const bool v4 = number(3) != 0;
  const std::string net =
      v4 ? text(20 + number(4)) + ".0.0.0/8" : "2001:db" + text(number(4)) + "::/32";
  const auto gateway = [&] {
    const std::string link = text(1 + number(2)), host = "0" + text(2 + number(3));
    return v4 ? "via 10." + link + ".0." + host : "via fd0" + link + "::" + host;
  };
  const auto link = [&] { return number(2) == 0 ? std::string{"v0"} : std::string{"w0"}; };
  const auto metric = [&] { return number(3) == 0 ? " metric 7" : std::string{}; };
  const std::string verbs[] = {"add", "append", "prepend", "replace", "replace"};
  switch (number(20)) {
    case 0:
    case 1:
      return "route " + verbs[number(5)] + ' ' + net + " nexthop " + gateway() + " weight " +
             text(1 + number(3)) + " nexthop " + gateway() + metric();
    case 2:
      return "route " + verbs[number(5)] + ' ' + net + " nhid " + text(1 + number(6)) + metric();
    case 3: return "route " + verbs[number(5)] + " blackhole " + net + metric();
    case 4: return "route " + verbs[number(5)] + ' ' + net + " dev " + link() + metric();
    case 5:
    case 6:
    case 7: return "route del " + net + metric();
    case 8: return "route del " + net + ' ' + gateway() + metric();
    case 9:
      return "nexthop replace id " + text(1 + number(4)) + " via " +
             (number(2) == 0 ? "10.1.0.2 dev v0" : "10.2.0.2 dev w0");
    case 10:
      return "nexthop replace id " + text(5 + number(2)) + " group " + text(1 + number(2)) + ',' +
             text(1 + number(3)) + '/' + text(3 + number(2));
    case 11: return "nexthop del id " + text(1 + number(6));
    case 12: return number(2) == 0 ? "link set v1 down" : "link set w1 down";
    case 13: return number(2) == 0 ? "link set v1 up" : "link set w1 up";
    case 14: return number(4) == 0 ? "link set " + link() + " down" : "link set v0 up";
    case 15: return number(4) == 0 ? "addr del 10.2.0.1/24 dev w0" : "link set w0 up";
    case 16: return "addr add 10.2.0.1/24 dev w0";
    case 17:
      return number(2) == 0 ? "addr add fd01::1/64 dev v0 nodad"
                            : "addr add fd02::1/64 dev w0 nodad";
    default: return "route " + verbs[number(5)] + ' ' + net + ' ' + gateway() + metric();
  }
}

TEST_F(KernelStateLinux, P11_RandomCommands) {
  test::for_seeds(1, [this](std::uint64_t seed) {
    std::mt19937_64 random{seed};
    std::string history;
    for (int batch = 0; batch < 100; ++batch) {
      std::string commands;
      for (int i = 0; i < 10; ++i) commands += random_command(random) + '\n';
      history += commands;
      space.ip(commands);
      SCOPED_TRACE(history.size() > 3'000 ? history.substr(history.size() - 3'000) : history);
      receive_all();
      if (state.in_doubt()) snapshot();
      expect_same("");
      if (testing::Test::HasFailure()) return;
    }
    const unsigned calls = sink.route_calls;
    snapshot();
    EXPECT_EQ(sink.route_calls, calls);
  });
}

TEST_F(KernelStateLinux, P17_LinksAndAddresses) {
  space.ip(
      "link set v0 mtu 1400\nlink set w0 name x0\nlink set v1 down\n"
      "addr add 10.1.0.9/32 peer 10.9.0.1 dev v0\naddr del 10.2.0.1/24 dev x0");
  std::map<std::string, KernelLink> links;
  for (int i = 0; i < 50; ++i) {
    receive_all();
    links.clear();
    for (const auto& [ifindex, link] : sink.links) links[link.name] = link;
    if (links.contains("x0") && links.contains("v0") && !links["v0"].carrier) break;
    pollfd ready{listener->fd(), POLLIN, 0};
    poll(&ready, 1, 100);
  }
  ASSERT_TRUE(links.contains("v0") && links.contains("x0"));
  EXPECT_EQ(links.size(), 5U);
  EXPECT_EQ(links["v0"], (KernelLink{links["v0"].ifindex, "v0", 1400, true, false}));
  EXPECT_TRUE(links["x0"].carrier);
  EXPECT_FALSE(links["v1"].up);
  const auto has = [&](const std::string& link, const KernelAddress& address) {
    return sink.addresses.contains({links[link].ifindex, address});
  };
  EXPECT_TRUE(has("v0", {prefix("10.1.0.1/24"), {}}));
  EXPECT_TRUE(has("v0", {prefix("10.1.0.9/32"), ip("10.9.0.1")}));
  EXPECT_TRUE(has("v0", {prefix("fd01::1/64"), {}, true})) << "it was added with nodad";
  EXPECT_FALSE(has("x0", {prefix("10.2.0.1/24"), {}}));
}

/// Changes and lists are longer than one turn of the listener.
TEST_F(KernelStateLinux, P17_ManyRoutes) {
  constexpr unsigned kRoutes = 10'000;
  std::string add;
  for (unsigned i = 0; i < kRoutes; ++i)
    add += "route add " + wire::to_string(wire::IpAddr::v4(0x1400'0000 + (i << 8))) +
           "/24 via 10.1.0." + std::to_string(2 + i % 4) + '\n';
  std::thread daemon{[&] { space.ip(add); }};
  for (unsigned i = 0; i < 100'000 && sink.routes.size() < kRoutes; ++i) receive();
  daemon.join();
  EXPECT_EQ(sink.routes.size(), kRoutes);
  EXPECT_FALSE(listener->reader().needs_snapshot()) << "nothing was lost";
  EXPECT_LE(state.paths().contents(), 20U) << "paths are shared";
  const unsigned calls = sink.route_calls;
  snapshot(9s);
  EXPECT_EQ(sink.route_calls, calls);
  space.ip("link set v0 down");
  receive_all();
  EXPECT_TRUE(sink.routes.empty());
}

}  // namespace
}  // namespace ipoib::mgmt
