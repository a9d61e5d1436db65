// SPDX-License-Identifier: BSD-3-Clause
// Stage ip4_output: fits a routed packet to the link of its neighbour and prepends its link header.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/contract.h"
#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/fwd/link_output.h"

namespace ipoib::fwd {

/// Takes packets that start at their IPv4 header, one by one; they leave through Tx. A packet that
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

  /// True if the neighbour is valid and has the same egress as the previous packet:
  /// send_same_egress() is enough.
  [[nodiscard, gnu::always_inline]] bool same_egress(const table::Neighbour& to) const noexcept {
    return link_.same_egress(to);
  }
  /// Shape: same_egress() is true.
  [[nodiscard]] table::InterfaceId iface() const noexcept { return link_.iface(); }
  /// Like send(), for a neighbour with the same egress. Shape: same_egress(to).
  [[gnu::always_inline]] void send_same_egress(rte_mbuf* m, table::Neighbour& to) noexcept {
    expects(same_egress(to), "the packet has the same egress");
    table::NeighbourTable::touch(to, now_s_);
    if (!link_.fits(m, to)) [[unlikely]]
      return too_big(m, to, link_.mtu(to));
    link_.send_same_egress(to, m, bin_);
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
