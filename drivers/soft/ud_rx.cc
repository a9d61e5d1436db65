// SPDX-License-Identifier: BSD-3-Clause
// Receive side of the software HCA: checks each frame from the cable, in the order of iba-wire.md
// §1.9 and IBA vol 1 §9.6, and sorts it to its queue pair. The worker of the queue pair does this; a
// worker that reads a frame for another one looks for the queue pair, and passes the frame on.
#include <rte_ethdev.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "drivers/soft/connected/connected_port.h"
#include "drivers/soft/ud_headers.h"
#include "lib/base/contract.h"
#include "lib/fabric/packet_meta.h"
#include "lib/fabric/segments.h"
#include "lib/wire/icrc/icrc.h"
#include "lib/wire/mad.h"
#include "lib/wire/smp.h"

namespace ipoib::soft {

/// Members of a group whose keys match a packet: a bit per queue pair, and the index of the last
/// one. Keys may change at any time, so one check of them holds for the whole packet. Words beyond
/// the number of members are not initialized.
struct Takers {
  std::array<std::uint64_t, SoftGroupTable::kMaxMembers / 64> words;
  std::size_t n;
  std::size_t last;
};

/// Results of the checks of one frame.
struct RxFrame {
  std::span<const std::byte> bytes;  ///< From the Ethernet header to the end of padding.
  const wire::Lrh* lrh;
  const wire::Grh* grh;  ///< Null: none.
  const UdWords* ud;
  std::size_t end;         ///< End of the ICRC, from the Ethernet header.
  std::size_t payload_at;  ///< From the Ethernet header.
  std::size_t payload_len;
  SoftUdQueue* queue;                     ///< Unicast, passed multicast; null: QP0, QP1, members.
  std::span<SoftUdQueue* const> members;  ///< Multicast; empty: unicast.
  Takers* takers;                         ///< Takers among `members`; shared by the burst.
};

/// Consecutive packets of the fast path, stripped, whose ICRCs are not verified yet. They lie where
/// their frames were. Frames for other workers may lie between them.
struct UdFastRun {
  /// Consecutive packets for one queue pair.
  struct QpSpan {
    SoftUdQueue* queue;
    std::size_t end;  ///< One after its last packet; it starts at the end of the span before.
  };
  rte_mbuf** pkts = nullptr;
  rte_mbuf** burst = nullptr;  ///< The first frame that came with them.
  /// Octets that the ICRC of each frame of the burst covers. Null: ICRCs are off.
  wire::Covered* covered = nullptr;
  std::size_t n = 0;      ///< Set when the run ends.
  std::size_t holes = 0;  ///< Null places among the packets, of frames for other workers.
  std::size_t nb_spans = 0;
  SoftUdQueue* queue = nullptr;                  ///< Queue pair of the last span.
  std::array<QpSpan, UdDatapath::kBurst> spans;  ///< All spans except the last.

  /// The packets from number `at` on are for another queue pair.
  void turn_to(SoftUdQueue* to, std::size_t at) noexcept {
    if (at != 0 && (nb_spans == 0 || spans[nb_spans - 1].end != at)) {
      expects(nb_spans < spans.size(), "a span has a packet");
      spans[nb_spans++] = {queue, at};
    }
    queue = to;
  }
  /// The frame at `at` does not belong to the run, which goes on behind it.
  void leave_out(rte_mbuf** at) noexcept {
    if (at == pkts) {
      ++pkts;
    } else {
      *at = nullptr;
      ++holes;
    }
  }
  /// Keeps the packets for which `keeps` is true of their number, in order.
  template <class Keeps>
  void keep(Keeps&& keeps) noexcept {
    wire::Covered* const ranges = covered != nullptr ? covered + (pkts - burst) : nullptr;
    std::size_t kept = 0;
    std::size_t next_span = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (next_span < nb_spans && spans[next_span].end == i) spans[next_span++].end = kept;
      if (!keeps(i)) continue;
      if (ranges != nullptr) ranges[kept] = ranges[i];
      pkts[kept++] = pkts[i];
    }
    // A span may end with the run, if the frame behind turned to another queue pair.
    if (next_span < nb_spans) spans[next_span].end = kept;
    n = kept;
  }
};

