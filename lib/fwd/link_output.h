// SPDX-License-Identifier: BSD-3-Clause
// Prepends the link header of a packet whose neighbour is known, by the kind of the link.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "lib/base/contract.h"
#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/fwd/eth_output.h"
#include "lib/fwd/ipoib_output.h"

namespace ipoib::fwd {

/// Returns the largest IP packet to a neighbour: a connection has its own limit, independent of the
/// link's.
[[nodiscard]] inline std::uint16_t mtu_of(const table::Neighbour& to,
                                          const InterfaceEntry& entry) noexcept {
  const std::uint16_t link = entry.mtu.load(std::memory_order_relaxed);
  return to.queue != nullptr ? to.mtu : std::min(to.mtu, link);
}

/// The part of a link header that all packets of one type to one interface share: EthTail or
/// IpoibHeader.
using LinkTail = std::uint64_t;
static_assert(sizeof(LinkTail) >= sizeof(EthTail) && sizeof(LinkTail) >= sizeof(IpoibHeader));

[[nodiscard]] inline LinkTail link_tail(const InterfaceEntry& entry,
                                        wire::EtherType type) noexcept {
  return entry.kind == InterfaceKind::kEthernet ? eth_tail(entry, type)
                                                : ipoib_header(entry.encapsulation, type);
}

/// Prepends the link header of a packet that fits the link. Returns false, without a change, if
/// there is no headroom. `tail`: that of the neighbour's interface.
[[nodiscard, gnu::always_inline]] inline bool link_header(const table::Neighbour& to, LinkTail tail,
                                                          rte_mbuf* m) noexcept {
  return to.mode == table::NeighbourMode::kEthernet
             ? eth_output(m, to, tail)
             : ipoib_output(m, to, static_cast<IpoibHeader>(tail));
}

/// Takes a packet that fits the link; it leaves through Tx. Errors: kNoMbuf (no headroom).
[[gnu::always_inline]] inline void link_output(Context& c, const table::Neighbour& to,
                                               const InterfaceEntry& entry, wire::EtherType type,
                                               rte_mbuf* m, DropBin& bin) noexcept {
  if (!link_header(to, link_tail(entry, type), m)) [[unlikely]]
    return bin.add(m, Drop::kNoMbuf);
  if (to.mode == table::NeighbourMode::kUdPaths) [[unlikely]]
    choose_path(m, to, type, c.next_hops.flow_seed());
  if (to.queue != nullptr)
    c.tx.enqueue_connected(to, c.neighbours->index_of(to), m);
  else
    c.tx.enqueue(to.iface, m);
}

/// H of LinkTx::send_run() for packets whose hops are decremented.
struct AnyHops {
  static bool may_pass(const std::byte* /*ip*/, const table::Neighbour& /*to*/) noexcept {
    return true;
  }
  static void pass(std::byte* /*ip*/) noexcept {}
};

/// Sends consecutive packets of one EtherType to neighbours on one interface, caching the
/// interface's state. Call end() before enqueuing through any other path.
template <wire::EtherType kType>
class LinkTx {
 public:
  explicit LinkTx(Context& c) noexcept : c_{c}, batch_{c.tx} {}

