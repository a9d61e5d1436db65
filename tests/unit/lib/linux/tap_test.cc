// SPDX-License-Identifier: BSD-3-Clause
#include "lib/linux/tap.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/linux/netlink_requests.h"
#include "lib/linux/network_namespace.h"
#include "tests/support/test_namespace.h"

namespace ipoib::kernel {
namespace {

constexpr std::array<std::uint8_t, 6> kMac = {2, 0, 0xc9, 0x0a, 0x0b, 1};
constexpr std::array<std::byte, 4> kOwn = {std::byte{10}, std::byte{0}, std::byte{0}, std::byte{1}};
constexpr std::uint16_t kPort = 7000;

sockaddr_in endpoint(const char* addr, std::uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET, addr, &to.sin_addr), 1);
  return to;
}

/// A TAP in a namespace of its own, with 10.0.0.1/24.
struct TapTest : ::testing::Test {
  void SetUp() override {
    if (!here.made()) GTEST_SKIP() << "this process may not make network namespaces";
    config.network_namespace = here.path();
    auto made = Tap::create(config);
    ASSERT_TRUE(made) << made.error().what;
    tap = std::move(*made);
    auto opened = NetlinkRequests::open(here.path());
    ASSERT_TRUE(opened) << opened.error().what;
    requests = std::move(*opened);
    ASSERT_TRUE(requests->add_address(tap->ifindex(), kOwn, 24));
  }

