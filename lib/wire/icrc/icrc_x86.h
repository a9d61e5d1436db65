// SPDX-License-Identifier: BSD-3-Clause
// Tables and plans of the kernels of icrc() for x86. A general CRC-32 is slow here, because the
// masked head must be copied or patched before it is read, and packets are short. Instead, every
// 16-octet block is loaded, masked in its register and multiplied by x^n for its distance n from
// the end of the packet, independently of other blocks, and one reduction follows.
//
// Bits are reflected throughout: bit k of a 128-bit register is the coefficient of x^(127-k).
#pragma once

#include <immintrin.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "lib/base/contract.h"
#include "lib/wire/iba.h"
#include "lib/wire/icrc/icrc.h"

namespace ipoib::wire::x86 {

inline constexpr std::size_t kBlock = 16;
inline constexpr std::size_t kStride = 4 * kBlock;  ///< Octets of the head's masks.
inline constexpr std::size_t kFold = 4 * kStride;   ///< Octets per iteration over long packets.
/// Number of the last blocks, each of which is carried over its distance in one step.
inline constexpr std::size_t kReach = 32;

/// x^32 times a reflected polynomial, mod the CRC's polynomial.
constexpr std::uint32_t next_word(std::uint32_t r) {
  for (int bit = 0; bit < 32; ++bit) r = (r >> 1) ^ ((r & 1) != 0 ? 0xedb8'8320U : 0U);
  return r;
}

/// [n]: x^(32 n) mod the CRC's polynomial, reflected, as a factor for _mm_clmulepi64_si128. The
/// shift corrects the product of two reflected numbers, which is off by one bit.
inline constexpr auto kPowers = [] {
  std::array<std::uint64_t, kReach * kBlock / 4 + 1> powers{};
  std::uint32_t r = 0x8000'0000U;
  for (std::uint64_t& power : powers) {
    power = std::uint64_t{r} << 1;
    r = next_word(r);
  }
  return powers;
}();

/// x^-32 mod the CRC's polynomial, in the form of kPowers.
inline constexpr std::uint64_t kInverseWord = [] {
  std::uint32_t r = 0x8000'0000U;
  for (int bit = 0; bit < 32; ++bit)
    r = (r & 0x8000'0000U) != 0 ? (r ^ 0xedb8'8320U) << 1 | 1 : r << 1;
  return std::uint64_t{r} << 1;
}();

/// Factors that carry the two halves of a block over a distance.
struct alignas(kBlock) Factors {
  std::uint64_t first;
  std::uint64_t second;
};

/// Factors of a distance in 4-octet words, which must not be 0.
constexpr Factors factors_over(std::size_t words) {
  return {kPowers[words + 1], kPowers[words - 1]};
}
/// Factors over a distance that may be 0. A product of halves is off by x^32, so at distance 0 the
/// factor of the second half is x^-32.
constexpr Factors factors_over_any(std::size_t words) {
  return words == 0 ? Factors{kPowers[1], kInverseWord} : factors_over(words);
}

/// [r][n]: factors of block n of the last kReach blocks, with r more words behind the last block.
inline constexpr auto kShortFactors = [] {
  std::array<std::array<Factors, kReach>, 4> table{};
  for (std::size_t rest = 0; rest < table.size(); ++rest)
    for (std::size_t i = 0; i < kReach; ++i)
      table[rest][i] = factors_over_any((kReach - 1 - i) * kBlock / 4 + rest);
  return table;
}();

struct alignas(kBlock) Mask {
  std::array<std::uint8_t, kBlock> octets{};
};

/// Bits that the ICRC counts as ones, in blocks 0 to 3 of a packet without and with GRH.
/// Without: VL; BTH octet 4. With: the LRH; TClass, FlowLabel, HopLmt; BTH octet 4.
inline constexpr std::array<std::array<Mask, 4>, 2> kOnes = {
    {{{{{0xf0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff}}, {}, {}, {}}},
     {{{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0, 0, 0, 0xff}},
       {},
       {},
       {{0, 0, 0, 0, 0xff}}}}}};
static_assert(sizeof(Lrh) + offsetof(Bth, resv8a) == 12);
static_assert(sizeof(Lrh) + sizeof(Grh) + offsetof(Bth, resv8a) == 3 * kBlock + 4);

/// Mask for a packet's first stride. kHeadOnes: bits that the ICRC counts as ones (kOnes), by LNH.
/// kHeadPreset: preset of the CRC.
struct alignas(kStride) Head {
  std::array<std::uint8_t, kStride> octets{};
};
inline constexpr auto kHeadOnes = [] {
  std::array<Head, 4> ones{};
  for (std::size_t lnh = 0; lnh < ones.size(); ++lnh)
    for (std::size_t i = 0; i < kStride; ++i)
      ones[lnh].octets[i] =
          kOnes[lnh == static_cast<std::size_t>(Lnh::kGlobal)][i / kBlock].octets[i % kBlock];
  return ones;
}();
inline constexpr Head kHeadPreset = {{0xff, 0xff, 0xff, 0xff}};

/// Multipliers of reduce().
struct Multipliers {
  long long first;
  long long second;
};
inline constexpr Multipliers kTwoFolds = {static_cast<long long>(kPowers[3]),
                                          static_cast<long long>(kPowers[2])};
/// The polynomial and the quotient x^64 / polynomial, both with their 33rd bit.
inline constexpr Multipliers kBarrett = {0x1'db71'0641, 0x1'f701'1641};

/// Returns the remainder of the 128 bits times x^32: folds them to 96 and to 64 bits, then applies
/// Barrett's method.
[[gnu::target("sse4.1,pclmul"), gnu::always_inline]] inline std::uint32_t reduce(__m128i v) {
  const __m128i low32 = _mm_set_epi32(0, 0, 0, -1);
  const __m128i fold = _mm_set_epi64x(kTwoFolds.second, kTwoFolds.first);
  const __m128i barrett = _mm_set_epi64x(kBarrett.second, kBarrett.first);

  v = _mm_xor_si128(_mm_clmulepi64_si128(v, fold, 0x00), _mm_srli_si128(v, 8));
  v = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(v, low32), fold, 0x10),
                    _mm_srli_si128(v, 4));
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(v, low32), barrett, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low32), barrett, 0x00);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(v, quotient), 1));
}

