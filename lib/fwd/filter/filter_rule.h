// SPDX-License-Identifier: BSD-3-Clause
// A packet filter rule, without the interface that it is for. No EAL, so that configuration code
// can include it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/wire/ip.h"

namespace ipoib::fwd {

enum class FilterDirection : std::uint8_t {
  kIn,   ///< Packets that arrive, also those for this node.
  kOut,  ///< Packets that are forwarded.
};
enum class FilterAction : std::uint8_t { kAccept, kDrop };

/// User-visible names, indexed by the enumerators.
inline constexpr std::array<std::string_view, 2> kFilterDirectionNames = {"in", "out"};
inline constexpr std::array<std::string_view, 2> kFilterActionNames = {"accept", "drop"};

/// Ports from `first` to `last`.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0xffff;

  friend constexpr bool operator==(const PortRange&, const PortRange&) noexcept = default;
};

/// The packets of a rule, and their fate. An empty member allows any value.
struct FilterRule {
  FilterDirection direction = FilterDirection::kIn;
  FilterAction action = FilterAction::kDrop;
  std::optional<wire::IpPrefix> source{};  ///< Its IP version is that of `destination`.
  std::optional<wire::IpPrefix> destination{};
  std::optional<std::uint8_t> protocol{};
  /// Require a protocol that has_ports(). A rule with ports fits only packets that have theirs.
  std::optional<PortRange> source_ports{};
  std::optional<PortRange> destination_ports{};

  [[nodiscard]] constexpr bool has_ports() const noexcept {
    return source_ports.has_value() || destination_ports.has_value();
  }
  /// True if the rule is for packets of this version: those of both, if it has no address.
  [[nodiscard]] constexpr bool is_for(bool v4) const noexcept {
    return (!source || source->addr.is_v4() == v4) &&
           (!destination || destination->addr.is_v4() == v4);
  }
  friend constexpr bool operator==(const FilterRule&, const FilterRule&) noexcept = default;
};

inline constexpr std::size_t kMaxFilterRules = 4096;

/// True for protocols whose header begins with the source and destination port: TCP, UDP, DCCP,
/// SCTP, UDP-Lite. Source: RFC 9293, RFC 768, RFC 4340, RFC 9260, RFC 3828.
[[nodiscard]] constexpr bool has_ports(std::uint8_t protocol) noexcept {
  return protocol == 6 || protocol == 17 || protocol == 33 || protocol == 132 || protocol == 136;
}

/// The reason why the rule makes no sense, in words for its author; empty: there is none.
[[nodiscard]] constexpr std::string_view fault_of(const FilterRule& rule) noexcept {
  if (rule.source && rule.destination &&
      rule.source->addr.is_v4() != rule.destination->addr.is_v4())
    return "source and destination are of different IP versions";
  if (rule.has_ports() && (!rule.protocol || !has_ports(*rule.protocol)))
    return "ports require a protocol that has them: tcp, udp, 33 (DCCP), 132 (SCTP), 136 "
           "(UDP-Lite)";
  for (const auto& ports : {rule.source_ports, rule.destination_ports})
    if (ports && ports->first > ports->last) return "the first port is above the last";
  return {};
}

}  // namespace ipoib::fwd
