// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/worker/injector.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>

#include "lib/base/contract.h"
#include "lib/fabric/packet_meta.h"
#include "lib/mgmt/slow_path/ip_mbuf.h"

namespace ipoib::mgmt {
namespace {

/// `iface`: egress, `in`: ingress interface.
msg::Down send_message(msg::Down::Kind kind, table::InterfaceId iface, rte_mbuf* m,
                       table::InterfaceId in = table::kNoInterface) {
  msg::Down down;
  down.kind = kind;
  down.iface = iface;
  down.in = in;
  down.index = table::kNoNeighbour;
  down.mbuf = m;
  return down;
}

/// True if the interface, not a route, determines the way to the address.
bool is_of_link(const wire::IpAddr& to) {
  return wire::is_multicast(to) || wire::is_link_local6(to);
}

msg::Down::Kind kind_of(fabric::Onward onward) {
  switch (onward) {
    case fabric::Onward::kByRoute: break;
    case fabric::Onward::kOnInterface: return msg::Down::Kind::kSendOnInterface;
    case fabric::Onward::kToRouters: return msg::Down::Kind::kSendToRouters;
  }
  return msg::Down::Kind::kSendRouted;
}

/// Octets that an mbuf of the pool has after its headroom.
std::size_t room_of(rte_mempool* pool) {
  return rte_pktmbuf_data_room_size(pool) - std::size_t{RTE_PKTMBUF_HEADROOM};
}

/// Copies to a chain of mbufs. Returns null if the pool has not enough.
rte_mbuf* copy_into(rte_mempool* pool, std::span<const std::byte> octets) {
  rte_mbuf* const head = rte_pktmbuf_alloc(pool);
  for (rte_mbuf* last = head; last != nullptr;) {
    const std::size_t len = std::min(octets.size(), room_of(pool));
    std::memcpy(rte_pktmbuf_mtod(last, void*), octets.data(), len);
    last->data_len = static_cast<std::uint16_t>(len);
    head->pkt_len += static_cast<std::uint32_t>(len);
    octets = octets.subspan(len);
    if (octets.empty()) return head;
    last->next = rte_pktmbuf_alloc(pool);
    if (last->next != nullptr) ++head->nb_segs;
    last = last->next;
  }
  rte_pktmbuf_free(head);
  return nullptr;
}

}  // namespace

void Injector::send_on_interface(table::InterfaceId iface, std::span<const std::byte> packet) {
  expects_management();
  InterfaceSlot& egress = *interfaces_.find(iface);
  rte_mbuf* m = copy(packet, egress.drops);
  if (m == nullptr) return;
  workers_.send(egress.owner(), send_message(msg::Down::Kind::kSendOnInterface, iface, m));
}

void Injector::send_raw(table::InterfaceId iface, fabric::AhIndex ah, std::uint32_t qpn,
                        std::span<const std::byte> frame) {
  expects_management();
  InterfaceSlot& egress = *interfaces_.find(iface);
  rte_mbuf* m = copy(frame, egress.drops);
  if (m == nullptr) return;
  auto& tx = fabric::meta_of(m).tx;
  tx.ah = ah;
  tx.qpn = qpn;
  tx.iface = iface;
  workers_.send(egress.owner(), send_message(msg::Down::Kind::kSendRaw, iface, m));
}

void Injector::send_own(rte_mbuf* m, const InterfaceSlot* by) {
  expects_management();
  ++originated_;
  give_to_worker(m, by);
}

bool Injector::send_own(std::span<const std::byte> packet, InterfaceSlot* by) {
  expects_management();
  rte_mbuf* m = copy(packet, by != nullptr ? by->drops : drops_);
  if (m != nullptr) give_to_worker(m, by);
  return m != nullptr;
}

void Injector::send_of_linux(std::span<const std::byte> packet, InterfaceSlot& by,
                             bool on_interface) {
  expects_management();
  rte_mbuf* m = copy(packet, by.drops);
  if (m == nullptr) return;
  const table::InterfaceId iface = by.control->id();
  workers_.send(by.owner(),
                on_interface
                    ? send_message(msg::Down::Kind::kSendOnInterface, iface, m, iface)
                    : send_message(msg::Down::Kind::kSendRouted, table::kNoInterface, m, iface));
}

void Injector::give_to_worker(rte_mbuf* m, const InterfaceSlot* by) {
  const unsigned worker = by != nullptr ? by->owner() : 0;
  if (by != nullptr && is_of_link(destination_of(m)))
    workers_.send(worker, send_message(msg::Down::Kind::kSendOnInterface, by->control->id(), m));
  else
    workers_.send(worker, send_message(msg::Down::Kind::kSendRouted, table::kNoInterface, m));
}

void Injector::send_held(rte_mbuf* m) {
  expects_management();
  const auto held = fabric::meta_of(m).held;
  workers_.send(interfaces_.find(held.out_iface)->owner(),
                send_message(kind_of(held.onward), held.out_iface, m, held.in_iface));
}

/// Returns null and counts a drop if there are no mbufs.
rte_mbuf* Injector::copy(std::span<const std::byte> octets, DropCounters& drops) {
  ++originated_;
  rte_mbuf* m = copy_into(buffers_.pool, octets);
  if (m == nullptr && octets.size() <= room_of(buffers_.reserve))
    m = copy_into(buffers_.reserve, octets);
  if (m == nullptr) drops.add(Drop::kNoMbuf);
  return m;
}

}  // namespace ipoib::mgmt