namespace {

constexpr std::size_t kImmDtLen = 4;
constexpr std::size_t kFastPayloadAt = kLocalHeadLen + sizeof(UdWords);
constexpr auto kUdSendOnly = static_cast<std::uint8_t>(wire::Opcode::kUdSendOnly);
constexpr auto kUdSendOnlyImm = static_cast<std::uint8_t>(wire::Opcode::kUdSendOnlyImm);
/// RC and UC opcodes are below this one.
constexpr std::uint8_t kFirstOtherOpcode = 0x40;

template <class T>
const T* record_at(std::span<const std::byte> bytes, std::size_t offset) noexcept {
  return reinterpret_cast<const T*>(bytes.data() + offset);
}

/// Checks the Ethernet header and the LRH: a complete IBA packet for this port. Sets lrh, ud, end.
inline Drop check_link(const RxTable& table, RxFrame& f) noexcept {
  const std::size_t size = f.bytes.size();
  if (size < sizeof(EthHdr)) return Drop::kIbRunt;
  if (record_at<EthHdr>(f.bytes, 0)->ether_type.host() != kEtherTypeIba) return Drop::kIbNotIba;
  if (size < kLocalHeadLen) return Drop::kIbRunt;
  f.lrh = record_at<wire::Lrh>(f.bytes, sizeof(EthHdr));
  if (f.lrh->lver() != 0) return Drop::kIbVersion;
  f.end = sizeof(EthHdr) + f.lrh->packet_len();
  if (f.end > size || (f.end < size && size > kMinEthFrame)) return Drop::kIbLength;
  if (f.lrh->lnh() < wire::Lnh::kLocal) return Drop::kIbNotIba;
  const std::size_t head_len = f.lrh->lnh() == wire::Lnh::kGlobal ? kGlobalHeadLen : kLocalHeadLen;
  if (f.end < head_len + sizeof(wire::Bth) + wire::kIcrcLen) return Drop::kIbRunt;
  f.ud = record_at<UdWords>(f.bytes, head_len);
  const std::uint16_t dlid = f.lrh->dlid.host();
  const bool ours =
      wire::is_multicast_lid(dlid) ? table.groups().has_mlid(dlid) : table.is_own_lid(dlid);
  return ours ? Drop::kNone : Drop::kIbLid;
}

/// Checks the GRH if there is one or must be one. Sets grh, members.
inline Drop check_network(const RxTable& table, RxFrame& f) noexcept {
  const std::uint16_t dlid = f.lrh->dlid.host();
  const bool multicast = wire::is_multicast_lid(dlid);
  f.grh = nullptr;
  f.members = {};
  if (f.lrh->lnh() != wire::Lnh::kGlobal) return multicast ? Drop::kIbGid : Drop::kNone;

  f.grh = record_at<wire::Grh>(f.bytes, kLocalHeadLen);
  if (f.grh->ip_version() != 6 || f.grh->next_header != wire::Grh::kNextHeaderIba)
    return Drop::kIbVersion;
  if (f.grh->pay_len.host() != f.end - kGlobalHeadLen) return Drop::kIbLength;
  if (!multicast) return table.is_own_gid(f.grh->dgid) ? Drop::kNone : Drop::kIbGid;
  if (!f.grh->dgid.is_multicast()) return Drop::kIbGid;
  f.members = table.groups().members(f.grh->dgid, dlid);
  return f.members.empty() ? Drop::kIbMgid : Drop::kNone;
}

/// Checks the BTH: a queue pair of this port, its transport, and a length that fits. Sets queue,
/// payload.
inline Drop check_transport(const RxTable& table, RxFrame& f) noexcept {
  if (f.ud->tver() != 0) return Drop::kIbVersion;
  const std::uint32_t qpn = f.ud->dest_qp();
  f.queue = table.queue(qpn);
  const bool mad = qpn <= wire::kGsiQpn;
  if (f.members.empty() ? f.queue == nullptr && !mad : qpn != wire::kMulticastQpn)
    return Drop::kIbQpn;
  const std::uint8_t opcode = f.ud->opcode();
  if (opcode != kUdSendOnly && opcode != kUdSendOnlyImm) return Drop::kIbOpcode;

  const auto* bytes = reinterpret_cast<const std::byte*>(f.ud);
  f.payload_at = static_cast<std::size_t>(bytes - f.bytes.data()) + sizeof(UdWords) +
                 (opcode == kUdSendOnlyImm ? kImmDtLen : 0);
  if (f.payload_at + wire::kIcrcLen > f.end) return Drop::kIbRunt;
  const std::size_t padded_len = f.end - f.payload_at - wire::kIcrcLen;
  if (f.ud->pad() > padded_len) return Drop::kIbLength;
  f.payload_len = padded_len - f.ud->pad();
  return (mad ? f.payload_len == wire::kMadLen : f.payload_len <= table.mtu()) ? Drop::kNone
                                                                               : Drop::kIbLength;
}

inline Drop check_queue_keys(const SoftUdQueue& queue, const UdWords& ud) noexcept {
  if (!wire::pkeys_match(queue.pkey(), ud.pkey())) return Drop::kIbPkey;
  return queue.qkey() == ud.qkey.host() ? Drop::kNone : Drop::kIbQkey;
}

/// A multicast packet is good if the keys of at least one queue pair match. Sets takers.
Drop check_group_keys(RxFrame& f, const SoftUdQueue* sender) noexcept {
  const std::size_t n = f.members.size();
  Drop reason = Drop::kIbMgid;
  Takers& takers = *f.takers;
  std::fill_n(takers.words.begin(), (n + 63) / 64, 0);
  takers.n = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (sender != nullptr && sender->spares(*f.members[i])) continue;
    const Drop fault = check_queue_keys(*f.members[i], *f.ud);
    if (fault == Drop::kNone) {
      takers.words[i / 64] |= std::uint64_t{1} << i % 64;
      takers.last = i;
      ++takers.n;
    } else {
      reason = fault;
    }
  }
  return takers.n != 0 ? Drop::kNone : reason;
}

