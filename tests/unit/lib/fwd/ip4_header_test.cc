// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip4_header.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <random>
#include <span>

#include "tests/support/packets.h"

namespace ipoib::fwd::test {
namespace {

using Random = std::independent_bits_engine<std::mt19937_64, 32, std::uint32_t>;

struct LongHeader {
  wire::Ipv4Hdr hdr;
  std::array<std::byte, 40> options;

  [[nodiscard]] std::span<const std::byte> bytes(std::size_t len) const {
    return std::as_bytes(std::span{this, 1}).first(len);
  }
};

LongHeader random_header(Random& random) {
  LongHeader h;
  for (std::byte& b : std::as_writable_bytes(std::span{&h, 1}))
    b = static_cast<std::byte>(random());
  return h;
}

TEST(Ip4Header, P05_SumTellsRightChecksumsFromWrongOnes) {
  Random random{1};
  for (int i = 0; i < 100'000; ++i) {
    LongHeader h = random_header(random);
    const std::size_t len = 20 + 4 * (random() % 11);
    set_ip4_checksum(h.hdr, len);
    ASSERT_EQ(wire::internet_checksum(h.bytes(len)), 0);
    ASSERT_EQ(ip4_header_sum(h.hdr, len), 0xffff);
    ASSERT_TRUE(ip4_checksum_is_valid(h.hdr, len));
    // The checksum finds any single wrong bit.
    auto* const bytes = reinterpret_cast<std::byte*>(&h);
    bytes[random() % len] ^= static_cast<std::byte>(1U << random() % 8);
    ASSERT_NE(ip4_header_sum(h.hdr, len), 0xffff);
    ASSERT_FALSE(ip4_checksum_is_valid(h.hdr, len));
  }
}

/// Words near the ends of their range are the likeliest to have wrong carries.
TEST(Ip4Header, P05_PlainHeadersHaveTheSameVerdict) {
  Random random{3};
  constexpr std::array<std::uint32_t, 6> kEnds = {0, 1, 0xffff, 0xffff'0000, 0xffff'fffe, ~0U};
  std::size_t valid = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::array<std::uint32_t, sizeof(wire::Ipv4Hdr) / sizeof(std::uint32_t)> words;
    for (std::uint32_t& word : words)
      word = random() % 4 == 0 ? random() : kEnds[random() % kEnds.size()];
    auto hdr = std::bit_cast<wire::Ipv4Hdr>(words);
    hdr.version_ihl = 0x45;
    if (i % 2 == 0) set_ip4_checksum(hdr, sizeof(hdr));
    const bool right = ip4_header_sum(hdr, sizeof(hdr)) == 0xffff;
    ASSERT_EQ(plain_ip4_checksum_is_valid(hdr), right);
    ASSERT_EQ(ip4_checksum_is_valid(hdr, sizeof(hdr)), right);
    valid += right ? 1U : 0U;
  }
  EXPECT_GE(valid, 100'000U);
}

TEST(Ip4Header, P05_TakingTtlDownKeepsTheChecksumRight) {
  Random random{2};
  for (int i = 0; i < 100'000; ++i) {
    LongHeader h = random_header(random);
    h.hdr.version_ihl = 0x45;
    h.hdr.ttl = static_cast<std::uint8_t>(1 + random() % 255);
    // A sum near the ends of its range is the likeliest to have wrong carries.
    if (i % 2 == 0) h.hdr.protocol = 0;
    set_ip4_checksum(h.hdr, 20);
    const std::uint8_t ttl = h.hdr.ttl;
    decrement_ttl(h.hdr);
    ASSERT_EQ(h.hdr.ttl, ttl - 1);
    const wire::Be16 incremental = h.hdr.checksum;
    set_ip4_checksum(h.hdr, 20);
    ASSERT_EQ(incremental, h.hdr.checksum) << "RFC 1624: the same as made anew";
  }
}

/// The test takes every value of the checksum field, so that every carry occurs.
TEST(Ip4Header, P05_TakingTtlDownIsRightForEveryChecksum) {
  for (std::uint32_t id = 0; id <= 0xffff; ++id) {
    wire::Ipv4Hdr hdr{};
    hdr.version_ihl = 0x45;
    hdr.ttl = 64;
    hdr.id.set(static_cast<std::uint16_t>(id));
    set_ip4_checksum(hdr, 20);
    decrement_ttl(hdr);
    ASSERT_EQ(ip4_header_sum(hdr, 20), 0xffff) << id;
  }
}

}  // namespace
}  // namespace ipoib::fwd::test
