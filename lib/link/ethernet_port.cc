// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ethernet_port.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/log.h"
#include "lib/link/address_class.h"
#include "lib/wire/be.h"

namespace ipoib::link {
namespace {

constexpr wire::MacAddr kBroadcastMac = {std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                                         std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};

struct EthernetHdr {
  wire::MacAddr dst;
  wire::MacAddr src;
  wire::Be16 type;
};
static_assert(wire::WireRecord<EthernetHdr> && sizeof(EthernetHdr) == 14);

/// Shortest frame without its checksum.
constexpr std::size_t kMinFrame = 60;

std::vector<std::byte> encapsulate(const wire::MacAddr& dst, const wire::MacAddr& src,
                                   wire::EtherType type, std::span<const std::byte> payload) {
  std::vector<std::byte> frame(std::max(kMinFrame, sizeof(EthernetHdr) + payload.size()));
  const EthernetHdr hdr{dst, src, wire::Be16{static_cast<std::uint16_t>(type)}};
  std::memcpy(frame.data(), &hdr, sizeof hdr);
  std::memcpy(frame.data() + sizeof hdr, payload.data(), payload.size());
  return frame;
}

}  // namespace

EthernetPort::EthernetPort(EthernetPortConfig config, PortActions& actions, NeighbourSink& sink,
                           std::uint64_t seed, AddressSink& receiver)
    : config_{std::move(config)},
      actions_{actions},
      sink_{sink},
      receiver_{receiver},
      arp_{config_.name, config_.addresses, *this, cache_},
      rarp_{config_.rarp, config_.addresses, *this,
            [this](const wire::IpPrefix& own, TimePoint now) { on_rarp_address(own, now); }},
      own_groups_{*this},
      nd_{{config_.name, config_.id, config_.ip6, own_groups_, receiver}, *this, cache_, seed},
      solicitor_{arp_, nd_},
      cache_{config_.neighbour, config_.id, sink, solicitor_, *this, seed} {}

std::string EthernetPort::reason() const {
  return state_ == State::kWaiting ? "no carrier" : "";
}

void EthernetPort::set_state(State state) {
  if (state == state_) return;
  state_ = state;
  log(LogArea::kLink, LogLevel::kNotice, "{}: {}", config_.name, to_string(state));
  actions_.state_changed(state);
}

Status EthernetPort::set_mtu(std::uint16_t mtu, TimePoint now) {
  if (mtu < kMinMtu)
    return fail(Errc::kInvalidArgument, "invalid MTU {} of {}, allowed: at least {}", mtu,
                config_.name, kMinMtu);
  if (std::exchange(config_.mtu, mtu) == mtu) return {};
  cache_.reinstall();
  if (state_ == State::kUp) start_ip6(now);
  return {};
}

void EthernetPort::start(TimePoint now) {
  if (state_ != State::kDown && state_ != State::kStopped) return;
  set_state(State::kWaiting);
  own_groups_.start(config_.addresses, config_.ip6.routing, now);
  for (const auto& own : config_.addresses)
    if (own.addr.is_v4()) receiver_.address_ready(config_.id, own);
  set_carrier(carrier_, now);
}

void EthernetPort::stop(TimePoint now) {
  if (state_ == State::kStopped) return;
  const bool started = state_ != State::kDown;
  nd_.down(now);
  set_state(State::kStopped);
  arp_.stop();
  own_groups_.clear(now);
  for (const auto& own : config_.addresses)
    if (started && own.addr.is_v4()) receiver_.address_removed(config_.id, own);
  if (const auto own = rarp_.own()) std::erase(config_.addresses, *own);
  rarp_.stop();
  cache_.withdraw(Drop::kLinkDown);
}

void EthernetPort::set_carrier(bool carrier, TimePoint now) {
  carrier_ = carrier;
  if (carrier && state_ == State::kWaiting) {
    set_state(State::kUp);
    on_up(now);
  } else if (!carrier && state_ == State::kUp) {
    set_state(State::kWaiting);
  }
}

/// An address that was ready before the carrier was lost is used at once and announced.
void EthernetPort::on_up(TimePoint now) {
  arp_.announce(now);
  rarp_.start(now);
  start_ip6(now);
  cache_.request_gateways();
}

void EthernetPort::start_ip6(TimePoint now) {
  nd_.up(config_.addresses, wire::interface_id(actions_.mac()), config_.mtu, now);
}

/// A RARP reply assigned this node its address (RFC 903).
void EthernetPort::on_rarp_address(const wire::IpPrefix& own, TimePoint now) {
  config_.addresses.push_back(own);
  own_groups_.start(config_.addresses, config_.ip6.routing, now);
  receiver_.address_ready(config_.id, own);
  log(LogArea::kLink, LogLevel::kNotice, "{}: obtained address {} by RARP", config_.name,
      wire::to_string(own));
  arp_.announce(now);
}

void EthernetPort::on_neighbour_wanted(const wire::IpAddr& addr, HeldPacket packet, TimePoint now) {
  const bool group = wire::is_multicast(addr);
  if (const auto why = why_no_neighbour(own(addr), addr); why && !group)
    return sink_.drop(packet, *why, false);
  if (state_ != State::kUp) return sink_.drop(packet, Drop::kLinkDown, true);
  if (!addr.is_v4() && !nd_.running()) return sink_.drop(packet, Drop::kIp6Unsupported, false);
  if (group && !cache_.add_mapped(addr, wire::group_mac(addr), now))
    return sink_.drop(packet, Drop::kNeighbourTableFull, false);
  if (is_broadcast(config_.addresses, addr) && !cache_.add_static(addr, kBroadcastMac, now))
    return sink_.drop(packet, Drop::kNeighbourTableFull, false);
  cache_.request_neighbour(addr, packet, now);
}

Status EthernetPort::can_be_neighbour(const wire::IpAddr& addr) const {
  if (!is_neighbour_address(own(addr), addr))
    return fail(Errc::kInvalidArgument, "invalid neighbour address {} on {}", wire::to_string(addr),
                config_.name);
  return {};
}

Result<table::NeighbourIndex> EthernetPort::use_gateway(const wire::IpAddr& addr, TimePoint now) {
  if (const auto can = can_be_neighbour(addr); !can) return tl::make_unexpected(can.error());
  return cache_.use_gateway(addr, now);
}

Status EthernetPort::add_static(const wire::IpAddr& addr, std::string_view lladdr, std::uint16_t,
                                std::uint8_t, TimePoint now) {
  if (auto can = can_be_neighbour(addr); !can) return can;
  const auto mac = wire::parse_mac(lladdr);
  if (!mac || !is_plausible(*mac))
    return fail(Errc::kInvalidArgument,
                "'{}' is not a unicast MAC address of 6 octets in hexadecimal", lladdr);
  return cache_.add_static(addr, *mac, now);
}

void EthernetPort::on_arp(std::span<const std::byte> arp, std::uint16_t, std::uint32_t,
                          TimePoint now) {
  if (state_ != State::kUp) return;
  const auto record = wire::parse_arp<wire::MacAddr>(arp);
  if (record && record->op.host() >= static_cast<std::uint16_t>(wire::ArpOp::kRarpRequest))
    return rarp_.on_rarp(*record, now);
  arp_.on_arp(arp, now);
}

void EthernetPort::on_nd(std::span<const std::byte> packet, TimePoint now) {
  if (state_ == State::kUp) nd_.on_nd(packet, now);
}

// --- Groups ---

Status EthernetPort::join_group(const wire::IpAddr& group, TimePoint) {
  if (!wire::is_multicast(group))
    return fail(Errc::kInvalidArgument, "{} is not a multicast group", wire::to_string(group));
  if (++joins_[group] != 1) return {};
  actions_.join(wire::group_mac(group));
  receiver_.listen(config_.id, group);
  return {};
}

Status EthernetPort::leave_group(const wire::IpAddr& group, TimePoint) {
  const auto it = joins_.find(group);
  if (it == joins_.end())
    return fail(Errc::kNotFound, "{} is not joined on {}", wire::to_string(group), config_.name);
  if (--it->second > 0) return {};
  joins_.erase(it);
  actions_.leave(wire::group_mac(group));
  receiver_.unlisten(config_.id, group);
  return {};
}

std::vector<GroupInfo> EthernetPort::groups(TimePoint) const {
  std::vector<GroupInfo> rows;
  rows.reserve(joins_.size());
  for (const auto& [group, joins] : joins_)
    rows.push_back(
        {group, config_.name, wire::to_string(wire::group_mac(group)), 0, joins, "member"});
  return rows;
}

void EthernetPort::broadcast_arp(std::span<const std::byte> arp) {
  actions_.send(encapsulate(kBroadcastMac, actions_.mac(), wire::ether_type_of_arp(arp), arp));
}

void EthernetPort::unicast_arp(const wire::MacAddr& to, std::span<const std::byte> arp, TimePoint) {
  actions_.send(encapsulate(to, actions_.mac(), wire::ether_type_of_arp(arp), arp));
}

bool EthernetPort::send_to_group(const wire::IpAddr& group, std::span<const std::byte> packet,
                                 TimePoint now) {
  send_to(wire::group_mac(group), packet, now);
  return true;
}

void EthernetPort::send_to(const wire::MacAddr& to, std::span<const std::byte> packet, TimePoint) {
  actions_.send(encapsulate(to, actions_.mac(), wire::EtherType::kIpv6, packet));
}

void EthernetPort::describe(const wire::MacAddr& hw, table::Neighbour& out) const {
  out.mac = hw;
  out.mtu = config_.mtu;
}

void EthernetPort::tick(TimePoint now) {
  cache_.tick(now);
  arp_.tick(now);
  if (state_ == State::kUp) rarp_.tick(now);
  own_groups_.tick(now);
  if (state_ == State::kUp) nd_.tick(now);
}

std::optional<TimePoint> EthernetPort::next_deadline() const {
  const auto v4 = earlier(cache_.next_deadline(), arp_.next_deadline());
  const auto both = earlier(v4, own_groups_.next_deadline());
  if (state_ != State::kUp) return both;
  return earlier(both, earlier(rarp_.next_deadline(), nd_.next_deadline()));
}

}  // namespace ipoib::link