inline Drop check_keys(const RxTable& table, RxFrame& f, const SoftUdQueue* sender) noexcept {
  if (f.queue != nullptr) return check_queue_keys(*f.queue, *f.ud);
  if (!f.members.empty()) return check_group_keys(f, sender);
  // QP0 has no keys, and only VL15 leads to it (IBA vol 1 §9.6.1).
  if (f.ud->dest_qp() == wire::kSmiQpn)
    return f.lrh->vl() == wire::kManagementVl ? Drop::kNone : Drop::kIbQpn;
  if (!table.matches_any_pkey(f.ud->pkey())) return Drop::kIbPkey;
  return f.ud->qkey.host() == wire::kGsiQkey ? Drop::kNone : Drop::kIbQkey;
}

/// Reads the received ICRC. Shape: `packet` without it.
inline std::uint32_t icrc_behind(const wire::Covered& packet) noexcept {
  std::uint32_t sent;  // least significant octet first on the wire
  std::memcpy(&sent, packet.octets + packet.size, sizeof(sent));
  return sent;
}

inline bool icrc_holds(std::span<const std::byte> packet) noexcept {
  const wire::Covered covered{packet.data(), packet.size() - wire::kIcrcLen};
  return wire::icrc(covered.span()) == icrc_behind(covered);
}

/// Checks that all transports share.
inline Drop check_path(const RxTable& table, RxFrame& f) noexcept {
  const Drop reason = check_link(table, f);
  return reason == Drop::kNone ? check_network(table, f) : reason;
}

/// True for a unicast packet with an RC or UC opcode. Shape: f after check_path().
inline bool is_connected(const RxFrame& f) noexcept {
  expects(f.ud != nullptr, "check_path() has passed the frame");
  return f.ud->opcode() < kFirstOtherOpcode && f.members.empty();
}

/// Checks of a UD packet after check_path(), except the ICRC. `member`: the one that a passed
/// multicast packet is for; null: any.
inline Drop check_ud(const RxTable& table, const SoftUdQueue* sender, SoftUdQueue* member,
                     RxFrame& f) noexcept {
  if (const Drop reason = check_transport(table, f); reason != Drop::kNone) return reason;
  if (member != nullptr) f.queue = member;
  return check_keys(table, f, sender);
}

