// SPDX-License-Identifier: BSD-3-Clause
// A node whose interfaces are mirrored in a network namespace of the test. Programs of Linux are
// sockets and ip(8) there.
#include "lib/mgmt/linux/linux_plane.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/mroute.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lib/linux/network_namespace.h"
#include "lib/wire/arp.h"
#include "tests/support/addresses.h"
#include "tests/support/test_namespace.h"
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {
namespace {

using ipoib::test::ip;

using wire::IpAddr;
using Bytes = std::vector<std::byte>;

constexpr std::uint16_t kArp = 0x0806, kIpv4 = 0x0800;

struct LinuxPlaneTest : NodeFixture {
  void SetUp() override {
    if (!here.made()) GTEST_SKIP() << "this process may not make network namespaces";
    c = config();
    c.ports[0].addresses.push_back(*wire::parse_prefix("fd00:1::1/64"));
    c.linux_plane.mirror = true;
    c.linux_plane.network_namespace = here.path();
  }

  /// Runs a command of the shell in the namespace. Fails if it does.
  void shell(const std::string& command) const {
    ASSERT_TRUE(kernel::in_network_namespace(
        here.path(), [&] { EXPECT_EQ(std::system(command.c_str()), 0) << command; }));
  }
  [[nodiscard]] bool is_true(const std::string& command) const {
    bool success = false;
    EXPECT_TRUE(kernel::in_network_namespace(here.path(),
                                             [&] { success = std::system(command.c_str()) == 0; }));
    return success;
  }
  /// True if the command prints the text. It is repeated for some seconds.
  [[nodiscard]] bool shows(const std::string& command, const std::string& text) const {
    return eventually([&] { return is_true(command + " | grep -qF -- '" + text + "'"); });
  }
  [[nodiscard]] int udp_socket() const {
    int fd = -1;
    EXPECT_TRUE(kernel::in_network_namespace(
        here.path(), [&fd] { fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); }));
    return fd;
  }

  static LinuxInfo info(const NodeFaces& node) {
    return ask<LinuxInfo>(node, [](const NodeFaces& n) { return n.view.linux_plane(); });
  }
  static bool drain(const NodeFaces& node, bool on) {
    return ask<bool>(node,
                     [on](const NodeFaces& n) { return n.control.set_draining(on).has_value(); });
  }
  [[nodiscard]] bool ready(const NodeFaces& node) const {
    const auto has_carrier = [&node] {
      const LinuxInfo i = info(node);
      return i.in_step && std::all_of(i.mirrors.begin(), i.mirrors.end(),
                                      [](const auto& m) { return m.carrier; });
    };
    // Linux acts on a carrier within a second.
    return eventually(has_carrier) && eventually([this] {
             return is_true("! ip -o link show | grep -E ' (eth|ib)[0-9]+: ' | grep -v LOWER_UP");
           });
  }
  static bool has_route(const NodeFaces& node, std::string_view to, std::string_view kind) {
    return eventually([&] {
      const auto rows = ask<std::vector<RouteInfo>>(
          node, [](const NodeFaces& n) { return n.view.routes({}, 1000); });
      return std::any_of(rows.begin(), rows.end(), [&](const RouteInfo& r) {
        return r.to == *wire::parse_prefix(to) && r.kind == kind;
      });
    });
  }
  static wire::MacAddr mac(const NodeFaces& node) {
    return ask<wire::MacAddr>(node, [](const NodeFaces& n) { return n.view.ports()[0].mac; });
  }
  static std::string port_state(const NodeFaces& node) {
    return ask<std::string>(node, [](const NodeFaces& n) { return n.view.ports()[0].state; });
  }
  /// The host at kPeerIp answers a request for its address, which the node sends.
  void answer_arp(const NodeFaces& node) {
    Bytes frame;
    std::optional<wire::Arp> arp;
    do {
      frame = take(ethernet.from_node, kArp);
      ASSERT_GE(frame.size(), 14U);
      arp = wire::parse_arp(wire::LinkKind::kEthernet, std::span{frame}.subspan(14));
    } while (!arp || arp->target_ip != kPeerIp);
    give(ethernet.to_node,
         ethernet_frame(
             kArp, wire::build_arp({wire::ArpOp::kReply, kPeerMac, kPeerIp, mac(node), kPortIp}),
             mac(node)));
  }

  /// The host at kPeerIp sends an echo request to the node, and gets the reply.
  void ping(const NodeFaces& node) {
    give(ethernet.to_node, ethernet_frame(kIpv4, echo_request(), mac(node)));
    ASSERT_NO_FATAL_FAILURE(answer_arp(node));
    const Bytes reply = take(ethernet.from_node, kIpv4);
    ASSERT_GT(reply.size(), 34U);
    EXPECT_EQ(reply[34], std::byte{0}) << "an echo reply";
  }

  test::NetworkNamespace here;
  NodeConfig c;
};

TEST_F(LinuxPlaneTest, P17_InterfacesAreMirroredWithTheirAddresses) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    EXPECT_TRUE(shows("ip -o address show dev eth0", "inet 192.168.1.1/24"));
    EXPECT_TRUE(shows("ip -o address show dev eth0", "inet6 fd00:1::1/64"));
    EXPECT_TRUE(shows("ip -o address show dev ib0", "inet 10.0.0.1/24"));
    EXPECT_TRUE(shows("ip -o link show dev ib0", "mtu 2044"));
    EXPECT_TRUE(shows("ip -o link show dev ib0", "NOARP"));
    EXPECT_TRUE(shows("ip -o link show dev ib0", "link/ether 02:02:c9:0a:0b:01"))
        << "the GUID without its two octets in the middle";
    EXPECT_TRUE(shows("ip -o address show dev ib0", "inet6 fe80::202:c903:a:b01/64"))
        << "the link-local address of the link";
    const LinuxInfo i = info(node);
    ASSERT_EQ(i.mirrors.size(), 2U);
    EXPECT_EQ(i.mirrors[0].iface, "eth0");
    EXPECT_NE(i.mirrors[0].ifindex, 0);
  });
}

