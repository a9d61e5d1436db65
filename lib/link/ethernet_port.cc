#include "lib/link/ethernet_port.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lib/base/log.h"
#include "lib/link/own_addresses.h"
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
static_assert(sizeof(EthernetHdr) + sizeof(wire::EthArp) <= kMinFrame);

std::array<std::byte, kMinFrame> encapsulate(const wire::MacAddr& dst, const wire::MacAddr& src,
                                             std::span<const std::byte> arp) {
  std::array<std::byte, kMinFrame> frame{};
  const EthernetHdr hdr{dst, src, wire::Be16{static_cast<std::uint16_t>(wire::EtherType::kArp)}};
  std::memcpy(frame.data(), &hdr, sizeof hdr);
  std::memcpy(frame.data() + sizeof hdr, arp.data(), std::min(arp.size(), sizeof(wire::EthArp)));
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
      cache_{config_.neighbour, config_.id, sink, arp_, *this, seed} {}

std::string EthernetPort::reason() const {
  return state_ == State::kWaiting ? "no carrier" : "";
}

void EthernetPort::set_state(State state) {
  if (state == state_) return;
  state_ = state;
  log(LogArea::kLink, LogLevel::kNotice, "{}: {}", config_.name, to_string(state));
  actions_.state_changed(state);
}

void EthernetPort::start(TimePoint now) {
  if (state_ != State::kDown && state_ != State::kStopped) return;
  set_state(State::kWaiting);
  set_carrier(carrier_, now);
}

void EthernetPort::stop(TimePoint) {
  if (state_ == State::kStopped) return;
  set_state(State::kStopped);
  arp_.stop();
  cache_.withdraw(Drop::kLinkDown);
}

void EthernetPort::set_carrier(bool carrier, TimePoint now) {
  carrier_ = carrier;
  if (carrier && state_ == State::kWaiting) {
    set_state(State::kUp);
    arp_.announce(now);
  } else if (!carrier && state_ == State::kUp) {
    set_state(State::kWaiting);
  }
}

void EthernetPort::on_neighbour_wanted(const wire::IpAddr& addr, HeldPacket packet, TimePoint now) {
  if (const auto why = why_no_neighbour(config_.addresses, addr))
    return sink_.drop(packet, *why, false);
  if (state_ != State::kUp) return sink_.drop(packet, Drop::kLinkDown, true);
  if (is_broadcast(config_.addresses, addr) && !cache_.add_static(addr, kBroadcastMac, now))
    return sink_.drop(packet, Drop::kNeighbourTableFull, false);
  cache_.want(addr, packet, now);
}

Status EthernetPort::can_be_neighbour(const wire::IpAddr& addr) const {
  if (!is_neighbour_address(config_.addresses, addr))
    return fail(Errc::kInvalidArgument, "{} cannot be a neighbour on {}", wire::to_string(addr),
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
    return fail(Errc::kInvalidArgument, "'{}' is no unicast MAC address: 6 octets in hex", lladdr);
  return cache_.add_static(addr, *mac, now);
}

void EthernetPort::on_arp(std::span<const std::byte> arp, std::uint16_t, std::uint32_t,
                          TimePoint now) {
  if (state_ == State::kUp) arp_.on_arp(arp, now);
}

void EthernetPort::on_nd(std::span<const std::byte>, TimePoint) {
  ++nd_unsupported_;
}

// --- Groups ---

Status EthernetPort::join_group(const wire::IpAddr& group, TimePoint) {
  if (!wire::is_multicast(group))
    return fail(Errc::kInvalidArgument, "{} is no multicast group", wire::to_string(group));
  if (++joins_[group] == 1) receiver_.listen(config_.id, group);
  return {};
}

Status EthernetPort::leave_group(const wire::IpAddr& group, TimePoint) {
  const auto it = joins_.find(group);
  if (it == joins_.end())
    return fail(Errc::kNotFound, "{} is not joined on {}", wire::to_string(group), config_.name);
  if (--it->second > 0) return {};
  joins_.erase(it);
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
  actions_.send(encapsulate(kBroadcastMac, actions_.mac(), arp));
}

void EthernetPort::unicast_arp(const wire::MacAddr& to, std::span<const std::byte> arp, TimePoint) {
  actions_.send(encapsulate(to, actions_.mac(), arp));
}

void EthernetPort::describe(const wire::MacAddr& hw, table::Neighbour& out) const {
  out.mac = hw;
  out.mtu = config_.mtu;
}

void EthernetPort::tick(TimePoint now) {
  cache_.tick(now);
  arp_.tick(now);
}

std::optional<TimePoint> EthernetPort::next_deadline() const {
  return earlier(cache_.next_deadline(), arp_.next_deadline());
}

}  // namespace ipoib::link
