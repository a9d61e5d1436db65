// SPDX-License-Identifier: BSD-3-Clause
// What "greater than", "less than", "exactly" and "best" ask for, in MTU, rate and packet lifetime
// components. Rate codes are not ordered by speed, so rates are compared in Mb/s. Source:
// iba-wire.md §2, §3.3, §3.4.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/wire/mad.h"

namespace ipoib::sa {

/// Whether there is such an MTU or rate, whatever it is given for.
[[nodiscard]] bool is_mtu(std::uint8_t component);
[[nodiscard]] bool is_rate(std::uint8_t component);

/// The best MTU code up to `largest` that satisfies selector and value of `component`; none when
/// there is none or the value is no MTU code.
[[nodiscard]] std::optional<std::uint8_t> choose_mtu(std::uint8_t component, std::uint8_t largest);

/// The same for a rate code; 2 (2.5 Gb/s) and 5 (5 Gb/s) are slower than 3 (10 Gb/s).
[[nodiscard]] std::optional<std::uint8_t> choose_rate(std::uint8_t component, std::uint8_t fastest);

/// The longest packet lifetime code up to `longest` that satisfies `component`; "best" is `longest`
/// too, since nobody knows better.
[[nodiscard]] std::optional<std::uint8_t> choose_lifetime(std::uint8_t component,
                                                          std::uint8_t longest);

/// Whether an MTU or rate that is given satisfies `component`; "best" takes any.
[[nodiscard]] bool mtu_satisfies(std::uint8_t component, std::uint8_t mtu);
[[nodiscard]] bool rate_satisfies(std::uint8_t component, std::uint8_t rate);

}  // namespace ipoib::sa
