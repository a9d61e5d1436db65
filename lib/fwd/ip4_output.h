// SPDX-License-Identifier: BSD-3-Clause
// Stage ip4_output: fits a routed packet to the link of its neighbour and prepends its link header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/fwd/link_output.h"

namespace ipoib::fwd {

/// Takes packets that start at their IPv4 header; they leave through Tx. A packet that
/// is too big for the neighbour is cut: into TCP segments if the interface offers that, else into
/// fragments if allowed; else its sender gets an ICMP error.
///
/// Errors: kLinkDown, kIpTooBig, kIpFragmentFailed, kNoMbuf (no headroom for the link header, or no
///         mbuf for a segment).
class Ip4Output {
 public:
  Ip4Output(Context& c, const Ingress& in, DropBin& bin) noexcept
      : c_{c}, in_{in}, bin_{bin}, now_s_{c.now_s}, link_{c} {}

  void send(rte_mbuf* m, table::Neighbour& to) noexcept;

  /// True if the neighbour is valid and has the same egress as the previous packet.
  [[nodiscard, gnu::always_inline]] bool same_egress(const table::Neighbour& to) const noexcept {
    return link_.same_egress(to);
  }
  /// Sends packets from number `i` on as long as they have one egress, and need only their link
  /// header and H::pass(); returns the number of the first other packet.
  /// Shape: to[i] is valid.
  template <class H>
  [[nodiscard, gnu::always_inline]] std::size_t send_run(std::span<rte_mbuf* const> pkts,
                                                         table::Neighbour* const* to,
                                                         std::size_t i) noexcept {
    link_.select(*to[i]);
    return link_.template send_run<H>(pkts, to, i, now_s_);
  }

 private:
  void link_down(rte_mbuf* m) const noexcept;
  void too_big(rte_mbuf* m, const table::Neighbour& to, std::uint16_t mtu) noexcept;

  Context& c_;
  const Ingress& in_;
  DropBin& bin_;
  // Copy from the context: the compiler must assume that any store into a packet changes the
  // context.
  std::uint32_t now_s_;
  LinkTx<wire::EtherType::kIpv4> link_;
};

void ip4_output(Context& c, const Ingress& in, const RoutedBurst& pkts) noexcept;

}  // namespace ipoib::fwd
