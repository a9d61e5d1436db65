// SPDX-License-Identifier: BSD-3-Clause
// An address that several nodes share on a link: settings, and rows for display. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/wire/gid.h"
#include "lib/wire/ip.h"

namespace ipoib::link {

/// The nodes of a group have equal settings.
struct SharedConfig {
  std::vector<wire::IpAddr> addresses;          ///< Empty: the link shares none.
  std::uint8_t vrid = 1;                        ///< Names the group on the link.
  Duration interval = std::chrono::seconds(1);  ///< Between advertisements; whole 10 ms.
  std::vector<std::uint64_t> members;  ///< Port GUIDs of nodes that may be members; empty: any.
};

/// Nodes of a group, this one included.
inline constexpr std::size_t kMaxSharedMembers = 16;
/// Addresses of one IP family.
inline constexpr std::size_t kMaxSharedAddresses = 8;

/// Reason for which an advertisement for the group does not count.
enum class SharedRefusal : std::uint8_t {
  kMalformed,  ///< wire::VrrpError.
  kNoGid,      ///< It came without a GRH, or with a GID of no port.
  kAddresses,  ///< The sender shares other addresses.
  kInterval,   ///< The sender has another interval.
  kStranger,   ///< Not one of SharedConfig::members.
  kLeft,       ///< The sender left the group less than its lifetime ago.
  kFull,       ///< The group has kMaxSharedMembers.
  kCount
};
[[nodiscard]] std::string_view to_string(SharedRefusal reason);

struct SharedCounters {
  std::uint64_t answered = 0;     ///< Requests of hosts.
  std::uint64_t left = 0;         ///< Requests that another member answers.
  std::uint64_t early = 0;        ///< Requests while this node was no member yet; not answered.
  std::uint64_t taken_over = 0;   ///< Hosts of members that are gone, informed by this node.
  std::uint64_t handed_over = 0;  ///< Hosts of a member that came, informed by this node.
  std::uint64_t reminded = 0;     ///< Hosts informed again, for any reason.
  std::uint64_t skipped =
      0;  ///< Hosts that were to be informed, and then forgotten or moved again.
  std::uint64_t forgotten = 0;  ///< Hosts that gave up their place to others.
  std::uint64_t claims = 0;     ///< Claims of interfaces that are no members.
  std::uint64_t adverts_sent = 0, adverts_received = 0;
  std::uint64_t adverts_unsent = 0;  ///< No source address is ready.
  std::array<std::uint64_t, static_cast<std::size_t>(SharedRefusal::kCount)> refused{};
};

/// One row of `show shared`: the group of one IP family on a link.
struct SharedGroupInfo {
  std::string iface;
  std::vector<wire::IpAddr> addresses;
  std::uint8_t vrid = 0;
  std::string_view state;  ///< "down", "listening", "member"; static storage.
  struct Member {
    wire::Gid gid;
    std::string lladdr;
    bool self = false;
    std::string_view state;  ///< "member", "left"; static storage.
    Duration age{};          ///< Since its latest advertisement.
    std::size_t hosts = 0;   ///< Known hosts that it serves.
  };
  std::vector<Member> members;
  std::size_t hosts = 0;      ///< Known hosts.
  std::size_t to_inform = 0;  ///< Hosts that wait for a message.
  SharedCounters counters;
};

}  // namespace ipoib::link
