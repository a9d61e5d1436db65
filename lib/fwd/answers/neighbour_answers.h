// SPDX-License-Identifier: BSD-3-Clause
// Answers of the worker itself to hosts that look for this node, while so many look for it that
// management cannot answer all: a flood of requests from made-up senders must not keep the others
// from finding their router.
//
// An answer needs no state: the worker turns the request into it, in the same mbuf. It learns nothing
// from the request (RFC 826 would have it merge the sender into its table): if packets for the sender
// come later, this node asks for it, and answers to its own requests have a budget that no stranger
// can use. Requests of neighbours that this node knows go to management first, so that a change of
// their address is seen.
//
// No host can aim the answers at another: each has at most the size of its request, leaves by the
// interface that the request came by, and goes to the MAC address that sent it. That address gets
// PuntLimits::stranger_per_source of them, and as many again each time that others have taken its
// place in the table of Punt: about once for 4,096 of their requests.
#pragma once

#include <rte_mbuf.h>

#include <span>

#include "lib/base/counters.h"
#include "lib/fwd/burst.h"
#include "lib/fwd/tx.h"
#include "lib/fwd/worker_config.h"
#include "lib/table/delivery_table.h"
#include "lib/table/next_hop.h"
#include "lib/table/prefix6_table.h"
#include "lib/table/prefix_table.h"

namespace ipoib::fwd {

/// The functions return false, without a change of the packet, if management alone may answer: the
/// interface is not Ethernet or not up, the target is no address of it that is in use, the sender is
/// no neighbour on it or claims an own address, or the request has a form that hosts which look for
/// their router do not send. After true, the packet is in Tx.
class NeighbourAnswers {
 public:
  /// The references are kept.
  NeighbourAnswers(const WorkerConfig& config, table::DeliveryTable& deliveries, Tx& tx,
                   Counter& answers);

  /// `m` starts at the ARP header; the frame's header is in front of it. A probe, which has no
  /// sender (RFC 5227 §2.1), is answered, too.
  [[nodiscard]] bool arp(const Ingress& in, rte_mbuf* m) noexcept;
  /// `m` starts at the IPv6 header of a neighbour solicitation or of another message; the frame's
  /// header is in front of it. Solicitations of duplicate address detection are left to management.
  [[nodiscard]] bool nd(const Ingress& in, rte_mbuf* m) noexcept;

 private:
  [[nodiscard]] const InterfaceEntry* ethernet(const Ingress& in) const noexcept;
  [[nodiscard]] bool is_on_link(const table::NextHop& hop, const Ingress& in) const noexcept;
  [[nodiscard]] bool is_own6(const Ingress& in, const wire::IpAddr& addr) noexcept;
  void send(const Ingress& in, const InterfaceEntry& entry, rte_mbuf* m) noexcept;

  std::span<const InterfaceEntry> interfaces_;
  const table::PrefixTable& prefixes_;
  const table::Prefix6Table& prefixes6_;
  const table::NextHopTable& next_hops_;
  table::DeliveryTable& deliveries_;
  Tx& tx_;
  Counter& answers_;
};

}  // namespace ipoib::fwd
