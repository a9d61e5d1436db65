// icrc() by carry-less multiplication. A general CRC-32 is slow here: the masked head has to be
// copied or patched before it can be read, and packets are short. So every 16-octet block is
// loaded, masked in its register and multiplied by x^n for its distance n from the end of the
// packet, all blocks independently, and one reduction follows. Long packets go 256 octets at a time
// where the CPU multiplies four blocks at once.
//
// Bits are reflected throughout: bit k of a 128-bit register is the coefficient of x^(127-k).
#include <immintrin.h>

#include <array>

#include "lib/wire/iba.h"
#include "lib/wire/icrc.h"

namespace ipoib::wire {
namespace {

constexpr std::size_t kBlock = 16;
constexpr std::size_t kStride = 4 * kBlock;              ///< Octets the main loop takes at a time.
constexpr std::size_t kWideStride = 4 * kStride;         ///< Octets the wide loop takes at a time.
constexpr std::size_t kFarthestWords = kWideStride / 4;  ///< A block is carried over at a time.
constexpr std::size_t kWorthWideWords = 2 * kFarthestWords;

/// x^32 times a reflected polynomial, mod the CRC's.
constexpr std::uint32_t next_word(std::uint32_t r) {
  for (int bit = 0; bit < 32; ++bit) r = (r >> 1) ^ ((r & 1) != 0 ? 0xedb8'8320U : 0U);
  return r;
}

/// [n]: x^(32 n) mod the CRC's polynomial, reflected, as a factor for _mm_clmulepi64_si128: the
/// shift makes good the bit that the product of two reflected numbers is off by.
constexpr auto kPowers = [] {
  std::array<std::uint64_t, kFarthestWords + 2> powers{};
  std::uint32_t r = 0x8000'0000U;
  for (std::uint64_t& power : powers) {
    power = std::uint64_t{r} << 1;
    r = next_word(r);
  }
  return powers;
}();

/// Factors that carry the two halves of a block over a distance.
struct alignas(kBlock) Factors {
  std::uint64_t first;
  std::uint64_t second;
};

/// By distance in 4-octet words; the entry of distance 0 is never used.
constexpr auto kFactors = [] {
  std::array<Factors, kFarthestWords + 1> factors{};
  for (std::size_t words = 1; words < factors.size(); ++words)
    factors[words] = {kPowers[words + 1], kPowers[words - 1]};
  return factors;
}();

struct alignas(kBlock) Mask {
  std::array<std::uint8_t, kBlock> octets{};
};

/// Bits that the ICRC takes as ones, in blocks 0 to 3 of a packet without and with GRH.
/// Without: VL; BTH octet 4. With: the LRH; TClass, FlowLabel, HopLmt; BTH octet 4.
constexpr std::array<std::array<Mask, 4>, 2> kOnes = {
    {{{{{0xf0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff}}, {}, {}, {}}},
     {{{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0, 0, 0, 0xff}},
       {},
       {},
       {{0, 0, 0, 0, 0xff}}}}}};
static_assert(sizeof(Lrh) + offsetof(Bth, resv8a) == 12);
static_assert(sizeof(Lrh) + sizeof(Grh) + offsetof(Bth, resv8a) == 3 * kBlock + 4);

/// Keeps the last 0, 4, 8 or 12 octets of the last 16.
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

/// The remainder of the 128 bits times x^32: folded to 96 and to 64 bits, then Barrett's method.
[[gnu::target("sse4.1,pclmul")]] inline std::uint32_t reduce(__m128i v) {
  const __m128i low32 = _mm_set_epi32(0, 0, 0, -1);
  const __m128i fold =
      _mm_set_epi64x(static_cast<long long>(kPowers[2]), static_cast<long long>(kPowers[3]));
  // The polynomial and the quotient x^64 / polynomial, both with their 33rd bit.
  const __m128i barrett = _mm_set_epi64x(0x1'f701'1641, 0x1'db71'0641);

  v = _mm_xor_si128(_mm_clmulepi64_si128(v, fold, 0x00), _mm_srli_si128(v, 8));
  v = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(v, low32), fold, 0x10),
                    _mm_srli_si128(v, 4));
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(v, low32), barrett, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low32), barrett, 0x00);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(v, quotient), 1));
}

