// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/answers/neighbour_answers.h"

#include <rte_ether.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "lib/fwd/ip_trim.h"
#include "lib/fwd/mac_number.h"
#include "lib/wire/arp.h"
#include "lib/wire/icmpv6.h"
#include "lib/wire/nd.h"

namespace ipoib::fwd {
namespace {

using wire::Be16;
using wire::Be32;

/// A record of ARP for IPv4 on Ethernet. Source: RFC 826.
struct EthernetArp {
  Be16 hardware_type;
  Be16 protocol_type;
  std::uint8_t hardware_len;
  std::uint8_t protocol_len;
  Be16 op;
  wire::MacAddr sender_hw;
  Be32 sender_ip;
  wire::MacAddr target_hw;
  Be32 target_ip;

  [[nodiscard]] bool is_request() const noexcept {
    return hardware_type.host() == wire::kArpHardwareEthernet &&
           protocol_type.host() == static_cast<std::uint16_t>(wire::EtherType::kIpv4) &&
           hardware_len == sizeof(wire::MacAddr) && protocol_len == sizeof(Be32) &&
           op.host() == static_cast<std::uint16_t>(wire::ArpOp::kRequest);
  }
};
static_assert(wire::WireRecord<EthernetArp> && sizeof(EthernetArp) == 28);

/// A solicitation or advertisement with one option, a link-layer address of Ethernet.
/// Source: RFC 4861 §4.3, §4.4, §4.6.1.
struct EthernetNd {
  wire::Ipv6Hdr ip;
  std::uint8_t type;
  std::uint8_t code;
  Be16 checksum;
  Be32 flags;
  wire::IpAddr target;
  std::uint8_t option;
  std::uint8_t units;  ///< Length of the option in units of 8 octets.
  wire::MacAddr hw;

  static constexpr std::uint32_t kRouter = 0x8000'0000, kSolicited = 0x4000'0000;