/// Fast-path classifier: a complete UD SEND without GRH for one of this port's queue pairs with
/// matching keys.
class UdFastPath {
 public:
  /// `worker`: accepts frames for its queue pairs only.
  UdFastPath(const RxTable& table, unsigned worker, UdFastRun& run) noexcept
      : table_{table}, run_{run}, longest_{table.mtu() - kLeast}, worker_{worker} {
    expects(table.mtu() != 0 && table.mtu() % 4 == 0, "padding does not exceed the MTU");
  }

  /// Returns true, and the headers and the payload length, or false if the frame needs the full
  /// checks. A frame accepted here would also pass check_path() and check_ud(), except possibly the
  /// ICRC. `at`: the frame's place in the run.
  [[gnu::always_inline]] bool accepts(const std::byte* frame, std::size_t size, rte_mbuf** at,
                                      UdHeaders& headers, std::uint32_t& payload_len) noexcept {
    // One comparison for both limits: a payload with its padding is a multiple of four, as the MTU
    // is, and holds the padding if it is not empty.
    const std::size_t beyond = size - (kFastPayloadAt + wire::kIcrcLen + kLeast);
    if (beyond > longest_) [[unlikely]]
      return false;
    headers = UdHeaders::of(frame);
    if (!pattern_.matches(headers)) [[unlikely]] {
      if (!find_queue(frame, at)) return false;
      headers = UdHeaders::of(frame);
    }
    // The pattern covers the reserved bits before the length.
    const auto& lrh = *reinterpret_cast<const wire::Lrh*>(frame + sizeof(EthHdr));
    if (sizeof(EthHdr) + std::size_t{lrh.resv_pktlen.host()} * 4 != size) [[unlikely]]
      return false;
    const auto& bth = *reinterpret_cast<const wire::Bth*>(frame + kLocalHeadLen);
    payload_len = static_cast<std::uint32_t>(beyond + kLeast - bth.pad());
    return true;
  }
  /// Transport headers of a frame without GRH to this port, by which to find its worker; null: the
  /// full checks must find it.
  [[nodiscard]] const UdWords* local_headers(std::span<const std::byte> frame) const noexcept {
    return frame.size() >= kFastPayloadAt + wire::kIcrcLen &&
                   table_.local().matches(&frame[offsetof(EthHdr, ether_type)])
               ? record_at<UdWords>(frame, kLocalHeadLen)
               : nullptr;
  }

 private:
  static constexpr std::uint32_t kLeast = 4;  ///< Octets of the least payload with its padding.

  /// Turns to the queue pair that the frame is for. False: it needs the full checks.
  [[gnu::noinline]] bool find_queue(const std::byte* frame, rte_mbuf** at) noexcept {
    if (!table_.local().matches(frame + offsetof(EthHdr, ether_type))) return false;
    const std::uint32_t qpn = reinterpret_cast<const UdWords*>(frame + kLocalHeadLen)->dest_qp();
    if (qpn == other_qpn_ || (run_.queue != nullptr && run_.queue->qpn() == qpn)) return false;
    const RxTable::QueueSlot& found = table_.find(qpn);
    if (found.queue == nullptr) return false;
    if (found.worker != worker_) {
      other_qpn_ = qpn;
      return false;
    }
    const Pattern transport = send_pattern(found.queue->pkey(), qpn);
    if (transport.is_empty()) return false;
    run_.turn_to(found.queue, static_cast<std::size_t>(at - run_.pkts));
    pattern_ = {table_.local(), transport, wire::Be32{found.queue->qkey()}};
    return pattern_.matches(UdHeaders::of(frame));
  }

  const RxTable& table_;
  UdFastRun& run_;
  UdPattern pattern_;
  std::size_t longest_;  ///< Excess of the longest payload over kLeast.
  unsigned worker_;
  std::uint32_t other_qpn_ = UINT32_MAX;  ///< A queue pair of another worker.
};