TEST_F(LinuxPlaneTest, P17_MirrorOfAnInterfaceCanBeLeftOut) {
  c.links[0].ip.mirror = false;
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    EXPECT_FALSE(is_true("ip link show dev ib0 2>/dev/null"));
    EXPECT_EQ(info(node).mirrors.size(), 1U);
  });
}

TEST_F(LinuxPlaneTest, P17_PacketsGoUpAndDown) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    const int fd = udp_socket();
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_port = htons(53);
    ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
    const Bytes udp = {std::byte{4}, {}, {}, std::byte{53}, {},
                       std::byte{9}, {}, {}, std::byte{'?'}};
    const Bytes question = fwd::test::ip_packet(IpAddr::v4(kPeerIp), IpAddr::v4(kPortIp), 17, udp);
    give(ethernet.to_node, ethernet_frame(kIpv4, question, mac(node)));
    pollfd ready_fd{fd, POLLIN, 0};
    ASSERT_EQ(poll(&ready_fd, 1, 20'000), 1) << "the packet reaches the program";
    std::array<char, 16> data{};
    sockaddr_in from{};
    socklen_t len = sizeof from;
    ASSERT_EQ(recvfrom(fd, data.data(), data.size(), 0, reinterpret_cast<sockaddr*>(&from), &len),
              1);
    EXPECT_EQ(ntohl(from.sin_addr.s_addr), kPeerIp);
    ASSERT_EQ(sendto(fd, "!", 1, 0, reinterpret_cast<const sockaddr*>(&from), sizeof from), 1);
    ASSERT_NO_FATAL_FAILURE(answer_arp(node));
    const Bytes answer = take(ethernet.from_node, kIpv4);
    ASSERT_EQ(answer.size(), 14U + 20 + 8 + 1);
    EXPECT_TRUE(std::equal(kPeerMac.begin(), kPeerMac.end(), answer.begin()));
    EXPECT_EQ(answer[42], std::byte{'!'});
    EXPECT_EQ(answer[22], std::byte{64}) << "the node is no hop for Linux";
    close(fd);
  });
}

