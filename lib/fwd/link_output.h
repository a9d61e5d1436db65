// The link header of a packet whose neighbour is known, by the kind of the link.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/fwd/eth_output.h"
#include "lib/fwd/ipoib_output.h"

namespace ipoib::fwd {

/// Largest IP packet to a neighbour: a connection has its own limit, whatever the link's is.
[[nodiscard]] inline std::uint16_t mtu_of(const table::Neighbour& to,
                                          const InterfaceEntry& entry) noexcept {
  const std::uint16_t link = entry.mtu.load(std::memory_order_relaxed);
  return to.queue != nullptr ? to.mtu : std::min(to.mtu, link);
}

/// Gives a packet that fits the link its header. False, and nothing changed: no headroom.
[[nodiscard, gnu::always_inline]] inline bool link_header(const table::Neighbour& to,
                                                          const InterfaceEntry& entry,
                                                          wire::EtherType type,
                                                          rte_mbuf* m) noexcept {
  return to.mode == table::NeighbourMode::kEthernet ? eth_output(m, to, entry, type)
                                                    : ipoib_output(m, to, type);
}

/// Takes a packet that fits the link; it leaves through Tx. Errors: kNoMbuf (no headroom).
[[gnu::always_inline]] inline void link_output(Context& c, const table::Neighbour& to,
                                               const InterfaceEntry& entry, wire::EtherType type,
                                               rte_mbuf* m, DropBin& bin) noexcept {
  if (!link_header(to, entry, type, m)) [[unlikely]]
    return bin.add(m, Drop::kNoMbuf);
  if (to.queue != nullptr)
    c.tx.enqueue_connected(to, c.neighbours->index_of(to), m);
  else
    c.tx.enqueue(to.iface, m);
}

/// link_output() of packets in a row to neighbours on one interface, which is asked once. Ends
/// before anything else is enqueued.
class LinkRun {
 public:
  explicit LinkRun(Context& c) noexcept : c_{c}, run_{c.tx} {}

  /// What follows is about this interface.
  [[gnu::always_inline]] void turn_to(table::InterfaceId iface) noexcept {
    if (iface != iface_) [[unlikely]]
      begin(iface);
  }
  /// Shape of these: between turn_to() and end().
  [[nodiscard]] bool up() const noexcept { return up_; }
  [[nodiscard]] const InterfaceEntry& entry() const noexcept { return *entry_; }
  /// mtu_of() a neighbour on it.
  [[nodiscard]] std::uint16_t mtu(const table::Neighbour& to) const noexcept {
    return to.queue != nullptr ? to.mtu : std::min(to.mtu, mtu_);
  }
  [[gnu::always_inline]] void send(const table::Neighbour& to, wire::EtherType type, rte_mbuf* m,
                                   DropBin& bin) noexcept {
    if (to.queue != nullptr) [[unlikely]]
      return send_connected(to, type, m, bin);
    if (!link_header(to, *entry_, type, m)) [[unlikely]]
      return bin.add(m, Drop::kNoMbuf);
    run_.push(m);
  }
  void end() noexcept {
    run_.end();
    iface_ = table::kNoInterface;
  }

 private:
  [[gnu::noinline]] void send_connected(const table::Neighbour& to, wire::EtherType type,
                                        rte_mbuf* m, DropBin& bin) noexcept {
    if (run_.is_handed_over()) end();  // by the same queue
    link_output(c_, to, *entry_, type, m, bin);
  }
  void begin(table::InterfaceId iface) noexcept {
    run_.begin(iface);
    iface_ = iface;
    entry_ = &c_.interfaces[iface];
    up_ = entry_->up.load(std::memory_order_relaxed);
    mtu_ = entry_->mtu.load(std::memory_order_relaxed);
  }

  Context& c_;
  Tx::Run run_;
  table::InterfaceId iface_ = table::kNoInterface;  ///< kNoInterface: between runs.
  const InterfaceEntry* entry_ = nullptr;
  bool up_ = false;
  std::uint16_t mtu_ = 0;
};

}  // namespace ipoib::fwd
