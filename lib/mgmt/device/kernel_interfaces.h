// SPDX-License-Identifier: BSD-3-Clause
// The kernel's IP over InfiniBand interfaces in the network namespace of this process, from the
// messages of rtnetlink. Source: rtnetlink(7); RFC 4391 §9.1.1 (hardware address) and RFC 4391 §4
// (P_Key in the broadcast-GID).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/wire/gid.h"

struct nlmsghdr;

namespace ipoib::mgmt {

struct KernelInterface {
  std::string name;        ///< Printable characters only; others are replaced.
  std::uint64_t guid = 0;  ///< The GUID of its port.
  std::uint16_t pkey = 0;
  bool up = false;  ///< An administrator enabled it: it is, or soon will be, a member of groups.

  friend bool operator==(const KernelInterface&, const KernelInterface&) = default;
};

/// Management lcore only.
class KernelInterfaces {
 public:
  /// A port in a partition.
  struct Place {
    std::uint64_t guid;
    std::uint16_t pkey;

    [[nodiscard]] bool has(const KernelInterface& interface) const {
      return guid == interface.guid && wire::same_partition(pkey, interface.pkey);
    }
  };

  /// A list of all interfaces follows, in messages with this sequence number. Interfaces that are not
  /// in it do not exist.
  void begin_list(std::uint32_t sequence);
  /// Handles the messages of a datagram, which is aligned to 4 octets. Octets that are no message, and messages about other
  /// interfaces, are ignored.
  void take(std::span<const std::byte> datagram);
  /// Messages were lost: every interface may have changed, and back.
  void lose();
  /// True if a list is needed: the latest one is incomplete, or messages were lost after its begin.
  [[nodiscard]] bool needs_list() const { return needs_list_ && !listing_; }
  [[nodiscard]] bool listing() const { return listing_; }
  /// The list that began failed, or does not end: another is needed.
  void give_list_up();
  /// Number of complete lists.
  [[nodiscard]] std::uint64_t lists() const { return lists_; }

  /// Interfaces at the place, by their index in the kernel.
  [[nodiscard]] std::vector<KernelInterface> at(const Place& place) const;
  /// Interfaces that appeared, went, or changed since the previous call, as they were and as they
  /// are.
  [[nodiscard]] std::vector<KernelInterface> take_changes();

 private:
  void set(std::int32_t index, const KernelInterface& interface);
  void remove(std::int32_t index);
  void read_message(const nlmsghdr& message);
  void read_link(const nlmsghdr& message, bool exists);
  void end_list();

  std::map<std::int32_t, KernelInterface> interfaces_;  ///< The key is the index.
  std::vector<KernelInterface> changes_;
  std::set<std::int32_t> listed_;
  std::uint32_t sequence_ = 0;
  std::uint64_t lists_ = 0;
  bool listing_ = false;
  bool needs_list_ = true;
};

}  // namespace ipoib::mgmt
