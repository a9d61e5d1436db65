// SPDX-License-Identifier: BSD-3-Clause
#include "lib/linux/netlink_socket.h"

#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "lib/linux/network_namespace.h"

namespace ipoib::kernel {

Result<mnl_socket*> open_netlink_socket(const std::string& network_namespace) {
  mnl_socket* socket = nullptr;
  int error = 0;
  const Status entered = in_network_namespace(network_namespace, [&socket, &error] {
    socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
    error = errno;
  });
  if (!entered) return tl::make_unexpected(entered.error());
  if (socket == nullptr)
    return fail(Errc::kUnavailable, "netlink socket: {}", std::strerror(error));
  return socket;
}

}  // namespace ipoib::kernel
