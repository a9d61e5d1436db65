// SPDX-License-Identifier: BSD-3-Clause
// icrc() for x86: the kernel of PCLMULQDQ, which every x86 CPU of the last ten years has, and the
// choice among the kernel.
#include "lib/wire/icrc/icrc_x86.h"

namespace ipoib::wire {
namespace x86 {
namespace {

constexpr std::size_t kFarthestWords = kFold / 4;  ///< Largest distance of one carry, in words.
constexpr auto kFactors = [] {
  std::array<Factors, kFarthestWords + 1> factors{};
  for (std::size_t words = 1; words < factors.size(); ++words) factors[words] = factors_over(words);
  return factors;
}();

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

/// Shape: size a multiple of 4, at least 20 (no GRH) or 64 (GRH).
[[gnu::target("sse4.1,pclmul")]] std::uint32_t icrc_clmul(
    std::span<const std::byte> packet) noexcept {
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

bool is_supported(IcrcKernel kernel) noexcept {
  const bool clmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  const bool wide = clmul && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2");
  switch (kernel) {
    case IcrcKernel::kPortable: return true;
    case IcrcKernel::kClmul: return clmul;
    case IcrcKernel::kAvx2: return wide;
    case IcrcKernel::kAvx512:
      return wide && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl");
  }
  return false;
}

/// Functions of an IcrcKernel. If `packet` and `run` are null or a size has no plan, icrc_clmul()
/// or icrc_portable() does the work.
struct Kernel {
  PacketKernel packet = nullptr;
  RunKernel run = nullptr;
  bool clmul = false;
};
constexpr std::array kKernels = {
    Kernel{},
    Kernel{.clmul = true},
    Kernel{.packet = icrc_avx2, .run = icrc_run_avx2, .clmul = true},
    Kernel{.packet = icrc_avx512, .run = icrc_run_avx512, .clmul = true},
};

const Kernel* in_use = &kKernels[static_cast<std::size_t>(fastest_icrc_kernel())];

/// Number of packets from the first on that have its size.
std::size_t equal_from_first(std::span<const Covered> packets) noexcept {
  std::size_t n = 1;
  while (n < packets.size() && packets[n].size == packets[0].size) ++n;
  return n;
}

}  // namespace
}  // namespace x86

IcrcKernel fastest_icrc_kernel() noexcept {
  auto kernel = IcrcKernel::kAvx512;
  while (!x86::is_supported(kernel))
    kernel = static_cast<IcrcKernel>(static_cast<std::uint8_t>(kernel) - 1);
  return kernel;
}

bool select_icrc_kernel(IcrcKernel kernel) noexcept {
  if (!x86::is_supported(kernel)) return false;
  x86::in_use = &x86::kKernels[static_cast<std::size_t>(kernel)];
  return true;
}

std::uint32_t icrc(std::span<const std::byte> packet) noexcept {
  const x86::Kernel& kernel = *x86::in_use;
  if (kernel.packet != nullptr && x86::has_plan(packet.size())) return kernel.packet(packet);
  // A packet with GRH of less than 64 octets has no payload; no device sends such packets.
  const bool global = x86::is_global(packet.data());
  const bool regular = packet.size() % 4 == 0 && (!global || packet.size() >= x86::kStride);
  if (!kernel.clmul || !regular) [[unlikely]]
    return icrc_portable(packet);
  return x86::icrc_clmul(packet);
}

void icrc_burst(std::span<const Covered> packets, std::span<std::uint32_t> out) noexcept {
  expects(out.size() >= packets.size(), "out.size() >= packets.size()");
  const x86::RunKernel run = x86::in_use->run;
  for (std::size_t i = 0; i < packets.size();) {
    const auto rest = packets.subspan(i);
    const std::size_t equal = x86::equal_from_first(rest);
    const std::size_t fours = run != nullptr && x86::has_plan(rest[0].size) ? equal / 4 * 4 : 0;
    if (fours != 0) run(rest.data(), fours, &out[i]);
    for (std::size_t k = fours; k < equal; ++k) out[i + k] = icrc(rest[k].span());
    i += equal;
  }
}

}  // namespace ipoib::wire
