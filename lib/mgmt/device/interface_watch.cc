// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/device/interface_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ipoib::mgmt {
namespace {

/// The kernel puts at most 32 KiB of a list into one datagram.
constexpr std::size_t kDatagramLen = 32'768;
constexpr unsigned kDatagramsPerTurn = 64;
/// The kernel holds a lock of its own while it makes a list, and other processes may cause losses.
constexpr Duration kListInterval = std::chrono::seconds(1);
constexpr Duration kListTimeout = std::chrono::seconds(10);

struct ListRequest {
  nlmsghdr header;
  ifinfomsg body;
};

}  // namespace

Result<std::unique_ptr<InterfaceWatch>> InterfaceWatch::open(KernelInterfaces& interfaces,
                                                             TimePoint now) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  if (fd < 0) return fail(Errc::kUnavailable, "netlink socket: {}", std::strerror(errno));
  std::unique_ptr<InterfaceWatch> watch{new InterfaceWatch{fd, interfaces}};
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail(Errc::kUnavailable, "bind of a netlink socket: {}", std::strerror(errno));
  if (auto asked = watch->ask(now); !asked) return tl::make_unexpected(asked.error());
  return watch;
}

InterfaceWatch::~InterfaceWatch() {
  close(fd_);
}

Status InterfaceWatch::ask(TimePoint now) {
  asked_ = now;
  ListRequest request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.header.nlmsg_seq = ++sequence_;
  request.body.ifi_family = AF_UNSPEC;
  interfaces_.begin_list(sequence_);
  if (send(fd_, &request, sizeof request, 0) == sizeof request) return {};
  return fail(Errc::kUnavailable, "request for the list of interfaces: {}", std::strerror(errno));
}

Status InterfaceWatch::receive(TimePoint now) {
  alignas(nlmsghdr) std::array<std::byte, kDatagramLen> buffer;
  for (unsigned i = 0; i < kDatagramsPerTurn; ++i) {
    sockaddr_nl from{};
    iovec into{buffer.data(), buffer.size()};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &into;
    message.msg_iovlen = 1;
    const ssize_t len = recvmsg(fd_, &message, 0);
    if (len < 0 && errno == EINTR) continue;
    if (len < 0 && errno == ENOBUFS) {
      interfaces_.lose();
      continue;
    }
    if (len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (len < 0) return fail(Errc::kUnavailable, "netlink: {}", std::strerror(errno));
    if (from.nl_pid != 0) continue;  // another process sent it, not the kernel
    if ((message.msg_flags & MSG_TRUNC) != 0) interfaces_.lose();
    interfaces_.take(std::span{buffer}.first(static_cast<std::size_t>(len)));
  }
  if (interfaces_.listing() && now >= asked_ + kListTimeout) interfaces_.give_list_up();
  return interfaces_.needs_list() && now >= asked_ + kListInterval ? ask(now) : Status{};
}

std::optional<TimePoint> InterfaceWatch::next_deadline() const {
  if (interfaces_.listing()) return asked_ + kListTimeout;
  if (interfaces_.needs_list()) return asked_ + kListInterval;
  return std::nullopt;
}

}  // namespace ipoib::mgmt
