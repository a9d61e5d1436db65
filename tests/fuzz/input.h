// SPDX-License-Identifier: BSD-3-Clause
// Reads an input as a program: steps of one octet each, followed by their arguments.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ipoib::test {

/// Reads an input from the front. Octets after its end are 0.
class Input {
 public:
  explicit Input(std::span<const std::byte> octets) : rest_{octets} {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  unsigned octet() {
    if (rest_.empty()) return 0;
    const auto value = std::to_integer<unsigned>(rest_.front());
    rest_ = rest_.subspan(1);
    return value;
  }
  /// Reads a number of up to 4 octets, most significant first.
  std::uint32_t number(unsigned octets) {
    std::uint32_t value = 0;
    while (octets-- > 0) value = value << 8 | octet();
    return value;
  }
  /// Reads an octet and returns one of the choices.
  template <class T, std::size_t kN>
  const T& one_of(const T (&choices)[kN]) {
    return choices[octet() % kN];
  }
  /// The next `n` octets, or all remaining ones if there are fewer.
  std::span<const std::byte> take(std::size_t n) {
    const auto taken = rest_.first(std::min(n, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace ipoib::test
