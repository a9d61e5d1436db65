// SPDX-License-Identifier: BSD-3-Clause
// The multicast groups that programs of Linux have joined. Rtnetlink does not report them, so they
// are read from the files of proc(5).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/wire/ip.h"

namespace ipoib::mgmt {

/// Groups by the index of their interface. Groups that every host and every address has are left out,
/// because the node joins these itself: 224.0.0.1, ff01::1, ff02::1 and solicited-node addresses.
using GroupsByInterface = std::map<std::int32_t, std::set<wire::IpAddr>>;

/// Adds the groups of a text in the form of /proc/net/igmp or /proc/net/igmp6. Damaged lines are
/// ignored.
void add_igmp(std::string_view text, GroupsByInterface& groups);
void add_igmp6(std::string_view text, GroupsByInterface& groups);

/// Management lcore only.
class JoinedGroups {
 public:
  /// Opens the files of a network namespace. Errors: those of kernel::in_network_namespace(), and
  /// kUnavailable (there is no /proc).
  static Result<JoinedGroups> open(const std::string& network_namespace);
  ~JoinedGroups();
  JoinedGroups(JoinedGroups&& other) noexcept;
  JoinedGroups& operator=(JoinedGroups&&) = delete;

  /// None: the kernel could not make the list now.
  [[nodiscard]] std::optional<GroupsByInterface> read() const;

 private:
  JoinedGroups(int igmp, int igmp6) : igmp_{igmp}, igmp6_{igmp6} {}

  int igmp_;
  int igmp6_;  ///< -1: the kernel has no IPv6.
};

}  // namespace ipoib::mgmt
