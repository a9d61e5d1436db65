// SPDX-License-Identifier: BSD-3-Clause
// Whole frames of UD packets, for devices whose wire is an ethdev: the worker writes all headers
// in one step, from values of the neighbour and of the queue pair, and the device only adds the
// ICRCs. All numbers are in memory order, as they are stored.
#pragma once

#include <rte_ether.h>
#include <rte_mbuf.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "lib/base/contract.h"
#include "lib/fabric/segments.h"
#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"

namespace ipoib::fabric {

/// The part of the GRH that the groups of a link for one version of IP share, unless their flow
/// labels, traffic classes or hop limits differ. PayLen and the last ten octets of the MGID, which
/// are those of the IP address (RFC 4391 §4), are zero.
struct GroupGrh {
  std::uint64_t start = 0;  ///< Version, traffic class, flow label, next header, hop limit.
  std::array<std::uint64_t, 2> sgid{};
  std::uint64_t mgid_start = 0;

  friend bool operator==(const GroupGrh&, const GroupGrh&) = default;
};

/// The part of a frame's headers that an address handle determines.
struct FrameHead {
  std::array<std::byte, 6> mac;     ///< Destination address of the Ethernet header.
  std::uint32_t lrh;                ///< First half of the LRH: VL, LVer, SL, LNH, DLID.
  std::uint32_t max_payload;        ///< Largest UD payload, octets.
  std::optional<GroupGrh> group{};  ///< None: the frames have no GRH.
  std::uint16_t mgid_mid = 0;       ///< Octets 6 and 7 of the MGID.
  std::uint64_t mgid_low = 0;       ///< Octets 8 to 15 of the MGID.
};

/// The part that a queue pair determines, valid for one loop of the worker. A change of a key thus
/// changes no FrameHead.
/// Each word has the octets of the frame that it covers, and zeros for those that others determine.
struct FrameKeys {
  std::uint64_t eth_tail = 0;  ///< Source address and EtherType.
  std::uint64_t lrh = 0;       ///< SLID.
  std::array<std::uint64_t, 4>
      bth{};                 ///< First half, by octets of padding; without destination QPN.
  std::uint64_t qkey = 0;    ///< Upper half; the PSN is the lower one.
  std::uint64_t src_qp = 0;  ///< Lower half; the encapsulation header is the upper one.
  /// PSN of the next frame, host order; the writer counts on. Packets of tx_burst get theirs when
  /// they are sent, so in a burst of both kinds PSNs differ, but are not in order. Receivers of UD do
  /// not compare them.
  std::uint32_t* psn = nullptr;
  /// True if frames may go to groups: no other queue pair of the port needs copies of them.
  bool groups = false;

