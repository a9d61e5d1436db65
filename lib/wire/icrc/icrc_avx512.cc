// SPDX-License-Identifier: BSD-3-Clause
// icrc() with AVX-512 and VPCLMULQDQ: four blocks are multiplied at once, 256 octets at a time
// while more than 512 are left, and four packets of equal size share one reduction.
//
// The code uses zero-masking intrinsics with full masks, because g++ 12 warns about an
// uninitialized, unused operand inside the plain ones.
#include "lib/wire/icrc/icrc_x86.h"

namespace ipoib::wire::x86 {
namespace {

[[gnu::target("avx512f,vpclmulqdq")]] inline __m512i carry_each(__m512i blocks,
                                                                const Factors* factors) {
  const __m512i f = _mm512_loadu_si512(factors);
  return _mm512_xor_si512(_mm512_clmulepi64_epi128(blocks, f, 0x00),
                          _mm512_clmulepi64_epi128(blocks, f, 0x11));
}

/// Returns four blocks whose sum is the sum of the whole strides.
[[gnu::target("avx512f,vpclmulqdq"), gnu::always_inline]] inline __m512i sum_of_whole(
    const Plan& plan, const std::byte* p) noexcept {
  alignas(kStride) static constexpr std::array<Factors, 4> kOverFold = {
      factors_over(kFold / 4), factors_over(kFold / 4), factors_over(kFold / 4),
      factors_over(kFold / 4)};
  constexpr int kOrXor = 0x56;  // (a | b) ^ c
  const auto& ones = kHeadOnes[std::to_integer<std::size_t>(p[1]) & 3];
  const __m512i head = _mm512_ternarylogic_epi64(_mm512_loadu_si512(p), _mm512_load_si512(&ones),
                                                 _mm512_load_si512(&kHeadPreset), kOrXor);
  const Factors* factors = plan.factors;
  const std::byte* end = p + plan.whole;
  __m512i sum;
  if (plan.folds == 0) {
    sum = carry_each(head, factors);
  } else {
    __m512i v[4] = {head};
    for (std::size_t i = 1; i < 4; ++i) v[i] = _mm512_loadu_si512(p + i * kStride);
    for (std::size_t fold = 0; fold < plan.folds; ++fold) {
      p += kFold;
      for (std::size_t i = 0; i < 4; ++i)
        v[i] = _mm512_xor_si512(carry_each(v[i], kOverFold.data()),
                                _mm512_loadu_si512(p + i * kStride));
    }
    end = p + plan.whole;
    sum = carry_each(v[0], factors);
    for (std::size_t i = 1; i < 4; ++i)
      sum = _mm512_xor_si512(sum, carry_each(v[i], factors + 4 * i));
    p += 3 * kStride, factors += 12;  // more than kFold octets are left
  }
  while (p != end) {
    p += kStride, factors += 4;
    sum = _mm512_xor_si512(sum, carry_each(_mm512_loadu_si512(p), factors));
  }
  return sum;
}

/// Returns four blocks whose sum is the sum of the rest.
[[gnu::target("avx512f,vpclmulqdq"), gnu::always_inline]] inline __m512i sum_of_rest(
    const Plan& plan, const std::byte* p) noexcept {
  const __m512i last = _mm512_loadu_si512(p + plan.size - kStride);
  return carry_each(_mm512_maskz_mov_epi32(plan.rest, last), &kShortFactors[0][kReach - 4]);
}

/// Returns two blocks whose sum is the sum of the rest of `p`, then two blocks for `q`.
[[gnu::target("avx512f,vpclmulqdq"), gnu::always_inline]] inline __m512i sums_of_rests(
    const Plan& plan, const std::byte* p, const std::byte* q) noexcept {
  alignas(kStride) static constexpr std::array<Factors, 4> kFactorsOfTwo = {
      factors_over_any(4), factors_over_any(0), factors_over_any(4), factors_over_any(0)};
  const std::size_t last = plan.size - kStride / 2;
  const __m256i of_p = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + last));
  const __m256i of_q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + last));
  const __m512i both = _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(of_p), of_q, 1);
  return carry_each(_mm512_maskz_mov_epi32(plan.rests, both), kFactorsOfTwo.data());
}

