// SPDX-License-Identifier: BSD-3-Clause
// Changes of the kernel's interfaces and their addresses. Source: rtnetlink(7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lib/base/result.h"

struct mnl_socket;
struct nlmsghdr;

namespace ipoib::kernel {

/// Management lcore only. The kernel handles a request before the call returns, and waits at most for
/// requests of other processes.
class NetlinkRequests {
 public:
  /// Errors: those of in_network_namespace(), and kUnavailable (the process may not open the socket).
  static Result<std::unique_ptr<NetlinkRequests>> open(const std::string& network_namespace);
  ~NetlinkRequests();
  NetlinkRequests(const NetlinkRequests&) = delete;
  NetlinkRequests& operator=(const NetlinkRequests&) = delete;

  // Errors of all: kNotFound (no such interface or address), kExists, kInvalidArgument (the kernel
  // refuses the value), kRefused (it has no such address family), kUnavailable (any other reason).

  /// Lets the kernel make no IPv6 addresses of its own on the interface.
  Status set_no_own_addresses(std::int32_t ifindex);
  Status set_mtu(std::int32_t ifindex, unsigned mtu);
  /// RFC 2863 state of the interface: "dormant" while it waits for another event, otherwise by its
  /// carrier. Programs see that it does not run (no IFF_RUNNING), and can send on it.
  Status set_dormant(std::int32_t ifindex, bool dormant);
  /// Enables the interface.
  Status set_up(std::int32_t ifindex);
  /// `addr`: 4 octets of IPv4 or 16 of IPv6. The kernel adds the route to its network, too. It does
  /// not look for duplicates. An IPv6 address with the length 128 may be shared with other nodes, so it
  /// is the source of answers only (deprecated, RFC 4862 §5.5.4).
  Status add_address(std::int32_t ifindex, std::span<const std::byte> addr, std::uint8_t len);
  Status remove_address(std::int32_t ifindex, std::span<const std::byte> addr, std::uint8_t len);

 private:
  using Fill = std::function<void(nlmsghdr&)>;

  explicit NetlinkRequests(mnl_socket* socket) : socket_{socket} {}

  Status change_link(std::int32_t ifindex, const Fill& fill);
  Status change_address(std::uint16_t type, std::uint16_t flags, std::int32_t ifindex,
                        std::span<const std::byte> addr, std::uint8_t len);
  Status request(std::uint16_t type, std::uint16_t flags, const Fill& fill);
  [[nodiscard]] int answer_to(std::uint32_t sequence);

  mnl_socket* socket_;
  std::uint32_t sequence_ = 0;
};

}  // namespace ipoib::kernel
