// SPDX-License-Identifier: BSD-3-Clause
// Prepends the link header of a packet whose neighbour is known, by the kind of the link.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

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
  if (to.queue != nullptr)
    c.tx.enqueue_connected(to, c.neighbours->index_of(to), m);
  else
    c.tx.enqueue(to.iface, m);
}

/// Sends consecutive packets of one EtherType to neighbours on one interface, caching the
/// interface's state. Call end() before enqueuing through any other path.
template <wire::EtherType kType>
class LinkTx {
 public:
  explicit LinkTx(Context& c) noexcept : c_{c}, batch_{c.tx} {}

  /// Selects the interface of the following packets.
  [[gnu::always_inline]] void select_interface(table::InterfaceId iface) noexcept {
    if (iface != iface_) [[unlikely]]
      begin(iface);
  }
  /// True if `to` is valid and on the selected interface, the interface is up and no connection is
  /// used. Precondition of send_same_egress().
  [[nodiscard, gnu::always_inline]] bool same_egress(const table::Neighbour& to) const noexcept {
    return to.egress_key() == egress_key_;
  }
  /// Shape: same_egress(to).
  [[nodiscard]] bool fits(const rte_mbuf* m, const table::Neighbour& to) const noexcept {
    expects(same_egress(to), "the packet has the same egress");
    return m->pkt_len <= to.mtu && m->pkt_len <= mtu_;
  }
  /// Shape: same_egress(to), fits(m, to).
  [[gnu::always_inline]] void send_same_egress(const table::Neighbour& to, rte_mbuf* m,
                                               DropBin& bin) noexcept {
    expects(same_egress(to) && fits(m, to), "the packet has the same egress and fits");
    if (!link_header(to, tail_, m)) [[unlikely]]
      return bin.add(m, Drop::kNoMbuf);
    batch_.push(m);
  }
  /// Shape of the following functions: between select_interface() and end().
  [[nodiscard]] table::InterfaceId iface() const noexcept {
    expects_begun();
    return iface_;
  }
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
    return to.queue != nullptr ? to.mtu : std::min(to.mtu, mtu_);
  }
  [[gnu::always_inline]] void send(const table::Neighbour& to, rte_mbuf* m, DropBin& bin) noexcept {
    expects_begun();
    if (to.queue != nullptr) [[unlikely]]
      return send_connected(to, m, bin);
    send_same_egress(to, m, bin);
  }
  void end() noexcept {
    batch_.end();
    iface_ = table::kNoInterface;
    egress_key_ = no_egress();
  }

 private:
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
    if (batch_.is_handed_over()) end();  // it uses the same queue
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
    const auto mode = entry_->kind == InterfaceKind::kEthernet ? table::NeighbourMode::kEthernet
                                                               : table::NeighbourMode::kUd;
    egress_key_ = up_ ? table::Neighbour::egress_key_of(iface, table::NeighbourState::kValid, mode)
                      : no_egress();
  }

  Context& c_;
  Tx::Batch batch_;
  table::Neighbour::EgressKey egress_key_ = no_egress();
  table::InterfaceId iface_ = table::kNoInterface;  ///< kNoInterface: between batches.
  const InterfaceEntry* entry_ = nullptr;
  LinkTail tail_ = 0;
  bool up_ = false;
  std::uint16_t mtu_ = 0;
};

}  // namespace ipoib::fwd
