// SPDX-License-Identifier: BSD-3-Clause
// The headers of a UD SEND without GRH, as the fast path of the receive side reads them: from the
// EtherType to the end of the DETH, in two pieces of sixteen octets that overlap. A comparison of
// all fields that a queue pair determines takes six instructions.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE4_1__)
#include <smmintrin.h>
#endif

#include "drivers/soft/soft_frame.h"
#include "lib/base/contract.h"
#include "lib/fabric/packet_meta.h"

namespace ipoib::soft {

/// Sixteen octets.
class Octets16 {
 public:
  static constexpr std::size_t kSize = 16;

  [[nodiscard]] static Octets16 read(const void* octets) noexcept {
    Octets16 piece;
    std::memcpy(&piece.all_, octets, kSize);
    return piece;
  }
  /// From registers: a load of sixteen octets would wait for stores of eight. Both words in memory
  /// order.
  [[nodiscard]] static Octets16 of(std::uint64_t first, std::uint64_t second) noexcept {
    Octets16 piece;
#if defined(__SSE4_1__)
    piece.all_ = _mm_set_epi64x(static_cast<long long>(second), static_cast<long long>(first));
#else
    piece.all_ = {first, second};
#endif
    return piece;
  }
  /// True if no octet differs from `value` where a bit of `mask` is set.
  [[nodiscard]] bool matches(const Octets16& mask, const Octets16& value) const noexcept {
#if defined(__SSE4_1__)
    return _mm_testz_si128(_mm_xor_si128(all_, value.all_), mask.all_) != 0;
#else
    return ((all_[0] ^ value.all_[0]) & mask.all_[0]) == 0 &&
           ((all_[1] ^ value.all_[1]) & mask.all_[1]) == 0;
#endif
  }
#if defined(__SSE4_1__)
  [[nodiscard]] __m128i all() const noexcept {
    return all_;
  }
#endif

 private:
#if defined(__SSE4_1__)
  __m128i all_;
#else
  std::array<std::uint64_t, 2> all_;
#endif
};
static_assert(sizeof(Octets16) == Octets16::kSize);

/// Headers of one frame.
struct UdHeaders {
  static constexpr std::size_t kHeadAt = offsetof(EthHdr, ether_type);
  static constexpr std::size_t kEnd = kLocalHeadLen + sizeof(UdWords);
  static constexpr std::size_t kTailAt = kEnd - Octets16::kSize;
  static_assert(kTailAt < kHeadAt + Octets16::kSize, "no octet between the pieces is missed");

  /// `frame`: kEnd octets or more.
  [[nodiscard]] static UdHeaders of(const std::byte* frame) noexcept {
    return {Octets16::read(frame + kHeadAt), Octets16::read(frame + kTailAt)};
  }
  /// soft::set_arrival() by the two pieces.
  [[gnu::always_inline]] void set_arrival(const std::byte* frame,
                                          fabric::PacketMeta& out) const noexcept;

  Octets16 head;
  Octets16 tail;
};

/// Values of the fields that a queue pair determines: EtherType, LVer, LNH, DLID except its LMC
/// bits, opcode, TVer, P_Key, destination, Q_Key. The bits before the packet's length must be 0.
class UdPattern {
 public:
  /// Matches nothing: the pieces disagree about an octet that both have.
  UdPattern() noexcept
      : head_mask_{head(0, kCommon)},
        head_value_{head(0, 0)},
        tail_mask_{tail(kCommon, {})},
        tail_value_{tail(kCommon, {})} {}
  /// `link` applies from the EtherType on, `transport` from the BTH on. Shape: neither is empty.
  UdPattern(const Pattern& link, const Pattern& transport, wire::Be32 qkey) noexcept
      : head_mask_{head(link.mask() | kReserved, transport.mask())},
        head_value_{head(link.value(), transport.value())},
        tail_mask_{tail(transport.mask(), wire::Be32{0xffff'ffff})},
        tail_value_{tail(transport.value(), qkey)} {
    expects([&] { return !link.is_empty() && !transport.is_empty(); }, "patterns that match");
  }
  [[nodiscard]] bool matches(const UdHeaders& headers) const noexcept {
    return headers.head.matches(head_mask_, head_value_) &&
           headers.tail.matches(tail_mask_, tail_value_);
  }

 private:
  static_assert(std::endian::native == std::endian::little);
  /// The fifth octet of the BTH, which both pieces have.
  static constexpr std::uint64_t kCommon = 0xffULL << 32;
  /// Among the octets from the EtherType on: the bits of the LRH before the packet's length.
  static constexpr std::uint64_t kReserved =
      0xf8ULL << 8 * (sizeof(EthHdr) + offsetof(wire::Lrh, resv_pktlen) - UdHeaders::kHeadAt);

  /// `link`: eight octets from the EtherType on, `transport`: from the BTH on. Memory order.
  static Octets16 head(std::uint64_t link, std::uint64_t transport) noexcept {
    static_assert(UdHeaders::kHeadAt + 8 + 2 == kLocalHeadLen);
    return Octets16::of(link, transport << 16);
  }
  static Octets16 tail(std::uint64_t transport, wire::Be32 qkey) noexcept {
    static_assert(UdHeaders::kTailAt == kLocalHeadLen + 4);
    static_assert(UdHeaders::kTailAt + 8 == kLocalHeadLen + offsetof(UdWords, qkey));
    return Octets16::of(transport >> 32, std::bit_cast<std::uint32_t>(qkey));
  }

  Octets16 head_mask_;
  Octets16 head_value_;
  Octets16 tail_mask_;
  Octets16 tail_value_;
};

/// Fills the metadata of a unicast packet without GRH.
inline void set_arrival(const wire::Lrh& lrh, const UdWords& ud,
                        fabric::PacketMeta::Rx& out) noexcept {
  static_assert(fabric::Transport{} == fabric::Transport::kUd);
  out = {};
  out.src_qpn = ud.src_qp();
  out.slid = lrh.slid.host();
  out.sl = lrh.sl();
}

inline void UdHeaders::set_arrival(const std::byte* frame, fabric::PacketMeta& out) const noexcept {
  const auto& lrh = *reinterpret_cast<const wire::Lrh*>(frame + sizeof(EthHdr));
#if defined(__SSE4_1__)
  using Rx = fabric::PacketMeta::Rx;
  static_assert(offsetof(Rx, src_qpn) == 0 && offsetof(Rx, slid) == 4);
  constexpr char kSlid = sizeof(EthHdr) + offsetof(wire::Lrh, slid) - kHeadAt;
  constexpr char kSrcQp = kEnd - sizeof(wire::Be24) - kTailAt;
  const __m128i slid = _mm_shuffle_epi8(
      head.all(),
      _mm_setr_epi8(-1, -1, -1, -1, kSlid + 1, kSlid, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  const __m128i src_qpn =
      _mm_shuffle_epi8(tail.all(), _mm_setr_epi8(kSrcQp + 2, kSrcQp + 1, kSrcQp, -1, -1, -1, -1, -1,
                                                 -1, -1, -1, -1, -1, -1, -1, -1));
  static_assert(sizeof(out) == Octets16::kSize);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&out), _mm_or_si128(slid, src_qpn));
  static_assert(fabric::Transport{} == fabric::Transport::kUd);
  out.rx.sl = lrh.sl();
#else
  soft::set_arrival(lrh, *reinterpret_cast<const UdWords*>(frame + kLocalHeadLen), out.rx);
#endif
}

}  // namespace ipoib::soft
