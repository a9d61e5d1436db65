// SPDX-License-Identifier: BSD-3-Clause
// Send side of the software HCA: turns packets of queue pairs into frames, in their own mbufs if
// these have room.
#include <rte_ethdev.h>

#include <algorithm>
#include <cstring>

#include "drivers/soft/ud_datapath.h"
#include "lib/base/contract.h"
#include "lib/fabric/packet_meta.h"
#include "lib/fabric/segments.h"
#include "lib/wire/icrc/icrc.h"

namespace ipoib::soft {

/// Packets of a chunk that need more than rte_eth_tx_burst(): dropped, looped back, copied, or
/// echoed to local queue pairs. In the caller's order. One packet may be listed twice: as kCopy,
/// then as kEcho.
struct TxExceptions {
  enum class Kind : std::uint8_t {
    kDrop,   ///< The packet cannot be sent.
    kLocal,  ///< The frame goes to this port itself.
    kCopy,   ///< The frame on the wire is a copy.
    kEcho,   ///< Besides the frame on the wire, this copy goes to other queues of this port.
  };
  struct Entry {
    std::uint16_t index;  ///< Index in the caller's array.
    Kind kind;
    Drop reason;      ///< kDrop only.
    rte_mbuf* frame;  ///< kDrop: null. kLocal: may be the caller's mbuf.
  };
  std::array<Entry, 2 * std::size_t{UdDatapath::kBurst}> items;
  std::size_t n = 0;

  void add(std::size_t index, Kind kind, rte_mbuf* frame, Drop reason = Drop::kNone) noexcept {
    expects(n < items.size() && (n == 0 || items[n - 1].index <= index),
            "the packets come in the caller's order, each twice at most");
    items[n++] = {static_cast<std::uint16_t>(index), kind, reason, frame};
  }
  /// Returns the entries from `at` on that belong to packet `index`; may be empty.
  [[nodiscard]] std::span<const Entry> of(std::size_t at, std::size_t index) const noexcept {
    std::size_t end = at;
    while (end < n && items[end].index == index) ++end;
    return {items.data() + at, end - at};
  }
};

/// Inputs of a packet's frame: queue pair and address handle.
struct TxPath {
  const fabric::FrameKeys& keys;
  AhKind kind;
  const AhTemplate* ah;
};

namespace {

constexpr std::size_t kTxPrefetchAhead = 4;

/// Octets around a payload.
struct Layout {
  std::uint32_t head_len;  ///< Ethernet through DETH.
  std::uint32_t pad;       ///< IBA padding, before the ICRC.
  std::uint32_t eth_pad;   ///< Ethernet padding, after the ICRC of a very short frame.

  [[nodiscard]] static Layout of(std::uint32_t template_len, std::uint32_t payload_len) noexcept {
    const auto head_len = template_len + static_cast<std::uint32_t>(sizeof(UdWords));
    const std::uint32_t pad = -payload_len & 3;
    const auto frame_len =
        head_len + payload_len + pad + static_cast<std::uint32_t>(wire::kIcrcLen);
    return {head_len, pad, std::max<std::uint32_t>(frame_len, kMinEthFrame) - frame_len};
  }
  /// Octets from LRH through ICRC.
  [[nodiscard]] std::uint32_t iba_len(std::uint32_t payload_len) const noexcept {
    return head_len - static_cast<std::uint32_t>(sizeof(EthHdr)) + payload_len + pad +
           static_cast<std::uint32_t>(wire::kIcrcLen);
  }
  [[nodiscard]] std::uint32_t tail_len() const noexcept {
    return pad + static_cast<std::uint32_t>(wire::kIcrcLen) + eth_pad;
  }
};

/// True if head and tail can be written around the packet in its own mbuf.
bool has_room(const rte_mbuf* m, std::uint32_t head_len, std::uint32_t tail_len) noexcept {
  return fabric::is_sole_mbuf(m) && m->data_off >= head_len &&
         std::uint32_t{m->buf_len} >= std::uint32_t{m->data_off} + m->data_len + tail_len;
}

/// A frame from its LRH on.
struct Iba {
  std::byte* lrh;
  std::size_t covered;  ///< Octets covered by the ICRC, which follows.