[[gnu::always_inline]] inline void prefetch_headers(const rte_mbuf* m) noexcept {
  // The place where devices put a frame. To read data_off costs an instruction more.
  rte_prefetch0(static_cast<const std::byte*>(m->buf_addr) + RTE_PKTMBUF_HEADROOM);
}

/// Strips headers and trailer, leaving the payload.
[[gnu::always_inline]] inline void strip(rte_mbuf* m, std::size_t payload_at,
                                         std::uint32_t payload_len) noexcept {
  m->ol_flags &= ~kRxOffloadFlags;
  m->data_off = static_cast<std::uint16_t>(m->data_off + payload_at);
  m->data_len = static_cast<std::uint16_t>(payload_len);
  m->pkt_len = payload_len;
}

}  // namespace

std::uint32_t UdDatapath::poll(std::uint16_t burst) noexcept {
  expects_own_worker();
  if (config_.mads_out != nullptr && (nb_mads_ != 0 || rte_ring_empty(config_.mads_out) == 0))
      [[unlikely]]
    send_mads();
  // Pairs with the release store of publish().
  const RxTable& now = table();
  if (SoftUdQueue* const closing = now.closing(); closing != nullptr) [[unlikely]]
    if (closing->worker() == config_.worker) drain(*closing);
  std::uint32_t frames = 0;
  if (hold_reads_) {
    hold_reads_ = false;
  } else if (burst != 0) [[likely]] {
    // Passed frames come first, because they are dropped where those on the cable wait. But a worker
    // that is short of time also reads frames for others.
    frames = take_passed(now);
    skips_cable_ = frames == kBurst && !skips_cable_;
    if (!skips_cable_) frames += read_cable(std::min(burst, kBurst), now);
  }
  // Pairs with the release store of publish().
  if (ConnectedPort* connected = connected_.load(std::memory_order_acquire); connected != nullptr)
    connected->poll();
  if (!mads_came_) [[likely]]
    return frames;
  mads_came_ = false;
  if (config_.doorbell != nullptr) config_.doorbell->ring();
  return frames;
}

std::uint32_t UdDatapath::read_cable(std::uint16_t burst, const RxTable& table) noexcept {
  if (config_.rx_queues.empty() || ethdev_removed()) [[unlikely]]
    return 0;
  Batch rx;
  const std::uint16_t queue = config_.rx_queues[next_rx_];
  if (++next_rx_ == config_.rx_queues.size()) next_rx_ = 0;
  const std::uint16_t nb_rx = rte_eth_rx_burst(config_.port_id, queue, rx.frames.data(), burst);
  if (nb_rx == 0) return 0;
  rx.n = nb_rx;
  // Pairs with the release store of set_tap().
  if (const CaptureTap* tap = tap_.load(std::memory_order_acquire); tap != nullptr) [[unlikely]]
    for (const rte_mbuf* m : rx.span())
      hand_to(*tap, copy_for(*tap, m, CaptureDirection::kReceived));
  sort(rx, table, Origin::kThisWorker);
  return nb_rx;
}

std::uint32_t UdDatapath::take_passed(const RxTable& table) noexcept {
  if (config_.rings == nullptr) return 0;
  Batch rx;
  rx.n = config_.rings->take(config_.worker, std::span{rx.frames}.first<kBurst>());
  // Another CPU wrote them.
  for (rte_mbuf* m : rx.span()) {
    rte_mbuf_prefetch_part1(m);
    rte_mbuf_prefetch_part2(m);
  }
  if (rx.n != 0) sort(rx, table, Origin::kPassedOn);
  return static_cast<std::uint32_t>(rx.n);
}

