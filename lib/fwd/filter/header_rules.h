// SPDX-License-Identifier: BSD-3-Clause
// The IPv4 options and IPv6 extension headers that this router drops: those that the RFCs recommend,
// with the changes of its operator. No EAL, so that configuration code can include it.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/drop.h"
#include "lib/wire/ip6_next_headers.h"

namespace ipoib::fwd {

/// An extension header, or one type of routing header.
struct Ip6Extension {
  std::uint8_t header = 0;  ///< Number of the registry "IPv6 Extension Header Types".
  std::optional<std::uint8_t> routing_type{};

  friend constexpr auto operator<=>(const Ip6Extension&, const Ip6Extension&) noexcept = default;
};

/// Differences from the defaults. No value is in both lists of a kind.
struct HeaderChanges {
  std::vector<std::uint8_t>
      pass_options{};  ///< Octets of option types, with copied flag and class.
  std::vector<std::uint8_t> drop_options{};
  /// The routing header without a type stands for all types that the lists do not name.
  std::vector<Ip6Extension> pass_extensions{};
  std::vector<Ip6Extension> drop_extensions{};
};

/// Tables for the slow path of the input stages. Built once, then only read, by all workers. A source
/// route never passes, whichever list names it: option types 131 and 137, routing type 0.
class HeaderRules {
 public:
  explicit HeaderRules(const HeaderChanges& changes);
  /// The rules without changes. Source: RFC 7126 §4; RFC 9288 §3.4.
  [[nodiscard]] static const HeaderRules& defaults();

  /// kNone: it passes as it came; kIpOption; kIpSourceRoute.
  [[nodiscard]] Drop option(std::uint8_t type) const noexcept { return options_[type]; }
  /// kNone: it passes as it came; kIp6Extension. A routing header passes this, and then routing().
  [[nodiscard]] Drop extension(std::uint8_t header) const noexcept { return extensions_[header]; }
  [[nodiscard]] Drop routing(std::uint8_t type) const noexcept { return routing_[type]; }

 private:
  std::array<Drop, 256> options_{};
  std::array<Drop, 256> extensions_{};
  std::array<Drop, 256> routing_{};
};

/// True for the types of options with a source route. Source: RFC 791 §3.1.
[[nodiscard]] constexpr bool is_source_route(std::uint8_t option) noexcept {
  constexpr std::uint8_t kLoose = 131, kStrict = 137;
  return option == kLoose || option == kStrict;
}

/// True for the headers of the registry "IPv6 Extension Header Types", those for experiments included.
[[nodiscard]] constexpr bool is_ip6_extension(std::uint8_t header) noexcept {
  for (const std::uint8_t known :
       {wire::kHopByHop, wire::kRoutingHeader, wire::kFragmentHeader, wire::kEncryptionHeader,
        wire::kAuthenticationHeader, wire::kDestinationOptions, wire::kMobilityHeader,
        wire::kHostIdentity, wire::kShim6, wire::kExperiment1, wire::kExperiment2})
    if (header == known) return true;
  return false;
}

}  // namespace ipoib::fwd
