// SPDX-License-Identifier: BSD-3-Clause
// The selectors "greater than", "less than", "exactly" and "best" of MTU, rate and packet lifetime
// components. Rate codes are not ordered by speed, so rates are compared in Mb/s. Source:
// iba-wire.md §2, §3.3, §3.4.
#pragma once

#include <cstdint>
#include <optional>

namespace ipoib::sa {

/// Returns the component with this value and the selector "exactly".
[[nodiscard]] std::uint8_t exactly(std::uint8_t value);

/// True if the MTU or rate code of `component` exists, with any selector.
[[nodiscard]] bool is_mtu(std::uint8_t component);
[[nodiscard]] bool is_rate(std::uint8_t component);

/// Returns the largest MTU code up to `largest` that satisfies selector and value of `component`;
/// none if no code does, or if the value is no MTU code.
[[nodiscard]] std::optional<std::uint8_t> choose_mtu(std::uint8_t component, std::uint8_t largest);

/// Like choose_mtu(), for rate codes; 2 (2.5 Gb/s) and 5 (5 Gb/s) are slower than 3 (10 Gb/s).
[[nodiscard]] std::optional<std::uint8_t> choose_rate(std::uint8_t component, std::uint8_t fastest);

/// Returns the longest packet lifetime code up to `longest` that satisfies `component`. "best"
/// gives `longest` too, because no better value is known.
[[nodiscard]] std::optional<std::uint8_t> choose_lifetime(std::uint8_t component,
                                                          std::uint8_t longest);

/// True if the given MTU or rate satisfies `component`; "best" accepts any.
[[nodiscard]] bool mtu_satisfies(std::uint8_t component, std::uint8_t mtu);
[[nodiscard]] bool rate_satisfies(std::uint8_t component, std::uint8_t rate);

}  // namespace ipoib::sa
