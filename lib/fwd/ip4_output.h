// SPDX-License-Identifier: BSD-3-Clause
// Stage ip4_output: fits a routed packet to the link of its neighbour and gives it its link header.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/contract.h"
#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/fwd/link_output.h"

namespace ipoib::fwd {

/// Takes packets that start at their IPv4 header, one by one; they leave through Tx. What is too
/// big for the neighbour is cut: TCP into segments where the interface offers that, else into
/// fragments where it may be; else its sender is told.
///
/// Errors: kLinkDown, kIpTooBig, kIpFragmentFailed, kNoMbuf (no room for the link
///         header, or none for a segment).
class Ip4Output {
 public:
  Ip4Output(Context& c, const Ingress& in, DropBin& bin) noexcept
      : c_{c}, in_{in}, bin_{bin}, now_s_{c.now_s}, link_{c} {}

  void send(rte_mbuf* m, table::Neighbour& to) noexcept;

  /// The neighbour is valid, and its packets leave as those before: send_on() is enough.
  [[nodiscard, gnu::always_inline]] bool goes_on_to(const table::Neighbour& to) const noexcept {
    return link_.goes_on_to(to);
  }
  /// Where goes_on_to() is true.
  [[nodiscard]] table::InterfaceId iface() const noexcept { return link_.iface(); }
  /// send(). Shape: goes_on_to(to).
  [[gnu::always_inline]] void send_on(rte_mbuf* m, table::Neighbour& to) noexcept {
    expects(goes_on_to(to), "the run is to the neighbour");
    table::NeighbourCache::touch(to, now_s_);
    if (!link_.fits(m, to)) [[unlikely]]
      return too_big(m, to, link_.mtu(to));
    link_.send_on(to, m, bin_);
  }

 private:
  void link_down(rte_mbuf* m) const noexcept;
  void too_big(rte_mbuf* m, const table::Neighbour& to, std::uint16_t mtu) noexcept;

  Context& c_;
  const Ingress& in_;
  DropBin& bin_;
  // Out of the context: what is stored into packets may lie anywhere, for all the compiler knows.
  std::uint32_t now_s_;
  LinkRun<wire::EtherType::kIpv4> link_;
};

void ip4_output(Context& c, const Ingress& in, const RoutedBurst& pkts) noexcept;

}  // namespace ipoib::fwd
