// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/ip_stack.h"

#include <utility>

#include "lib/base/log.h"
#include "lib/link/ip/address_class.h"

namespace ipoib::link {

IpStack::IpStack(const IpConfig& config, Medium& medium, NeighbourPaths& paths, NeighbourSink& sink,
                 AddressSink& receiver, std::uint64_t seed)
    : config_{config},
      medium_{medium},
      sink_{sink},
      receiver_{receiver},
      addresses_{config.addresses},
      arp_{config.name, addresses_, medium, neighbours_},
      rarp_{config.rarp, addresses_, medium,
            [this](const wire::IpPrefix& own, TimePoint now) { on_rarp_address(own, now); }},
      groups_{medium},
      nd_{{config.name, config.id, config.ip6, groups_, receiver}, medium, neighbours_, seed ^ 4},
      neighbours_{config.neighbour, config.id, sink, *this, paths, seed ^ 2} {}

// --- Life ---

void IpStack::start() {
  started_ = true;
  for (const auto& own : addresses_)
    if (own.addr.is_v4()) receiver_.address_ready(config_.id, own);
}

bool IpStack::join_groups(TimePoint now) {
  if (std::exchange(groups_joined_, true)) return false;
  groups_.start(addresses_, config_.ip6.routing, now);
  return true;
}

void IpStack::up(std::uint64_t interface_id, std::uint16_t mtu, TimePoint now) {
  rarp_.start(now);
  start_ip6(interface_id, mtu, now);
}

void IpStack::start_ip6(std::uint64_t interface_id, std::uint16_t mtu, TimePoint now) {
  nd_.up(addresses_, interface_id, mtu, now);
  neighbours_.request_gateways();
}

void IpStack::stop(TimePoint now) {
  nd_.down(now);
  groups_.clear(now);
  groups_joined_ = false;
  const bool started = std::exchange(started_, false);
  for (const auto& own : addresses_)
    if (started && own.addr.is_v4()) receiver_.address_removed(config_.id, own);
  if (const auto learned = rarp_.learned()) std::erase(addresses_, *learned);
  rarp_.stop();
}

void IpStack::withdraw() {
  ready_ = false;
  arp_.stop();
  neighbours_.withdraw(Drop::kLinkDown);
}

void IpStack::tell(const wire::IpAddr& addr, TimePoint now) {
  if (const auto hw = neighbours_.hw_of(addr)) probe(addr, *hw, now);
}

/// A RARP reply assigned this node its address (RFC 903).
void IpStack::on_rarp_address(const wire::IpPrefix& own, TimePoint now) {
  addresses_.push_back(own);
  if (groups_joined_) groups_.start(addresses_, config_.ip6.routing, now);
  receiver_.address_ready(config_.id, own);
  log(LogArea::kLink, LogLevel::kNotice, "{}: obtained address {} by RARP", config_.name,
      wire::to_string(own));
  arp_.announce(now);
}

// --- Neighbours ---

/// Drops the packet and returns true if the family of `addr` does not run.
bool IpStack::refuses(const wire::IpAddr& addr, HeldPacket packet) {
  if (!ready_) {
    sink_.drop(packet, Drop::kLinkDown, true);
    return true;
  }
  if (addr.is_v4() || nd_.running()) return false;
  sink_.drop(packet, Drop::kIp6Unsupported, false);
  return true;
}

void IpStack::request_neighbour(const wire::IpAddr& addr, HeldPacket packet, TimePoint now) {
  if (const auto why = why_no_neighbour(own_addresses(addr), addr))
    return sink_.drop(packet, *why, false);
  if (refuses(addr, packet)) return;
  if (is_broadcast(addresses_, addr) && !neighbours_.add_static(addr, medium_.broadcast_hw(), now))
    return sink_.drop(packet, Drop::kNeighbourTableFull, false);
  neighbours_.request_neighbour(addr, packet, now);
}

void IpStack::request_group(const wire::IpAddr& group, const wire::HwAddr& hw, HeldPacket packet,
                            TimePoint now) {
  if (refuses(group, packet)) return;
  if (!neighbours_.add_mapped(group, hw, now))
    return sink_.drop(packet, Drop::kNeighbourTableFull, false);
  neighbours_.request_neighbour(group, packet, now);
}

Result<table::NeighbourIndex> IpStack::use_gateway(const wire::IpAddr& addr, TimePoint now) {
  if (const auto can = can_be_neighbour(addr); !can) return tl::make_unexpected(can.error());
  return neighbours_.use_gateway(addr, now);
}

Status IpStack::can_be_neighbour(const wire::IpAddr& addr) const {
  if (!is_neighbour_address(own_addresses(addr), addr))
    return fail(Errc::kInvalidArgument, "invalid neighbour address {} on {}", wire::to_string(addr),
                config_.name);
  return {};
}

void IpStack::forget_broadcast_neighbours() {
  const auto forget = [this](const std::optional<wire::IpAddr>& addr) {
    if (addr && is_broadcast(addresses_, *addr)) static_cast<void>(neighbours_.remove(*addr));
  };
  forget(wire::IpAddr::v4(0xffff'ffff));
  for (const auto& own : addresses_) {
    forget(wire::directed_broadcast(own));
    forget(wire::net_broadcast(own));
  }
}

// --- Receiving ---

std::optional<wire::Arp> IpStack::on_arp(std::span<const std::byte> octets, TimePoint now) {
  if (!ready_) return std::nullopt;
  const wire::LinkFormat format = medium_.format();
  auto arp = wire::parse_arp(format, octets);
  if (arp && format.reply_order_varies() && arp->op == wire::ArpOp::kReply &&
      medium_.is_own(arp->sender_hw))
    arp = arp->exchanged();
  if (arp && arp->is_rarp()) {
    rarp_.on_rarp(*arp, now);
    return std::nullopt;
  }
  arp_.on_arp(arp, now);
  return arp;
}

std::optional<wire::HwAddr> IpStack::on_nd(std::span<const std::byte> packet, TimePoint now) {
  return ready_ ? nd_.on_nd(packet, now) : std::nullopt;
}

// --- Time ---

void IpStack::tick(TimePoint now) {
  neighbours_.tick(now);
  arp_.tick(now);
  if (ready_) rarp_.tick(now);
  groups_.tick(now);
  if (ready_) nd_.tick(now);
}

std::optional<TimePoint> IpStack::next_deadline() const {
  const auto always =
      earlier(earlier(neighbours_.next_deadline(), arp_.next_deadline()), groups_.next_deadline());
  if (!ready_) return always;
  return earlier(always, earlier(rarp_.next_deadline(), nd_.next_deadline()));
}

}  // namespace ipoib::link