/// A DHCP server: hosts without an address broadcast, and get an answer by their MAC address.
TEST_F(LinuxPlaneTest, P17_ProgramsServeHostsWithoutAddresses) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    const int fd = udp_socket();
    const int on = 1;
    ASSERT_EQ(setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof on), 0);
    ASSERT_EQ(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "eth0", 5), 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(67);
    ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    const Bytes udp = {std::byte{0}, std::byte{68}, {}, std::byte{67}, {}, std::byte{9}, {},
                       {},           std::byte{'?'}};
    wire::MacAddr all;
    all.fill(std::byte{0xff});
    const Bytes discover = fwd::test::ip_packet(IpAddr::v4(0), IpAddr::v4(0xffff'ffff), 17, udp);
    give(ethernet.to_node, ethernet_frame(kIpv4, discover, all));
    pollfd arrived{fd, POLLIN, 0};
    ASSERT_EQ(poll(&arrived, 1, 20'000), 1) << "the broadcast reaches the program";
    const auto send_to = [&](std::uint32_t addr) {
      sockaddr_in to = any;
      to.sin_port = htons(68);
      to.sin_addr.s_addr = htonl(addr);
      ASSERT_EQ(sendto(fd, "!", 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to), 1);
    };
    send_to(0xffff'ffff);
    const Bytes offer = take(ethernet.from_node, kIpv4);
    ASSERT_GE(offer.size(), 14U);
    EXPECT_TRUE(std::equal(all.begin(), all.end(), offer.begin()));
    shell("ip neigh add 192.168.1.66 lladdr 02:00:00:00:00:66 dev eth0");
    send_to(ip("192.168.1.66").v4_host());
    const Bytes ack = take(ethernet.from_node, kIpv4);
    ASSERT_GE(ack.size(), 43U);
    EXPECT_EQ(ack[5], std::byte{0x66}) << "it asks no neighbour for the address";
    EXPECT_EQ(ack[42], std::byte{'!'});
    close(fd);
  });
}

TEST_F(LinuxPlaneTest, P17_LldpPassesBothWays) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    constexpr std::uint16_t kLldp = 0x88cc;
    int fd = -1;
    ASSERT_TRUE(kernel::in_network_namespace(
        here.path(), [&fd] { fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(kLldp)); }));
    const wire::MacAddr group{std::byte{0x01}, std::byte{0x80}, std::byte{0xc2}, {}, {},
                              std::byte{0x0e}};
    const Bytes frame = ethernet_frame(kLldp, Bytes(46, std::byte{7}), group);
    give(ethernet.to_node, frame);
    pollfd arrived{fd, POLLIN, 0};
    ASSERT_EQ(poll(&arrived, 1, 20'000), 1);
    Bytes received(100);
    sockaddr_ll from{};
    socklen_t len = sizeof from;
    const auto n =
        recvfrom(fd, received.data(), received.size(), 0, reinterpret_cast<sockaddr*>(&from), &len);
    received.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    EXPECT_EQ(received, frame);
    EXPECT_EQ(from.sll_ifindex, info(node).mirrors[0].ifindex);
    ASSERT_EQ(sendto(fd, frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&from),
                     sizeof from),
              static_cast<ssize_t>(frame.size()));
    EXPECT_EQ(take(ethernet.from_node, kLldp), frame);
    close(fd);
  });
}

TEST_F(LinuxPlaneTest, P17_NodeAnswersPingsItself) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    shell("sysctl -qw net.ipv4.icmp_echo_ignore_all=1");
    const auto before = info(node).mirrors[0].to_linux;
    ASSERT_NO_FATAL_FAILURE(ping(node));
    EXPECT_EQ(info(node).mirrors[0].to_linux, before);
  });
}

TEST_F(LinuxPlaneTest, P17_LinuxAnswersPingsIfAsked) {
  c.linux_plane.echo = true;
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    const auto before = info(node).mirrors[0].to_linux;
    ASSERT_NO_FATAL_FAILURE(ping(node));
    EXPECT_EQ(info(node).mirrors[0].to_linux, before + 1);
  });
}

TEST_F(LinuxPlaneTest, P11_RoutesOfLinuxAreFollowed) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    shell("ip route add 172.16.0.0/16 via 192.168.1.2");
    ASSERT_TRUE(shows("ip -o address show dev eth0", "inet6 fd00:1::1/64"));
    shell("ip -6 route add fd00:9::/32 via fd00:1::2");
    shell("ip route add blackhole 172.17.0.0/16");
    EXPECT_TRUE(has_route(node, "172.16.0.0/16", "kernel"));
    EXPECT_TRUE(has_route(node, "fd00:9::/32", "kernel"));
    EXPECT_TRUE(has_route(node, "172.17.0.0/16", "kernel"));
    shell("ip route del 172.16.0.0/16");
    EXPECT_TRUE(eventually([&] { return info(node).routes == 2; }));
    // The way of the machine to its own network is not the node's.
    shell("ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up");
    shell("ip address add 172.18.0.1/24 dev v0 && ip route add default via 172.18.0.2");
    shell("ip route add 172.19.0.0/16 via 192.168.1.2");
    EXPECT_TRUE(has_route(node, "172.19.0.0/16", "kernel"));
    EXPECT_EQ(info(node).routes, 3U);
  });
}