/// Order in which packets of one size are read: 256 octets at a time until at most kReach blocks
/// are left, then whole strides, then the last stride without the octets that are already read. (A
/// load of only the rest with an octet mask costs more.)
struct Plan {
  std::size_t size;
  std::size_t folds;       ///< Number of times that 256 octets are carried onto the next 256.
  std::size_t whole;       ///< Octets of whole strides behind the first remaining stride.
  std::size_t rest_words;  ///< Words of the last stride that are in no whole stride.
  __mmask16 rest;          ///< Mask of these words.
  __mmask16 rests;         ///< `rest` of two packets' last half strides; 0: no rest, or longer.
  const Factors* factors;  ///< Factors of the first remaining block.
};

/// True for a multiple of 4 from one stride up to a bound that no packet reaches.
inline bool has_plan(std::size_t size) noexcept {
  // After the rotation by two bits, a size that is no multiple of 4, or too small, is huge.
  return std::rotr(size - kStride, 2) <= 1U << 20;
}

/// Shape: has_plan(size).
inline Plan plan_of(std::size_t size) noexcept {
  expects(has_plan(size), "has_plan(size)");
  constexpr std::size_t kMaxLeft = kReach * kBlock;
  const std::size_t folds = size > kMaxLeft ? (size - kMaxLeft + kFold - 1) / kFold : 0;
  const std::size_t left = size - folds * kFold;
  const std::size_t rest = size / 4 % 16;
  const std::uint32_t half = rest <= 8 ? 0xff00U >> rest & 0xff : 0;
  return {.size = size,
          .folds = folds,
          .whole = (left - kStride) / kStride * kStride,
          .rest_words = rest,
          .rest = static_cast<__mmask16>(0xffff'0000U >> rest),
          .rests = static_cast<__mmask16>(half << 8 | half),
          .factors = &kShortFactors[size / 4 % 4][kReach - left / kBlock]};
}

/// icrc() of packets of one size, which has a plan. Shape: n is a multiple of 4.
using RunKernel = void (*)(const Covered* packets, std::size_t n, std::uint32_t* out) noexcept;
/// icrc() of one packet whose size has a plan.
using PacketKernel = std::uint32_t (*)(std::span<const std::byte> packet) noexcept;

std::uint32_t icrc_avx2(std::span<const std::byte> packet) noexcept;
void icrc_run_avx2(const Covered* packets, std::size_t n, std::uint32_t* out) noexcept;
std::uint32_t icrc_avx512(std::span<const std::byte> packet) noexcept;
void icrc_run_avx512(const Covered* packets, std::size_t n, std::uint32_t* out) noexcept;

}  // namespace ipoib::wire::x86