  /// Selects the egress of the following packets.
  [[gnu::always_inline]] void select(const table::Neighbour& to) noexcept {
    if (to.iface != iface_) [[unlikely]]
      begin(to.iface);
    if (to.mode != mode_) [[unlikely]]
      set_mode(to.mode);
  }
  /// True if `to` is valid and on the selected interface, the interface is up, and packets to it
  /// leave in the same form as those before.
  [[nodiscard, gnu::always_inline]] bool same_egress(const table::Neighbour& to) const noexcept {
    return to.egress_key() == egress_key_;
  }
  /// Shape of the following functions: between select() and end().
  [[nodiscard]] bool up() const noexcept {
    expects_begun();
    return up_;
  }
  [[nodiscard]] const InterfaceEntry& entry() const noexcept {
    expects_begun();
    return *entry_;
  }
  /// mtu_of() for a neighbour on the interface.
  [[nodiscard]] std::uint16_t mtu(const table::Neighbour& to) const noexcept {
    expects_begun();
    return to.queue != nullptr ? to.mtu : std::min(to.mtu, static_cast<std::uint16_t>(mtu_));
  }
  /// Sends one packet that fits. Errors: kNoMbuf (no headroom).
  [[gnu::always_inline]] void send(const table::Neighbour& to, rte_mbuf* m, DropBin& bin) noexcept {
    expects_begun();
    if (to.queue != nullptr) [[unlikely]]
      return send_connected(to, m, bin);
    if (!link_header(to, tail_, m)) [[unlikely]]
      return bin.add(m, Drop::kNoMbuf);
    if (to.mode == table::NeighbourMode::kUdPaths) [[unlikely]]
      choose_path(m, to, kType, c_.next_hops.flow_seed());
    to.mode == table::NeighbourMode::kEthernet ? batch_.push(m) : batch_.push_by_handle(m);
  }
  /// Sends packets from number `i` on in one loop, as long as they have the same egress, fit, have
  /// room for their headers, and H::may_pass() is true; returns the number of the first other
  /// packet. `to`: null, or the packet's neighbour. Shape: select(*to[i]).
  template <class H>
  [[nodiscard, gnu::always_inline]] std::size_t send_run(std::span<rte_mbuf* const> pkts,
                                                         table::Neighbour* const* to, std::size_t i,
                                                         std::uint32_t now_s) noexcept {
    using enum table::NeighbourMode;
    if (!same_egress(*to[i]) || batch_.is_handed_over()) return i;
    const std::span<rte_mbuf*> out = batch_.free_places();
    const std::size_t n = std::min(pkts.size() - i, out.size());
    rte_mbuf* const* const from = pkts.data() + i;
    if (mode_ == kUdFrame) return i + run<H, kUdFrame>(from, to + i, out.data(), n, now_s);
    if (mode_ == kUdGroupFrame)
      return i + run<H, kUdGroupFrame>(from, to + i, out.data(), n, now_s);
    if (mode_ == kEthernet) return i + run<H, kEthernet>(from, to + i, out.data(), n, now_s);
    return i + run<H, kUd>(from, to + i, out.data(), n, now_s);
  }
  void end() noexcept {
    batch_.end();
    iface_ = table::kNoInterface;
    egress_key_ = no_egress();
  }