/// Complemented reduce() of four sums at once.
[[gnu::target("avx512f,avx512bw,vpclmulqdq"), gnu::always_inline]] inline __m128i reduce_four(
    __m512i v) noexcept {
  const __m512i low32 = _mm512_maskz_set1_epi32(0x1111, -1);
  const __m512i fold =
      _mm512_set4_epi64(kTwoFolds.second, kTwoFolds.first, kTwoFolds.second, kTwoFolds.first);
  const __m512i barrett =
      _mm512_set4_epi64(kBarrett.second, kBarrett.first, kBarrett.second, kBarrett.first);

  v = _mm512_xor_si512(_mm512_clmulepi64_epi128(v, fold, 0x00), _mm512_bsrli_epi128(v, 8));
  v = _mm512_xor_si512(_mm512_clmulepi64_epi128(_mm512_and_si512(v, low32), fold, 0x10),
                       _mm512_bsrli_epi128(v, 4));
  __m512i quotient = _mm512_clmulepi64_epi128(_mm512_and_si512(v, low32), barrett, 0x10);
  quotient = _mm512_clmulepi64_epi128(_mm512_and_si512(quotient, low32), barrett, 0x00);
  constexpr int kXnor = 0xc3;  // ~(a ^ b)
  v = _mm512_ternarylogic_epi64(v, quotient, quotient, kXnor);
  const __m512i second_words = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13, 9, 5, 1);
  v = _mm512_maskz_permutexvar_epi32(0xffff, second_words, v);
  return _mm512_maskz_extracti32x4_epi32(0xf, v, 0);
}

/// Adds blocks 2 and 3 of each of two sums to its blocks 0 and 1; the result has `a` first.
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512i add_halves(__m512i a,
                                                                         __m512i b) noexcept {
  return _mm512_xor_si512(_mm512_maskz_shuffle_i64x2(0xff, a, b, 0x44),
                          _mm512_maskz_shuffle_i64x2(0xff, a, b, 0xee));
}

}  // namespace

[[gnu::target("avx512f,avx512bw,avx512vl,vpclmulqdq,pclmul")]] std::uint32_t icrc_avx512(
    std::span<const std::byte> packet) noexcept {
  const Plan plan = plan_of(packet.size());
  __m512i sum = sum_of_whole(plan, packet.data());
  if (plan.rest != 0) sum = _mm512_xor_si512(sum, sum_of_rest(plan, packet.data()));
  const __m256i low = _mm512_maskz_extracti64x4_epi64(0xff, sum, 0);
  const __m256i half = _mm256_xor_si256(low, _mm512_maskz_extracti64x4_epi64(0xff, sum, 1));
  return ~reduce(_mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}

[[gnu::target("avx512f,avx512bw,avx512vl,vpclmulqdq,pclmul")]] void icrc_run_avx512(
    const Covered* packets, std::size_t n, std::uint32_t* out) noexcept {
  const Plan plan = plan_of(packets[0].size);
  for (std::size_t i = 0; i < n; i += 4, packets += 4) {
    __m512i sums[4];
    for (std::size_t k = 0; k < 4; ++k) sums[k] = sum_of_whole(plan, packets[k].octets);
    if (plan.rest != 0 && plan.rests == 0)
      for (std::size_t k = 0; k < 4; ++k)
        sums[k] = _mm512_xor_si512(sums[k], sum_of_rest(plan, packets[k].octets));
    __m512i low = add_halves(sums[0], sums[1]);
    __m512i high = add_halves(sums[2], sums[3]);
    if (plan.rests != 0) {
      low = _mm512_xor_si512(low, sums_of_rests(plan, packets[0].octets, packets[1].octets));
      high = _mm512_xor_si512(high, sums_of_rests(plan, packets[2].octets, packets[3].octets));
    }
    const __m512i sum = _mm512_xor_si512(_mm512_maskz_shuffle_i64x2(0xff, low, high, 0x88),
                                         _mm512_maskz_shuffle_i64x2(0xff, low, high, 0xdd));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), reduce_four(sum));
  }
}

}  // namespace ipoib::wire::x86