  /// Hop limit and length are checked before (ip6_deliver).
  [[nodiscard]] bool is_solicitation() const noexcept {
    return ip.next_header == static_cast<std::uint8_t>(wire::IpProto::kIcmpv6) &&
           type == static_cast<std::uint8_t>(wire::Icmp6Type::kNeighbourSolicitation) &&
           code == 0 && option == static_cast<std::uint8_t>(wire::NdOption::kSourceLinkAddr) &&
           units == 1;
  }
};
static_assert(wire::WireRecord<EthernetNd> && sizeof(EthernetNd) == 72);

std::uint16_t icmp_checksum_of(const EthernetNd& nd) noexcept {
  return wire::icmp6_checksum(nd.ip.src, nd.ip.dst, wire::bytes_of(nd).subspan(sizeof(nd.ip)));
}

/// The first octets of the packet. Shape: there are enough.
template <wire::WireRecord Record>
Record* record_of(rte_mbuf* m) noexcept {
  return rte_pktmbuf_mtod(m, Record*);
}

/// The frame's header, in front of the packet.
std::byte* header_of(rte_mbuf* m) noexcept {
  return rte_pktmbuf_mtod(m, std::byte*) - RTE_ETHER_HDR_LEN;
}

/// True if a single host, which is not this node, has the address, and sent the frame from it.
bool is_sender(const wire::MacAddr& hw, const InterfaceEntry& entry, rte_mbuf* m) noexcept {
  constexpr std::uint64_t kGroup = 1;
  const std::uint64_t mac = mac_of(hw);
  return mac != 0 && (mac & kGroup) == 0 && mac != mac_of(entry.mac) &&
         std::memcmp(header_of(m) + sizeof(hw), hw.data(), sizeof(hw)) == 0;
}

}  // namespace

NeighbourAnswers::NeighbourAnswers(const WorkerConfig& config, table::DeliveryTable& deliveries,
                                   Tx& tx, Counter& answers)
    : interfaces_{config.interfaces},
      prefixes_{*config.prefixes},
      prefixes6_{*config.prefixes6},
      next_hops_{*config.next_hops},
      deliveries_{deliveries},
      tx_{tx},
      answers_{answers} {}

/// Returns the entry of the ingress interface if it is one of Ethernet that is up, else null.
const InterfaceEntry* NeighbourAnswers::ethernet(const Ingress& in) const noexcept {
  const InterfaceEntry& entry = interfaces_[in.iface];
  return entry.kind == InterfaceKind::kEthernet && entry.is_up() ? &entry : nullptr;
}

bool NeighbourAnswers::is_on_link(const table::NextHop& hop, const Ingress& in) const noexcept {
  return hop.kind == table::NextHopKind::kConnected && hop.iface == in.iface;
}

/// Sends the answer back to the sender of the frame.
void NeighbourAnswers::send(const Ingress& in, const InterfaceEntry& entry, rte_mbuf* m) noexcept {
  std::byte* const header = header_of(m);
  std::memcpy(header, header + RTE_ETHER_ADDR_LEN, RTE_ETHER_ADDR_LEN);
  std::memcpy(header + RTE_ETHER_ADDR_LEN, entry.mac.data(), entry.mac.size());
  static_cast<void>(prepend(m, RTE_ETHER_HDR_LEN));  // It was there when the frame came.
  answers_.add(1);
  tx_.enqueue(in.iface, m);
}

bool NeighbourAnswers::arp(const Ingress& in, rte_mbuf* m) noexcept {
  const InterfaceEntry* const entry = ethernet(in);
  if (entry == nullptr || m->data_len < sizeof(EthernetArp)) return false;
  auto& record = *record_of<EthernetArp>(m);
  if (!record.is_request() || !is_sender(record.sender_hw, *entry, m)) return false;
  const auto route = [this](Be32 addr) { return next_hops_.get(prefixes_.lookup(addr.host())); };
  const table::NextHop target = route(record.target_ip);
  if (target.kind != table::NextHopKind::kLocal || target.iface != in.iface) return false;
  if (record.sender_ip.host() != 0 && !is_on_link(route(record.sender_ip), in)) return false;

  record.op = Be16{static_cast<std::uint16_t>(wire::ArpOp::kReply)};
  std::swap(record.sender_ip, record.target_ip);
  record.target_hw = record.sender_hw;
  record.sender_hw = entry->mac;
  trim(m, sizeof(record));
  send(in, *entry, m);
  return true;
}

/// Addresses are in the tables once they have passed duplicate address detection.
bool NeighbourAnswers::is_own6(const Ingress& in, const wire::IpAddr& addr) noexcept {
  if (wire::is_link_local6(addr)) {
    const table::Delivery* const d = deliveries_.lookup(in.iface, addr, addr);
    return d != nullptr && d->local;
  }
  const table::NextHop hop = next_hops_.get(prefixes6_.lookup(addr));
  return hop.kind == table::NextHopKind::kLocal && hop.iface == in.iface;
}

/// The answer does not override another one. A host that has none takes it all the same, and the
/// address of any router of a network, which management answers with a delay (RFC 4861 §7.2.7) and
/// which ends with zeros, is left to management.
bool NeighbourAnswers::nd(const Ingress& in, rte_mbuf* m) noexcept {
  const InterfaceEntry* const entry = ethernet(in);
  if (entry == nullptr || m->nb_segs != 1 || m->data_len != sizeof(EthernetNd)) return false;
  auto& nd = *record_of<EthernetNd>(m);
  if (!nd.is_solicitation() || !is_sender(nd.hw, *entry, m) || icmp_checksum_of(nd) != 0)
    return false;
  if (nd.ip.dst != nd.target && nd.ip.dst != wire::solicited_node(nd.target)) return false;
  if (nd.target.bytes.back() == std::byte{0} || !is_own6(in, nd.target)) return false;
  const bool neighbour = wire::is_link_local6(nd.ip.src)
                             ? !is_own6(in, nd.ip.src)
                             : is_on_link(next_hops_.get(prefixes6_.lookup(nd.ip.src)), in);
  if (!neighbour) return false;

  nd.ip.version_class_flow = Be32{wire::Ipv6Hdr::kVersion6};
  nd.ip.dst = nd.ip.src;
  nd.ip.src = nd.target;
  nd.type = static_cast<std::uint8_t>(wire::Icmp6Type::kNeighbourAdvertisement);
  nd.flags = Be32{EthernetNd::kRouter | EthernetNd::kSolicited};
  nd.option = static_cast<std::uint8_t>(wire::NdOption::kTargetLinkAddr);
  nd.hw = entry->mac;
  nd.checksum = Be16{std::uint16_t{0}};
  nd.checksum = Be16{icmp_checksum_of(nd)};
  send(in, *entry, m);
  return true;
}

}  // namespace ipoib::fwd