TEST_F(LinuxPlaneTest, P11_RoutesCanBeLeftOut) {
  c.linux_plane.routes = false;
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    shell("ip route add 172.16.0.0/16 via 192.168.1.2");
    shell("ip address add 192.168.1.77/32 dev eth0");
    EXPECT_TRUE(eventually([&] { return info(node).mirrors[0].addresses == 1; }))
        << "the address comes after the route";
    EXPECT_EQ(info(node).routes, 0U);
  });
}

TEST_F(LinuxPlaneTest, P17_AddressesOfLinuxAreAddressesOfTheNode) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    shell("ip address add 192.168.1.77/32 dev eth0");
    for (;;) {  // the node announces it
      const Bytes frame = take(ethernet.from_node, kArp);
      ASSERT_GE(frame.size(), 14U);
      const auto arp = wire::parse_arp(wire::LinkKind::kEthernet, std::span{frame}.subspan(14));
      if (arp && arp->sender_ip == ip("192.168.1.77").v4_host()) break;
    }
    EXPECT_TRUE(has_route(node, "192.168.1.77/32", "local"));
    shell("ip address del 192.168.1.77/32 dev eth0");
    EXPECT_TRUE(eventually([&] { return info(node).mirrors[0].addresses == 0; }));
  });
}

TEST_F(LinuxPlaneTest, P17_AddressThatAnOperatorRemovesGoesFromLinux) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    shell("ip address add 192.168.1.77/32 dev eth0 && ip address add fd00:1::77/64 dev eth0 nodad");
    EXPECT_TRUE(eventually([&] { return info(node).mirrors[0].addresses == 2; }));
    for (const char* address : {"192.168.1.77/32", "fd00:1::77/64"}) {
      const auto remove = [address](const NodeFaces& n) {
        return n.control.remove_address("eth0", *wire::parse_prefix(address)).has_value();
      };
      EXPECT_TRUE(ask<bool>(node, remove)) << address;
    }
    EXPECT_TRUE(eventually([&] { return info(node).mirrors[0].addresses == 0; }));
    EXPECT_TRUE(
        eventually([&] { return !is_true("ip -o address show dev eth0 | grep -q '77/'"); }));
    shell("ip address add 192.168.1.77/32 dev eth0");
    EXPECT_TRUE(has_route(node, "192.168.1.77/32", "local")) << "it may return";
  });
}

TEST_F(LinuxPlaneTest, P17_RefusedAddressIsTakenWhenItIsFree) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    shell("ip address add 10.0.0.1/32 dev eth0 && ip address add 192.168.1.77/32 dev eth0");
    EXPECT_TRUE(eventually([&] { return info(node).mirrors[0].addresses == 1; }))
        << "ib0 has the first one";
    const auto remove = [](const NodeFaces& n) {
      return n.control.remove_address("ib0", *wire::parse_prefix("10.0.0.1/24")).has_value();
    };
    EXPECT_TRUE(ask<bool>(node, remove));
    EXPECT_TRUE(eventually([&] { return info(node).mirrors[0].addresses == 2; }));
  });
}

TEST_F(LinuxPlaneTest, P17_InterfaceThatAnOperatorTookDownStaysDown) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    const auto down = [](const NodeFaces& n) {
      return n.control.set_interface_up("eth0", false).has_value();
    };
    EXPECT_TRUE(ask<bool>(node, down));
    EXPECT_TRUE(eventually([&] { return port_state(node) == "stopped"; }));
    const auto before = info(node).mirrors[0].ifindex;
    shell("ip link delete eth0");
    EXPECT_TRUE(eventually([&] {
      const auto now = info(node).mirrors[0].ifindex;
      return now != 0 && now != before;
    }));
    EXPECT_TRUE(shows("ip -o link show dev eth0", "UP"));
    shell("ip address add 192.168.1.77/32 dev eth0");
    EXPECT_TRUE(eventually([&] { return info(node).mirrors[0].addresses == 1; }))
        << "all that Linux said of the new mirror was heard";
    EXPECT_EQ(port_state(node), "stopped");
  });
}

