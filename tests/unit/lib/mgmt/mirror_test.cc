// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/mirror.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "lib/linux/network_namespace.h"
#include "lib/wire/frame.h"
#include "tests/support/addresses.h"
#include "tests/support/logged.h"
#include "tests/support/packets.h"
#include "tests/support/test_namespace.h"

using namespace std::chrono_literals;

namespace ipoib::mgmt {
namespace {

using Bytes = std::vector<std::byte>;
using Sent = Mirror::Sent;
using ipoib::test::prefix;

/// A mirror in a network namespace of its own. Programs of Linux are sockets there.
struct MirrorTest : ::testing::Test {
  void SetUp() override {
    if (!here.made()) GTEST_SKIP() << "this process may not make network namespaces";
    auto opened = kernel::NetlinkRequests::open(here.path());
    ASSERT_TRUE(opened) << opened.error().what;
    requests = std::move(*opened);
    in_namespace([this] {
      raw = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
      udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    });
    ASSERT_GE(raw, 0);
    ASSERT_NO_FATAL_FAILURE(make(false));
  }
  void make(bool of_port) {
    mirror.reset();
    const kernel::TapConfig config{
        .name = "ib0", .network_namespace = here.path(), .mac = {2, 0, 0, 0, 0, 1}, .mtu = 2044};
    auto made = Mirror::create(config, *requests, of_port);
    ASSERT_TRUE(made) << made.error().what;
    mirror = std::move(*made);
    ASSERT_TRUE(carrier_is(false));
    mirror->set_carrier(true);
    ASSERT_TRUE(carrier_is(true));
  }
  void TearDown() override {
    for (const int fd : {raw, udp})
      if (fd >= 0) close(fd);
  }

