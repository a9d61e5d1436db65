// SPDX-License-Identifier: BSD-3-Clause
#include "lib/linux/netlink_listener.h"

#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/linux/netlink_socket.h"

namespace ipoib::kernel {
namespace {

/// The kernel puts at most 32 KiB of a dump into one datagram.
constexpr std::size_t kDatagramLen = 32'768;
constexpr unsigned kDatagramsPerTurn = 64;
/// A datagram of a dump has about 200.
constexpr std::size_t kMessagesPerTurn = 2'000;
/// For changes that wait, about 1 KiB each: the changes of some seconds, if a routing daemon makes
/// 10,000 in a second. The kernel takes memory for those that wait only.
constexpr int kReceiveBuffer = 1 << 25;
/// The kernel holds a lock of its own while it makes a dump, and other processes may cause losses.
constexpr Duration kSnapshotInterval = std::chrono::seconds(1);
/// Without an answer: a list of a million routes takes longer.
constexpr Duration kDumpTimeout = std::chrono::seconds(10);
/// Octets of a request; the fixed parts of all types are shorter than its payload.
constexpr std::size_t kRequestLen = 64;

struct Received {
  ssize_t len;
  bool from_kernel = false;  ///< Not from another process.
  bool truncated = false;
};

/// Replaces mnl_socket_recvfrom(), which does not say who sent the datagram.
Received receive_from(int fd, std::span<std::byte> buffer) {
  sockaddr_nl from{};
  iovec into{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_name = &from;
  message.msg_namelen = sizeof from;
  message.msg_iov = &into;
  message.msg_iovlen = 1;
  const ssize_t len = recvmsg(fd, &message, 0);
  return {len, from.nl_pid == 0, (message.msg_flags & MSG_TRUNC) != 0};
}

}  // namespace

Result<std::unique_ptr<NetlinkListener>> NetlinkListener::open(
    const NetlinkSubscription& subscription, const std::string& network_namespace,
    NetlinkSink& sink, TimePoint now) {
  const auto socket = open_netlink_socket(network_namespace);
  if (!socket) return tl::make_unexpected(socket.error());
  std::unique_ptr<NetlinkListener> listener{new NetlinkListener{*socket, sink, subscription}};
  if (const Status joined = listener->join(subscription); !joined)
    return tl::make_unexpected(joined.error());
  listener->begin_snapshot(now);
  return listener;
}

NetlinkListener::~NetlinkListener() {
  mnl_socket_close(socket_);
}

int NetlinkListener::fd() const {
  return mnl_socket_get_fd(socket_);
}

Status NetlinkListener::join(const NetlinkSubscription& subscription) {
  // Without the privilege, the kernel's limit (net.core.rmem_max) is the size.
  if (setsockopt(fd(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer, sizeof kReceiveBuffer) != 0 &&
      setsockopt(fd(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer) != 0)
    return fail(Errc::kUnavailable, "receive buffer of a netlink socket: {}", std::strerror(errno));
  if (mnl_socket_bind(socket_, 0, MNL_SOCKET_AUTOPID) != 0)
    return fail(Errc::kUnavailable, "bind of a netlink socket: {}", std::strerror(errno));
  for (unsigned group : subscription.groups)
    if (mnl_socket_setsockopt(socket_, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0)
      return fail(Errc::kUnavailable, "netlink group {}: {}", group, std::strerror(errno));
  return {};
}

void NetlinkListener::begin_snapshot(TimePoint now) {
  begun_ = now;
  reader_.begin_snapshot();
  send_request(now);
}

/// A request that the kernel does not take is repeated with the next snapshot.
void NetlinkListener::send_request(TimePoint now) {
  const auto dump = reader_.take_request();
  if (!dump) return;
  progress_ = now;
  alignas(nlmsghdr) std::array<char, kRequestLen> buffer{};
  nlmsghdr* const header = mnl_nlmsg_put_header(buffer.data());
  header->nlmsg_type = dump->type;
  header->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  header->nlmsg_seq = dump->sequence;
  auto* const fixed =
      static_cast<std::uint8_t*>(mnl_nlmsg_put_extra_header(header, dump->fixed_len));
  *fixed = dump->family;
  if (mnl_socket_sendto(socket_, header, header->nlmsg_len) < 0) reader_.give_up(errno);
}

void NetlinkListener::log_change() {
  const int error = reader_.error();
  if (error == std::exchange(logged_, error)) return;
  if (error != 0)
    log(LogArea::kMgmt, LogLevel::kWarning,
        "netlink: the kernel does not list its objects: {}; the request is repeated each second",
        std::strerror(error));
  else
    log(LogArea::kMgmt, LogLevel::kNotice, "netlink: the kernel lists its objects again");
}

Status NetlinkListener::receive(TimePoint now) {
  expects_management();
  alignas(nlmsghdr) std::array<std::byte, kDatagramLen> buffer;
  std::size_t messages = 0;
  const std::uint64_t answers = reader_.answers();
  for (unsigned i = 0; i < kDatagramsPerTurn && messages < kMessagesPerTurn; ++i) {
    const Received datagram = receive_from(fd(), buffer);
    if (datagram.len < 0 && errno == EINTR) continue;
    if (datagram.len < 0 && errno == ENOBUFS) {
      reader_.lose();
      continue;
    }
    if (datagram.len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (datagram.len < 0) return fail(Errc::kUnavailable, "netlink: {}", std::strerror(errno));
    if (!datagram.from_kernel) continue;
    if (datagram.truncated) reader_.lose();
    messages += reader_.take(std::span{buffer}.first(static_cast<std::size_t>(datagram.len)));
    send_request(now);
  }
  if (reader_.answers() != answers) progress_ = now;
  if (reader_.in_snapshot() && now >= progress_ + kDumpTimeout) reader_.give_up(ETIMEDOUT);
  if (reader_.needs_snapshot() && now >= begun_ + kSnapshotInterval) begin_snapshot(now);
  log_change();
  return {};
}

std::optional<TimePoint> NetlinkListener::next_deadline() const {
  if (reader_.in_snapshot()) return progress_ + kDumpTimeout;
  if (reader_.needs_snapshot()) return begun_ + kSnapshotInterval;
  return std::nullopt;
}

}  // namespace ipoib::kernel