/// Blocks from `p` up to the last one, `words` before it, added to `sum`; and the last one.
[[gnu::target("sse4.1,pclmul")]] inline std::uint32_t finish(__m128i sum, const std::byte* p,
                                                             const std::byte* last,
                                                             std::size_t words) {
  for (; p < last; p += kBlock, words -= kBlock / 4)
    sum = _mm_xor_si128(sum, carry(load(p), factors(words)));
  if (p == last) sum = _mm_xor_si128(sum, load(last));
  return ~reduce(sum);
}

/// By distance in strides: factors for four blocks at once.
constexpr auto kWideFactors = [] {
  struct alignas(4 * kBlock) Wide {
    std::array<Factors, 4> blocks;
  };
  std::array<Wide, kWideStride / kStride + 1> wide{};
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i].blocks.fill(kFactors[i * kStride / 4]);
  return wide;
}();

[[gnu::target("avx512f,vpclmulqdq")]] inline __m512i carry_wide(__m512i blocks,
                                                                std::size_t strides) {
  const __m512i factors = _mm512_load_si512(&kWideFactors[strides]);
  return _mm512_xor_si512(_mm512_clmulepi64_epi128(blocks, factors, 0x00),
                          _mm512_clmulepi64_epi128(blocks, factors, 0x11));
}

bool has_wide() noexcept {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}

/// The same sum of four blocks, as far on as whole strides of 256 octets reach. `words`: from block
/// 0, at `p`, to the last 16 octets.
/// Shape: words >= kFarthestWords; as many are left as carry() of single blocks can do with.
[[gnu::target("avx512f,vpclmulqdq")]] void advance_wide(__m128i (&blocks)[4], const std::byte*& p,
                                                        std::size_t& words) noexcept {
  __m512i v[4] = {_mm512_loadu_si512(&blocks)};
  for (std::size_t i = 1; i < 4; ++i) v[i] = _mm512_loadu_si512(p + i * kStride);
  for (; words >= 2 * kFarthestWords; words -= kFarthestWords) {
    p += kWideStride;
    for (std::size_t i = 0; i < 4; ++i)
      v[i] = _mm512_xor_si512(carry_wide(v[i], 4), _mm512_loadu_si512(p + i * kStride));
  }
  const __m512i v01 = _mm512_xor_si512(carry_wide(v[0], 3), carry_wide(v[1], 2));
  _mm512_storeu_si512(&blocks, _mm512_xor_si512(_mm512_xor_si512(v01, carry_wide(v[2], 1)), v[3]));
  p += 3 * kStride;
  words -= 3 * kStride / 4;
}

/// Shape: size a multiple of 4, at least 20 (no GRH) or 64 (GRH).
[[gnu::target("sse4.1,pclmul")]] std::uint32_t icrc_clmul(std::span<const std::byte> packet) {
  const std::byte* p = packet.data();
  const bool global = (std::to_integer<unsigned>(p[1]) & 3) == static_cast<unsigned>(Lnh::kGlobal);
  const auto& ones = kOnes[global];
  const std::byte* const last = p + packet.size() - kBlock;
  std::size_t words = (packet.size() - kBlock) / 4;  // from block 0 to the last 16 octets

  // Octets that fill no block are the end of the last 16, with zeros before them.
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
  if (words >= kWorthWideWords && has_wide()) {
    __m128i blocks[4] = {b0, b1, b2, b3};
    advance_wide(blocks, p, words);
    b0 = blocks[0], b1 = blocks[1], b2 = blocks[2], b3 = blocks[3];
  }
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

}  // namespace

std::uint32_t icrc(std::span<const std::byte> packet) noexcept {
  const bool capable = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  // Short of 64 octets behind a GRH there is no payload, which nothing sends.
  const bool regular = packet.size() % 4 == 0 &&
                       (packet.size() >= kStride || (std::to_integer<unsigned>(packet[1]) & 3) !=
                                                        static_cast<unsigned>(Lnh::kGlobal));
  if (!capable || !regular) [[unlikely]]
    return icrc_portable(packet);
  return icrc_clmul(packet);
}

}  // namespace ipoib::wire
