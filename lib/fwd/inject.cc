// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/inject.h"

#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <array>
#include <cstddef>

#include "lib/fabric/packet_meta.h"
#include "lib/fwd/ip_route.h"
#include "lib/fwd/multicast.h"
#include "lib/msg/worker_messages.h"

namespace ipoib::fwd {
namespace {

using msg::Down;

constexpr unsigned kMaxMessages = 32;

/// Messages off the ring; no constructor runs, because the dequeue overwrites them.
union Messages {
  Messages() noexcept {}
  std::array<Down, kMaxMessages> down;
};

/// The packet was received elsewhere, or by none: where it came from is no longer known.
void forget_sender(rte_mbuf* m) noexcept {
  fabric::meta_of(m).rx = {};
}

void trace_arrival(Context& c, rte_mbuf* m, table::InterfaceId in,
                   Tracer::StartsAt header) noexcept {
  c.trace.begin({&m, 1}, in, header);
  c.trace.entered({&m, 1}, msg::trace::Stage::kInject);
}

/// Routes packets in batches with one ingress interface and one IP version, so that a burst of
/// released packets is sent as a burst.
class RouteBatch {
 public:
  explicit RouteBatch(Context& c) noexcept : c_{c} {}
  RouteBatch(const RouteBatch&) = delete;
  RouteBatch& operator=(const RouteBatch&) = delete;
  ~RouteBatch() { flush(); }

  void add(table::InterfaceId iface, rte_mbuf* m) noexcept {
    if (iface != iface_) flush();
    iface_ = iface;
    forget_sender(m);
    trace_arrival(c_, m, iface, Tracer::StartsAt::kIp);
    const auto* const hdr = rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
    if (m->data_len < sizeof(wire::Ipv4Hdr)) return lost(m, Drop::kIpRunt);
    if (hdr->version() != 6) return add4(m, hdr->dst.host());
    if (m->data_len < sizeof(wire::Ipv6Hdr)) return lost(m, Drop::kIpRunt);
    add6(m, rte_pktmbuf_mtod(m, const wire::Ipv6Hdr*)->dst);
  }

  void flush() noexcept {
    flush4();
    flush6();
  }

 private:
  void lost(rte_mbuf* m, Drop reason) noexcept {
    DropBin{c_.trace, c_.ingress(iface_).counters.drops}.add(m, reason);
  }
  void add4(rte_mbuf* m, std::uint32_t dst) noexcept {
    flush6();
    if (ip4_.n == kMaxBurst) flush4();
    ip4_.push(m, dst);
  }
  void add6(rte_mbuf* m, const wire::IpAddr& dst) noexcept {
    flush4();
    if (ip6_.n == kMaxBurst) flush6();
    ip6_.push(m, dst);
  }
  void flush4() noexcept {
    if (ip4_.n == 0) return;
    const Ingress in = c_.ingress(iface_);
    ip4_route(c_, in, ip4_, Ttl::kKeep);
    ip4_.n = 0;
  }
  void flush6() noexcept {
    if (ip6_.n == 0) return;
    const Ingress in = c_.ingress(iface_);
    ip6_route(c_, in, ip6_, Ttl::kKeep);
    ip6_.n = 0;
  }

  Context& c_;
  table::InterfaceId iface_ = table::kNoInterface;
  Ip4Burst ip4_;
  Ip6Burst ip6_;
};

/// True if the entry can be used to send: its interface exists and is of the right kind.
bool usable(const Context& c, const table::Neighbour& n) noexcept {
  if (n.iface >= c.interfaces.size()) return false;
  switch (n.mode) {
    case table::NeighbourMode::kEthernet:
      return c.interfaces[n.iface].kind == InterfaceKind::kEthernet && n.queue == nullptr;
    case table::NeighbourMode::kUd:
    case table::NeighbourMode::kUdPaths:
      return c.interfaces[n.iface].kind == InterfaceKind::kIpoib && n.queue == nullptr &&
             n.qpn >> 24 == 0;
    case table::NeighbourMode::kRc:
    case table::NeighbourMode::kUc:
      return c.interfaces[n.iface].connected && n.queue != nullptr && c.tx.can_reach(n);
    case table::NeighbourMode::kUdFrame:
    case table::NeighbourMode::kUdGroupFrame: break;  // management does not know them
  }
  return false;
}

bool set_neighbour(Context& c, table::NeighbourIndex index,
                   const table::Neighbour& neighbour) noexcept {
  if (!usable(c, neighbour)) return false;
  table::Neighbour to = neighbour;
  c.frame_heads.fill(to);
  return c.neighbours->set(index, to);
}

/// True if the delivery names existing interfaces only.
bool usable(const Context& c, const table::Delivery& d) noexcept {
  const std::size_t n = c.interfaces.size();
  return d.in < n && (n >= table::kMaxMulticastInterfaces || d.out >> n == 0);
}

/// kSendOnInterface, kSendToRouters and kSendRaw.
void send(Context& c, const Down& message) noexcept {
  if (message.iface >= c.interfaces.size()) {
    c.stats.bad_messages.add(1);
    DropBin{c.trace, c.ingress(table::kNoInterface).counters.drops}.add(message.mbuf,
                                                                        Drop::kIbTxInvalid);
  } else if (message.kind == Down::Kind::kSendRaw) {
    trace_arrival(c, message.mbuf, table::kNoInterface,
                  Tracer::link_header(c.interfaces[message.iface]));
    c.tx.enqueue(message.iface, message.mbuf);
  } else {
    forget_sender(message.mbuf);
    trace_arrival(c, message.mbuf, message.in, Tracer::StartsAt::kIp);
    send_on_interface(c, c.ingress(message.in), message.mbuf, message.iface,
                      message.kind == Down::Kind::kSendToRouters);
  }
}

/// Ends the records of the trace before: its packets leave first.
void set_trace(Context& c, msg::trace::Session* session) noexcept {
  c.tx.flush();
  c.trace.end_loop();
  c.trace.set(session);
}

}  // namespace

std::uint32_t inject(Context& c, rte_ring* ring) noexcept {
  Messages messages;
  const std::uint32_t n = rte_ring_sc_dequeue_burst_elem(ring, messages.down.data(), sizeof(Down),
                                                         kMaxMessages, nullptr);
  if (n == 0) [[likely]]
    return 0;
  RouteBatch routed{c};
  for (std::uint32_t i = 0; i < n; ++i) {
    const Down& message = messages.down[i];
    // Packets sent before an entry changes use the old entry.
    if (message.kind != Down::Kind::kSendRouted) routed.flush();
    bool good = true;
    switch (message.kind) {
      case Down::Kind::kNeighbourSet:
        good = set_neighbour(c, message.index, message.neighbour);
        break;
      case Down::Kind::kNeighbourRemove: good = c.neighbours->remove(message.index); break;
      case Down::Kind::kSendRouted: routed.add(message.in, message.mbuf); break;
      case Down::Kind::kDeliverySet:
        good = usable(c, message.delivery) && set_delivery(c, message.delivery);
        break;
      case Down::Kind::kDeliveryRemove: good = c.deliveries->remove(message.delivery); break;
      case Down::Kind::kSendOnInterface:
      case Down::Kind::kSendToRouters:
      case Down::Kind::kSendRaw: send(c, message); break;
      case Down::Kind::kTrace: set_trace(c, message.trace); break;
    }
    if (!good) c.stats.bad_messages.add(1);
  }
  return n;
}

}  // namespace ipoib::fwd
