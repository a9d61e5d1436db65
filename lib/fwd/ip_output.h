// SPDX-License-Identifier: BSD-3-Clause
// Stage ip_output: fits a routed packet to the link of its neighbour and prepends its link header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/contract.h"
#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/fwd/link_output.h"

namespace ipoib::fwd {

/// Takes packets that start at their IP header, of the version that `kType` names; they leave
/// through Tx. A TCP packet that is too big for the neighbour is cut into segments if the interface
/// offers that. Another IPv4 packet is cut into fragments if that is allowed. For all others, and
/// for IPv6, the sender gets an ICMP error.
///
/// Errors: kLinkDown, kIpTooBig, kIpFragmentFailed, kIp6LinkMtu (the link cannot carry IPv6),
///         kNoMbuf (no headroom for the link header, or no mbuf for a segment).
/// Source: RFC 791 §2.3, RFC 1812 §4.2.2.7; RFC 8200 §5, RFC 4443 §3.2.
template <wire::EtherType kType>
class IpOutput {
 public:
  IpOutput(Context& c, const Ingress& in, DropBin& bin) noexcept
      : c_{c}, in_{in}, bin_{bin}, now_s_{c.now_s}, link_{c} {}

  void send(rte_mbuf* m, table::Neighbour& to) noexcept;

  /// True if the neighbour is valid and has the same egress as the previous packet.
  [[nodiscard, gnu::always_inline]] bool same_egress(const table::Neighbour& to) const noexcept {
    return link_.same_egress(to);
  }
  /// Lets others enqueue packets, until the next one is sent here.
  void end() noexcept { link_.end(); }
  /// Sends packets from number `i` on as long as they have one egress, and need only their link
  /// header and H::pass(); returns the number of the first other packet.
  /// Shape: to[i] is valid.
  template <class H>
  [[nodiscard, gnu::always_inline]] std::size_t send_run(std::span<rte_mbuf* const> pkts,
                                                         table::Neighbour* const* to,
                                                         std::size_t i) noexcept {
    expects(i < pkts.size() && to[i]->state == table::NeighbourState::kValid, "to[i] is valid");
    link_.select(*to[i]);
    if (kMinMtu != 0 && link_.mtu(*to[i]) < kMinMtu) [[unlikely]]
      return i;
    return link_.template send_run<ForLink<H>>(pkts, to, i, now_s_);
  }

 private:
  /// MTU that a link must have. 0: any.
  static constexpr std::uint16_t kMinMtu =
      kType == wire::EtherType::kIpv6 ? wire::kMinIpv6Mtu : std::uint16_t{0};
  /// H, for packets whose neighbour can have them.
  template <class H>
  struct ForLink {
    [[gnu::always_inline]] static bool may_pass(const std::byte* ip,
                                                const table::Neighbour& to) noexcept {
      return to.mtu >= kMinMtu && H::may_pass(ip, to);
    }
    [[gnu::always_inline]] static void pass(std::byte* ip) noexcept { H::pass(ip); }
  };

  void link_down(rte_mbuf* m) const noexcept;
  void too_big(rte_mbuf* m, const table::Neighbour& to, std::uint16_t mtu) noexcept;

  Context& c_;
  const Ingress& in_;
  DropBin& bin_;
  // Copy from the context: the compiler must assume that any store into a packet changes the
  // context.
  std::uint32_t now_s_;
  LinkTx<kType> link_;
};

/// Sends packets whose hops are decremented, in order.
template <wire::EtherType kType>
void ip_output(Context& c, const Ingress& in, const RoutedBurst& pkts) noexcept;

}  // namespace ipoib::fwd
