// SPDX-License-Identifier: BSD-3-Clause
// The paths of kernel routes. A full table has a million routes and few different sets of paths, so
// each set exists once, with the paths that are usable now. Much of it changes without a message:
// when a link goes down, the kernel removes next-hop objects and IPv4 routes silently, and routes
// end with their object. This class does the same.
// Source: Linux net/ipv4/fib_semantics.c (fib_sync_down_dev(), fib_sync_up(), fib_sync_down_addr()),
// net/ipv4/nexthop.c (remove_nexthop(), nexthop_flush_dev()), net/ipv6/route.c (fib6_ifdown()).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "lib/mgmt/linux/kernel_codec.h"

namespace ipoib::mgmt {

/// The part of a route's report that routes share.
struct KernelReport {
  KernelRouteType type = KernelRouteType::kUnicast;
  std::uint8_t protocol = 0;
  std::vector<KernelPath> paths;

  friend auto operator<=>(const KernelReport&, const KernelReport&) = default;
};

/// Values that exist once, with the number of their users. Numbers begin with 1.
template <class T>
class KernelPool {
 public:
  using Id = std::uint32_t;

  /// The caller becomes a user.
  Id acquire(const T& value) {
    const auto [it, added] = ids_.try_emplace(value, 0);
    if (added) {
      if (free_.empty()) {
        slots_.emplace_back();
        free_.push_back(static_cast<Id>(slots_.size()));
      }
      it->second = free_.back();
      free_.pop_back();
      slots_[it->second - 1] = {it, 0};
    }
    ++slots_[it->second - 1].users;
    return it->second;
  }
  void add_user(Id id) { ++slots_[id - 1].users; }
  void release(Id id) {
    Slot& slot = slots_[id - 1];
    if (--slot.users != 0) return;
    ids_.erase(slot.entry);
    free_.push_back(id);
  }
  [[nodiscard]] const T& operator[](Id id) const { return slots_[id - 1].entry->first; }
  [[nodiscard]] std::size_t size() const { return ids_.size(); }

 private:
  struct Slot {
    typename std::map<T, Id>::iterator entry;
    std::uint32_t users;
  };
  std::map<T, Id> ids_;
  std::vector<Slot> slots_;
  std::vector<Id> free_;
};

/// Management lcore only. Does no I/O.
class KernelPaths {
 public:
  using Id = std::uint32_t;
  using ReportId = KernelPool<KernelReport>::Id;
  /// The report of routes without a usable path.
  static constexpr ReportId kNoReport = 0;

  KernelPaths();
  KernelPaths(const KernelPaths&) = delete;
  KernelPaths& operator=(const KernelPaths&) = delete;

  /// The caller, a route, becomes a user of the content.
  Id acquire(const KernelHops& content);
  void release(Id id);
  [[nodiscard]] const KernelHops& content(Id id) const { return slots_[id].content; }
  /// True: the kernel removed all routes with this content.
  [[nodiscard]] bool gone(Id id) const { return slots_[id].gone; }
  /// True: routes with this content have ended before the kernel says so, if it does.
  [[nodiscard]] bool ended(const KernelHops& content) const;
  /// Changes with links and next-hop objects.
  [[nodiscard]] ReportId report(Id id) const { return slots_[id].report; }

  [[nodiscard]] const KernelReport& report_of(ReportId id) const { return reports_[id]; }
  void add_user_of_report(ReportId id) {
    if (id != kNoReport) reports_.add_user(id);
  }
  void release_report(ReportId id) {
    if (id != kNoReport) reports_.release(id);
  }

  void set_link(const KernelLink& link);
  void remove_link(std::int32_t ifindex);
  /// The link has an IPv4 address more.
  void ipv4_added(std::int32_t ifindex);
  /// The link lost its last IPv4 address.
  void ipv4_ended(std::int32_t ifindex);
  /// No link has the address any more.
  void source_gone(const wire::IpAddr& addr);

  void begin_snapshot() { listed_.clear(); }
  void set_object(const KernelNextHop& object);
  void remove_object(std::uint32_t id);
  /// Removes the objects that were not set since the begin of the snapshot.
  void end_snapshot();

  /// True once after gone() or report() changed of a content that may have users.
  [[nodiscard]] bool take_changed();
  /// True once after the kernel may have changed a route without a message in a way that is not
  /// known here.
  [[nodiscard]] bool take_doubt();

  /// Numbers of different contents, and of different reports.
  [[nodiscard]] std::size_t contents() const { return slots_.size() - free_.size() - 1; }
  [[nodiscard]] std::size_t reports() const { return reports_.size(); }

 private:
  struct Slot {
    KernelHops content;
    std::uint32_t users = 0;
    ReportId report = kNoReport;
    bool gone = false;
    bool indexed = false;
  };
  struct Link {
    bool up;
    bool carrier;
  };

  [[nodiscard]] bool usable(const KernelHop& hop) const;
  void collect(std::uint32_t object, unsigned weight, KernelReport& report) const;
  [[nodiscard]] KernelReport evaluate(const KernelHops& content) const;
  [[nodiscard]] ReportId acquire_report(const KernelHops& content);
  void refresh(Id id);
  void refresh_users(std::uint32_t object);
  void refresh_link(std::int32_t ifindex);
  void end(Id id);
  void unindex(Id id);
  template <class Change>
  void change_hops(std::int32_t ifindex, bool v4_only, Change&& change);
  void kill_hops(std::int32_t ifindex, bool v4_only);
  void revive_hops(std::int32_t ifindex, bool v4_only);
  void remove_objects_on(std::int32_t ifindex);

  std::deque<Slot> slots_;  ///< The index is the Id; 0 is unused.
  std::vector<Id> free_;
  std::map<KernelHops, Id> ids_;  ///< Contents that are not gone.
  KernelPool<KernelReport> reports_;
  std::map<std::int32_t, Link> links_;
  std::map<std::uint32_t, KernelNextHop> objects_;
  std::set<std::uint32_t> listed_;                            ///< Objects of this snapshot.
  std::unordered_map<std::uint32_t, std::vector<Id>> users_;  ///< Contents, by their object.
  bool changed_ = false;
  bool doubt_ = false;
};

}  // namespace ipoib::mgmt