  /// The last word before the IP packet.
  [[nodiscard]] std::uint64_t last_word(std::uint32_t ipoib) const noexcept {
    return src_qp | std::uint64_t{ipoib} << 32;
  }
};

/// Octets before the UD payload: Ethernet, LRH, BTH, DETH.
inline constexpr std::uint32_t kFrameHeadLen =
    RTE_ETHER_HDR_LEN + sizeof(wire::Lrh) + sizeof(wire::Bth) + sizeof(wire::Deth);
/// write_frame() stores whole words: the first of these octets are not part of the frame.
inline constexpr std::uint32_t kNotSent = 2;
/// Octets that it needs before an IP packet.
inline constexpr std::uint32_t kFrameRoom = kFrameHeadLen + sizeof(wire::IpoibHdr) + kNotSent;
/// Octets that it needs after the packet: padding and ICRC are cleared as one word.
inline constexpr std::uint32_t kFrameTailRoom = sizeof(std::uint64_t);
static_assert(kFrameRoom == 48);

/// In place of a GroupGrh: the frame has no GRH.
struct NoGrh {};
/// Octets of a frame's GRH.
template <class Grh>
inline constexpr std::uint32_t kGrhLen =
    std::is_same_v<Grh, GroupGrh> ? std::uint32_t{sizeof(wire::Grh)} : 0;

/// True if the frame can be written around an IP packet in its own mbuf. `len`: m->pkt_len.
template <class Grh>
[[nodiscard, gnu::always_inline]] inline bool has_frame_room(const rte_mbuf* m,
                                                             std::uint32_t len) noexcept {
  return is_sole_mbuf(m) && m->data_off >= kFrameRoom + kGrhLen<Grh> &&
         std::uint32_t{m->buf_len} >= std::uint32_t{m->data_off} + len + kFrameTailRoom;
}

/// A 16-bit number in network order as octets 4 and 5 of a word. It takes one instruction less than
/// to swap 16 bits and to shift them.
[[nodiscard]] constexpr std::uint64_t in_octets_4_and_5(std::uint64_t number) noexcept {
  return __builtin_bswap64(number) >> 16;
}

/// Makes an IP packet a whole frame, with an ICRC of zero. `to` has frame_start() (two octets of any
/// value and FrameHead::mac), lrh, mgid_mid and mgid_low (those of FrameHead), and qpn. An IP packet
/// is so long that the frame needs no Ethernet padding. `grh`: NoGrh, or that of the group. `last`:
/// FrameKeys::last_word(). Shape: has_frame_room<Grh>(m, len); `ip` and `len` are its data and length.
template <class Grh, class To>
[[gnu::always_inline]] inline void write_frame(rte_mbuf* m, std::byte* ip, std::uint32_t len,
                                               const To& to, const FrameKeys& keys, const Grh& grh,
                                               std::uint64_t last, std::uint32_t psn) noexcept {
  expects([&] { return len == m->pkt_len && has_frame_room<Grh>(m, len); },
          "the headers have room around the packet");
  expects(to.qpn >> 24 == 0, "a QPN has 24 bits");
  constexpr std::uint32_t kGrh = kGrhLen<Grh>;
  constexpr std::uint32_t kHead = kFrameRoom - kNotSent + kGrh;
  constexpr std::uint32_t kOwnLen = kHead + std::uint32_t{wire::kIcrcLen};
  static_assert((kOwnLen - RTE_ETHER_HDR_LEN) % 4 == 0);
  const std::uint32_t padded_len = (len + 3) & ~3U;
  const std::uint32_t pad = -len & 3;
  const std::uint32_t frame_len = kOwnLen + padded_len;
  const std::uint32_t iba_len = frame_len - RTE_ETHER_HDR_LEN;
  m->data_off = static_cast<std::uint16_t>(m->data_off - kHead);
  m->data_len = static_cast<std::uint16_t>(frame_len);
  m->pkt_len = frame_len;
  // Words from registers: an array that is copied would be stored in one width and read in another.
  const auto put = [ip](std::size_t before, std::uint64_t word) {
    std::memcpy(ip - before, &word, sizeof(word));
  };
  put(48 + kGrh, to.frame_start());
  put(40 + kGrh, keys.eth_tail);
  put(32 + kGrh, keys.lrh | to.lrh | in_octets_4_and_5(iba_len / 4));
  if constexpr (kGrh != 0) {
    const std::uint32_t pay_len = iba_len - std::uint32_t{sizeof(wire::Lrh)} - kGrh;
    put(64, grh.start | in_octets_4_and_5(pay_len));
    put(56, grh.sgid[0]);
    put(48, grh.sgid[1]);
    put(40, grh.mgid_start | std::uint64_t{to.mgid_mid} << 48);
    put(32, to.mgid_low);
  }
  put(24, keys.bth[pad] | __builtin_bswap64(to.qpn));
  put(16, keys.qkey | __builtin_bswap64(psn & 0xff'ffff) >> 32);
  put(8, last);
  std::memset(ip + len, 0, kFrameTailRoom);
}

/// Octets of the IP packet in a frame of write_frame().
[[nodiscard]] inline std::uint32_t ip_len_of_frame(const rte_mbuf* m) noexcept {
  const auto* const lrh = rte_pktmbuf_mtod_offset(m, const wire::Lrh*, RTE_ETHER_HDR_LEN);
  const std::uint32_t grh = lrh->lnh() == wire::Lnh::kGlobal ? kGrhLen<GroupGrh> : 0;
  const auto* const bth =
      rte_pktmbuf_mtod_offset(m, const wire::Bth*, RTE_ETHER_HDR_LEN + sizeof(wire::Lrh) + grh);
  return m->pkt_len - (kFrameRoom - kNotSent) - grh - bth->pad() - std::uint32_t{wire::kIcrcLen};
}

}  // namespace ipoib::fabric
