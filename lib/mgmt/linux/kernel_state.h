// SPDX-License-Identifier: BSD-3-Clause
// The routing state of a Linux kernel: links, addresses, and the routes of one table with their
// next-hop objects. FRR, BIRD, keepalived and ip(8) change it, and the node follows.
// Source: rtnetlink(7), ip-route(8), ip-nexthop(8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "lib/linux/netlink_reader.h"
#include "lib/mgmt/linux/kernel_multicast_routes.h"
#include "lib/mgmt/linux/kernel_paths.h"
#include "lib/mgmt/linux/kernel_routes.h"
#include "lib/mgmt/linux/kernel_state_sink.h"

namespace ipoib::mgmt {

/// Management lcore only. Does no I/O: a NetlinkListener gives it the messages.
class KernelState final : public kernel::NetlinkSink {
 public:
  static constexpr std::uint32_t kMainTable = 254;

  /// Keeps a reference to `sink`. `table`: the routes that count. `seed` is for hashes of what
  /// others choose.
  KernelState(KernelStateSink& sink, std::uint32_t table, std::uint64_t seed)
      : sink_{sink}, table_{table}, routes_{paths_, sink, seed}, multicast_{sink} {}

  /// Needs Linux 5.3, which has next-hop objects. `multicast`: with the entries of the multicast
  /// router, whose families the kernel must have.
  [[nodiscard]] static kernel::NetlinkSubscription subscription(bool multicast = false);

  void on_snapshot_begin() override;
  /// Messages about other objects, and damaged ones, are ignored. Reports what the message itself
  /// changes; what follows from it for many routes is left to advance().
  void on_message(const nlmsghdr& message) override;
  void on_snapshot_end() override;
  /// Removes nothing: the snapshot that follows says what is left.
  void on_loss() override;
  [[nodiscard]] bool in_doubt() const override { return doubt_; }

  /// Follows links and addresses only: the sink keeps the routes that it has.
  void freeze_routes();
  /// The next snapshot, for which the caller provides, says which routes are left, and from then on
  /// all changes are followed.
  void thaw_routes();

  /// Reports changes that concern many routes, some thousands in one call. True: there are more. The
  /// management loop calls it in each turn.
  bool advance();

  [[nodiscard]] const KernelRoutes& routes() const { return routes_; }
  [[nodiscard]] const KernelPaths& paths() const { return paths_; }
  [[nodiscard]] const KernelMulticastRoutes& multicast() const { return multicast_; }
  /// Number of messages that were damaged, or not about what this class knows.
  [[nodiscard]] std::uint64_t ignored() const { return ignored_; }

 private:
  using AddressKey = std::pair<std::int32_t, KernelAddress>;

  void read_link(const nlmsghdr& message, bool exists);
  void read_address(const nlmsghdr& message, bool exists);
  void read_next_hop(const nlmsghdr& message, bool exists);
  void read_about_routes(const nlmsghdr& message);
  void read_route(const nlmsghdr& message, bool exists);
  void remove_link(std::int32_t ifindex);
  void add_address(const AddressKey& key);
  void remove_address(const AddressKey& key);
  [[nodiscard]] bool has_address(const wire::IpAddr& addr) const;
  [[nodiscard]] bool has_ipv4(std::int32_t ifindex) const;
  void take_doubt();

  KernelStateSink& sink_;
  std::uint32_t table_;
  KernelPaths paths_;
  KernelRoutes routes_;
  KernelMulticastRoutes multicast_;
  std::map<std::int32_t, KernelLink> links_;
  std::set<AddressKey> addresses_;
  std::set<std::int32_t> listed_links_;  ///< Seen since the begin of the snapshot.
  std::set<AddressKey> listed_addresses_;
  std::uint64_t ignored_ = 0;
  /// kThawing: from the begin to the end of the snapshot that says which routes are left.
  enum class Routes : std::uint8_t { kFollowed, kFrozen, kThawing };
  Routes follow_ = Routes::kFollowed;
  bool thaw_ = false;  ///< The next snapshot ends the freeze.
  bool in_snapshot_ = false;
  bool doubt_ = false;
};

}  // namespace ipoib::mgmt