 private:
  /// send_run() for one mode and at most `n` packets, to the places at `out`; returns the number of
  /// packets sent. It is not inlined, so that it has all registers for itself, and its arrays begin
  /// with the run, so that one register is the index of all.
  template <class H, table::NeighbourMode kMode>
  [[gnu::noinline]] std::size_t run(rte_mbuf* const* pkts, table::Neighbour* const* to,
                                    rte_mbuf** out, std::size_t n, std::uint32_t now_s) noexcept {
    expects_begun();
    constexpr bool kFrames = has_frames(kMode);
    using Grh = std::conditional_t<kMode == table::NeighbourMode::kUdGroupFrame, fabric::GroupGrh,
                                   fabric::NoGrh>;
    // In memory: registers would not hold its words beside the addresses.
    const Grh& grh = grh_of_run<Grh>();
    const fabric::FrameKeys* const keys = keys_;
    const std::uint64_t last = kFrames ? keys->last_word(static_cast<IpoibHeader>(tail_)) : 0;
    const std::uint32_t psn = kFrames ? *keys->psn : 0;
    std::uint32_t octets = 0;
    std::uint16_t segments = 0;
    std::size_t i = 0;
    for (; i < n; ++i) {
      table::Neighbour* const t = to[i];
      rte_mbuf* const m = pkts[i];
      if (t == nullptr || t->egress_key() != egress_key_) [[unlikely]]
        break;
      const std::uint32_t len = m->pkt_len;
      std::byte* const ip = rte_pktmbuf_mtod(m, std::byte*);
      // 16 bits are enough for the second comparison, which thus needs no load of its own.
      if (len > mtu_ || static_cast<std::uint16_t>(len) > t->mtu || !H::may_pass(ip, *t))
          [[unlikely]]
        break;
      if (kFrames ? !fabric::has_frame_room<Grh>(m, len) : m->data_off < RTE_ETHER_HDR_LEN)
          [[unlikely]]
        break;
      octets += len;
      if constexpr (!kFrames) segments |= m->nb_segs;
      H::pass(ip);
      if constexpr (kFrames)
        fabric::write_frame(m, ip, len, *t, *keys, grh, last, psn + static_cast<std::uint32_t>(i));
      else if constexpr (kMode == table::NeighbourMode::kEthernet)
        static_cast<void>(eth_output(m, *t, tail_));
      else
        static_cast<void>(ipoib_output(m, *t, static_cast<IpoibHeader>(tail_)));
      out[i] = m;
      table::NeighbourTable::touch(*t, now_s);
    }
    if constexpr (kFrames) *keys->psn = psn + static_cast<std::uint32_t>(i);
    batch_.push_run(static_cast<std::uint16_t>(i), octets, segments,
                    kMode == table::NeighbourMode::kUd);
    return i;
  }
  /// The GRH of a run of whole frames; NoGrh: any other.
  template <class Grh>
  [[nodiscard]] const Grh& grh_of_run() const noexcept {
    if constexpr (std::is_same_v<Grh, fabric::GroupGrh>) {
      return c_.frame_heads.group_grh(iface_, kType == wire::EtherType::kIpv6);
    } else {
      static constexpr fabric::NoGrh kNone{};
      return kNone;
    }
  }
  [[gnu::always_inline]] void expects_begun() const noexcept {
    expects(iface_ != table::kNoInterface, "the batch is open");
  }
  /// An EgressKey that no neighbour can have.
  static table::Neighbour::EgressKey no_egress() noexcept {
    return table::Neighbour::egress_key_of(table::kNoInterface, table::NeighbourState::kFailed,
                                           table::NeighbourMode::kUd);
  }

  [[gnu::noinline]] void send_connected(const table::Neighbour& to, rte_mbuf* m,
                                        DropBin& bin) noexcept {
    if (!c_.tx.has_connection(to)) end();  // the batch may have the queue to that worker
    link_output(c_, to, *entry_, kType, m, bin);
  }
  void begin(table::InterfaceId iface) noexcept {
    expects(iface < c_.interfaces.size(), "the interface exists");
    batch_.begin(iface);
    iface_ = iface;
    entry_ = &c_.interfaces[iface];
    tail_ = link_tail(*entry_, kType);
    up_ = entry_->is_up();
    mtu_ = entry_->mtu.load(std::memory_order_relaxed);
    keys_ = entry_->kind == InterfaceKind::kIpoib ? batch_.frame_keys() : nullptr;
    egress_key_ = no_egress();
    mode_ = table::NeighbourMode::kRc;  // no run has it
  }
  /// Packets of connections, those that choose among several paths, whole frames without their keys,
  /// and frames to groups of which others need copies have no run.
  void set_mode(table::NeighbourMode mode) noexcept {
    using enum table::NeighbourMode;
    mode_ = mode;
    const bool runs =
        up_ && (mode == kEthernet || mode == kUd || (mode == kUdFrame && keys_ != nullptr) ||
                (mode == kUdGroupFrame && keys_ != nullptr && keys_->groups));
    egress_key_ = runs
                      ? table::Neighbour::egress_key_of(iface_, table::NeighbourState::kValid, mode)
                      : no_egress();
  }

  Context& c_;
  Tx::Batch batch_;
  table::Neighbour::EgressKey egress_key_ = no_egress();
  table::InterfaceId iface_ = table::kNoInterface;  ///< kNoInterface: between batches.
  const InterfaceEntry* entry_ = nullptr;
  table::NeighbourMode mode_ = table::NeighbourMode::kEthernet;  ///< The mode in egress_key_.
  const fabric::FrameKeys* keys_ = nullptr;                      ///< Null: no frames.
  LinkTail tail_ = 0;
  bool up_ = false;
  std::uint32_t mtu_ = 0;  ///< At most 0xffff.
};

}  // namespace ipoib::fwd