TEST_F(LinuxPlaneTest, P17_ConfiguredAddressReturns) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    ASSERT_TRUE(shows("ip -o address show dev eth0", "inet 192.168.1.1/24"));
    shell("ip address add 192.168.1.1/24 dev lo && ip address del 192.168.1.1/24 dev eth0");
    EXPECT_TRUE(shows("ip -o address show dev eth0", "inet 192.168.1.1/24"));
  });
}

TEST_F(LinuxPlaneTest, P17_InterfaceIsDisabledAndEnabledInLinux) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    shell("ip link set eth0 down");
    EXPECT_TRUE(eventually([&] { return port_state(node) == "stopped"; }));
    shell("ip link set eth0 up");
    EXPECT_TRUE(eventually([&] { return port_state(node) == "up"; }));
    EXPECT_TRUE(shows("ip -o address show dev eth0", "inet6 fd00:1::1/64"))
        << "Linux had removed it";
  });
}

TEST_F(LinuxPlaneTest, P18_DrainKeepsTheRoutesThatDaemonsWithdraw) {
  c.linux_plane.drain_hold = std::chrono::milliseconds(500);
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    shell(
        "ip route add 172.16.0.0/16 via 192.168.1.2 && ip route add 172.17.0.0/16 via 192.168.1.2");
    ASSERT_TRUE(eventually([&] { return info(node).routes == 2; }));
    ASSERT_TRUE(drain(node, true));
    EXPECT_EQ(info(node).drain, Drain::kDraining);
    ASSERT_TRUE(shows("ip -o link show dev eth0", "state DORMANT"));
    ASSERT_TRUE(shows("ip -o link show dev ib0", "state DORMANT"));
    EXPECT_TRUE(is_true("ip -o link show dev eth0 | grep -q LOWER_UP")) << "it can send goodbyes";
    shell("ip route del 172.16.0.0/16");
    ASSERT_TRUE(shows("ip -o link show dev eth0", "state DOWN")) << "then the carrier goes";
    EXPECT_EQ(port_state(node), "up") << "the interface itself forwards";
    shell("ip address add 192.168.1.77/32 dev eth0");  // addresses are followed
    EXPECT_TRUE(eventually([&] { return info(node).mirrors[0].addresses == 1; }));
    EXPECT_EQ(info(node).routes, 2U) << "the routes are not";
    ASSERT_TRUE(drain(node, false));
    EXPECT_TRUE(shows("ip -o link show dev eth0", "state UP"));
    EXPECT_TRUE(shows("ip -o link show dev ib0", "mode DEFAULT"));
    shell("ip route add 172.18.0.0/16 via 192.168.1.2");
    EXPECT_TRUE(has_route(node, "172.18.0.0/16", "kernel"));
    EXPECT_TRUE(
        eventually([&] { return info(node).routes == 2 && info(node).drain == Drain::kOff; }));
    EXPECT_TRUE(has_route(node, "172.17.0.0/16", "kernel"));
  });
}

TEST_F(LinuxPlaneTest, P18_MirrorMadeDuringADrainIsDrained) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    shell("ip route add 172.16.0.0/16 via 192.168.1.2");
    ASSERT_TRUE(has_route(node, "172.16.0.0/16", "kernel"));
    ASSERT_TRUE(drain(node, true));
    ASSERT_TRUE(drain(node, true)) << "a second time";
    shell("ip link delete eth0");
    ASSERT_TRUE(shows("ip -o link show dev eth0", "mode DORMANT"));
    EXPECT_EQ(info(node).routes, 1U);
    ASSERT_TRUE(drain(node, false));
    EXPECT_TRUE(ready(node));
  });
}

TEST_F(LinuxPlaneTest, P18_NodeDrainsBeforeItEnds) {
  c.linux_plane.drain_time = std::chrono::seconds(600);
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    node.loop.request_stop();
    EXPECT_TRUE(shows("ip -o link show dev eth0", "state DORMANT"));
    EXPECT_EQ(info(node).drain, Drain::kDraining);
    EXPECT_EQ(port_state(node), "up");
    // The fixture requests the end a second time, which does not take ten minutes.
  });
}