  template <class Job>
  void in_namespace(Job job) const {
    ASSERT_TRUE(kernel::in_network_namespace(here.path(), job));
  }
  [[nodiscard]] ifreq ask(unsigned long what) const {
    ifreq request{};
    std::strcpy(request.ifr_name, "ib0");
    EXPECT_EQ(ioctl(udp, what, &request), 0);
    return request;
  }
  /// Linux applies a change of the carrier within a second.
  [[nodiscard]] bool carrier_is(bool on) const {
    for (int i = 0; i < 1000; ++i) {
      if (((ask(SIOCGIFFLAGS).ifr_flags & IFF_RUNNING) != 0) == on) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }
  /// Linux sends a frame. Returns the verdict about it; `packet` is its packet.
  Sent of_frame(std::uint16_t type, const Bytes& packet, const wire::MacAddr& destination = {}) {
    Bytes frame(12);
    std::copy(destination.begin(), destination.end(), frame.begin());
    frame.push_back(static_cast<std::byte>(type >> 8));
    frame.push_back(static_cast<std::byte>(type));
    frame.insert(frame.end(), packet.begin(), packet.end());
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = mirror->ifindex();
    EXPECT_EQ(sendto(raw, frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                     sizeof to),
              static_cast<ssize_t>(frame.size()));
    pollfd ready{mirror->fd(), POLLIN, 0};
    poll(&ready, 1, 1000);
    return mirror->next(taken);
  }
  Sent of_ip6(std::uint8_t next_header, const Bytes& payload) {
    wire::Ipv6Hdr h{};
    h.version_class_flow.set(wire::Ipv6Hdr::kVersion6);
    h.payload_len.set(static_cast<std::uint16_t>(payload.size()));
    h.next_header = next_header;
    h.hop_limit = 255;
    Bytes packet(sizeof h);
    std::memcpy(packet.data(), &h, sizeof h);
    packet.insert(packet.end(), payload.begin(), payload.end());
    return of_frame(ETHERTYPE_IPV6, packet);
  }
  [[nodiscard]] bool linux_has(const char* address) const {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    EXPECT_EQ(inet_pton(AF_INET, address, &own.sin_addr), 1);
    bool bound = false;
    EXPECT_TRUE(kernel::in_network_namespace(here.path(), [&] {
      const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      bound = bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0;
      close(fd);
    }));
    return bound;
  }

  test::NetworkNamespace here;
  std::unique_ptr<kernel::NetlinkRequests> requests;
  std::unique_ptr<Mirror> mirror;
  std::span<const std::byte> taken;
  int raw = -1, udp = -1;
  TimePoint now{};
};

Bytes ip4(std::uint8_t protocol, std::size_t payload) {
  wire::Ipv4Hdr h{};
  h.version_ihl = 0x45;
  h.total_len.set(static_cast<std::uint16_t>(sizeof h + payload));
  h.ttl = 64;
  h.protocol = protocol;
  h.src.set(0x0a00'0001);
  h.dst.set(0x0a00'0002);
  Bytes packet(sizeof h + payload);
  std::memcpy(packet.data(), &h, sizeof h);
  return packet;
}

TEST_F(MirrorTest, P17_IpPacketsAreTakenWithoutPadding) {
  Bytes packet = ip4(17, 8);
  EXPECT_EQ(of_frame(ETHERTYPE_IP, packet), Sent::kPacket);
  EXPECT_EQ(taken.size(), 28U);
  packet.resize(100);
  EXPECT_EQ(of_frame(ETHERTYPE_IP, packet), Sent::kPacket);
  EXPECT_EQ(taken.size(), 28U);
  EXPECT_EQ(of_ip6(17, Bytes(8)), Sent::kPacket);
  EXPECT_EQ(taken.size(), 48U);
  EXPECT_EQ(mirror->next(taken), Sent::kNothing);
  EXPECT_EQ(mirror->counters().taken, 3U);
}

/// Ethernet addresses, and LLDP, mean something on ports only.
TEST_F(MirrorTest, P17_FramesOfPortsLeaveAsTheyAre) {
  const wire::MacAddr host{std::byte{2}, {}, {}, {}, {}, std::byte{9}};
  const wire::MacAddr group{std::byte{1}, {}, std::byte{0x5e}, {}, {}, std::byte{9}};
  EXPECT_EQ(of_frame(ETHERTYPE_IP, ip4(17, 8), host), Sent::kPacket);
  EXPECT_EQ(of_frame(0x88cc, Bytes(46)), Sent::kRefused);
  ASSERT_NO_FATAL_FAILURE(make(true));
  EXPECT_EQ(of_frame(ETHERTYPE_IP, ip4(17, 8), host), Sent::kFrame);
  EXPECT_EQ(taken.size(), 14U + 28);
  EXPECT_EQ(taken[5], std::byte{9});
  EXPECT_EQ(of_frame(ETHERTYPE_IP, ip4(17, 8)), Sent::kPacket) << "to the address of its source";
  EXPECT_EQ(taken.size(), 28U);
  EXPECT_EQ(of_frame(ETHERTYPE_IP, ip4(17, 8), group), Sent::kPacket);
  EXPECT_EQ(of_frame(ETHERTYPE_IP, ip4(2, 8), host), Sent::kMembership);
  EXPECT_EQ(of_frame(ETHERTYPE_ARP, Bytes(28), host), Sent::kRefused);
  EXPECT_EQ(of_frame(ETHERTYPE_IP, Bytes(19), host), Sent::kRefused);
  EXPECT_EQ(of_frame(0x88cc, Bytes(46)), Sent::kFrame);
  EXPECT_EQ(taken.size(), 14U + 46);
}

TEST_F(MirrorTest, P17_NodeDoesArpNdAndMembershipItself) {
  EXPECT_EQ(of_frame(ETHERTYPE_ARP, Bytes(28)), Sent::kRefused);
  for (unsigned type = 133; type <= 137; ++type)
    EXPECT_EQ(of_ip6(58, {std::byte(type), {}, {}, {}, {}, {}, {}, {}}), Sent::kRefused) << type;
  EXPECT_EQ(of_ip6(58, {std::byte{128}, {}, {}, {}, {}, {}, {}, {}}), Sent::kPacket);
  EXPECT_EQ(of_frame(ETHERTYPE_IP, ip4(2, 8)), Sent::kMembership);
  for (unsigned type : {130U, 131U, 132U, 143U}) {
    Bytes mld(16);
    mld[0] = std::byte{58};  // behind a hop-by-hop header
    mld[8] = std::byte(type);
    EXPECT_EQ(of_ip6(0, mld), Sent::kMembership) << type;
  }
}

TEST_F(MirrorTest, P17_DamagedPacketsAreRefused) {
  EXPECT_EQ(of_frame(ETHERTYPE_IP, {}), Sent::kRefused);
  EXPECT_EQ(of_frame(ETHERTYPE_IP, Bytes(19, std::byte{0x45})), Sent::kRefused);
  EXPECT_EQ(of_frame(ETHERTYPE_IPV6, Bytes(39, std::byte{0x60})), Sent::kRefused);
  Bytes packet = ip4(17, 8);
  packet[3] = std::byte{29};  // longer than the frame
  EXPECT_EQ(of_frame(ETHERTYPE_IP, packet), Sent::kRefused);
  packet[3] = std::byte{19};  // shorter than its header
  EXPECT_EQ(of_frame(ETHERTYPE_IP, packet), Sent::kRefused);
  packet = ip4(17, 8);
  packet[0] = std::byte{0x44};
  EXPECT_EQ(of_frame(ETHERTYPE_IP, packet), Sent::kRefused);
  packet[0] = std::byte{0x65};
  EXPECT_EQ(of_frame(ETHERTYPE_IP, packet), Sent::kRefused);
  // The hop-by-hop header claims to be longer than the packet.
  EXPECT_EQ(of_ip6(0, {std::byte{58}, std::byte{255}, {}, {}, {}, {}, {}, {}}), Sent::kPacket);
}

TEST_F(MirrorTest, P17_PacketsReachProgramsOfLinux) {
  mirror->set_addresses({prefix("10.0.0.2/24")}, now);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_port = htons(7000);
  ASSERT_EQ(bind(udp, reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
  Bytes packet = ip4(17, 12);
  const std::array<std::uint8_t, 8> header = {0x1b, 0x59, 0x1b, 0x58, 0, 12, 0, 0};
  std::memcpy(&packet[20], header.data(), header.size());
  std::memcpy(&packet[28], "ping", 4);
  const wire::Be16 checksum{wire::internet_checksum(std::span{packet}.first(20))};
  std::memcpy(&packet[10], &checksum, 2);
  EXPECT_EQ(mirror->deliver(packet), Drop::kNone);
  pollfd ready{udp, POLLIN, 0};
  poll(&ready, 1, 1000);
  std::array<char, 8> data{};
  EXPECT_EQ(recv(udp, data.data(), data.size(), 0), 4);
  EXPECT_STREQ(data.data(), "ping");
  EXPECT_EQ(mirror->counters().delivered, 1U);
  EXPECT_EQ(mirror->deliver(std::span{packet}.first(19)), Drop::kIpRunt);
}

TEST_F(MirrorTest, P17_DisabledInterfaceTakesNoPackets) {
  in_namespace([] { ASSERT_EQ(std::system("ip link set ib0 down"), 0); });
  EXPECT_EQ(mirror->deliver(ip4(17, 8)), Drop::kLinuxDown);
  in_namespace([] { ASSERT_EQ(std::system("ip link set ib0 up"), 0); });
  EXPECT_EQ(mirror->deliver(ip4(17, 8)), Drop::kNone);
}

/// Programs would have the address as their source, and other nodes would get the answers.
TEST_F(MirrorTest, P18_SharedAddressIsNoPreferredSource) {
  mirror->set_addresses({prefix("fd00::9/128"), prefix("fd00::2/64")}, now);
  in_namespace([] {
    EXPECT_EQ(std::system("ip -6 -o address show dev ib0 | grep -q 'fd00::9/128.*deprecated'"), 0);
    EXPECT_NE(std::system("ip -6 -o address show dev ib0 | grep -q 'fd00::2/64.*deprecated'"), 0);
  });
}

TEST_F(MirrorTest, P17_LinuxHasTheAddresses) {
  mirror->set_addresses({prefix("10.0.0.2/24"), prefix("fd00::2/64")}, now);
  EXPECT_TRUE(linux_has("10.0.0.2"));
  mirror->set_addresses({prefix("10.0.1.2/24"), prefix("fd00::2/64")}, now);
  EXPECT_FALSE(linux_has("10.0.0.2"));
  EXPECT_TRUE(linux_has("10.0.1.2"));
  EXPECT_TRUE(mirror->has(prefix("fd00::2/64")));
  in_namespace([] { ASSERT_EQ(std::system("ip address del 10.0.1.2/24 dev ib0"), 0); });
  EXPECT_FALSE(linux_has("10.0.1.2"));
  EXPECT_TRUE(mirror->restore(prefix("10.0.1.2/24"), now));
  EXPECT_TRUE(linux_has("10.0.1.2"));
  EXPECT_FALSE(mirror->restore(prefix("10.0.0.2/24"), now)) << "it is no longer given";
}

/// An address that Linux refuses is not offered in each turn.
TEST_F(MirrorTest, P17_RefusedAddressIsNamedOnce) {
  in_namespace([] { ASSERT_EQ(std::system("sysctl -qw net.ipv6.conf.ib0.disable_ipv6=1"), 0); });
  const std::string log = logged([this] {
    for (int i = 0; i < 3; ++i) mirror->set_addresses({prefix("fd00::2/64")}, now);
  });
  const std::string line =
      "ib0: mirror of Linux: cannot add fd00::2/64: netlink: Permission denied";
  EXPECT_NE(log.find(line), std::string::npos) << log;
  EXPECT_EQ(log.find(line), log.rfind(line)) << log;
  EXPECT_FALSE(mirror->has(prefix("fd00::2/64")));
  in_namespace([] { ASSERT_EQ(std::system("sysctl -qw net.ipv6.conf.ib0.disable_ipv6=0"), 0); });
  mirror->set_addresses({}, now);
  mirror->set_addresses({prefix("fd00::2/64")}, now);
  EXPECT_TRUE(mirror->has(prefix("fd00::2/64")));
}

TEST_F(MirrorTest, P17_MtuFollows) {
  mirror->set_mtu(65'520);
  EXPECT_EQ(ask(SIOCGIFMTU).ifr_mtu, 65'520);
  const std::string log = logged([this] {
    mirror->set_mtu(40);
    mirror->set_mtu(40);
  });
  EXPECT_NE(log.find("ib0: Linux does not take the MTU 40"), std::string::npos) << log;
  EXPECT_EQ(log.find("MTU 40"), log.rfind("MTU 40"));
}

TEST_F(MirrorTest, P17_DeletedInterfaceIsGone) {
  in_namespace([] { ASSERT_EQ(std::system("ip link delete ib0"), 0); });
  EXPECT_EQ(mirror->next(taken), Sent::kGone);
  EXPECT_EQ(mirror->deliver(ip4(17, 8)), Drop::kLinuxDown);
}

}  // namespace
}  // namespace ipoib::mgmt
