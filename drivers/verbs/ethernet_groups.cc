// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/ethernet_groups.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/contract.h"
#include "lib/wire/ipoib.h"

namespace ipoib::verbs {

Status EthernetGroups::join(unsigned netdev, const wire::Gid& mgid) {
  expects_management();
  if (const auto it = joined_.find(mgid); it != joined_.end()) {
    ++it->second.users;
    return {};
  }
  // One socket per group, because a socket can join only a few groups.
  const int fd = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ipv6_mreq request{};
  request.ipv6mr_interface = netdev;
  std::memcpy(&request.ipv6mr_multiaddr, mgid.bytes.data(), mgid.bytes.size());
  if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof(request)) != 0) {
    const int error = errno;
    if (fd >= 0) ::close(fd);
    return fail(Errc::kUnavailable, "network device {}: cannot join {}: {}", netdev,
                wire::to_string(mgid), std::strerror(error));
  }
  joined_.emplace(mgid, Membership{fd, 1});
  return {};
}

void EthernetGroups::leave(const wire::Gid& mgid) {
  expects_management();
  const auto it = joined_.find(mgid);
  if (it == joined_.end() || --it->second.users != 0) return;
  ::close(it->second.socket);
  joined_.erase(it);
}

void EthernetGroups::clear() {
  expects_management();
  for (const auto& [mgid, membership] : joined_) ::close(membership.socket);
  joined_.clear();
}

}  // namespace ipoib::verbs
