// SPDX-License-Identifier: BSD-3-Clause
// The hosts that have asked for shared addresses. They are informed when another node begins to serve
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/keyed_hash.h"
#include "lib/wire/gid.h"
#include "lib/wire/hw_addr.h"
#include "lib/wire/ip.h"

namespace ipoib::link {

/// A host and the shared address that it asked for.
struct SharedHostKey {
  wire::Gid port;
  wire::IpAddr addr;  ///< That of the host.
  wire::IpAddr shared;

  friend bool operator==(const SharedHostKey&, const SharedHostKey&) = default;
};

/// Why a host is to be informed.
enum class InformReason : std::uint8_t { kNone, kTakenOver, kHandedOver, kReminded };

struct SharedHost {
  SharedHostKey key;
  wire::HwAddr hw;
  std::uint32_t source = 0;  ///< See HostTable::heard().
  /// GUID of the node that the host sends to, as far as this node knows; empty: unknown.
  std::optional<std::uint64_t> server{};
  TimePoint
      heard{};  ///< All nodes that were members then know it, if their messages were not lost.
  /// GUID of the node that was to inform it of its latest move, and the time of that.
  std::uint64_t moved_by = 0;
  TimePoint moved = TimePoint::min();
  InformReason waits = InformReason::kNone;  ///< Not kNone: it is in the queue.
};

/// Management lcore only. Hosts stay until they give up their places: one that is served sends nothing
/// that other nodes hear. In a full table, the source with the most hosts gives up the one that was
/// silent for longest, so that a stranger that makes up hosts loses its own.
class HostTable {
 public:
  HostTable(std::size_t max, std::uint64_t seed) : max_{max}, index_{0, KeyedHash{seed}} {}

  /// The host has asked. `source`: the sender of its message as the fabric knows it, which the host
  /// cannot choose: its LID. Returns its entry, which is valid until the next call.
  SharedHost& heard(const SharedHostKey& key, const wire::HwAddr& hw, std::uint32_t source);
  /// Null: it is unknown.
  [[nodiscard]] SharedHost* find(const SharedHostKey& key);
  /// Calls `f(SharedHost&)` for each host, which must not change the table.
  template <class F>
  void for_each(F f) {
    for (auto& [source, hosts] : sources_)
      for (SharedHost& host : hosts) f(host);
  }
  template <class F>
  void for_each(F f) const {
    for (const auto& [source, hosts] : sources_)
      for (const SharedHost& host : hosts) f(host);
  }
  [[nodiscard]] std::size_t size() const { return index_.size(); }
  /// Hosts that gave up their places.
  [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }

 private:
  using Hosts = std::list<SharedHost>;  ///< The one that was silent for longest is the first.

  void remove(Hosts::iterator host);
  void count(std::uint32_t source, std::size_t before, std::size_t after);

  std::size_t max_;
  std::map<std::uint32_t, Hosts> sources_;
  std::set<std::pair<std::size_t, std::uint32_t>> by_size_;  ///< All sources.
  std::unordered_map<SharedHostKey, Hosts::iterator, KeyedHash> index_;
  std::uint64_t forgotten_ = 0;
};

}  // namespace ipoib::link
