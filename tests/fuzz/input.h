// SPDX-License-Identifier: BSD-3-Clause
// An input as a program: steps of one octet each, with arguments behind it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ipoib::test {

/// Reads an input from the front. Behind its end everything is 0.
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
  /// Of up to 4 octets, the most significant first.
  std::uint32_t number(unsigned octets) {
    std::uint32_t value = 0;
    while (octets-- > 0) value = value << 8 | octet();
    return value;
  }
  /// One of a few; reads an octet.
  template <class T, std::size_t kN>
  const T& one_of(const T (&choices)[kN]) {
    return choices[octet() % kN];
  }
  /// The next `n` octets, or what is left.
  std::span<const std::byte> take(std::size_t n) {
    const auto taken = rest_.first(std::min(n, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace ipoib::test
