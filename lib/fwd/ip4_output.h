// Stage ip4_output: fits a routed packet to the link of its neighbour and gives it its link header.
#pragma once

#include <atomic>
#include <cstdint>

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

  [[gnu::always_inline]] void send(rte_mbuf* m, table::Neighbour& to) noexcept {
    link_.turn_to(to.iface);
    if (!link_.up()) [[unlikely]]
      return link_down(m);
    table::NeighbourCache::touch(to, now_s_);
    if (const std::uint16_t mtu = link_.mtu(to); m->pkt_len > mtu) [[unlikely]]
      too_big(m, to, mtu);
    else
      link_.send(to, wire::EtherType::kIpv4, m, bin_);
  }

 private:
  void link_down(rte_mbuf* m) const noexcept;
  void too_big(rte_mbuf* m, const table::Neighbour& to, std::uint16_t mtu) noexcept;

  Context& c_;
  const Ingress& in_;
  DropBin& bin_;
  // Out of the context: what is stored into packets may lie anywhere, for all the compiler knows.
  std::uint32_t now_s_;
  LinkRun link_;
};

void ip4_output(Context& c, const Ingress& in, const RoutedBurst& pkts) noexcept;

}  // namespace ipoib::fwd
