// SPDX-License-Identifier: BSD-3-Clause
#include "lib/linux/tap.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/contract.h"
#include "lib/linux/netlink_requests.h"
#include "lib/linux/network_namespace.h"

namespace ipoib::kernel {
namespace {

constexpr const char* kControlDevice = "/dev/net/tun";

/// A file descriptor until it is taken.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_{fd} {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] int take() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Error refused(const TapConfig& config, const char* step, int error) {
  const Errc code = error == EBUSY || error == EEXIST      ? Errc::kExists
                    : error == EINVAL || error == ENOTUNIQ ? Errc::kInvalidArgument
                                                           : Errc::kUnavailable;
  const char* const why =
      code == Errc::kExists ? "an interface of this name exists" : std::strerror(error);
  return {code, fmt::format("interface {} of Linux: {}: {}", config.name, step, why)};
}

/// True for a unicast address that is not zero.
bool is_mac(const std::array<std::uint8_t, 6>& mac) {
  return (mac[0] & 1) == 0 && std::ranges::any_of(mac, [](std::uint8_t o) { return o != 0; });
}

}  // namespace

/// Runs in the namespace, to which the descriptor of the control device belongs. False: `step` failed.
bool Tap::make(int fd, const TapConfig& config, Made& made, const char*& step) {
  ifreq request{};
  config.name.copy(request.ifr_name, IFNAMSIZ - 1);
  const Descriptor control{socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  const auto change = [&](const char* name, unsigned long what) {
    step = name;
    return ioctl(control.get(), what, &request) == 0;
  };
  constexpr unsigned kFlags = IFF_TAP | IFF_NO_PI | IFF_TUN_EXCL;
  request.ifr_flags = static_cast<short>(kFlags);
  step = "TUNSETIFF";
  if (ioctl(fd, TUNSETIFF, &request) != 0) return false;
  const int off = 0;
  step = "TUNSETCARRIER";
  if (ioctl(fd, TUNSETCARRIER, &off) != 0) return false;
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::copy(config.mac.begin(), config.mac.end(), request.ifr_hwaddr.sa_data);
  if (is_mac(config.mac) && !change("SIOCSIFHWADDR", SIOCSIFHWADDR)) return false;
  if (!change("SIOCGIFHWADDR", SIOCGIFHWADDR)) return false;
  std::transform(request.ifr_hwaddr.sa_data, request.ifr_hwaddr.sa_data + made.mac.size(),
                 made.mac.begin(), [](char o) { return static_cast<std::uint8_t>(o); });
  request.ifr_mtu = static_cast<int>(config.mtu);
  if (!change("SIOCSIFMTU", SIOCSIFMTU)) return false;
  request.ifr_flags = IFF_NOARP | IFF_MULTICAST | IFF_BROADCAST;
  if (!change("SIOCSIFFLAGS", SIOCSIFFLAGS)) return false;
  if (!change("SIOCGIFINDEX", SIOCGIFINDEX)) return false;
  made.ifindex = request.ifr_ifindex;
  return true;
}

Result<std::unique_ptr<Tap>> Tap::create(const TapConfig& config) {
  if (config.name.empty() || config.name.size() >= IFNAMSIZ)
    return fail(Errc::kInvalidArgument, "interface {} of Linux: the name has more than {} octets",
                config.name, IFNAMSIZ - 1);
  int fd = -1, error = 0;
  Made attributes;
  const char* step = kControlDevice;
  const Status entered = in_network_namespace(config.network_namespace, [&] {
    Descriptor tap{open(kControlDevice, O_RDWR | O_CLOEXEC | O_NONBLOCK)};
    const bool done = tap.get() >= 0 && make(tap.get(), config, attributes, step);
    error = errno;
    if (done) fd = tap.take();
  });
  if (!entered) return tl::make_unexpected(entered.error());
  if (fd < 0) return tl::make_unexpected(refused(config, step, error));
  std::unique_ptr<Tap> made{new Tap{fd, attributes}};
  auto requests = NetlinkRequests::open(config.network_namespace);
  if (!requests) return tl::make_unexpected(requests.error());
  Status enabled = (*requests)->set_no_own_addresses(made->ifindex());
  // A kernel without IPv6 makes none.
  if (enabled || enabled.error().code == Errc::kRefused)
    enabled = (*requests)->set_up(made->ifindex());
  if (!enabled) return tl::make_unexpected(enabled.error());
  return made;
}

Tap::~Tap() {
  close(fd_);
}

Status Tap::set_carrier(bool on) {
  expects_management();
  const int value = on ? 1 : 0;
  if (ioctl(fd_, TUNSETCARRIER, &value) != 0)
    return fail(Errc::kUnavailable, "TUNSETCARRIER: {}", std::strerror(errno));
  return {};
}

Status Tap::send(std::span<const std::byte> header, std::span<const std::byte> packet) {
  expects_management();
  std::array<iovec, 2> parts{};
  parts[0] = {const_cast<std::byte*>(header.data()), header.size()};
  parts[1] = {const_cast<std::byte*>(packet.data()), packet.size()};
  ssize_t sent;
  do sent = writev(fd_, parts.data(), parts.size());
  while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {};
  const bool no_memory = errno == ENOMEM || errno == ENOBUFS || errno == EAGAIN;
  return fail(no_memory ? Errc::kNoResources : Errc::kUnavailable, "{}", std::strerror(errno));
}

Result<std::size_t> Tap::receive(std::span<std::byte> buffer) {
  expects_management();
  for (;;) {
    const ssize_t len = read(fd_, buffer.data(), buffer.size());
    if (len >= 0) return static_cast<std::size_t>(len);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    return fail(Errc::kUnavailable, "{}", std::strerror(errno));
  }
}

}  // namespace ipoib::kernel
