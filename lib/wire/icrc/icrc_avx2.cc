// SPDX-License-Identifier: BSD-3-Clause
// icrc() with AVX2 and VPCLMULQDQ, for CPUs without AVX-512 (AMD Zen 3, Intel's client CPUs): two
// blocks are multiplied at once, 256 octets at a time while more than 512 are left, and two packets
// of equal size share one reduction.
#include "lib/wire/icrc/icrc_x86.h"

namespace ipoib::wire::x86 {
namespace {

constexpr std::size_t kTwoBlocks = 2 * kBlock;

/// kTailMask[4 n]: mask that keeps the last n words of a stride.
constexpr auto kTailMask = [] {
  std::array<std::uint8_t, 2 * kStride> mask{};
  for (std::size_t i = kStride; i < mask.size(); ++i) mask[i] = 0xff;
  return mask;
}();

[[gnu::target("avx2"), gnu::always_inline]] inline __m256i load_two(const void* p) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
[[gnu::target("avx2,vpclmulqdq"), gnu::always_inline]] inline __m256i carry_two(
    __m256i blocks, __m256i factors) noexcept {
  return _mm256_xor_si256(_mm256_clmulepi64_epi128(blocks, factors, 0x00),
                          _mm256_clmulepi64_epi128(blocks, factors, 0x11));
}
[[gnu::target("avx2,vpclmulqdq"), gnu::always_inline]] inline __m256i add_carried(
    __m256i sum, const std::byte* p, const Factors* factors) noexcept {
  return _mm256_xor_si256(sum, carry_two(load_two(p), load_two(factors)));
}

/// Returns two blocks whose sum is the sum of the whole strides.
[[gnu::target("avx2,vpclmulqdq"), gnu::always_inline]] inline __m256i two_of_whole(
    const Plan& plan, const std::byte* p) noexcept {
  alignas(kTwoBlocks) static constexpr std::array<Factors, 2> kOverFold = {factors_over(kFold / 4),
                                                                           factors_over(kFold / 4)};
  const Head& ones = kHeadOnes[std::to_integer<std::size_t>(p[1]) & 3];
  const __m256i first =
      _mm256_xor_si256(_mm256_or_si256(load_two(p), load_two(&ones)), load_two(&kHeadPreset));
  const __m256i second =
      _mm256_or_si256(load_two(p + kTwoBlocks), load_two(ones.octets.data() + kTwoBlocks));
  const Factors* factors = plan.factors;
  const std::byte* end = p + plan.whole;
  __m256i sum;
  if (plan.folds == 0) {
    sum = _mm256_xor_si256(carry_two(first, load_two(factors)),
                           carry_two(second, load_two(factors + 2)));
  } else {
    const __m256i over = load_two(kOverFold.data());
    __m256i v[kFold / kTwoBlocks] = {first, second};
    for (std::size_t i = 2; i < std::size(v); ++i) v[i] = load_two(p + i * kTwoBlocks);
    for (std::size_t fold = 0; fold < plan.folds; ++fold) {
      p += kFold;
      for (std::size_t i = 0; i < std::size(v); ++i)
        v[i] = _mm256_xor_si256(carry_two(v[i], over), load_two(p + i * kTwoBlocks));
    }
    end = p + plan.whole;
    sum = carry_two(v[0], load_two(factors));
    for (std::size_t i = 1; i < std::size(v); ++i)
      sum = _mm256_xor_si256(sum, carry_two(v[i], load_two(factors + 2 * i)));
    p += 3 * kStride, factors += 12;  // more than kFold octets are left
  }
  while (p != end) {
    p += kStride, factors += 4;
    sum = add_carried(sum, p, factors);
    sum = add_carried(sum, p + kTwoBlocks, factors + 2);
  }
  return sum;
}

/// Adds the rest to the sum.
[[gnu::target("avx2,vpclmulqdq"), gnu::always_inline]] inline __m256i add_rest(
    __m256i sum, const Plan& plan, const std::byte* p) noexcept {
  const auto* const factors = &kShortFactors[0][kReach - 4];
  const std::uint8_t* const mask = &kTailMask[4 * plan.rest_words];
  const std::byte* const last = p + plan.size - kTwoBlocks;
  __m256i octets = _mm256_and_si256(load_two(last), load_two(mask + kTwoBlocks));
  sum = _mm256_xor_si256(sum, carry_two(octets, load_two(factors + 2)));
  if (4 * plan.rest_words <= kTwoBlocks) return sum;
  octets = _mm256_and_si256(load_two(last - kTwoBlocks), load_two(mask));
  return _mm256_xor_si256(sum, carry_two(octets, load_two(factors)));
}

[[gnu::target("avx2,vpclmulqdq"), gnu::always_inline]] inline __m256i two_of_packet(
    const Plan& plan, const std::byte* p) noexcept {
  const __m256i sum = two_of_whole(plan, p);
  return plan.rest_words == 0 ? sum : add_rest(sum, plan, p);
}

/// reduce() of two sums at once, without the complement; the results are words 1 and 5.
[[gnu::target("avx2,vpclmulqdq"), gnu::always_inline]] inline __m256i reduce_two(
    __m256i v) noexcept {
  const __m256i low32 = _mm256_set_epi32(0, 0, 0, -1, 0, 0, 0, -1);
  const __m256i fold =
      _mm256_set_epi64x(kTwoFolds.second, kTwoFolds.first, kTwoFolds.second, kTwoFolds.first);
  const __m256i barrett =
      _mm256_set_epi64x(kBarrett.second, kBarrett.first, kBarrett.second, kBarrett.first);

  v = _mm256_xor_si256(_mm256_clmulepi64_epi128(v, fold, 0x00), _mm256_bsrli_epi128(v, 8));
  v = _mm256_xor_si256(_mm256_clmulepi64_epi128(_mm256_and_si256(v, low32), fold, 0x10),
                       _mm256_bsrli_epi128(v, 4));
  __m256i quotient = _mm256_clmulepi64_epi128(_mm256_and_si256(v, low32), barrett, 0x10);
  quotient = _mm256_clmulepi64_epi128(_mm256_and_si256(quotient, low32), barrett, 0x00);
  return _mm256_xor_si256(v, quotient);
}

/// Returns the sum of the blocks of `a`, then that of the blocks of `b`.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i add_blocks(__m256i a,
                                                                      __m256i b) noexcept {
  return _mm256_xor_si256(_mm256_permute2x128_si256(a, b, 0x20),
                          _mm256_permute2x128_si256(a, b, 0x31));
}

}  // namespace

[[gnu::target("avx2,vpclmulqdq,pclmul")]] std::uint32_t icrc_avx2(
    std::span<const std::byte> packet) noexcept {
  const __m256i sum = two_of_packet(plan_of(packet.size()), packet.data());
  return ~reduce(_mm_xor_si128(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)));
}

[[gnu::target("avx2,vpclmulqdq,pclmul")]] void icrc_run_avx2(const Covered* packets, std::size_t n,
                                                             std::uint32_t* out) noexcept {
  const Plan plan = plan_of(packets[0].size);
  for (std::size_t i = 0; i < n; i += 4, packets += 4) {
    __m256i sums[4];
    for (std::size_t k = 0; k < 4; ++k) sums[k] = two_of_packet(plan, packets[k].octets);
    const __m256i even = reduce_two(add_blocks(sums[0], sums[2]));
    const __m256i odd = reduce_two(add_blocks(sums[1], sums[3]));
    // Words 2 and 3 of the halves: packets 0 and 1, and packets 2 and 3.
    const __m256i words = _mm256_unpacklo_epi32(even, odd);
    const __m128i all =
        _mm_unpackhi_epi64(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm_xor_si128(all, _mm_set1_epi32(-1)));
  }
}

}  // namespace ipoib::wire::x86