TEST_F(LinuxPlaneTest, P18_DrainBeforeTheEndEndsInTime) {
  c.linux_plane.drain_time = std::chrono::milliseconds(100);
  const auto node = Node::create(c, {0, {1}}, make_soft);
  ASSERT_TRUE(node);
  (*node)->faces().loop.request_stop();
  (*node)->run();
  EXPECT_EQ((*node)->faces().view.linux_plane().drain, Drain::kDraining);
}

TEST_F(LinuxPlaneTest, P18_NodeWithoutNeighboursToTellRefusesToDrain) {
  c.linux_plane.mirror = false;
  run(c, [](const NodeFaces& node) {
    const auto error = ask<std::string>(node, [](const NodeFaces& n) {
      const Status s = n.control.set_draining(true);
      return s ? "" : s.error().what;
    });
    EXPECT_EQ(error,
              "a drain would tell no neighbour: no interface is mirrored in Linux, and none has "
              "router-advertisement or shared-address");
  });
}

TEST_F(LinuxPlaneTest, P17_DeletedMirrorIsMadeAgain) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    shell("ip address add 192.168.1.77/32 dev eth0");
    EXPECT_TRUE(eventually([&] { return info(node).mirrors[0].addresses == 1; }));
    const auto before = info(node).mirrors[0].ifindex;
    const auto add = [](const NodeFaces& n) {
      return n.control.add_neighbour({"eth0", ip("192.168.1.50"), "02:00:00:00:00:50"}).has_value();
    };
    ASSERT_TRUE(ask<bool>(node, add));
    shell("ip link delete eth0");
    EXPECT_TRUE(eventually([&] {
      const auto now = info(node).mirrors[0].ifindex;
      return now != 0 && now != before;
    }));
    EXPECT_TRUE(shows("ip -o address show dev eth0", "inet 192.168.1.1/24"));
    EXPECT_TRUE(ready(node));
    EXPECT_EQ(info(node).mirrors[0].addresses, 0U) << "it went with the mirror";
    EXPECT_EQ(port_state(node), "up");
    const auto has = [](const NodeFaces& n) {
      const auto keys = n.view.neighbour_keys("eth0");
      return std::any_of(keys.begin(), keys.end(),
                         [](const auto& key) { return key.addr == ip("192.168.1.50"); });
    };
    EXPECT_TRUE(ask<bool>(node, has)) << "the interface was not stopped meanwhile";
  });
}

TEST_F(LinuxPlaneTest, P17_GroupsOfProgramsAreJoined) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    const auto joined = [&node] {
      const auto rows = ask<std::vector<link::GroupInfo>>(
          node, [](const NodeFaces& n) { return n.view.groups("eth0"); });
      return std::any_of(rows.begin(), rows.end(),
                         [](const auto& g) { return g.group == ip("224.0.0.5"); });
    };
    const int fd = udp_socket();
    ip_mreqn membership{};
    membership.imr_multiaddr.s_addr = inet_addr("224.0.0.5");
    membership.imr_ifindex = info(node).mirrors[0].ifindex;
    ASSERT_EQ(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership), 0);
    EXPECT_TRUE(eventually(joined));
    close(fd);
    EXPECT_TRUE(eventually([&] { return !joined(); }));
    // The node reports its groups itself, so that nothing else refuses a frame here.
    const auto drops =
        ask<std::vector<DropInfo>>(node, [](const NodeFaces& n) { return n.stats.drops(); });
    EXPECT_TRUE(std::ranges::any_of(
        drops, [](const DropInfo& row) { return row.reason == Drop::kLinuxRefused; }));
  });
}

/// Otherwise a program would wait for an absent host, and send packets that no path carries.
TEST_F(LinuxPlaneTest, P17_ProgramsHearOfTheirLostPackets) {
  c.neighbour.retransmit = 100ms;
  c.neighbour.max_requests = 1;
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    const int fd = udp_socket();
    const int on = 1;  // unreachable hosts, too
    ASSERT_EQ(setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on), 0);
    sockaddr_in absent{};
    absent.sin_family = AF_INET;
    absent.sin_port = htons(9);
    absent.sin_addr.s_addr = inet_addr("192.168.1.99");
    ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&absent), sizeof absent), 0);
    ASSERT_EQ(send(fd, "?", 1, 0), 1);
    pollfd error{fd, POLLERR, 0};
    ASSERT_EQ(poll(&error, 1, 20'000), 1);
    char octet = 0;
    EXPECT_EQ(recv(fd, &octet, 1, MSG_DONTWAIT), -1);
    EXPECT_EQ(errno, EHOSTUNREACH);
    close(fd);
  });
}

