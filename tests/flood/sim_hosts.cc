// SPDX-License-Identifier: BSD-3-Clause
#include "tests/flood/sim_hosts.h"

#include <algorithm>
#include <stdexcept>

#include "lib/wire/icmpv6.h"
#include "lib/wire/ipoib.h"

namespace ipoib::flood {
namespace {

using wire::EtherType;
using wire::IpAddr;

constexpr std::uint16_t kFirstLid = 0x100;
constexpr std::uint32_t kFirstQpn = 0x8000;
constexpr unsigned kPerNet = 250;
/// The low 24 bits of the hosts' IPv6 addresses are equal, so that one group serves all
/// solicitations.
constexpr std::uint64_t kHostId = 2;
constexpr std::uint8_t kScope = 2;
/// Octets of the longest frame.
constexpr std::size_t kLongest = 4'200;
constexpr unsigned kRcOpcodes = 0x20;  ///< RC's are below.

std::uint64_t low_half(const IpAddr& addr) {
  return wire::read<wire::Be64>(addr.bytes, 8)->host();
}

wire::LinkKind kind_of(Side side) {
  return side == Side::kEthernet ? wire::LinkKind::kEthernet : wire::LinkKind::kInfiniband;
}

wire::Gid solicitations() {
  return wire::mgid_of(wire::solicited_node(Host{Side::kCable, 1}.ip()), wire::kDefaultPkey,
                       kScope);
}

wire::SaMad join_request(const Host& host, const wire::Gid& mgid, std::uint32_t qkey) {
  using R = wire::McMemberRecord;
  wire::SaMad mad{};
  mad.hdr.mad.base_version = wire::kMadBaseVersion;
  mad.hdr.mad.mgmt_class = static_cast<std::uint8_t>(wire::MgmtClass::kSubnAdm);
  mad.hdr.mad.class_version = wire::kSaClassVersion;
  mad.hdr.mad.method = static_cast<std::uint8_t>(wire::Method::kSet);
  mad.hdr.mad.tid.set(std::uint64_t{host.number} + 1);
  mad.hdr.mad.attr_id.set(static_cast<std::uint16_t>(wire::Attr::kMcMemberRecord));
  R record{};
  record.mgid = mgid;
  record.port_gid = host.port().gid;
  record.pkey.set(wire::kDefaultPkey);
  record.qkey.set(qkey);
  record.scope_join = static_cast<std::uint8_t>(kScope << 4 | wire::join_state::kFullMember);
  mad.hdr.comp_mask.set(R::kMgid | R::kPortGid | R::kPkey | R::kJoin | R::kQkey | R::kTclass |
                        R::kSl | R::kFlow);
  std::ranges::copy(wire::bytes_of(record), mad.data.begin());
  return mad;
}

}  // namespace

IpAddr Host::ip() const {
  if (number % 2 != 0) return FloodNode::ip6(side, 0, std::uint64_t{number} << 24 | kHostId);
  const std::uint32_t net = side == Side::kEthernet ? FloodNode::kEthIp : FloodNode::ib_ip(0);
  return IpAddr::v4((net & ~0xffffU) + ((1 + number / kPerNet) << 8) + 1 + number % kPerNet);
}

CablePort Host::port() const {
  return {static_cast<std::uint16_t>(kFirstLid + number), kFirstQpn + number,
          gid_of(0x10'0000 + number)};
}

std::optional<Host> host_with(const IpAddr& addr) {
  Host host;
  if (addr.is_v4()) {
    const std::uint32_t ip = addr.v4_host();
    host.side = ip >> 16 == FloodNode::kEthIp >> 16 ? Side::kEthernet : Side::kCable;
    const unsigned third = ip >> 8 & 0xff, last = ip & 0xff;
    if (third == 0 || last == 0 || last > kPerNet) return std::nullopt;
    host.number = (third - 1) * kPerNet + last - 1;
  } else {
    host.side = addr.bytes[3] == std::byte{0x0b} ? Side::kEthernet : Side::kCable;
    const std::uint64_t id = low_half(addr);
    if (id >> 40 != 0 || (id & 0xff'ffff) != kHostId) return std::nullopt;
    host.number = static_cast<unsigned>(id >> 24);
  }
  if (host.ip() != addr) return std::nullopt;
  return host;
}

SimHosts::SimHosts(FloodNode& node) : node_{node} {
  const wire::Gid broadcast = wire::broadcast_mgid(wire::kDefaultPkey, kScope);
  const auto administrators = node.faces().view.subnet_administration();
  for (const auto& group : administrators.at(0).groups)
    if (group.mgid == broadcast) broadcast_mlid_ = group.mlid;
  if (broadcast_mlid_ == 0) throw std::runtime_error("there is no broadcast group");
}

wire::HwAddr SimHosts::hw_of(const Host& host) const {
  if (host.side == Side::kEthernet) return host.mac();
  const CablePort port = host.port();
  const std::uint8_t flags = connected_.contains(host.number) ? wire::LinkAddr::kFlagRc : 0;
  return wire::LinkAddr{flags, wire::Be24{port.qpn}, port.gid};
}

void SimHosts::send_mad(const Host& from, std::span<const std::byte, wire::kMadLen> mad) {
  node_.give(Side::kCable, mad_frame(from.port(), FloodNode::kLid, mad));
}

void SimHosts::ask_to_join(const Host& host) {
  for (const wire::Gid& mgid : {solicitations(), wire::broadcast_mgid(wire::kDefaultPkey, kScope)})
    send_mad(host, wire::bytes_of(join_request(host, mgid, node_.qkey())));
}

void SimHosts::send_to(const Host& from, const wire::HwAddr& to, EtherType type,
                       std::span<const std::byte> payload) {
  if (from.side == Side::kEthernet) {
    node_.give(Side::kEthernet, ethernet(to.mac(), from.mac(), type, payload));
    return;
  }
  const CablePort node{FloodNode::kLid, node_.qpn(0), {}};
  node_.give(Side::kCable,
             ud(from.port(), node, node_.qkey(), wire::kDefaultPkey, encapsulated(type, payload)));
}

void SimHosts::send(const Host& from, std::span<const std::byte> packet) {
  const bool v4 = std::to_integer<unsigned>(packet[0]) >> 4 == 4;
  send_to(from, node_.mac(), v4 ? EtherType::kIpv4 : EtherType::kIpv6, packet);
}

void SimHosts::ask_for_router(const Host& host) {
  if (!host.ip().is_v4()) {
    wire::NdMessage ns;
    ns.src = host.ip();
    ns.target = FloodNode::ip6(Side::kEthernet, 0, FloodNode::kOwnId);
    ns.dst = wire::solicited_node(ns.target);
    ns.source_hw = host.mac();
    return send_to(host, wire::group_mac(ns.dst), EtherType::kIpv6, wire::build_nd(ns));
  }
  const auto arp =
      wire::build_arp({wire::ArpOp::kRequest, host.mac(), host.ip().v4_host(),
                       wire::HwAddr::zero(wire::LinkKind::kEthernet), FloodNode::kEthIp});
  send_to(host, kBroadcastMac, EtherType::kArp, arp);
}

void SimHosts::receive() {
  for (const Side side : {Side::kEthernet, Side::kCable}) {
    while (rte_mbuf* const m = node_.take(side)) {
      std::array<std::byte, kLongest> copy;
      const auto* const first = static_cast<const std::byte*>(
          m->pkt_len <= copy.size() ? rte_pktmbuf_read(m, 0, m->pkt_len, copy.data()) : nullptr);
      const std::span octets{first, first == nullptr ? 0 : m->pkt_len};
      side == Side::kEthernet ? receive_ethernet(octets) : receive_cable(octets);
      rte_pktmbuf_free(m);
    }
  }
}

void SimHosts::receive_ethernet(std::span<const std::byte> frame) {
  const auto type = wire::read<wire::Be16>(frame, 12);
  if (type) arrive(Side::kEthernet, EtherType{type->host()}, frame.subspan(kEthHead));
}

void SimHosts::receive_cable(std::span<const std::byte> frame) {
  if (frame.size() < kEthHead) return;
  wire::IbaFrame packet;
  if (wire::parse_iba(frame.subspan(kEthHead), packet) == wire::FrameError::kNone &&
      packet.bth.opcode < kRcOpcodes)
    return on_rc(packet, frame.subspan(kEthHead + packet.body, packet.body_len));
  wire::UdFrame f;
  if (wire::parse_ud(frame.subspan(kEthHead), f) != wire::FrameError::kNone) return;
  const auto payload = frame.subspan(kEthHead + f.payload, f.payload_len);
  if (f.iba.bth.dest_qp.host() == 1) {
    const std::uint16_t lid = f.iba.lrh.dlid.host();
    if (lid >= kFirstLid) on_mad(lid - kFirstLid, payload);
    return;
  }
  if (f.iba.bth.pkey.host() != wire::kDefaultPkey) return;
  const auto header = wire::read<wire::IpoibHdr>(payload);
  if (header)
    arrive(Side::kCable, EtherType{header->type.host()}, payload.subspan(sizeof(*header)));
}

void SimHosts::arrive(Side side, EtherType type, std::span<const std::byte> packet) {
  if (type == EtherType::kArp) {
    if (const auto arp = wire::parse_arp(kind_of(side), packet)) answer_arp(side, *arp);
    return;
  }
  if (const auto mark = mark_of(packet)) {
    const bool v4 = type == EtherType::kIpv4;
    const auto to = v4 ? IpAddr::v4(wire::read<wire::Be32>(packet, 16)->host())
                       : *wire::read<IpAddr>(packet, 24);
    if (const auto host = host_with(to); host && host->side == side && present(*host))
      on_packet(*host, *mark);
    return;
  }
  if (type == EtherType::kIpv6) answer_nd(side, packet);
  if (type != EtherType::kIpv4) return;
  const auto to = wire::read<wire::Be32>(packet, 16);
  if (!to) return;
  if (const auto host = host_with(IpAddr::v4(to->host())); host && host->side == side)
    on_other(*host, packet);
}

void SimHosts::answer_arp(Side side, const wire::Arp& arp) {
  const auto host = host_with(IpAddr::v4(arp.target_ip));
  if (!host || host->side != side || !present(*host)) return;
  if (arp.op == wire::ArpOp::kReply) return on_router(*host);
  if (arp.op != wire::ArpOp::kRequest) return;
  const auto reply = wire::build_arp(
      {wire::ArpOp::kReply, hw_of(*host), arp.target_ip, arp.sender_hw, arp.sender_ip});
  send_to(*host, arp.sender_hw, EtherType::kArp, reply);
}

void SimHosts::answer_nd(Side side, std::span<const std::byte> packet) {
  const auto nd = wire::parse_nd(kind_of(side), packet);
  if (nd && nd->type == wire::Icmp6Type::kNeighbourAdvertisement && nd->solicited) {
    const auto asker = host_with(nd->dst);
    if (asker && asker->side == side && present(*asker)) on_router(*asker);
    return;
  }
  if (!nd || nd->type != wire::Icmp6Type::kNeighbourSolicitation || !nd->source_hw) return;
  const auto host = host_with(nd->target);
  if (!host || host->side != side || !present(*host)) return;
  wire::NdMessage na;
  na.type = wire::Icmp6Type::kNeighbourAdvertisement;
  na.src = na.target = nd->target;
  na.dst = nd->src;
  na.solicited = na.override_it = true;
  na.target_hw = hw_of(*host);
  send_to(*host, *nd->source_hw, EtherType::kIpv6, wire::build_nd(na));
}

}  // namespace ipoib::flood
