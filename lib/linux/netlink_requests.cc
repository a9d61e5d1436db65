// SPDX-License-Identifier: BSD-3-Clause
#include "lib/linux/netlink_requests.h"

#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "lib/base/contract.h"
#include "lib/linux/netlink_socket.h"

namespace ipoib::kernel {
namespace {

/// Octets of a request, and of its answer, which quotes it.
constexpr std::size_t kMessageLen = 512;
constexpr std::size_t kIpv4Len = 4;
// IF_OPER_… and IF_LINK_MODE_… of the kernel, whose header excludes the one of the C library.
constexpr std::uint8_t kOperDormant = 5, kOperUp = 6, kLinkModeDefault = 0, kLinkModeDormant = 1;

Errc code_of(int error) {
  switch (error) {
    case ENODEV:
    case EADDRNOTAVAIL: return Errc::kNotFound;
    case EEXIST: return Errc::kExists;
    case EINVAL:
    case ERANGE: return Errc::kInvalidArgument;
    case EAFNOSUPPORT: return Errc::kRefused;
    default: return Errc::kUnavailable;
  }
}

}  // namespace

Result<std::unique_ptr<NetlinkRequests>> NetlinkRequests::open(
    const std::string& network_namespace) {
  const auto socket = open_netlink_socket(network_namespace);
  if (!socket) return tl::make_unexpected(socket.error());
  std::unique_ptr<NetlinkRequests> requests{new NetlinkRequests{*socket}};
  if (mnl_socket_bind(*socket, 0, MNL_SOCKET_AUTOPID) != 0)
    return fail(Errc::kUnavailable, "bind of a netlink socket: {}", std::strerror(errno));
  return requests;
}

NetlinkRequests::~NetlinkRequests() {
  mnl_socket_close(socket_);
}

Status NetlinkRequests::set_no_own_addresses(std::int32_t ifindex) {
  return change_link(ifindex, [](nlmsghdr& request) {
    nlattr* const families = mnl_attr_nest_start(&request, IFLA_AF_SPEC);
    nlattr* const inet6 = mnl_attr_nest_start(&request, AF_INET6);
    mnl_attr_put_u8(&request, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
    mnl_attr_nest_end(&request, inet6);
    mnl_attr_nest_end(&request, families);
  });
}

Status NetlinkRequests::set_mtu(std::int32_t ifindex, unsigned mtu) {
  return change_link(ifindex,
                     [mtu](nlmsghdr& request) { mnl_attr_put_u32(&request, IFLA_MTU, mtu); });
}

/// The mode decides the state at later changes of the carrier, the other attribute now.
Status NetlinkRequests::set_dormant(std::int32_t ifindex, bool dormant) {
  return change_link(ifindex, [dormant](nlmsghdr& request) {
    mnl_attr_put_u8(&request, IFLA_OPERSTATE, dormant ? kOperDormant : kOperUp);
    mnl_attr_put_u8(&request, IFLA_LINKMODE, dormant ? kLinkModeDormant : kLinkModeDefault);
  });
}

Status NetlinkRequests::set_up(std::int32_t ifindex) {
  return change_link(ifindex, [](nlmsghdr& request) {
    auto& link = *static_cast<ifinfomsg*>(mnl_nlmsg_get_payload(&request));
    link.ifi_flags = link.ifi_change = IFF_UP;
  });
}

Status NetlinkRequests::change_link(std::int32_t ifindex, const Fill& fill) {
  return request(RTM_NEWLINK, 0, [&](nlmsghdr& message) {
    auto* const link =
        static_cast<ifinfomsg*>(mnl_nlmsg_put_extra_header(&message, sizeof(ifinfomsg)));
    link->ifi_index = ifindex;
    fill(message);
  });
}

Status NetlinkRequests::add_address(std::int32_t ifindex, std::span<const std::byte> addr,
                                    std::uint8_t len) {
  return change_address(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, ifindex, addr, len);
}

Status NetlinkRequests::remove_address(std::int32_t ifindex, std::span<const std::byte> addr,
                                       std::uint8_t len) {
  return change_address(RTM_DELADDR, 0, ifindex, addr, len);
}

Status NetlinkRequests::change_address(std::uint16_t type, std::uint16_t flags,
                                       std::int32_t ifindex, std::span<const std::byte> addr,
                                       std::uint8_t len) {
  expects(addr.size() == kIpv4Len || addr.size() == 4 * kIpv4Len, "4 octets of IPv4 or 16 of IPv6");
  return request(type, flags, [&](nlmsghdr& message) {
    auto* const fixed =
        static_cast<ifaddrmsg*>(mnl_nlmsg_put_extra_header(&message, sizeof(ifaddrmsg)));
    fixed->ifa_family = addr.size() == kIpv4Len ? AF_INET : AF_INET6;
    fixed->ifa_prefixlen = len;
    fixed->ifa_index = static_cast<std::uint32_t>(ifindex);
    mnl_attr_put(&message, IFA_LOCAL, addr.size(), addr.data());
    mnl_attr_put(&message, IFA_ADDRESS, addr.size(), addr.data());
    mnl_attr_put_u32(&message, IFA_FLAGS, IFA_F_NODAD);
    if (addr.size() == kIpv4Len || len != 8 * addr.size()) return;
    ifa_cacheinfo lifetimes{};
    lifetimes.ifa_valid = 0xffff'ffff;
    mnl_attr_put(&message, IFA_CACHEINFO, sizeof lifetimes, &lifetimes);
  });
}

Status NetlinkRequests::request(std::uint16_t type, std::uint16_t flags, const Fill& fill) {
  expects_management();
  alignas(nlmsghdr) std::array<char, kMessageLen> buffer{};
  nlmsghdr* const message = mnl_nlmsg_put_header(buffer.data());
  message->nlmsg_type = type;
  message->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
  message->nlmsg_seq = ++sequence_;
  fill(*message);
  int error = 0;
  if (mnl_socket_sendto(socket_, message, message->nlmsg_len) < 0)
    error = errno;
  else
    error = answer_to(sequence_);
  if (error != 0) return fail(code_of(error), "netlink: {}", std::strerror(error));
  return {};
}

/// Returns the error number in the kernel's answer, which waits in the socket already.
int NetlinkRequests::answer_to(std::uint32_t sequence) {
  alignas(nlmsghdr) std::array<char, 4 * kMessageLen> buffer;
  for (;;) {
    const ssize_t len = mnl_socket_recvfrom(socket_, buffer.data(), buffer.size());
    if (len < 0 && errno == EINTR) continue;
    if (len < 0) return errno;
    const auto* const answer = reinterpret_cast<const nlmsghdr*>(buffer.data());
    if (!mnl_nlmsg_ok(answer, static_cast<int>(len)) || answer->nlmsg_seq != sequence ||
        answer->nlmsg_type != NLMSG_ERROR || mnl_nlmsg_get_payload_len(answer) < sizeof(nlmsgerr))
      continue;
    return -static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(answer))->error;
  }
}

}  // namespace ipoib::kernel