/// A daemon as the kernel knows it, in the namespace of the mirrors.
class MulticastDaemon {
 public:
  MulticastDaemon(const std::string& network_namespace, const LinuxInfo& mirrors) {
    EXPECT_TRUE(kernel::in_network_namespace(network_namespace, [this] {
      fd_ = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_IGMP);
    }));
    const int on = 1;
    EXPECT_EQ(setsockopt(fd_, IPPROTO_IP, MRT_INIT, &on, sizeof on), 0);
    for (std::size_t i = 0; i < mirrors.mirrors.size(); ++i) {
      vifctl vif{};
      vif.vifc_vifi = static_cast<vifi_t>(i);
      vif.vifc_flags = VIFF_USE_IFINDEX;
      vif.vifc_threshold = 1;
      vif.vifc_lcl_ifindex = mirrors.mirrors[i].ifindex;
      EXPECT_EQ(setsockopt(fd_, IPPROTO_IP, MRT_ADD_VIF, &vif, sizeof vif), 0);
    }
  }
  ~MulticastDaemon() { close(fd_); }
  MulticastDaemon(const MulticastDaemon&) = delete;
  MulticastDaemon& operator=(const MulticastDaemon&) = delete;

  void set(int option, const char* source, const char* group, vifi_t in, vifi_t out) const {
    mfcctl entry{};
    entry.mfcc_origin.s_addr = inet_addr(source);
    entry.mfcc_mcastgrp.s_addr = inet_addr(group);
    entry.mfcc_parent = in;
    entry.mfcc_ttls[out] = 1;
    EXPECT_EQ(setsockopt(fd_, IPPROTO_IP, option, &entry, sizeof entry), 0);
  }
  [[nodiscard]] unsigned long packets(const char* source, const char* group) const {
    sioc_sg_req request{};
    request.src.s_addr = inet_addr(source);
    request.grp.s_addr = inet_addr(group);
    EXPECT_EQ(ioctl(fd_, SIOCGETSGCNT, &request), 0);
    return request.pktcnt;
  }
  /// The next packet or message of the kernel with this number in the place of the protocol.
  [[nodiscard]] Bytes next(std::uint8_t protocol) const {
    Bytes octets(2'000);
    pollfd ready{fd_, POLLIN, 0};
    while (poll(&ready, 1, 20'000) == 1) {
      const ssize_t len = recv(fd_, octets.data(), octets.size(), 0);
      if (len < 20 || octets[9] != std::byte{protocol}) continue;
      octets.resize(static_cast<std::size_t>(len));
      return octets;
    }
    return {};
  }
  void send(const Bytes& igmp, const char* group, std::int32_t ifindex) const {
    ip_mreqn by{};
    by.imr_ifindex = ifindex;
    EXPECT_EQ(setsockopt(fd_, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by), 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = inet_addr(group);
    EXPECT_EQ(
        sendto(fd_, igmp.data(), igmp.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to),
        static_cast<ssize_t>(igmp.size()));
  }

 private:
  int fd_ = -1;
};

struct LinuxMulticastPlane : LinuxPlaneTest {
  void SetUp() override {
    LinuxPlaneTest::SetUp();
    c.linux_plane.multicast_routes = true;
  }
  void give_to_group(std::uint8_t protocol, const Bytes& body, std::uint8_t ttl = 16) {
    Bytes packet = fwd::test::ip_packet(ip("192.168.1.9"), ip(kGroup), protocol, body);
    packet[8] = std::byte{ttl};
    packet[10] = packet[11] = {};
    const wire::Be16 sum{wire::internet_checksum(std::span{packet}.first(20))};
    std::memcpy(&packet[10], &sum, sizeof sum);
    give(ethernet.to_node, ethernet_frame(kIpv4, packet, wire::group_mac(ip(kGroup))));
  }
  static std::vector<MulticastRouteInfo> entries(const NodeFaces& node) {
    auto rows = ask<std::vector<MulticastRouteInfo>>(
        node, [](const NodeFaces& n) { return n.view.multicast_routes(); });
    std::erase_if(rows, [](const auto& row) { return row.origin != "linux"; });
    return rows;
  }

  static constexpr const char* kGroup = "239.1.1.1";
  const Bytes udp{std::byte{4}, {}, {}, std::byte{53}, {}, std::byte{9}, {}, {}, std::byte{'?'}};
};

TEST_F(LinuxMulticastPlane, P17_EntriesOfADaemonAreFollowed) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    {
      const MulticastDaemon daemon{here.path(), info(node)};
      give_to_group(17, udp);
      const Bytes request = daemon.next(0);
      ASSERT_GE(request.size(), sizeof(igmpmsg));
      EXPECT_EQ(request[8], std::byte{IGMPMSG_NOCACHE}) << "the kernel asks for an entry";
      daemon.set(MRT_ADD_MFC, "192.168.1.9", kGroup, 0, 1);
      ASSERT_TRUE(eventually([&] { return entries(node).size() == 1; }));
      const auto row = entries(node).front();
      EXPECT_EQ(row.in, "eth0");
      EXPECT_EQ(row.out, std::vector<std::string>{"ib0"});
      const auto before = daemon.packets("192.168.1.9", kGroup);
      give_to_group(17, udp);
      EXPECT_TRUE(eventually([&] { return daemon.packets("192.168.1.9", kGroup) > before; }))
          << "Linux counts a sample";
      daemon.set(MRT_ADD_MFC, "192.168.1.9", kGroup, 1, 0);
      EXPECT_TRUE(eventually([&] { return entries(node).front().in == "ib0"; }));
      daemon.set(MRT_DEL_MFC, "192.168.1.9", kGroup, 1, 0);
      EXPECT_TRUE(eventually([&] { return entries(node).empty(); }));
      daemon.set(MRT_ADD_MFC, "192.168.1.9", kGroup, 0, 1);
      ASSERT_TRUE(eventually([&] { return entries(node).size() == 1; }));
      EXPECT_EQ(info(node).multicast_routes, 1U);
    }
    EXPECT_TRUE(eventually([&] { return entries(node).empty(); })) << "the daemon has ended";
  });
}

