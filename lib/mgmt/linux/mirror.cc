// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/mirror.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/wire/frame.h"
#include "lib/wire/icmpv6.h"
#include "lib/wire/ip.h"
#include "lib/wire/ipoib.h"

namespace ipoib::mgmt {
namespace {

constexpr std::size_t kEthernetLen = 14;
constexpr Duration kRetry = std::chrono::seconds(1);
constexpr std::size_t kMaxFrameLen = kEthernetLen + 65'535;
/// Source of frames to Linux: a locally administered address, which no interface has.
constexpr wire::MacAddr kSender = {std::byte{2}, std::byte{0}, std::byte{0},
                                   std::byte{0}, std::byte{0}, std::byte{0xfe}};
constexpr std::uint8_t kHopByHop = 0;
/// Types of MLD. Source: RFC 2710 §3, RFC 3810 §5.2.
constexpr std::array<std::uint8_t, 4> kMldTypes = {130, 131, 132, 143};

using Sent = Mirror::Sent;

/// Destination MAC address of a packet to Linux, whose interface has the address `own`.
wire::MacAddr mac_for(const wire::IpAddr& to, const std::array<std::uint8_t, 6>& own) {
  if (wire::is_multicast(to)) return wire::group_mac(to);
  wire::MacAddr mac;
  std::transform(own.begin(), own.end(), mac.begin(), [](std::uint8_t o) { return std::byte{o}; });
  return mac;
}

/// `packet` may have padding behind it, which is cut off.
Sent classify4(std::span<const std::byte>& packet) {
  const auto ip = wire::read<wire::Ipv4Hdr>(packet);
  if (!ip || ip->version() != 4 || ip->header_len() < sizeof(wire::Ipv4Hdr)) return Sent::kRefused;
  const std::size_t len = ip->total_len.host();
  if (len < ip->header_len() || len > packet.size()) return Sent::kRefused;
  packet = packet.first(len);
  return ip->protocol == static_cast<std::uint8_t>(wire::IpProto::kIgmp) ? Sent::kMembership
                                                                         : Sent::kPacket;
}

/// Linux sends MLD with a hop-by-hop header, and ND without one.
Sent classify6(std::span<const std::byte>& packet) {
  const auto ip = wire::read<wire::Ipv6Hdr>(packet);
  if (!ip || ip->version() != 6) return Sent::kRefused;
  const std::size_t len = sizeof(wire::Ipv6Hdr) + ip->payload_len.host();
  if (len > packet.size()) return Sent::kRefused;
  packet = packet.first(len);
  std::uint8_t next = ip->next_header;
  std::size_t at = sizeof(wire::Ipv6Hdr);
  if (next == kHopByHop && at + 2 <= len) {
    next = std::to_integer<std::uint8_t>(packet[at]);
    at += 8 * (std::to_integer<std::size_t>(packet[at + 1]) + 1);
  }
  if (next != static_cast<std::uint8_t>(wire::IpProto::kIcmpv6) || at >= len) return Sent::kPacket;
  const auto type = std::to_integer<std::uint8_t>(packet[at]);
  if (std::ranges::count(kMldTypes, type) != 0) return Sent::kMembership;
  const bool nd = type >= static_cast<std::uint8_t>(wire::Icmp6Type::kRouterSolicitation) &&
                  type <= static_cast<std::uint8_t>(wire::Icmp6Type::kRedirect);
  return nd ? Sent::kRefused : Sent::kPacket;
}

/// True if the frame is for one station whose MAC address the program knows. Linux itself, which asks
/// for no neighbours, puts the address of the mirror there, as the source.
bool names_neighbour(std::span<const std::byte> frame) {
  constexpr std::size_t kLen = sizeof(wire::MacAddr);
  const bool group = (frame[0] & std::byte{1}) != std::byte{0};
  return !group && !std::ranges::equal(frame.first(kLen), frame.subspan(kLen, kLen));
}

/// The octets of the address as the kernel has them: 4 or 16.
std::span<const std::byte> octets_of(const wire::IpAddr& addr) {
  const std::span<const std::byte> all{addr.bytes};
  return addr.is_v4() ? all.last(4) : all;
}

}  // namespace

Result<std::unique_ptr<Mirror>> Mirror::create(const kernel::TapConfig& config,
                                               kernel::NetlinkRequests& requests, bool of_port) {
  auto tap = kernel::Tap::create(config);
  if (!tap) return tl::make_unexpected(tap.error());
  return std::unique_ptr<Mirror>{new Mirror{config, std::move(*tap), requests, of_port}};
}

Mirror::Mirror(const kernel::TapConfig& config, std::unique_ptr<kernel::Tap> tap,
               kernel::NetlinkRequests& requests, bool of_port)
    : config_{config},
      tap_{std::move(tap)},
      requests_{requests},
      of_port_{of_port},
      frame_(kMaxFrameLen) {}

Drop Mirror::deliver(std::span<const std::byte> packet) {
  expects_management();
  const auto v4 = wire::read<wire::Ipv4Hdr>(packet);
  if (!v4) return Drop::kIpRunt;
  const auto v6 = wire::read<wire::Ipv6Hdr>(packet);
  const bool is_v4 = v4->version() == 4;
  if (!is_v4 && !v6) return Drop::kIpRunt;
  const auto to = mac_for(is_v4 ? wire::IpAddr::v4(v4->dst.host()) : v6->dst, tap_->mac());
  return deliver_to(to, is_v4 ? wire::EtherType::kIpv4 : wire::EtherType::kIpv6, packet);
}

Drop Mirror::deliver_broadcast(std::span<const std::byte> packet) {
  expects_management();
  wire::MacAddr all;
  all.fill(std::byte{0xff});
  return deliver_to(all, wire::EtherType::kIpv4, packet);
}

Drop Mirror::deliver_to(const wire::MacAddr& to, wire::EtherType type,
                        std::span<const std::byte> packet) {
  const wire::Be16 wire_type{static_cast<std::uint16_t>(type)};
  std::array<std::byte, kEthernetLen> header;
  std::copy(to.begin(), to.end(), header.begin());
  std::copy(kSender.begin(), kSender.end(), header.begin() + 6);
  std::memcpy(&header[12], &wire_type, sizeof wire_type);
  return give(header, packet);
}

Drop Mirror::deliver_frame(std::span<const std::byte> frame) {
  expects_management();
  expects(frame.size() >= kEthernetLen, "the frame has a header");
  return give(frame.first(kEthernetLen), frame.subspan(kEthernetLen));
}

Drop Mirror::give(std::span<const std::byte> header, std::span<const std::byte> packet) {
  const Status sent = tap_->send(header, packet);
  if (!sent)
    return sent.error().code == Errc::kNoResources ? Drop::kLinuxNoMemory : Drop::kLinuxDown;
  ++counters_.delivered;
  return Drop::kNone;
}

Sent Mirror::next(std::span<const std::byte>& packet) {
  const auto len = tap_->receive(frame_);
  if (!len) return Sent::kGone;
  if (*len == 0) return Sent::kNothing;
  ++counters_.taken;
  const std::span<const std::byte> frame = std::span{frame_}.first(*len);
  const auto type = wire::read<wire::Be16>(frame, kEthernetLen - sizeof(wire::Be16));
  packet = frame.subspan(std::min(*len, kEthernetLen));
  if (!type) return Sent::kRefused;
  Sent sent = Sent::kRefused;
  switch (wire::EtherType{type->host()}) {
    case wire::EtherType::kIpv4: sent = classify4(packet); break;
    case wire::EtherType::kIpv6: sent = classify6(packet); break;
    case wire::EtherType::kLldp: sent = of_port_ ? Sent::kFrame : Sent::kRefused; break;
    default: break;
  }
  if (sent == Sent::kPacket && of_port_ && names_neighbour(frame)) sent = Sent::kFrame;
  if (sent == Sent::kFrame) packet = frame;
  return sent;
}

void Mirror::set_carrier(bool up) {
  if (carrier_ == up || !tap_->set_carrier(up)) return;
  carrier_ = up;
}

void Mirror::set_dormant(bool dormant, TimePoint now) {
  if (dormant_ == dormant || now < dormant_again_) return;
  if (const Status s = requests_.set_dormant(ifindex(), dormant); !s) {
    dormant_again_ = now + kRetry;
    return report(dormant ? "cannot make it dormant" : "cannot make it active", s, now);
  }
  dormant_ = dormant;
}

void Mirror::set_mtu(unsigned mtu) {
  if (config_.mtu == mtu) return;
  // A value that Linux refuses is not offered again.
  config_.mtu = mtu;
  if (const Status s = requests_.set_mtu(ifindex(), mtu); !s)
    log(LogArea::kMgmt, LogLevel::kWarning, "{}: Linux does not take the MTU {}: {}", name(), mtu,
        s.error().what);
}

void Mirror::set_addresses(const std::vector<wire::IpPrefix>& addresses, TimePoint now) {
  const auto is_wanted = [&](const wire::IpPrefix& p) {
    return std::find(addresses.begin(), addresses.end(), p) != addresses.end();
  };
  for (auto it = addresses_.begin(); it != addresses_.end();) {
    if (is_wanted(*it)) {
      ++it;
      continue;
    }
    if (const Status removed = remove(*it); !removed)
      report("cannot remove " + wire::to_string(*it), removed, now);
    it = addresses_.erase(it);
  }
  std::erase_if(refused_, [&](const auto& entry) { return !is_wanted(entry.first); });
  for (const wire::IpPrefix& p : addresses) {
    const auto refused = refused_.find(p);
    if (!addresses_.contains(p) && (refused == refused_.end() || now >= refused->second))
      add(p, now);
  }
}

bool Mirror::add(const wire::IpPrefix& address, TimePoint now) {
  const Status added = requests_.add_address(ifindex(), octets_of(address.addr), address.len);
  if (!added && added.error().code != Errc::kExists) {
    if (refused_.insert_or_assign(address, now + kRetry).second)
      report("cannot add " + wire::to_string(address), added, now);
    return false;
  }
  refused_.erase(address);
  addresses_.insert(address);
  return true;
}

Status Mirror::remove(const wire::IpPrefix& address) {
  Status removed = requests_.remove_address(ifindex(), octets_of(address.addr), address.len);
  if (!removed && removed.error().code == Errc::kNotFound) return {};
  return removed;
}

bool Mirror::restore(const wire::IpPrefix& address, TimePoint now) {
  return addresses_.erase(address) != 0 && add(address, now);
}

void Mirror::report(std::string_view what, const Status& status, TimePoint now) {
  if (const auto suppressed = log_.allow(now))
    log(LogArea::kMgmt, LogLevel::kWarning, "{}: mirror of Linux: {}: {} ({} messages suppressed)",
        name(), what, status.error().what, *suppressed);
}

}  // namespace ipoib::mgmt
