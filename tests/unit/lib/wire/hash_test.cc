// SPDX-License-Identifier: BSD-3-Clause
// Hash tables of addresses: strangers choose these.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <unordered_set>

#include "lib/base/keyed_hash.h"
#include "lib/wire/gid.h"
#include "lib/wire/ip.h"

namespace ipoib::wire {
namespace {

// A table of addresses does not compile without KeyedHash.
static_assert(!std::is_default_constructible_v<std::hash<IpAddr>>);
static_assert(!std::is_default_constructible_v<std::hash<Gid>>);

constexpr std::size_t kAddresses = 10'000;

/// Size of the fullest bucket.
template <class Table>
std::size_t fullest(const Table& table) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < table.bucket_count(); ++i)
    most = std::max(most, table.bucket_size(i));
  return most;
}

/// A hash that anybody can compute, and so invert.
struct PublicHash {
  static constexpr std::uint64_t kHighFactor = 0x9e37'79b9'7f4a'7c15;
  static constexpr std::uint64_t kFactor = 0xff51'afd7'ed55'8ccd;
  template <class Address>
  std::size_t operator()(const Address& a) const {
    const auto half = std::bit_cast<std::array<std::uint64_t, 2>>(a);
    return (half[0] * kHighFactor ^ half[1]) * kFactor;
  }
  /// Returns link-local address number `n` of those whose hash is a multiple of `buckets`.
  template <class Address>
  static Address colliding(std::uint64_t n, std::size_t buckets) {
    std::uint64_t inverse = kFactor;  // Each step doubles the number of right bits.
    for (int i = 0; i < 5; ++i) inverse *= 2 - kFactor * inverse;
    const std::uint64_t high = std::bit_cast<std::uint64_t>(Be64{0xfe80'0000'0000'0000});
    return std::bit_cast<Address>(std::array{high, (n * buckets * inverse) ^ (high * kHighFactor)});
  }
};

template <class Address>
void expect_spread() {
  std::unordered_set<Address, PublicHash> open{2 * kAddresses};
  for (std::uint64_t n = 0; n < kAddresses; ++n)
    open.insert(PublicHash::colliding<Address>(n, open.bucket_count()));
  ASSERT_EQ(fullest(open), kAddresses);
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const std::unordered_set<Address, KeyedHash> keyed{open.begin(), open.end(),
                                                       open.bucket_count(), KeyedHash{seed}};
    ASSERT_EQ(keyed.bucket_count(), open.bucket_count());
    EXPECT_LE(fullest(keyed), 10U) << "seed " << seed;
  }
}

TEST(AddressHash, P16_ChosenAddressesDoNotCollide) {
  expect_spread<IpAddr>();
}
TEST(AddressHash, P16_ChosenGidsDoNotCollide) {
  expect_spread<Gid>();
}

}  // namespace
}  // namespace ipoib::wire