/// Passes each frame to its queue pair, or to the worker of that. `sender`: multicast frames need not
/// return to the link of this queue pair; null: it is not of this worker. Shape: some frames.
void UdDatapath::sort(Batch& rx, const RxTable& table, Origin origin,
                      const SoftUdQueue* sender) noexcept {
  expects(rx.n != 0 && rx.n <= kBurst, "there are frames, and they fit");
  if (!table.active()) [[unlikely]] {
    for (rte_mbuf* m : rx.span()) drop(m, Drop::kIbPortDown);
    return;
  }
  std::fill_n(&rx.frames[rx.n], kRxPrefetchAhead, rx.frames[rx.n - 1]);
  for (std::size_t i = 0; i < kRxPrefetchAhead; ++i) prefetch_headers(rx.frames[i]);

  const fabric::MetaOf meta_of;
  UdFastRun run;
  run.pkts = run.burst = rx.frames.data();
  std::array<wire::Covered, kBurst> covered;
  const bool icrc = config_.icrc;
  if (icrc) run.covered = covered.data();
  UdFastPath fast_path{table, config_.worker, run};
  Takers takers;
  const std::size_t n = rx.n;
  for (std::size_t i = 0; i != n; ++i) {
    rte_mbuf** const at = &rx.frames[i];
    prefetch_headers(at[kRxPrefetchAhead]);
    rte_mbuf* m = *at;
    if (!fabric::is_sole_mbuf(m) && (m->nb_segs != 1 || fabric::is_shared(m))) [[unlikely]] {
      m = own_copy(m);
      if (m == nullptr) {
        end_run(run, at);
        continue;
      }
      *at = m;
    }
    const auto* const frame = rte_pktmbuf_mtod(m, const std::byte*);
    const std::size_t size = rte_pktmbuf_data_len(m);
    UdHeaders headers;
    std::uint32_t payload_len;
    if (fast_path.accepts(frame, size, at, headers, payload_len)) [[likely]] {
      headers.set_arrival(frame, meta_of(m));
      strip(m, kFastPayloadAt, payload_len);
      if (icrc) covered[i] = {frame + sizeof(EthHdr), size - sizeof(EthHdr) - wire::kIcrcLen};
      continue;
    }
    RxFrame f;
    f.bytes = {frame, size};
    if (config_.rings != nullptr)
      if (const UdWords* const ud = fast_path.local_headers(f.bytes); ud != nullptr)
        if (const unsigned worker = worker_of(*ud, table); worker != config_.worker) {
          run.leave_out(at);
          pass_on(m, worker);
          continue;
        }
    end_run(run, at);  // keeps the order of packets
    f.takers = &takers;
    sort_one(m, f, table, origin, sender);
  }
  end_run(run, &rx.frames[n]);
  if (batches_of_ != 0) pass_batches();
}

/// Returns a copy of a frame in place of the frame. Null: the frame is dropped.
rte_mbuf* UdDatapath::own_copy(rte_mbuf* m) noexcept {
  rte_mbuf* const copy = copy_frame(m);
  if (copy == nullptr)
    drop(m, Drop::kIbNoBuffer);
  else
    rte_pktmbuf_free(m);
  return copy;
}

/// sort() of a frame that needs the full checks.
void UdDatapath::sort_one(rte_mbuf* m, RxFrame& f, const RxTable& table, Origin origin,
                          const SoftUdQueue* sender) noexcept {
  if (const Drop fault = check_path(table, f); fault != Drop::kNone) return drop(m, fault);
  if (f.members.empty())
    if (const unsigned worker = worker_of(*f.ud, table); worker != config_.worker)
      return pass_on(m, worker);
  if (is_connected(f)) return receive_connected(m, f, table);
  SoftUdQueue* member = nullptr;
  if (origin == Origin::kPassedOn && !f.members.empty()) {
    member = table.queue(fabric::meta_of(m).queue);
    if (member == nullptr || member->worker() != config_.worker) return drop(m, Drop::kIbQpn);
    const auto is_of_its_link = [member](const SoftUdQueue* q) { return q->spares(*member); };
    if (std::ranges::none_of(f.members, is_of_its_link)) return drop(m, Drop::kIbMgid);
  }
  if (const Drop fault = check_ud(table, sender, member, f); fault != Drop::kNone)
    return drop(m, fault);
  if (f.queue == nullptr && !f.members.empty() && f.takers->n == 1)
    if (SoftUdQueue& only = *f.members[f.takers->last]; only.worker() != config_.worker)
      return pass_on_to(only, m);  // which checks the ICRC
  if (config_.icrc && !icrc_holds(f.bytes.first(f.end).subspan(sizeof(EthHdr))))
    return drop(m, Drop::kIbIcrc);
  if (f.queue != nullptr) return deliver(*f.queue, m, f);
  if (!f.members.empty()) return deliver_to_group(m, f);
  if (config_.mads_in == nullptr)
    return drop(m, Drop::kIbQpn);  // QP0 and QP1 are not on this datapath
  deliver_mad(m, f);
}

