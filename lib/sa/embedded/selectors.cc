// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/selectors.h"

#include <algorithm>

#include "lib/wire/iba.h"
#include "lib/wire/sa_records.h"

namespace ipoib::sa {
namespace {

constexpr std::uint8_t kLastCode = 0x3f;

bool satisfies(wire::Selector selector, unsigned wanted, unsigned have) {
  switch (selector) {
    case wire::Selector::kGreater: return have > wanted;
    case wire::Selector::kLess: return have < wanted;
    case wire::Selector::kExactly: return have == wanted;
    case wire::Selector::kBest: break;
  }
  return true;
}

/// `quantity` converts a code into the value to compare; 0 for a code that does not exist.
template <class Quantity>
bool code_satisfies(std::uint8_t component, std::uint8_t code, Quantity quantity) {
  const wire::Selector selector = wire::selector_of(component);
  const unsigned wanted = quantity(wire::value_of(component));
  if (wanted == 0 && selector != wire::Selector::kBest) return false;
  return satisfies(selector, wanted, quantity(code));
}

template <class Quantity>
std::optional<std::uint8_t> choose(std::uint8_t component, std::uint8_t max, Quantity quantity) {
  if (quantity(wire::value_of(component)) == 0) return std::nullopt;
  std::optional<std::uint8_t> best;
  for (std::uint8_t code = 1; code <= kLastCode; ++code) {
    const unsigned q = quantity(code);
    if (q == 0 || q > quantity(max) || !code_satisfies(component, code, quantity)) continue;
    if (!best || q > quantity(*best)) best = code;
  }
  return best;
}

}  // namespace

std::uint8_t exactly(std::uint8_t value) {
  return wire::with_selector(wire::Selector::kExactly, value);
}

bool is_mtu(std::uint8_t component) {
  return wire::mtu_octets(wire::value_of(component)) != 0;
}

bool is_rate(std::uint8_t component) {
  return wire::rate_mbps(wire::value_of(component)) != 0;
}

std::optional<std::uint8_t> choose_mtu(std::uint8_t component, std::uint8_t largest) {
  return choose(component, largest, wire::mtu_octets);
}

std::optional<std::uint8_t> choose_rate(std::uint8_t component, std::uint8_t fastest) {
  return choose(component, fastest, wire::rate_mbps);
}

std::optional<std::uint8_t> choose_lifetime(std::uint8_t component, std::uint8_t longest) {
  const std::uint8_t wanted = wire::value_of(component);
  switch (wire::selector_of(component)) {
    case wire::Selector::kGreater: return longest > wanted ? std::optional{longest} : std::nullopt;
    case wire::Selector::kExactly: return longest >= wanted ? std::optional{wanted} : std::nullopt;
    case wire::Selector::kBest: return longest;
    case wire::Selector::kLess: break;
  }
  if (wanted <= 1) return std::nullopt;  // Lifetime 0 is for the path of a port to itself.
  return std::min(longest, static_cast<std::uint8_t>(wanted - 1));
}

bool mtu_satisfies(std::uint8_t component, std::uint8_t mtu) {
  return code_satisfies(component, mtu, wire::mtu_octets);
}

bool rate_satisfies(std::uint8_t component, std::uint8_t rate) {
  return code_satisfies(component, rate, wire::rate_mbps);
}

}  // namespace ipoib::sa
