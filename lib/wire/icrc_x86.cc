// SPDX-License-Identifier: BSD-3-Clause
// icrc() by carry-less multiplication. A general CRC-32 is slow here, because the masked head must
// be copied or patched before it is read, and packets are short. Instead, every 16-octet block is
// loaded, masked in its register and multiplied by x^n for its distance n from the end of the
// packet, independently of other blocks, and one reduction follows. A CPU with AVX-512 and
// VPCLMULQDQ multiplies four blocks at once, 256 octets at a time while more than 512 are left, and
// four packets of equal size share one reduction.
//
// Bits are reflected throughout: bit k of a 128-bit register is the coefficient of x^(127-k).
#include <immintrin.h>

#include <array>
#include <bit>

#include "lib/wire/iba.h"
#include "lib/wire/icrc.h"

namespace ipoib::wire {
namespace {

constexpr std::size_t kBlock = 16;
constexpr std::size_t kStride = 4 * kBlock;        ///< Octets per iteration of the main loop.
constexpr std::size_t kFold = 4 * kStride;         ///< Octets per iteration of the wide loop.
constexpr std::size_t kFarthestWords = kFold / 4;  ///< Largest distance of one carry, in words.
constexpr std::size_t kReach = 32;  ///< Last blocks, each carried over its distance in one step.

/// x^32 times a reflected polynomial, mod the CRC's polynomial.
constexpr std::uint32_t next_word(std::uint32_t r) {
  for (int bit = 0; bit < 32; ++bit) r = (r >> 1) ^ ((r & 1) != 0 ? 0xedb8'8320U : 0U);
  return r;
}

/// [n]: x^(32 n) mod the CRC's polynomial, reflected, as a factor for _mm_clmulepi64_si128. The
/// shift corrects the product of two reflected numbers, which is off by one bit.
constexpr auto kPowers = [] {
  std::array<std::uint64_t, kReach * kBlock / 4 + 1> powers{};
  std::uint32_t r = 0x8000'0000U;
  for (std::uint64_t& power : powers) {
    power = std::uint64_t{r} << 1;
    r = next_word(r);
  }
  return powers;
}();

/// x^-32 mod the CRC's polynomial, in the form of kPowers.
constexpr std::uint64_t kInverseWord = [] {
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
constexpr auto kFactors = [] {
  std::array<Factors, kFarthestWords + 1> factors{};
  for (std::size_t words = 1; words < factors.size(); ++words) factors[words] = factors_over(words);
  return factors;
}();

struct alignas(kBlock) Mask {
  std::array<std::uint8_t, kBlock> octets{};
};

/// Bits that the ICRC counts as ones, in blocks 0 to 3 of a packet without and with GRH.
/// Without: VL; BTH octet 4. With: the LRH; TClass, FlowLabel, HopLmt; BTH octet 4.
constexpr std::array<std::array<Mask, 4>, 2> kOnes = {
    {{{{{0xf0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff}}, {}, {}, {}}},
     {{{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0, 0, 0, 0xff}},
       {},
       {},
       {{0, 0, 0, 0, 0xff}}}}}};
static_assert(sizeof(Lrh) + offsetof(Bth, resv8a) == 12);
static_assert(sizeof(Lrh) + sizeof(Grh) + offsetof(Bth, resv8a) == 3 * kBlock + 4);

bool is_global(const std::byte* packet) noexcept {
  return (std::to_integer<unsigned>(packet[1]) & 3) == static_cast<unsigned>(Lnh::kGlobal);
}

/// Masks that keep the last 0, 4, 8 or 12 octets of the last 16.
constexpr std::array<Mask, 4> kTail = {
    {{},
     {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}},
     {{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
     {{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}}};

[[gnu::target("sse4.1,pclmul")]] inline __m128i load(const std::byte* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
[[gnu::target("sse4.1,pclmul")]] inline __m128i load(const Mask& mask) {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(mask.octets.data()));
}
[[gnu::target("sse4.1,pclmul")]] inline __m128i factors(std::size_t words) {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(&kFactors[words]));
}
[[gnu::target("sse4.1,pclmul")]] inline __m128i carry(__m128i block, __m128i factors) {
  return _mm_xor_si128(_mm_clmulepi64_si128(block, factors, 0x00),
                       _mm_clmulepi64_si128(block, factors, 0x11));
}

/// Multipliers of reduce().
struct Multipliers {
  long long first;
  long long second;
};
constexpr Multipliers kTwoFolds = {static_cast<long long>(kPowers[3]),
                                   static_cast<long long>(kPowers[2])};
/// The polynomial and the quotient x^64 / polynomial, both with their 33rd bit.
constexpr Multipliers kBarrett = {0x1'db71'0641, 0x1'f701'1641};

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

/// Adds the blocks from `p`, which is `words` words before `last`, to `sum`, and `last` itself if
/// it is one of these blocks. Returns the ICRC.
[[gnu::target("sse4.1,pclmul")]] inline std::uint32_t finish(__m128i sum, const std::byte* p,
                                                             const std::byte* last,
                                                             std::size_t words) {
  for (; p < last; p += kBlock, words -= kBlock / 4)
    sum = _mm_xor_si128(sum, carry(load(p), factors(words)));
  if (p == last) sum = _mm_xor_si128(sum, load(last));
  return ~reduce(sum);
}

const bool has_clmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
const bool has_wide = has_clmul && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("vpclmulqdq");

/// Factors over a distance that may be 0. A product of halves is off by x^32, so at distance 0 the
/// factor of the second half is x^-32.
constexpr Factors factors_over_any(std::size_t words) {
  return words == 0 ? Factors{kPowers[1], kInverseWord} : factors_over(words);
}

/// [r][n]: factors of block n of the last kReach blocks, with r more words behind the last block.
constexpr auto kShortFactors = [] {
  std::array<std::array<Factors, kReach>, 4> table{};
  for (std::size_t rest = 0; rest < table.size(); ++rest)
    for (std::size_t i = 0; i < kReach; ++i)
      table[rest][i] = factors_over_any((kReach - 1 - i) * kBlock / 4 + rest);
  return table;
}();

/// Mask for a packet's first stride. kHeadOnes: bits that the ICRC counts as ones (kOnes), by LNH.
/// kHeadPreset: preset of the CRC.
struct alignas(kStride) Head {
  std::array<std::uint8_t, kStride> octets{};
};
constexpr auto kHeadOnes = [] {
  std::array<Head, 4> ones{};
  for (std::size_t lnh = 0; lnh < ones.size(); ++lnh)
    for (std::size_t i = 0; i < kStride; ++i)
      ones[lnh].octets[i] =
          kOnes[lnh == static_cast<std::size_t>(Lnh::kGlobal)][i / kBlock].octets[i % kBlock];
  return ones;
}();
constexpr Head kHeadPreset = {{0xff, 0xff, 0xff, 0xff}};

[[gnu::target("avx512f,vpclmulqdq")]] inline __m512i carry_each(__m512i blocks,
                                                                const Factors* factors) {
  const __m512i f = _mm512_loadu_si512(factors);
  return _mm512_xor_si512(_mm512_clmulepi64_epi128(blocks, f, 0x00),
                          _mm512_clmulepi64_epi128(blocks, f, 0x11));
}

// The code below uses zero-masking intrinsics with full masks, because g++ 12 warns about an
// uninitialized, unused operand inside the plain ones.

/// Order in which packets of one size are read: 256 octets at a time until at most kReach blocks
/// are left, then whole strides, then the last stride without the octets that are already read. (A
/// load of only the rest with an octet mask costs more.)
struct Plan {
  std::size_t size;
  std::size_t folds;       ///< Number of times that 256 octets are carried onto the next 256.
  std::size_t whole;       ///< Octets of whole strides behind the first remaining stride.
  __mmask16 rest;          ///< Words of the last stride that are in no whole stride.
  __mmask16 rests;         ///< `rest` of two packets' last half strides; 0: no rest, or longer.
  const Factors* factors;  ///< Factors of the first remaining block.
};

/// True for a multiple of 4 from one stride up to a bound that no packet reaches.
bool has_plan(std::size_t size) noexcept {
  // After the rotation by two bits, a size that is no multiple of 4, or too small, is huge.
  return std::rotr(size - kStride, 2) <= 1U << 20;
}

/// Shape: has_plan(size).
Plan plan_of(std::size_t size) noexcept {
  constexpr std::size_t kMaxLeft = kReach * kBlock;
  const std::size_t folds = size > kMaxLeft ? (size - kMaxLeft + kFold - 1) / kFold : 0;
  const std::size_t left = size - folds * kFold;
  const std::size_t rest = size / 4 % 16;
  const std::uint32_t half = rest <= 8 ? 0xff00U >> rest & 0xff : 0;
  return {.size = size,
          .folds = folds,
          .whole = (left - kStride) / kStride * kStride,
          .rest = static_cast<__mmask16>(0xffff'0000U >> rest),
          .rests = static_cast<__mmask16>(half << 8 | half),
          .factors = &kShortFactors[size / 4 % 4][kReach - left / kBlock]};
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

/// Shape: has_plan(packet.size()).
[[gnu::target("avx512f,avx512bw,avx512vl,vpclmulqdq,pclmul")]] std::uint32_t icrc_wide(
    std::span<const std::byte> packet) noexcept {
  const Plan plan = plan_of(packet.size());
  __m512i sum = sum_of_whole(plan, packet.data());
  if (plan.rest != 0) sum = _mm512_xor_si512(sum, sum_of_rest(plan, packet.data()));
  const __m256i low = _mm512_maskz_extracti64x4_epi64(0xff, sum, 0);
  const __m256i half = _mm256_xor_si256(low, _mm512_maskz_extracti64x4_epi64(0xff, sum, 1));
  return ~reduce(_mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
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

/// Shape: size a multiple of 4, at least 20 (no GRH) or 64 (GRH).
[[gnu::target("sse4.1,pclmul")]] std::uint32_t icrc_clmul(std::span<const std::byte> packet) {
  const std::byte* p = packet.data();
  const bool global = is_global(p);
  const auto& ones = kOnes[global];
  const std::byte* const last = p + packet.size() - kBlock;
  std::size_t words = (packet.size() - kBlock) / 4;  // from block 0 to the last 16 octets

  // Octets that fill no block are loaded as the end of the last 16, with zeros before them.
  __m128i sum = _mm_and_si128(load(last), load(kTail[packet.size() / 4 % 4]));
  const __m128i preset = _mm_set_epi32(0, 0, 0, -1);
  __m128i b0 = _mm_xor_si128(_mm_or_si128(load(p), load(ones[0])), preset);

  if (packet.size() <= kStride) {
    sum = _mm_xor_si128(sum, carry(b0, factors(words)));
    if (!global) return finish(sum, p + kBlock, last, words - kBlock / 4);
    sum = _mm_xor_si128(sum, carry(load(p + kBlock), factors(words - 4)));
    sum = _mm_xor_si128(sum, carry(load(p + 2 * kBlock), factors(words - 8)));
    return ~reduce(_mm_xor_si128(sum, _mm_or_si128(load(p + 3 * kBlock), load(ones[3]))));
  }

  __m128i b1 = load(p + kBlock);
  __m128i b2 = load(p + 2 * kBlock);
  __m128i b3 = _mm_or_si128(load(p + 3 * kBlock), load(ones[3]));
  for (; words > kFarthestWords; words -= kStride / 4) {
    const __m128i stride = factors(kStride / 4);
    p += kStride;
    b0 = _mm_xor_si128(carry(b0, stride), load(p));
    b1 = _mm_xor_si128(carry(b1, stride), load(p + kBlock));
    b2 = _mm_xor_si128(carry(b2, stride), load(p + 2 * kBlock));
    b3 = _mm_xor_si128(carry(b3, stride), load(p + 3 * kBlock));
  }
  const __m128i b01 = _mm_xor_si128(carry(b0, factors(words)), carry(b1, factors(words - 4)));
  const __m128i b23 = _mm_xor_si128(carry(b2, factors(words - 8)), carry(b3, factors(words - 12)));
  sum = _mm_xor_si128(sum, _mm_xor_si128(b01, b23));
  return finish(sum, p + kStride, last, words - kStride / 4);
}

/// Adds blocks 2 and 3 of each of two sums to its blocks 0 and 1; the result has `a` first.
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512i add_halves(__m512i a,
                                                                         __m512i b) noexcept {
  return _mm512_xor_si512(_mm512_maskz_shuffle_i64x2(0xff, a, b, 0x44),
                          _mm512_maskz_shuffle_i64x2(0xff, a, b, 0xee));
}

/// Writes icrc() of four packets to the four 32-bit words of `out`. False: the packets differ in
/// size, or their size has no plan. `plan` is a plan for any size, and is replaced if necessary.
[[gnu::target("avx512f,avx512bw,vpclmulqdq"), gnu::always_inline]] inline bool icrc_of_four(
    const Covered* packets, Plan& plan, __m128i& out) noexcept {
  if (const std::size_t size = packets[0].size; size != plan.size) {
    if (!has_plan(size)) return false;
    plan = plan_of(size);
  }
  __m512i sums[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const auto [octets, size] = packets[i];
    if (size != plan.size) return false;
    sums[i] = sum_of_whole(plan, octets);
  }
  if (plan.rest != 0 && plan.rests == 0)
    for (std::size_t i = 0; i < 4; ++i)
      sums[i] = _mm512_xor_si512(sums[i], sum_of_rest(plan, packets[i].octets));
  __m512i low = add_halves(sums[0], sums[1]);
  __m512i high = add_halves(sums[2], sums[3]);
  if (plan.rests != 0) {
    low = _mm512_xor_si512(low, sums_of_rests(plan, packets[0].octets, packets[1].octets));
    high = _mm512_xor_si512(high, sums_of_rests(plan, packets[2].octets, packets[3].octets));
  }
  const __m512i sum = _mm512_xor_si512(_mm512_maskz_shuffle_i64x2(0xff, low, high, 0x88),
                                       _mm512_maskz_shuffle_i64x2(0xff, low, high, 0xdd));
  out = reduce_four(sum);
  return true;
}

[[gnu::target("avx512f,avx512bw,avx512vl,vpclmulqdq,pclmul")]] void icrc_burst_wide(
    std::span<const Covered> packets, std::span<std::uint32_t> out) noexcept {
  Plan plan = plan_of(kStride);
  std::size_t i = 0;
  for (__m128i four; i + 4 <= packets.size(); i += 4) {
    if (icrc_of_four(&packets[i], plan, four)) [[likely]]
      _mm_storeu_si128(reinterpret_cast<__m128i*>(&out[i]), four);
    else
      for (std::size_t k = i; k < i + 4; ++k) out[k] = icrc(packets[k].span());
  }
  for (; i < packets.size(); ++i) out[i] = icrc(packets[i].span());
}

}  // namespace

std::uint32_t icrc(std::span<const std::byte> packet) noexcept {
  if (has_wide && has_plan(packet.size())) return icrc_wide(packet);
  // A packet with GRH of less than 64 octets has no payload; no device sends such packets.
  const bool global = is_global(packet.data());
  const bool regular = packet.size() % 4 == 0 && (!global || packet.size() >= kStride);
  if (!has_clmul || !regular) [[unlikely]]
    return icrc_portable(packet);
  return icrc_clmul(packet);
}

void icrc_burst(std::span<const Covered> packets, std::span<std::uint32_t> out) noexcept {
  if (has_wide) return icrc_burst_wide(packets, out);
  for (std::size_t i = 0; i < packets.size(); ++i) out[i] = icrc(packets[i].span());
}

}  // namespace ipoib::wire