/// Passes a MAD to the management lcore, if its sender and its kind leave places to others.
void UdDatapath::deliver_mad(rte_mbuf* m, const RxFrame& f) noexcept {
  const MadShare::Mad mad =
      shared_mad(f.lrh->slid.host(), f.bytes.subspan(f.payload_at).first<wire::kMadLen>());
  if (const Drop reason = config_.mad_share->take(mad); reason != Drop::kNone)
    return drop(m, reason);
  if (rte_ring_sp_enqueue(config_.mads_in, m) != 0) {
    config_.mad_share->undo(mad);
    return drop(m, Drop::kIbMadOverflow);
  }
  mads_came_ = true;
}

/// Ends the run at `end`, where a frame is that does not belong to it; the next one starts behind.
inline void UdDatapath::end_run(UdFastRun& run, rte_mbuf** end) noexcept {
  if (end != run.pkts) {
    run.n = static_cast<std::size_t>(end - run.pkts);
    deliver(run);
  }
  run.pkts = end + 1;
}

/// Delivers the packets to their queue pairs, except packets with a wrong ICRC.
[[gnu::noinline]] void UdDatapath::deliver(UdFastRun& run) noexcept {
  if (run.holes != 0) [[unlikely]] {
    run.keep([&run](std::size_t i) { return run.pkts[i] != nullptr; });
    run.holes = 0;
  }
  if (config_.icrc) verify(run);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < run.nb_spans; begin = run.spans[i++].end)
    deliver(*run.spans[i].queue, {run.pkts + begin, run.spans[i].end - begin});
  if (begin != run.n) deliver(*run.queue, {run.pkts + begin, run.n - begin});
  run.nb_spans = 0;
}

/// Drops packets with a wrong ICRC.
inline void UdDatapath::verify(UdFastRun& run) noexcept {
  std::array<std::uint32_t, kBurst> icrcs;
  const wire::Covered* const covered = run.covered + (run.pkts - run.burst);
  wire::icrc_burst({covered, run.n}, icrcs);
  std::uint32_t differences = 0;
  for (std::size_t i = 0; i < run.n; ++i) {
    icrcs[i] ^= icrc_behind(covered[i]);
    differences |= icrcs[i];
  }
  if (differences == 0) [[likely]]
    return;
  run.keep([&](std::size_t i) {
    if (icrcs[i] != 0) drop(run.pkts[i], Drop::kIbIcrc);
    return icrcs[i] == 0;
  });
}

/// Passes the frame to the connected port. Without one, drops it for the reason that
/// check_transport() returns.
void UdDatapath::receive_connected(rte_mbuf* m, const RxFrame& f, const RxTable& table) noexcept {
  ConnectedPort* const connected = connected_.load(std::memory_order_acquire);
  const auto bth_at =
      static_cast<std::size_t>(reinterpret_cast<const std::byte*>(f.ud) - f.bytes.data());
  if (connected == nullptr) {
    RxFrame rest = f;
    return drop(m, check_transport(table, rest));
  }
  connected->receive(
      m, {.bytes = f.bytes, .lrh = f.lrh, .grh = f.grh, .bth_at = bth_at, .end = f.end}, table);
}

/// The worker to which a unicast frame belongs; this one if there is no such queue pair.
unsigned UdDatapath::worker_of(const UdWords& ud, const RxTable& table) const noexcept {
  if (ud.opcode() < kFirstOtherOpcode) {
    const ConnectedPort* const connected = connected_.load(std::memory_order_acquire);
    return connected != nullptr ? connected->worker_of(ud.dest_qp()) : config_.worker;
  }
  if (ud.dest_qp() <= wire::kGsiQpn) return 0;
  const RxTable::QueueSlot& found = table.find(ud.dest_qp());
  return found.queue != nullptr ? found.worker : config_.worker;
}

