// SPDX-License-Identifier: BSD-3-Clause
// The routes of one of the kernel's tables, a million and more. Several routes may have the same
// prefix and metric (`ip route append`); the first usable one of them counts.
// Source: Linux net/ipv4/fib_trie.c (fib_table_insert(), fib_table_delete()), net/ipv6/ip6_fib.c
// (fib6_add_rt2node(), fib6_del_route()).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "lib/base/keyed_hash.h"
#include "lib/mgmt/linux/kernel_paths.h"
#include "lib/mgmt/linux/kernel_state_sink.h"

namespace ipoib::mgmt {

/// Management lcore only. Does no I/O.
class KernelRoutes {
 public:
  /// The position of a new route among those with its prefix and metric.
  enum class Position {
    kFirst,
    kLast,
    kReplace,  ///< In place of the first.
    kListed,   ///< Behind those that the snapshot listed before.
  };

  /// Keeps references. `seed` is for the hash: others choose the prefixes.
  KernelRoutes(KernelPaths& paths, KernelStateSink& sink, std::uint64_t seed)
      : paths_{paths}, sink_{sink}, hash_{seed} {}
  KernelRoutes(const KernelRoutes&) = delete;
  KernelRoutes& operator=(const KernelRoutes&) = delete;

  void begin_snapshot();
  /// Routes that were not set since the begin are removed by the following calls of advance().
  void end_snapshot();
  void set(const KernelRouteMessage& route, Position position);
  void remove(const KernelRouteMessage& route);
  /// Reports what changed in KernelPaths, and removes what is gone: 2,000 routes at most. True:
  /// there is more to do.
  bool advance();
  /// True once after a route was removed that is not known as it was.
  [[nodiscard]] bool take_doubt();

  /// Number of routes, with those that are not reported.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Octets of memory for the routes, without their paths.
  [[nodiscard]] std::size_t memory_octets() const;

 private:
  using Slot = std::uint32_t;
  static constexpr Slot kNone = 0xffff'ffff;
  struct Key {
    wire::IpAddr addr;
    std::uint32_t metric;
    std::uint32_t len;

    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Route {
    wire::IpAddr addr;
    std::uint32_t metric;
    KernelPaths::Id paths;  ///< 0: the slot is free.
    /// In the first route of its key: what the sink knows.
    KernelPaths::ReportId reported;
    Slot next;            ///< With the same key; of a free slot: the next free one.
    std::uint16_t stamp;  ///< The snapshot that has it.
    std::uint8_t len;
    bool first : 1;
    bool changed : 1;  ///< A change set it after the begin of the snapshot.
  };
  static_assert(sizeof(Route) == 36);

  [[nodiscard]] static Key key_of(const Route& route) {
    return {route.addr, route.metric, route.len};
  }
  /// Slots by the hash of the keys of their routes: linear probing, a power of two.
  using Index = std::vector<Slot>;
  struct Cell {
    Index* index;  ///< Null: the key has none.
    std::size_t at;
  };

  [[nodiscard]] std::size_t home_of(const Index& index, const Key& key) const {
    return hash_(key) & (index.size() - 1);
  }
  [[nodiscard]] Cell find_cell(const Key& key);
  void put_cell(Slot slot);
  void erase_cell(Cell cell);
  void grow_index();

  [[nodiscard]] bool stale(const Route& route) const {
    return paths_.gone(route.paths) || (expires_ && route.stamp != snapshot_);
  }
  Slot make_route(const Key& key, const KernelHops& content, bool listed);
  void free_route(Slot slot);
  template <class Change>
  void edit(const Key& key, Change&& change);
  void load(Slot first);
  void store(const Key& key, Cell cell, KernelPaths::ReportId reported);
  void report(Slot first);

  template <class Fits>
  [[nodiscard]] std::optional<std::size_t> find(Fits&& fits) const;
  [[nodiscard]] std::optional<std::size_t> find_same(const KernelHops& content) const;
  void list(const Key& key, const KernelHops& content);
  void change4(const Key& key, const KernelHops& content, Position position);
  void change6(const Key& key, const KernelHops& content, Position position);
  void replace_at(std::size_t i, const Key& key, const KernelHops& content);
  void remove_at(std::size_t i);
  void remove_hops(std::size_t i, const Key& key, const KernelHops& removed);

  KernelPaths& paths_;
  KernelStateSink& sink_;
  KeyedHash hash_;
  std::deque<Route> routes_;
  Slot free_ = kNone;
  std::size_t size_ = 0;
  /// The first routes of all keys. After the index has grown, those of `outgrown_` move over a few at
  /// a time, because a turn of the loop has no time for a million.
  Index index_, outgrown_;
  std::size_t moved_ = 0;  ///< Cells of `outgrown_`, from the first one on, that are empty.
  std::size_t keys_ = 0;
  std::vector<Slot> chain_;  ///< The routes of the key that edit() changes, in order.
  std::uint16_t snapshot_ = 1;
  bool expires_ = false;  ///< Routes without the stamp of the snapshot are removed.
  bool in_step_ = true;   ///< False: the sink waits for in_step().
  bool doubt_ = false;
  std::size_t cursor_ = 0;   ///< The slot that advance() looks at next,
  std::size_t pending_ = 0;  ///< and the number of slots from there.
  unsigned reports_ = 0;     ///< Calls of the sink.
};

}  // namespace ipoib::mgmt