TEST_F(LinuxMulticastPlane, P17_DaemonSpeaksIgmp) {
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(ready(node));
    const MulticastDaemon daemon{here.path(), info(node)};
    // A host joins the group with IGMPv2, and the daemon sends a general query.
    give_to_group(2,
                  {std::byte{0x16},
                   {},
                   std::byte{0xf9},
                   std::byte{0xfc},
                   std::byte{239},
                   std::byte{1},
                   std::byte{1},
                   std::byte{1}},
                  1);
    const Bytes report = daemon.next(2);
    ASSERT_EQ(report.size(), 28U);
    EXPECT_EQ(report[20], std::byte{0x16});
    daemon.send({std::byte{0x11}, std::byte{10}, std::byte{0xee}, std::byte{0xf5}, {}, {}, {}, {}},
                "224.0.0.1", info(node).mirrors[0].ifindex);
    const auto is_query = [](const Bytes& frame) {
      if (frame.size() < 34 || frame[23] != std::byte{2}) return false;
      const std::size_t at = 14 + (std::to_integer<std::size_t>(frame[14]) & 15) * 4;
      return frame.size() > at && frame[at] == std::byte{0x11};
    };
    EXPECT_TRUE(eventually([&] {
      rte_mbuf* const m = test::next_of(ethernet.from_node);
      return m != nullptr && is_query(test::take(m));
    }));
  });
}

TEST_F(LinuxPlaneTest, P17_MissingNamespaceIsNamed) {
  c.linux_plane.network_namespace = "no-such-namespace";
  const auto node = Node::create(c, {0, {1}}, make_soft);
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().code, Errc::kNotFound);
  EXPECT_EQ(node.error().what,
            "network namespace /run/netns/no-such-namespace: No such file or directory");
}

TEST_F(LinuxPlaneTest, P17_NameInUseIsNamed) {
  shell("ip link add eth0 type veth peer name eth9");
  const auto node = Node::create(c, {0, {1}}, make_soft);
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().code, Errc::kExists);
  EXPECT_EQ(node.error().what,
            "interface eth0 of Linux: TUNSETIFF: an interface of this name exists");
}

}  // namespace
}  // namespace ipoib::mgmt