/// Passes a frame to the worker of its queue pair, which checks it.
void UdDatapath::pass_on(rte_mbuf* frame, unsigned worker) noexcept {
  expects(worker < batches_.size() && worker != config_.worker, "it is another worker");
  Batch& batch = batches_[worker];
  batch.push(frame);
  batches_of_ |= std::uint64_t{1} << worker;
  if (batch.n == kBurst) pass_batch(worker);
}

/// Passes a multicast frame to the worker of one member, by name: the group may move to another queue
/// pair while the frame is on its way.
void UdDatapath::pass_on_to(const SoftUdQueue& member, rte_mbuf* frame) noexcept {
  fabric::meta_of(frame).queue = member.qpn();
  pass_on(frame, member.worker());
}

void UdDatapath::pass_batch(unsigned worker) noexcept {
  Batch& batch = batches_[worker];
  const std::size_t passed = config_.rings->pass(config_.worker, worker, batch.span());
  for (rte_mbuf* m : batch.span().subspan(passed)) drop(m, Drop::kIbNoBuffer);
  batch.n = 0;
}

void UdDatapath::pass_batches() noexcept {
  for (std::uint64_t left = std::exchange(batches_of_, 0); left != 0; left &= left - 1)
    pass_batch(static_cast<unsigned>(std::countr_zero(left)));
}

void UdDatapath::receive_own(std::span<rte_mbuf* const> frames) noexcept {
  expects_own_worker();
  if (frames.empty()) return;
  expects(frames.size() <= kBurst, "the frames fit");
  Batch rx;
  rx.n = frames.size();
  std::ranges::copy(frames, rx.frames.begin());
  sort(rx, table(), Origin::kThisWorker);
}

/// Delivers packets to their queue pair; drops packets that do not fit.
inline void UdDatapath::deliver(SoftUdQueue& queue, std::span<rte_mbuf* const> pkts) noexcept {
  for (rte_mbuf* m : pkts.subspan(queue.push(pkts))) drop(m, Drop::kIbNoBuffer);
}

void UdDatapath::deliver(SoftUdQueue& queue, rte_mbuf* m, const RxFrame& f) noexcept {
  fabric::PacketMeta::Rx& meta = fabric::meta_of(m).rx;
  set_arrival(*f.lrh, *f.ud, meta);
  if (f.grh != nullptr) meta.grh_offset = static_cast<std::uint8_t>(f.payload_at - kLocalHeadLen);
  meta.multicast = !f.members.empty();
  strip(m, f.payload_at, static_cast<std::uint32_t>(f.payload_len));
  deliver(queue, {&m, 1});
}

/// The last taker gets the packet itself, the others get copies, headers included. Shape: some takers.
void UdDatapath::deliver_to_group(rte_mbuf* m, const RxFrame& f) noexcept {
  const Takers& takers = *f.takers;
  expects(takers.last < f.members.size(), "the packet is for one of the group's queue pairs");
  const auto give = [&](SoftUdQueue& queue, rte_mbuf* packet) {
    queue.worker() == config_.worker ? deliver(queue, packet, f) : pass_on_to(queue, packet);
  };
  const std::size_t last_word = takers.last / 64;
  for (std::size_t word = 0; word <= last_word; ++word) {
    std::uint64_t left = takers.words[word];
    if (word == last_word) left &= ~(std::uint64_t{1} << takers.last % 64);
    for (; left != 0; left &= left - 1) {
      SoftUdQueue& queue = *f.members[word * 64 + static_cast<std::size_t>(std::countr_zero(left))];
      if (rte_mbuf* copy = copy_frame(m); copy != nullptr)
        give(queue, copy);
      else
        drops_.add(Drop::kIbNoBuffer);
    }
  }
  give(*f.members[takers.last], m);
}

void UdDatapath::drain(SoftUdQueue& queue) noexcept {
  rte_mbuf* m = nullptr;
  while (queue.pop(&m, 1) != 0) drop(m, Drop::kIbQpn);
}

}  // namespace ipoib::soft
