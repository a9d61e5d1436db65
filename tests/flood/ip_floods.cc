// SPDX-License-Identifier: BSD-3-Clause
#include "tests/flood/ip_floods.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "lib/wire/arp.h"
#include "lib/wire/icmpv6.h"
#include "lib/wire/igmp.h"
#include "lib/wire/ipoib.h"
#include "lib/wire/nd.h"
#include "tests/flood/participants.h"
#include "tests/support/packets.h"

namespace ipoib::flood {
namespace {

using wire::EtherType;
using wire::IpAddr;

/// The upper half of each /16 has no hosts.
constexpr std::uint32_t kAbsent = 0x8000;
/// A host that is established and sends no packet of the stream while it floods is of no use, so the
/// one that floods is none of them.
const Host kFlooder{Side::kEthernet, SimHosts::kMost - 1000};

IpAddr any_absent(std::uint32_t net, Random& random) {
  return IpAddr::v4((net & ~0xffffU) | kAbsent | random.below(0x7f00) | 1);
}

Bytes arp_request(const wire::MacAddr& from, std::uint32_t ip) {
  return ethernet(
      kBroadcastMac, from, EtherType::kArp,
      wire::build_arp({wire::ArpOp::kRequest, from, ip,
                       wire::HwAddr::zero(wire::LinkKind::kEthernet), FloodNode::kEthIp}));
}

constexpr std::size_t kArpSenderMac = kEthHead + 8, kArpSenderIp = kArpSenderMac + 6;
constexpr std::size_t kSource4 = kEthHead + 12, kDest4 = kEthHead + 16;

/// A flood of one IPv4 frame from changing sources.
Flood with_sources(FloodNode& node, Bytes frame, std::uint32_t sources) {
  return [&node, frame = std::move(frame), sources, random = Random{3}]() mutable {
    node.give(Side::kEthernet, frame, [&](std::byte* octets) {
      if (sources == 1) return;
      // Most of them are absent; a packet in the name of a present host is as good.
      const std::uint32_t ip = (FloodNode::kEthIp & ~0xffffU) + 0x100 + random.below(0xfe00);
      put(octets + kSource4, ip);
      put(octets + 6 + 2, random.below(sources));
      put_checksum4(octets + kEthHead);
    });
  };
}

Bytes ip_frame(FloodNode& node, const Bytes& packet) {
  return ethernet(node.mac(), kFlooder.mac(), EtherType::kIpv4, packet);
}

Bytes ping(FloodNode& node) {
  return ip_frame(node, fwd::test::echo_packet(kFlooder.ip(), IpAddr::v4(FloodNode::kEthIp), 32));
}

Bytes udp(FloodNode& node, const IpAddr& to, std::uint8_t ttl) {
  return ip_frame(node, fwd::test::ip_packet(kFlooder.ip(), to, 17, Bytes(40), ttl));
}

constexpr std::uint32_t kMillion = 1'000'000;

}  // namespace

Flood arp_of_strangers(FloodNode& node, SimHosts&) {
  return [&node, frame = arp_request(mac_of(0), 0), random = Random{1}]() mutable {
    node.give(Side::kEthernet, frame, [&](std::byte* octets) {
      const std::uint32_t number = random.below(kMillion);
      put(octets + 6 + 2, number);
      put(octets + kArpSenderMac + 2, number);
      put(octets + kArpSenderIp, any_absent(FloodNode::kEthIp, random).v4_host());
    });
  };
}

Flood arp_of_one(FloodNode& node, SimHosts&) {
  return [&node, frame = arp_request(mac_of(7), 0), random = Random{1}]() mutable {
    node.give(Side::kEthernet, frame, [&](std::byte* octets) {
      put(octets + kArpSenderIp, any_absent(FloodNode::kEthIp, random).v4_host());
    });
  };
}

Flood arp_in_names(FloodNode& node, SimHosts& hosts) {
  constexpr unsigned kPorts = 40;
  std::vector<Bytes> frames;
  for (unsigned i = 0; i < Participants::kEstablished; i += 2) {
    const Host host{Side::kCable, i};
    const CablePort port = host.port();
    const auto arp =
        wire::build_arp({wire::ArpOp::kRequest, wire::LinkAddr{0, wire::Be24{port.qpn}, port.gid},
                         host.ip().v4_host(), wire::HwAddr::zero(wire::LinkKind::kInfiniband),
                         FloodNode::ib_ip(0)});
    for (unsigned p = 0; p < kPorts; ++p)
      frames.push_back(ud_to_group(Host{Side::kCable, kFlooder.number + p}.port(),
                                   wire::broadcast_mgid(wire::kDefaultPkey, 2),
                                   hosts.broadcast_mlid(), node.qkey(), wire::kDefaultPkey,
                                   encapsulated(EtherType::kArp, arp)));
  }
  return [&node, frames = std::move(frames), at = std::size_t{0}]() mutable {
    node.give(Side::kCable, frames[at++ % frames.size()]);
  };
}

Flood solicitations_of_strangers(FloodNode& node, SimHosts&) {
  constexpr std::size_t kSenders = 16'384;
  const IpAddr target = FloodNode::ip6(Side::kEthernet, 0, FloodNode::kOwnId);
  const IpAddr group = wire::solicited_node(target);
  std::vector<Bytes> frames;
  Random random{2};
  for (std::size_t i = 0; i < kSenders; ++i) {
    wire::NdMessage ns;
    ns.type = wire::Icmp6Type::kNeighbourSolicitation;
    ns.src.bytes = wire::Gid::of(wire::kDefaultGidPrefix, random.next()).bytes;
    ns.dst = group;
    ns.target = target;
    ns.source_hw = mac_of(random.below(kMillion));
    frames.push_back(ethernet(wire::group_mac(group), ns.source_hw->mac(), EtherType::kIpv6,
                              wire::build_nd(ns)));
  }
  return [&node, frames = std::move(frames), at = std::size_t{0}]() mutable {
    node.give(Side::kEthernet, frames[at++ % frames.size()]);
  };
}

Flood scan(FloodNode& node, SimHosts&, unsigned links, unsigned senders, unsigned macs) {
  const Host flooder6{Side::kEthernet, kFlooder.number + 1};
  Bytes v4 = udp(node, IpAddr::v4(FloodNode::ib_ip(0)), 64);
  Bytes v6 = ethernet(node.mac(), kFlooder.mac(), EtherType::kIpv6,
                      fwd::test::ip_packet(flooder6.ip(), flooder6.ip(), 17, Bytes(40)));
  return [&node, links, senders, macs, v4 = std::move(v4), v6 = std::move(v6), random = Random{4},
          sent = 0U]() mutable {
    const unsigned link = sent / 2 % links;
    const std::uint32_t mac = macs == 1 ? 0 : random.below(macs);
    const auto forge_mac = [&](std::byte* octets) {
      if (macs != 1) put(octets + 6 + 2, mac);
    };
    if (sent++ % 2 == 0) {
      node.give(Side::kEthernet, v4, [&](std::byte* octets) {
        forge_mac(octets);
        put(octets + kDest4, any_absent(FloodNode::ib_ip(link), random).v4_host());
        if (senders != 1)
          put(octets + kSource4,
              (FloodNode::kEthIp & ~0xffffU) + kAbsent + 1 + random.below(senders));
        put_checksum4(octets + kEthHead);
      });
      return;
    }
    node.give(Side::kEthernet, v6, [&](std::byte* octets) {
      const IpAddr to = FloodNode::ip6(Side::kCable, link, random.next() | 1);
      forge_mac(octets);
      std::ranges::copy(to.bytes, octets + kEthHead + 24);
      if (senders == 1) return;
      const IpAddr from =
          FloodNode::ip6(Side::kEthernet, 0, 0x1'0000'0000'0000 + random.below(senders));
      std::ranges::copy(from.bytes, octets + kEthHead + 8);
    });
  };
}

Flood ping_of_one(FloodNode& node, SimHosts&) {
  return with_sources(node, ping(node), 1);
}
Flood ping_of_many(FloodNode& node, SimHosts&) {
  return with_sources(node, ping(node), kMillion);
}
Flood udp_of_one(FloodNode& node, SimHosts&) {
  return with_sources(node, udp(node, IpAddr::v4(FloodNode::kEthIp), 64), 1);
}
Flood udp_of_many(FloodNode& node, SimHosts&) {
  return with_sources(node, udp(node, IpAddr::v4(FloodNode::kEthIp), 64), kMillion);
}
Flood ttl_of_many(FloodNode& node, SimHosts&) {
  return with_sources(node, udp(node, Host{Side::kCable, 0}.ip(), 1), kMillion);
}

Flood igmp_of_one(FloodNode& node, SimHosts&) {
  constexpr std::uint32_t kRecords = 180, kGroups = 10'000;
  std::vector<Bytes> frames;
  for (std::uint32_t first = 0; first < kGroups; first += kRecords) {
    wire::MembershipReport report;
    for (std::uint32_t i = 0; i < kRecords; ++i)
      report.records.push_back(
          {.type = wire::RecordType::kToExclude, .group = IpAddr::v4(0xef80'0000 + first + i)});
    frames.push_back(ethernet(wire::group_mac(wire::kIgmpV3Routers), kFlooder.mac(),
                              EtherType::kIpv4, wire::make_igmp(kFlooder.ip(), report)));
  }
  return [&node, frames = std::move(frames), at = std::size_t{0}]() mutable {
    node.give(Side::kEthernet, frames[at++ % frames.size()]);
  };
}

}  // namespace ipoib::flood
