// SPDX-License-Identifier: BSD-3-Clause
// The kernel's IP over InfiniBand interfaces in the network namespace of this process, from the
// messages of rtnetlink. Source: rtnetlink(7); RFC 4391 §9.1.1 (hardware address) and RFC 4391 §4
// (P_Key in the broadcast-GID).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/linux/netlink_reader.h"
#include "lib/wire/gid.h"

namespace ipoib::mgmt {

struct KernelInterface {
  std::string name;        ///< Printable characters only; others are replaced.
  std::uint64_t guid = 0;  ///< The GUID of its port.
  std::uint16_t pkey = 0;
  bool up = false;  ///< An administrator enabled it: it is, or soon will be, a member of groups.

  friend bool operator==(const KernelInterface&, const KernelInterface&) = default;
};

/// Management lcore only.
class KernelInterfaces final : public kernel::NetlinkSink {
 public:
  /// A port in a partition.
  struct Place {
    std::uint64_t guid;
    std::uint16_t pkey;

    [[nodiscard]] bool has(const KernelInterface& interface) const {
      return guid == interface.guid && wire::same_partition(pkey, interface.pkey);
    }
  };

  /// Interfaces, and their changes.
  [[nodiscard]] static kernel::NetlinkSubscription subscription();

  void on_snapshot_begin() override;
  /// Messages about other objects and interfaces are ignored.
  void on_message(const nlmsghdr& message) override;
  void on_snapshot_end() override;
  void on_loss() override;

  /// Interfaces at the place, by their index in the kernel.
  [[nodiscard]] std::vector<KernelInterface> at(const Place& place) const;
  /// Interfaces that appeared, went, or changed since the previous call, as they were and as they
  /// are.
  [[nodiscard]] std::vector<KernelInterface> take_changes();

 private:
  void set(std::int32_t index, const KernelInterface& interface);
  void remove(std::int32_t index);
  void read_link(const nlmsghdr& message, bool exists);

  std::map<std::int32_t, KernelInterface> interfaces_;  ///< The key is the index.
  std::vector<KernelInterface> changes_;
  std::set<std::int32_t> listed_;  ///< Seen since the begin of the snapshot.
};

}  // namespace ipoib::mgmt
