// SPDX-License-Identifier: BSD-3-Clause
// The entries of the kernel's multicast router, which a daemon such as FRR's pimd sets.
// Source: multicast routing of Linux (net/ipv4/ipmr.c, net/ipv6/ip6mr.c), rtnetlink(7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "lib/mgmt/linux/kernel_codec.h"
#include "lib/mgmt/linux/kernel_state_sink.h"

namespace ipoib::mgmt {

/// Management lcore only. A part of KernelState, which gives it the messages.
class KernelMulticastRoutes {
 public:
  static constexpr std::size_t kMaxRoutes = 8'192;
  /// The ones of daemons that ask for no table of their own.
  static constexpr std::uint32_t kTable4 = 253, kTable6 = 254;

  explicit KernelMulticastRoutes(KernelStateSink& sink, std::size_t max_routes = kMaxRoutes)
      : sink_{sink}, max_routes_{max_routes} {}

  void begin_snapshot();
  /// False: the message is damaged, or about another table.
  [[nodiscard]] bool on_message(const nlmsghdr& message, bool exists);
  void end_snapshot();

  /// True once after an entry ended while others have no room. A snapshot brings those.
  [[nodiscard]] bool take_doubt() { return std::exchange(doubt_, false); }

  [[nodiscard]] std::size_t size() const { return routes_.size(); }
  /// Times that an entry had no room.
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

 private:
  using Key = std::pair<wire::IpAddr, wire::IpAddr>;  ///< Group and source.

  void set(const KernelMulticastRoute& route);
  void remove(const Key& key);

  KernelStateSink& sink_;
  std::size_t max_routes_;
  std::map<Key, KernelMulticastRoute> routes_;
  std::set<Key> listed_;  ///< Seen since the begin of the snapshot.
  std::uint64_t refused_ = 0;
  bool waiting_ = false;  ///< Entries of the kernel have no room.
  bool doubt_ = false;
};

}  // namespace ipoib::mgmt
