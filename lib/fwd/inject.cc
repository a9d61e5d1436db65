#include "lib/fwd/inject.h"

#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <array>

#include "lib/fwd/ip4_output.h"
#include "lib/fwd/ip4_route.h"
#include "lib/msg/messages.h"

namespace ipoib::fwd {
namespace {

using msg::Down;

constexpr unsigned kMaxMessages = 32;

/// Messages off the ring; no constructor, as they are overwritten.
union Messages {
  Messages() noexcept {}
  std::array<Down, kMaxMessages> down;
};

/// Routes packets in runs that came by the same interface, so that a burst of released packets is
/// sent as a burst.
class RoutedRun {
 public:
  explicit RoutedRun(Context& c) noexcept : c_{c} {}
  RoutedRun(const RoutedRun&) = delete;
  RoutedRun& operator=(const RoutedRun&) = delete;
  ~RoutedRun() { flush(); }

  void add(table::InterfaceId iface, rte_mbuf* m) noexcept {
    if (m->data_len < sizeof(wire::Ipv4Hdr)) {
      DropBin{c_.ingress(iface).counters.drops}.add(m, Drop::kIpRunt);
      return;
    }
    if (iface != iface_ || pkts_.n == kMaxBurst) flush();
    iface_ = iface;
    pkts_.push(m, rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*)->dst.host());
  }

  void flush() noexcept {
    if (pkts_.n == 0) return;
    const Ingress in = c_.ingress(iface_);
    RoutedBurst routed;
    ip4_route(c_, in, pkts_, Ttl::kStays, routed);
    ip4_output(c_, in, routed);
    pkts_.n = 0;
  }

 private:
  Context& c_;
  table::InterfaceId iface_ = table::kNoInterface;
  Ip4Burst pkts_;
};

/// The entry can be sent to: its interface exists and is of the kind.
bool usable(const Context& c, const table::Neighbour& n) noexcept {
  if (n.iface >= c.interfaces.size()) return false;
  switch (n.mode) {
    case table::NeighbourMode::kEthernet:
      return c.interfaces[n.iface].kind == InterfaceKind::kEthernet;
    case table::NeighbourMode::kUd: return c.interfaces[n.iface].kind == InterfaceKind::kIpoib;
    default: return false;
  }
}

/// To a neighbour of the interface, whatever the routes say.
void send_on(Context& c, const Down& message) noexcept {
  const Ingress in = c.ingress(table::kNoInterface);
  rte_mbuf* const m = message.mbuf;
  if (message.iface >= c.interfaces.size()) {
    c.stats.bad_messages.add(1);
    return DropBin{in.counters.drops}.add(m, Drop::kIbTxInvalid);
  }
  if (m->data_len < sizeof(wire::Ipv4Hdr)) return DropBin{in.counters.drops}.add(m, Drop::kIpRunt);
  const auto& hdr = *rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
  if (hdr.version() != 4) return DropBin{in.counters.drops}.add(m, Drop::kIpVersion);
  RoutedBurst routed;
  ip4_send_on(c, in, m, message.iface, hdr.dst.host(), routed);
  ip4_output(c, in, routed);
}

void send_raw(Context& c, const Down& message) noexcept {
  if (message.iface < c.interfaces.size()) return c.tx.enqueue(message.iface, message.mbuf);
  c.stats.bad_messages.add(1);
  DropBin{c.ingress(table::kNoInterface).counters.drops}.add(message.mbuf, Drop::kIbTxInvalid);
}

}  // namespace

std::uint32_t inject(Context& c, rte_ring* ring) noexcept {
  Messages messages;
  const std::uint32_t n = rte_ring_sc_dequeue_burst_elem(ring, messages.down.data(), sizeof(Down),
                                                         kMaxMessages, nullptr);
  RoutedRun routed{c};
  for (std::uint32_t i = 0; i < n; ++i) {
    const Down& message = messages.down[i];
    // What was sent before an entry changes is sent by the entry as it was.
    if (message.kind != Down::Kind::kSendRouted) routed.flush();
    bool good = true;
    switch (message.kind) {
      case Down::Kind::kNeighbourSet:
        good = usable(c, message.neighbour) && c.neighbours->set(message.index, message.neighbour);
        break;
      case Down::Kind::kNeighbourRemove: good = c.neighbours->remove(message.index); break;
      case Down::Kind::kSendRouted: routed.add(message.iface, message.mbuf); break;
      case Down::Kind::kDeliverySet: good = c.deliveries->set(message.delivery); break;
      case Down::Kind::kDeliveryRemove: good = c.deliveries->remove(message.delivery); break;
      case Down::Kind::kSendOn: send_on(c, message); break;
      case Down::Kind::kSendRaw: send_raw(c, message); break;
    }
    if (!good) c.stats.bad_messages.add(1);
  }
  return n;
}

}  // namespace ipoib::fwd