  /// A frame without Ethernet padding.
  [[nodiscard]] static Iba of_unpadded(rte_mbuf* frame) noexcept {
    return {rte_pktmbuf_mtod_offset(frame, std::byte*, sizeof(EthHdr)),
            frame->pkt_len - sizeof(EthHdr) - wire::kIcrcLen};
  }
  [[nodiscard]] static Iba of(rte_mbuf* frame) noexcept {
    auto* lrh = rte_pktmbuf_mtod_offset(frame, std::byte*, sizeof(EthHdr));
    return {lrh, reinterpret_cast<const wire::Lrh*>(lrh)->packet_len() - wire::kIcrcLen};
  }
};

/// Writes BTH and DETH.
void write_ud(std::byte* at, const fabric::FrameKeys& keys, std::uint32_t pad, std::uint32_t qpn,
              std::uint32_t psn) noexcept {
  const std::array<std::uint64_t, 3> words = {
      keys.bth[pad] | std::uint64_t{__builtin_bswap32(qpn & 0xff'ffff)} << 32,
      keys.qkey | __builtin_bswap32(psn & 0xff'ffff), keys.src_qp};
  std::memcpy(at, words.data(), sizeof(UdWords));
}

/// Writes the lengths into a copied template. `iba_len`: octets from LRH through ICRC.
void set_lengths(std::byte* frame, std::size_t template_len, std::uint32_t iba_len) noexcept {
  if (template_len == kGlobalHeadLen)
    reinterpret_cast<wire::Grh*>(frame + kLocalHeadLen)
        ->pay_len.set(static_cast<std::uint16_t>(iba_len - sizeof(wire::Lrh) - sizeof(wire::Grh)));
  reinterpret_cast<wire::Lrh*>(frame + sizeof(EthHdr))
      ->resv_pktlen.set(static_cast<std::uint16_t>(iba_len / 4));
}

/// Extends the packet to its whole frame.
void widen(rte_mbuf* m, std::uint32_t head_len, std::uint32_t tail_len) noexcept {
  m->data_off = static_cast<std::uint16_t>(m->data_off - head_len);
  m->pkt_len += head_len + tail_len;
  m->data_len = static_cast<std::uint16_t>(m->pkt_len);
}

/// Writes head and tail around the packet, except the ICRC. Shape: has_room() for both.
void make_frame(rte_mbuf* m, const AhTemplate& ah, const Layout& layout,
                const fabric::FrameKeys& keys, std::uint32_t qpn, std::uint32_t psn) noexcept {
  expects([&] { return has_room(m, layout.head_len, layout.tail_len()); },
          "head and tail have room around the packet");
  const std::uint32_t payload_len = m->pkt_len;
  const std::uint32_t template_len = layout.head_len - std::uint32_t{sizeof(UdWords)};
  std::byte* payload = rte_pktmbuf_mtod(m, std::byte*);
  std::byte* frame = payload - layout.head_len;

  std::memcpy(frame, ah.head.data(), template_len);
  set_lengths(frame, template_len, layout.iba_len(payload_len));
  write_ud(frame + template_len, keys, layout.pad, qpn, psn);
  std::memset(payload + payload_len, 0, layout.tail_len());
  widen(m, layout.head_len, layout.tail_len());
}

/// The eight octets of a template from `at` on.
std::uint64_t word_of(const AhTemplate& ah, std::size_t at) noexcept {
  std::uint64_t word;
  std::memcpy(&word, ah.head.data() + at, sizeof(word));
  return word;
}

/// The destination of fabric::write_frame(), by an address handle.
struct ByHandle {
  std::uint64_t start;
  std::uint32_t lrh;
  std::uint32_t qpn;
  std::uint16_t mgid_mid;
  std::uint64_t mgid_low;

  ByHandle(const AhTemplate& ah, std::uint32_t to_qpn) noexcept
      : start{word_of(ah, 0) << 8 * fabric::kNotSent},
        lrh{static_cast<std::uint32_t>(word_of(ah, sizeof(EthHdr)))},
        qpn{to_qpn & 0xff'ffff},
        mgid_mid{static_cast<std::uint16_t>(word_of(ah, kGlobalHeadLen - 16) >> 48)},
        mgid_low{word_of(ah, kGlobalHeadLen - sizeof(mgid_low))} {}
  [[nodiscard]] std::uint64_t frame_start() const noexcept { return start; }
};

fabric::GroupGrh grh_of(const AhTemplate& ah) noexcept {
  static_assert(sizeof(fabric::GroupGrh) + sizeof(ByHandle::mgid_low) == sizeof(wire::Grh));
  fabric::GroupGrh grh;
  std::memcpy(&grh, ah.head.data() + kLocalHeadLen, sizeof(grh));
  grh.mgid_start &= ~(std::uint64_t{0xffff} << 48);  // those of ByHandle::mgid_mid
  return grh;
}

/// True if write_plain() can make the packet a frame: its handle has the kind of a `Grh`, and the
/// frame needs no copy and no Ethernet padding.
template <class Grh>
[[gnu::always_inline]] inline bool is_plain(const rte_mbuf* m, AhKind kind,
                                            std::uint32_t mtu) noexcept {
  constexpr std::uint32_t kOwnLen = fabric::kFrameHeadLen + std::uint32_t{wire::kIcrcLen};
  constexpr std::uint32_t kMinPayload = std::uint32_t{kMinEthFrame} - kOwnLen;
  static_assert(kMinPayload >= sizeof(wire::IpoibHdr));
  expects(mtu >= kMinPayload, "the MTU is one of InfiniBand's");
  const bool plain =
      std::is_same_v<Grh, fabric::NoGrh> ? kind.allows_fast_path() : kind.is_plain_group();
  return plain && m->pkt_len - kMinPayload <= mtu - kMinPayload &&
         has_room(m, fabric::kFrameRoom + fabric::kGrhLen<Grh> - sizeof(wire::IpoibHdr),
                  fabric::kFrameTailRoom);
}

/// make_frame() for a packet that is_plain(). Its first four octets, which are those of an IPoIB
/// header, are in the last word of the headers.
template <class Grh>
[[gnu::always_inline]] inline void write_plain(rte_mbuf* m, const ByHandle& to,
                                               const fabric::FrameKeys& keys, const Grh& grh,
                                               std::uint32_t psn) noexcept {
  auto* const payload = rte_pktmbuf_mtod(m, std::byte*);
  std::uint32_t first;
  constexpr std::uint32_t kFirst = sizeof(first);
  std::memcpy(&first, payload, kFirst);
  m->data_off = static_cast<std::uint16_t>(m->data_off + kFirst);
  m->pkt_len -= kFirst;
  m->data_len = static_cast<std::uint16_t>(m->pkt_len);
  fabric::write_frame(m, payload + kFirst, m->pkt_len, to, keys, grh, keys.last_word(first), psn);
}

/// Frames without their ICRCs. The ICRCs are computed for the whole burst: directly after
/// make_frame(), their wide loads would wait for the narrow stores of the headers, 15 ns per
/// packet; a burst later they do not.
struct Unsealed {
  std::array<wire::Covered, UdDatapath::kBurst> covered;
  std::array<std::byte*, UdDatapath::kBurst> icrcs;  ///< Places of the ICRCs.

  void set(std::size_t i, const Iba& frame) noexcept {
    covered[i] = {frame.lrh, frame.covered};
    icrcs[i] = frame.lrh + frame.covered;
  }
  void seal(std::size_t n) const noexcept {
    std::array<std::uint32_t, UdDatapath::kBurst> values;
    wire::icrc_burst({covered.data(), n}, values);
    for (std::size_t i = 0; i < n; ++i)  // least significant octet first
      std::memcpy(icrcs[i], &values[i], wire::kIcrcLen);
  }
};

void seal(rte_mbuf* frame) noexcept {
  Unsealed one;
  one.set(0, Iba::of(frame));
  one.seal(1);
}

/// Refunds a packet that was charged to its path's rate but not sent.
void give_back_rate(const AhTable& ahs, unsigned worker, rte_mbuf& m) noexcept {
  const fabric::AhIndex index = fabric::meta_of(&m).tx.ah;
  const AhTemplate* ah = nullptr;
  const AhKind kind = ahs.view().find(index, ah);
  if (kind.head_len == 0 || (kind.route & AhKind::kLimited) == 0) return;
  ahs.bucket(index, worker).give_back(Layout::of(kind.head_len, m.pkt_len).iba_len(m.pkt_len));
}

/// Strips head and tail again.
void restore(rte_mbuf* m) noexcept {
  const auto* lrh = rte_pktmbuf_mtod_offset(m, const wire::Lrh*, sizeof(EthHdr));
  const std::size_t template_len =
      lrh->lnh() == wire::Lnh::kGlobal ? kGlobalHeadLen : kLocalHeadLen;
  const auto* ud = rte_pktmbuf_mtod_offset(m, const UdWords*, template_len);
  const std::size_t head_len = template_len + sizeof(UdWords);
  const std::size_t len =
      sizeof(EthHdr) + lrh->packet_len() - head_len - ud->pad() - wire::kIcrcLen;
  m->data_off = static_cast<std::uint16_t>(m->data_off + head_len);
  m->data_len = static_cast<std::uint16_t>(len);
  m->pkt_len = static_cast<std::uint32_t>(len);
}

}  // namespace

std::uint16_t UdDatapath::tx_burst(SoftUdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
  expects_own_worker();
  std::uint16_t taken = 0;
  while (taken < n) {
    const auto chunk = std::min<std::uint16_t>(static_cast<std::uint16_t>(n - taken), kBurst);
    const std::uint16_t now = tx_chunk(queue, pkts + taken, chunk);
    taken = static_cast<std::uint16_t>(taken + now);
    if (now < chunk) break;
  }
  return taken;
}

bool UdDatapath::frame_keys(SoftUdQueue& queue, fabric::FrameKeys& keys) const noexcept {
  expects_own_worker();
  const std::uint16_t pkey = queue.pkey();
  if (pkey == 0) [[unlikely]]
    return false;
  const std::uint16_t slid = config_.ahs->slid();
  const EthHdr eth{.dst = {}, .src = mac_of_dlid(slid), .ether_type = wire::Be16{kEtherTypeIba}};
  const wire::Lrh lrh{
      .vl_lver = 0, .sl_lnh = 0, .dlid = {}, .resv_pktlen = {}, .slid = wire::Be16{slid}};
  static_assert(sizeof(eth) == offsetof(EthHdr, src) + sizeof(keys.eth_tail));
  std::memcpy(&keys.eth_tail, reinterpret_cast<const std::byte*>(&eth) + offsetof(EthHdr, src),
              sizeof(keys.eth_tail));
  std::memcpy(&keys.lrh, &lrh, sizeof(keys.lrh));
  for (unsigned pad = 0; pad < keys.bth.size(); ++pad)
    keys.bth[pad] = std::bit_cast<std::uint32_t>(UdWords::send_only(wire::Bth::kMigReq, pad, pkey));
  const auto deth = std::bit_cast<std::uint64_t>(
      wire::Deth{wire::Be32{queue.qkey()}, 0, wire::Be24{queue.qpn()}});
  keys.qkey = deth << 32;
  keys.src_qp = deth >> 32;
  keys.psn = &queue.psn();
  keys.groups = !table().has_two_links_in(queue.partition());
  return true;
}

bool UdDatapath::frame_head(fabric::AhIndex ah, fabric::FrameHead& head) const noexcept {
  const AhTemplate* handle = nullptr;
  const AhKind kind = config_.ahs->view().find(ah, handle);
  if (!kind.allows_fast_path() && !kind.is_plain_group()) return false;
  const ByHandle to{*handle, 0};
  head = {.mac = {}, .lrh = to.lrh, .max_payload = config_.mtu};
  std::memcpy(head.mac.data(), handle->head.data(), head.mac.size());
  if (kind.is_plain_group()) {
    head.group = grh_of(*handle);
    head.mgid_mid = to.mgid_mid;
    head.mgid_low = to.mgid_low;
  }
  return true;
}

std::uint16_t UdDatapath::tx_frames(std::span<rte_mbuf*> frames) noexcept {
  expects(frames.size() <= kBurst, "the frames are a burst");
  if (config_.icrc) {
    Unsealed unsealed;
    for (std::size_t i = 0; i < frames.size(); ++i) unsealed.set(i, Iba::of_unpadded(frames[i]));
    unsealed.seal(frames.size());
  }
  return transmit(frames);
}

std::uint16_t UdDatapath::tx_chunk(SoftUdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
  fabric::FrameKeys keys;
  if (!frame_keys(queue, keys)) [[unlikely]]
    return refuse(queue, {pkts, n});
  std::array<rte_mbuf*, kBurst> frames;
  std::size_t nb_frames = 0;
  const AhTable::View ahs = config_.ahs->view();
  std::uint64_t now_tsc = 0;  // read when the first packet with a limit needs it
  TxExceptions exceptions;
  Unsealed unsealed;
  const fabric::MetaOf meta_of;
  for (std::size_t i = 0; i < n; ++i) {
    if (i + kTxPrefetchAhead < n) ahs.prefetch(meta_of(pkts[i + kTxPrefetchAhead]).tx.ah);
    rte_mbuf* m = pkts[i];
    const auto& to = meta_of(m).tx;
    const AhTemplate* ah = nullptr;
    const AhKind kind = ahs.find(to.ah, ah);
    if (is_plain<fabric::NoGrh>(m, kind, config_.mtu)) {
      write_plain(m, ByHandle{*ah, to.qpn}, keys, fabric::NoGrh{}, queue.next_psn());
      unsealed.set(nb_frames, Iba::of_unpadded(m));
      frames[nb_frames++] = m;
    } else if (keys.groups && is_plain<fabric::GroupGrh>(m, kind, config_.mtu)) {
      write_plain(m, ByHandle{*ah, to.qpn}, keys, grh_of(*ah), queue.next_psn());
      unsealed.set(nb_frames, Iba::of_unpadded(m));
      frames[nb_frames++] = m;
    } else if (rte_mbuf* frame =
                   make_frame_slow(queue, {keys, kind, ah}, m, i, now_tsc, exceptions);
               frame != nullptr) {
      unsealed.set(nb_frames, Iba::of(frame));
      frames[nb_frames++] = frame;
    }
  }
  if (config_.icrc) unsealed.seal(nb_frames);
  const std::uint16_t nb_sent =
      nb_frames == 0 ? std::uint16_t{0} : transmit({frames.data(), nb_frames});
  if (nb_sent == n && exceptions.n == 0) [[likely]]
    return n;
  return complete_burst(queue, {pkts, n}, nb_sent, exceptions);
}

/// Returns the frame of packet `index` for the wire, or null; `exceptions` records everything else.
[[gnu::noinline]] rte_mbuf* UdDatapath::make_frame_slow(SoftUdQueue& queue, const TxPath& path,
                                                        rte_mbuf* m, std::size_t index,
                                                        std::uint64_t& now_tsc,
                                                        TxExceptions& exceptions) noexcept {
  using Kind = TxExceptions::Kind;
  const auto dropped = [&](Drop reason) {
    exceptions.add(index, Kind::kDrop, nullptr, reason);
    return nullptr;
  };
  if (path.kind.head_len == 0) return dropped(Drop::kIbTxInvalid);
  if (m->pkt_len > config_.mtu) return dropped(Drop::kIbTxTooLong);
  const auto& to = fabric::meta_of(m).tx;
  const Layout layout = Layout::of(path.kind.head_len, m->pkt_len);
  if ((path.kind.route & AhKind::kLimited) != 0 &&
      !take_rate(to.ah, layout.iba_len(m->pkt_len), now_tsc))
    return dropped(Drop::kIbRateLimited);
  rte_mbuf* frame = m;
  if (!has_room(m, layout.head_len, layout.tail_len())) {
    Drop reason = Drop::kNone;
    frame = copy_with_room(m, layout.head_len, layout.tail_len(), reason);
    if (frame == nullptr) return dropped(reason);
  }
  make_frame(frame, *path.ah, layout, path.keys, to.qpn, queue.next_psn());
  if ((path.kind.route & AhKind::kQkey) != 0)
    rte_pktmbuf_mtod_offset(frame, UdWords*, path.kind.head_len)
        ->qkey.set(config_.ahs->qkey(to.ah));
  if ((path.kind.route & AhKind::kLocal) != 0) {
    if (config_.icrc) seal(frame);
    exceptions.add(index, Kind::kLocal, frame);
    return nullptr;
  }
  if (frame != m) exceptions.add(index, Kind::kCopy, frame);
  if ((path.kind.route & AhKind::kMulticast) != 0)
    if (rte_mbuf* echo = group_copy(queue, frame); echo != nullptr)
      exceptions.add(index, Kind::kEcho, echo);
  return frame;
}

/// Completes a chunk of which the ethdev accepted `nb_sent` frames. Packets before the first
/// rejected frame are dropped, looped back or freed as recorded; that packet and all after it are
/// restored and stay with the caller. Returns the number of packets taken.
std::uint16_t UdDatapath::complete_burst(SoftUdQueue& queue, std::span<rte_mbuf* const> pkts,
                                         std::uint16_t nb_sent,
                                         const TxExceptions& exceptions) noexcept {
  using Kind = TxExceptions::Kind;
  const auto stays_off_wire = [](const TxExceptions::Entry& d) {
    return d.kind == Kind::kDrop || d.kind == Kind::kLocal;
  };
  Batch local, echoes;
  std::size_t i = 0;
  std::size_t at = 0;
  for (std::size_t nb_done = 0; i < pkts.size(); ++i) {
    const auto entries = exceptions.of(at, i);
    if (std::none_of(entries.begin(), entries.end(), stays_off_wire) && nb_done++ == nb_sent) break;
    at += entries.size();
    for (const TxExceptions::Entry& d : entries) {
      rte_mbuf* const frame = d.frame;
      if (d.kind == Kind::kDrop) lose(queue, pkts[i], d.reason);
      if (d.kind == Kind::kCopy) rte_pktmbuf_free(pkts[i]);
      if (d.kind == Kind::kLocal && frame != pkts[i]) rte_pktmbuf_free(pkts[i]);
      if (d.kind == Kind::kLocal) local.push(frame);
      if (d.kind == Kind::kEcho) echoes.push(frame);
    }
  }
  if (local.n != 0) sort(local, table(), Origin::kThisWorker);
  if (echoes.n != 0) sort(echoes, table(), Origin::kThisWorker, &queue);
  for (std::size_t unsent = i; unsent < pkts.size(); ++unsent) {
    const auto entries = exceptions.of(at, unsent);
    at += entries.size();
    bool changed = true;
    for (const TxExceptions::Entry& d : entries) {
      if (d.kind == Kind::kDrop || (d.kind != Kind::kEcho && d.frame != pkts[unsent]))
        changed = false;
      if (d.frame != nullptr && d.frame != pkts[unsent]) rte_pktmbuf_free(d.frame);
    }
    if (changed) restore(pkts[unsent]);
    if (!entries.empty() && entries.front().kind == Kind::kDrop) continue;
    queue.give_back_psn();
    give_back_rate(*config_.ahs, config_.worker, *pkts[unsent]);
  }
  return static_cast<std::uint16_t>(i);
}

/// Takes and drops a burst of a queue pair that may not send now.
std::uint16_t UdDatapath::refuse(SoftUdQueue& queue, std::span<rte_mbuf* const> pkts) noexcept {
  const bool active = table_.load(std::memory_order_acquire)->active();
  for (rte_mbuf* m : pkts) lose(queue, m, active ? Drop::kIbPkey : Drop::kIbPortDown);
  return static_cast<std::uint16_t>(pkts.size());
}

bool UdDatapath::take_rate(fabric::AhIndex ah, std::uint32_t octets,
                           std::uint64_t& now_tsc) noexcept {
  if (now_tsc == 0) now_tsc = config_.tsc();
  return config_.ahs->bucket(ah, config_.worker).take(octets, now_tsc, config_.rate_burst_tsc);
}

/// Null with a reason if there is no mbuf, or if it is smaller than the frame.
rte_mbuf* UdDatapath::copy_with_room(const rte_mbuf* m, std::uint32_t head_len,
                                     std::uint32_t tail_len, Drop& reason) noexcept {
  rte_mbuf* copy = rte_pktmbuf_alloc(config_.pool);
  if (copy == nullptr) {
    reason = Drop::kIbNoBuffer;
    return nullptr;
  }
  if (head_len + m->pkt_len + tail_len > copy->buf_len) {
    rte_pktmbuf_free(copy);
    reason = Drop::kIbTxTooLong;
    return nullptr;
  }
  copy->data_off = static_cast<std::uint16_t>(head_len);
  copy->data_len = static_cast<std::uint16_t>(m->pkt_len);
  copy->pkt_len = m->pkt_len;
  auto* to = rte_pktmbuf_mtod(copy, std::byte*);
  const void* from = rte_pktmbuf_read(m, 0, m->pkt_len, to);
  if (from != to) std::memcpy(to, from, m->pkt_len);
  tx_copies_.add(1);
  return copy;
}

/// Copies a multicast frame if queues of other links of this port need it; null: none does, or there
/// is no mbuf.
rte_mbuf* UdDatapath::group_copy(const SoftUdQueue& sender, const rte_mbuf* frame) noexcept {
  if (!table().has_two_links_in(sender.partition())) return nullptr;
  const auto* lrh = rte_pktmbuf_mtod_offset(frame, const wire::Lrh*, sizeof(EthHdr));
  const auto* grh = rte_pktmbuf_mtod_offset(frame, const wire::Grh*, kLocalHeadLen);
  const auto members = table().groups().members(grh->dgid, lrh->dlid.host());
  if (std::all_of(members.begin(), members.end(),
                  [&](const SoftUdQueue* queue) { return sender.spares(*queue); }))
    return nullptr;
  rte_mbuf* copy = copy_frame(frame);
  if (copy == nullptr)
    drops_.add(Drop::kIbNoBuffer);
  else if (config_.icrc)
    seal(copy);
  return copy;
}

/// Copies a frame into one contiguous mbuf; null: there is none.
rte_mbuf* UdDatapath::copy_frame(const rte_mbuf* frame) noexcept {
  rte_mbuf* copy = rte_pktmbuf_copy(frame, config_.pool, 0, UINT32_MAX);
  if (copy == nullptr || copy->nb_segs == 1) return copy;
  rte_pktmbuf_free(copy);
  return nullptr;
}

std::uint16_t UdDatapath::transmit(std::span<rte_mbuf*> frames) noexcept {
  expects_own_worker();
  if (ethdev_removed()) [[unlikely]]
    return 0;
  const auto n = static_cast<std::uint16_t>(frames.size());
  const CaptureTap* tap = tap_.load(std::memory_order_acquire);
  if (tap == nullptr) [[likely]]
    return rte_eth_tx_burst(config_.port_id, config_.worker, frames.data(), n);

  expects(frames.size() <= kBurst, "the frames are a burst");
  // Copied before the send, because a sent frame belongs to the ethdev.
  std::array<rte_mbuf*, kBurst> copies;
  for (std::size_t i = 0; i < n; ++i)
    copies[i] = copy_for(*tap, frames[i], CaptureDirection::kSent);
  const std::uint16_t nb_sent = rte_eth_tx_burst(config_.port_id, config_.worker, frames.data(), n);
  for (std::size_t i = 0; i < nb_sent; ++i) hand_to(*tap, copies[i]);
  for (std::size_t i = nb_sent; i < n; ++i) rte_pktmbuf_free(copies[i]);
  return nb_sent;
}

rte_mbuf* UdDatapath::copy_for(const CaptureTap& tap, const rte_mbuf* frame,
                               CaptureDirection direction) noexcept {
  bool lost = false;
  rte_mbuf* copy = capture_copy(tap, frame, direction, lost);
  if (lost) capture_lost_.add(1);
  return copy;
}

void UdDatapath::hand_to(const CaptureTap& tap, rte_mbuf* copy) noexcept {
  if (copy == nullptr || rte_ring_enqueue(tap.ring, copy) == 0) return;
  capture_lost_.add(1);
  rte_pktmbuf_free(copy);
}

void UdDatapath::send_mads() noexcept {
  if (nb_mads_ == 0)
    nb_mads_ = static_cast<std::uint16_t>(rte_ring_sc_dequeue_burst(
        config_.mads_out, reinterpret_cast<void**>(mads_.data()), kBurst, nullptr));
  const std::uint16_t nb_sent = transmit({mads_.data(), nb_mads_});
  std::copy(mads_.begin() + nb_sent, mads_.begin() + nb_mads_, mads_.begin());
  nb_mads_ = static_cast<std::uint16_t>(nb_mads_ - nb_sent);
  mad_waits_ = nb_sent == 0 ? mad_waits_ + 1 : 0;
  if (mad_waits_ < kMadPatience) return;
  mad_waits_ = 0;
  drops_.add(Drop::kIbTxFull, nb_mads_);
  rte_pktmbuf_free_bulk(mads_.data(), nb_mads_);
  nb_mads_ = 0;
}

UdDatapath::UdDatapath(UdDatapathConfig config)
    : config_{std::move(config)},
      batches_(config_.rings != nullptr ? config_.rings->workers() : 0) {}

UdDatapath::~UdDatapath() {
  rte_pktmbuf_free_bulk(mads_.data(), nb_mads_);
}

}  // namespace ipoib::soft
