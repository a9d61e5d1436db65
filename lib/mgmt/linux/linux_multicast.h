// SPDX-License-Identifier: BSD-3-Clause
// The entries of the kernel's multicast router as multicast routes of the node.
//
// The kernel and the workers forward by the same entries, and each packet must be forwarded once. If the
// packets of an entry arrive on an interface of the node, workers forward them, and what Linux sends on
// mirrors because of the copies that it got is dropped. If they arrive elsewhere (in messages of PIM,
// on the register interface), Linux forwards them, and what it sends on mirrors leaves the node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/mgmt/linux/kernel_codec.h"
#include "lib/mgmt/slow_path/interface_table.h"
#include "lib/route/multicast/multicast_table.h"

namespace ipoib::mgmt {

/// Management lcore only.
class LinuxMulticast {
 public:
  /// Linux counts a packet of each entry in this time, while packets flow: pimd ends an entry whose
  /// counters do not change for 30 seconds and more.
  static constexpr Duration kSampleInterval = std::chrono::seconds(10);

  /// The interface of the node with this index in Linux, if it has one.
  using Find = std::function<std::optional<table::InterfaceId>(std::int32_t)>;

  /// The references are kept.
  LinuxMulticast(InterfaceTable& interfaces, route::MulticastTable& table, Find find)
      : interfaces_{interfaces}, table_{table}, find_{std::move(find)} {}

  /// Adds an entry, or replaces the one with its group and source. Errors: those of
  /// MulticastTable::set_linux().
  Status set(const KernelMulticastRoute& route, TimePoint now);
  void remove(const wire::IpAddr& group, const wire::IpAddr& source, TimePoint now);
  /// A mirror was made or lost: its index means another interface, or none.
  void mirrors_changed(TimePoint now);

  /// True if the packet, which Linux sends to a group, is a copy of one that workers forward.
  [[nodiscard]] bool is_copy(std::span<const std::byte> packet) const;

  /// Call at least once a second.
  void tick(TimePoint now);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  using Key = std::pair<wire::IpAddr, wire::IpAddr>;  ///< Group and source.
  struct Entry {
    KernelMulticastRoute route;
    table::InterfaceId in = table::kNoInterface;
  };

  Status apply(Entry& entry, TimePoint now);

  InterfaceTable& interfaces_;
  route::MulticastTable& table_;
  Find find_;
  std::map<Key, Entry> entries_;
  TimePoint next_sample_{};
};

}  // namespace ipoib::mgmt
