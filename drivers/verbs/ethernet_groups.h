// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups that the network device beneath a port of Ethernet link layer has joined.
#pragma once

#include <map>

#include "lib/base/result.h"
#include "lib/wire/gid.h"

namespace ipoib::verbs {

/// Management lcore only. RoCE version 2 carries an MGID as an IPv6 group, and kernels before 6.8
/// do not join it for a software device (rdma_rxe): its packets would end in the kernel's IPv6
/// input. The join is harmless for other devices and kernels.
class EthernetGroups {
 public:
  EthernetGroups() = default;
  EthernetGroups(const EthernetGroups&) = delete;
  EthernetGroups& operator=(const EthernetGroups&) = delete;
  ~EthernetGroups() { clear(); }

  /// Each join() must be followed by a leave() or clear().
  Status join(unsigned netdev, const wire::Gid& mgid);
  void leave(const wire::Gid& mgid);
  void clear();

 private:
  struct Membership {
    int socket;  ///< Keeps the group joined while it is open.
    unsigned users;
  };
  std::map<wire::Gid, Membership> joined_;
};

}  // namespace ipoib::verbs