  /// Runs in the namespace with a socket there.
  template <class Job>
  auto with_socket(Job job) const {
    decltype(job(0)) result{};
    const Status entered = in_network_namespace(here.path(), [&] {
      const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      result = job(fd);
      close(fd);
    });
    EXPECT_TRUE(entered);
    return result;
  }
  [[nodiscard]] ifreq ask(unsigned long what) const {
    return with_socket([what, this](int fd) {
      ifreq request{};
      config.name.copy(request.ifr_name, IFNAMSIZ - 1);
      EXPECT_EQ(ioctl(fd, what, &request), 0);
      return request;
    });
  }
  /// The kernel applies a change of the carrier within a second. Returns whether it has it.
  [[nodiscard]] bool has_carrier(bool on) const {
    for (int i = 0; i < 1000; ++i) {
      if (((ask(SIOCGIFFLAGS).ifr_flags & IFF_RUNNING) != 0) == on) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  void turn_on() const {
    ASSERT_TRUE(has_carrier(false)) << "it begins without carrier";
    ASSERT_TRUE(tap->set_carrier(true));
    ASSERT_TRUE(has_carrier(true));
  }
  /// The kernel sends a UDP packet. Returns the error number.
  [[nodiscard]] int send_to(const char* addr) const {
    return with_socket([addr](int fd) {
      const sockaddr_in to = endpoint(addr, kPort);
      const ssize_t sent =
          sendto(fd, "hello", 5, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
      return sent == 5 ? 0 : errno;
    });
  }
  /// Returns the next frame of the kernel, an empty one after a second.
  [[nodiscard]] std::vector<std::byte> next() const {
    pollfd ready{tap->fd(), POLLIN, 0};
    poll(&ready, 1, 1000);
    std::vector<std::byte> frame(2000);
    const auto len = tap->receive(frame);
    EXPECT_TRUE(len);
    frame.resize(len.value_or(0));
    return frame;
  }

  test::NetworkNamespace here;
  TapConfig config{.name = "ib0", .network_namespace = "", .mac = kMac, .mtu = 2044};
  std::unique_ptr<Tap> tap;
  std::unique_ptr<NetlinkRequests> requests;
};

TEST_F(TapTest, P17_InterfaceIsAsConfigured) {
  const ifreq mac = ask(SIOCGIFHWADDR);
  EXPECT_TRUE(std::equal(kMac.begin(), kMac.end(), mac.ifr_hwaddr.sa_data,
                         [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); }));
  EXPECT_EQ(ask(SIOCGIFMTU).ifr_mtu, 2044);
  EXPECT_EQ(ask(SIOCGIFINDEX).ifr_ifindex, tap->ifindex());
  const int flags = ask(SIOCGIFFLAGS).ifr_flags;
  EXPECT_EQ(flags & (IFF_UP | IFF_NOARP | IFF_MULTICAST), IFF_UP | IFF_NOARP | IFF_MULTICAST);
  ASSERT_TRUE(requests->set_mtu(tap->ifindex(), 65'520));
  EXPECT_EQ(ask(SIOCGIFMTU).ifr_mtu, 65'520);
}

TEST_F(TapTest, P17_KernelMakesUpAMacAddress) {
  config.name = "ib1";
  config.mac = {};
  const auto made = Tap::create(config);
  ASSERT_TRUE(made) << made.error().what;
  const auto& mac = (*made)->mac();
  EXPECT_EQ(mac[0] & 3, 2) << "a unicast address, administered locally";
  const ifreq asked = ask(SIOCGIFHWADDR);
  EXPECT_EQ(std::memcmp(asked.ifr_hwaddr.sa_data, mac.data(), mac.size()), 0);
}

TEST_F(TapTest, P17_CarrierIsSeenByTheKernel) {
  ASSERT_NO_FATAL_FAILURE(turn_on());
  ASSERT_TRUE(tap->set_carrier(false));
  EXPECT_TRUE(has_carrier(false));
}

TEST_F(TapTest, P17_FramesOfTheKernelAreReceivedWithoutArp) {
  ASSERT_NO_FATAL_FAILURE(turn_on());
  ASSERT_EQ(send_to("10.0.0.2"), 0);
  const auto frame = next();
  ASSERT_EQ(frame.size(), 14U + 20 + 8 + 5);
  EXPECT_EQ(std::memcmp(frame.data(), kMac.data(), 6), 0);
  EXPECT_EQ(std::memcmp(&frame[6], kMac.data(), 6), 0);
  EXPECT_EQ(frame[12], std::byte{8});
  EXPECT_EQ(frame[30], std::byte{10});
  EXPECT_EQ(frame[33], std::byte{2});
  std::array<std::byte, 64> buffer{};
  EXPECT_EQ(tap->receive(buffer).value(), 0U) << "it does not wait";
}

TEST_F(TapTest, P17_KernelReceivesFrames) {
  ASSERT_NO_FATAL_FAILURE(turn_on());
  ASSERT_EQ(send_to("10.0.0.2"), 0);
  auto frame = next();
  ASSERT_EQ(frame.size(), 47U);
  // The packet returns: addresses and ports are exchanged, which leaves the checksums as they are.
  std::swap_ranges(&frame[26], &frame[30], &frame[30]);
  std::swap_ranges(&frame[34], &frame[36], &frame[36]);
  const std::uint16_t port = static_cast<std::uint16_t>(std::to_integer<unsigned>(frame[36]) << 8 |
                                                        std::to_integer<unsigned>(frame[37]));
  const std::string received = with_socket([&](int fd) {
    const sockaddr_in own = endpoint("10.0.0.1", port);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
    EXPECT_TRUE(tap->send(std::span{frame}.first(14), std::span{frame}.subspan(14)));
    pollfd ready{fd, POLLIN, 0};
    poll(&ready, 1, 1000);
    std::array<char, 16> data{};
    const ssize_t len = recv(fd, data.data(), data.size(), MSG_DONTWAIT);
    return len < 0 ? std::string{} : std::string{data.data(), static_cast<std::size_t>(len)};
  });
  EXPECT_EQ(received, "hello");
}

TEST_F(TapTest, P17_NameInUseIsNamed) {
  const auto again = Tap::create(config);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::kExists);
  EXPECT_EQ(again.error().what,
            "interface ib0 of Linux: TUNSETIFF: an interface of this name exists");
  config.name = "a-very-long-name";
  const auto too_long = Tap::create(config);
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code, Errc::kInvalidArgument);
}

TEST_F(TapTest, P17_InterfaceGoesWithItsObject) {
  tap.reset();
  auto again = Tap::create(config);
  EXPECT_TRUE(again) << again.error().what;
}

TEST_F(TapTest, P17_AddressesAreAddedOnce) {
  const Status again = requests->add_address(tap->ifindex(), kOwn, 24);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::kExists);
  EXPECT_TRUE(requests->remove_address(tap->ifindex(), kOwn, 24));
  const Status gone = requests->remove_address(tap->ifindex(), kOwn, 24);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Errc::kNotFound);
  EXPECT_EQ(send_to("10.0.0.2"), ENETUNREACH);
  const Status nowhere = requests->add_address(4711, kOwn, 24);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, Errc::kNotFound);
}

/// An interface that enables IPv6 has a link-local address by default.
TEST_F(TapTest, P17_KernelMakesNoAddressesOfItsOwn) {
  ASSERT_NO_FATAL_FAILURE(turn_on());
  const std::string listed = with_socket([](int) {
    std::string text;
    FILE* const file = std::fopen("/proc/thread-self/net/if_inet6", "r");
    if (file == nullptr) return text;
    std::array<char, 256> line{};
    while (std::fgets(line.data(), line.size(), file) != nullptr)
      if (std::string_view{line.data()}.find("ib0") != std::string_view::npos) text += line.data();
    std::fclose(file);
    return text;
  });
  EXPECT_EQ(listed, "");
}

/// The administrator may delete the interface under the node.
TEST_F(TapTest, P17_DeletedInterfaceIsReported) {
  ASSERT_TRUE(
      in_network_namespace(here.path(), [] { EXPECT_EQ(std::system("ip link delete ib0"), 0); }));
  std::array<std::byte, 64> buffer{};
  const auto received = tap->receive(buffer);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, Errc::kUnavailable);
  const Status sent = tap->send(buffer, buffer);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Errc::kUnavailable);
}

}  // namespace
}  // namespace ipoib::kernel
