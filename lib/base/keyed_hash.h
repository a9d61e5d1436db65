// SPDX-License-Identifier: BSD-3-Clause
// A hash for tables whose keys strangers choose: they cannot find values that collide.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lib/base/hash_seed.h"

namespace ipoib {

/// SipHash-1-3 of the octets of a value. Hashes with equal seeds are equal, so that simulations are
/// reproducible. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF".
class KeyedHash {
 public:
  explicit KeyedHash(std::uint64_t seed) noexcept : key_{next_random(seed), next_random(seed)} {}
  KeyedHash(std::uint64_t k0, std::uint64_t k1) noexcept : key_{k0, k1} {}

  template <class T>
  requires(std::has_unique_object_representations_v<T> && sizeof(T) % sizeof(std::uint64_t) == 0)
      [[nodiscard]] std::size_t
      operator()(const T& value) const noexcept {
    std::array<std::uint64_t, sizeof(T) / sizeof(std::uint64_t)> words;
    std::memcpy(words.data(), &value, sizeof(value));
    State s{key_[0] ^ 0x736f'6d65'7073'6575, key_[1] ^ 0x646f'7261'6e64'6f6d,
            key_[0] ^ 0x6c79'6765'6e65'7261, key_[1] ^ 0x7465'6462'7974'6573};
    for (const std::uint64_t word : words) s.absorb(word);
    s.absorb(std::uint64_t{sizeof(value)} << 56);
    s.v2 ^= 0xff;
    for (int i = 0; i < 3; ++i) s.round();
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
  }

 private:
  struct State {
    std::uint64_t v0, v1, v2, v3;

    void absorb(std::uint64_t word) noexcept {
      v3 ^= word;
      round();
      v0 ^= word;
    }
    void round() noexcept {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  };

  std::array<std::uint64_t, 2> key_;
};

}  // namespace ipoib
