// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ethernet_port.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/log.h"
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
    : Interface{stack_},
      config_{std::move(config)},
      actions_{actions},
      receiver_{receiver},
      stack_{config_, *this, paths_, sink, receiver, seed} {}

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
  ip_.neighbours().reinstall();
  if (state_ == State::kUp) ip_.start_ip6(interface_id(), config_.mtu, now);
  return {};
}

std::uint64_t EthernetPort::interface_id() const {
  return wire::interface_id(actions_.mac());
}

void EthernetPort::start(TimePoint now) {
  if (state_ != State::kDown && state_ != State::kStopped) return;
  set_state(State::kWaiting);
  ip_.join_groups(now);
  ip_.start();
  set_carrier(carrier_, now);
}

void EthernetPort::stop(TimePoint now) {
  if (state_ == State::kStopped) return;
  ip_.stop(now);
  set_state(State::kStopped);
  ip_.withdraw();
}

/// An IPv6 address that was ready before the carrier was lost is used at once and announced.
void EthernetPort::set_carrier(bool carrier, TimePoint now) {
  carrier_ = carrier;
  if (carrier && state_ == State::kWaiting) {
    ip_.resume();
    set_state(State::kUp);
    ip_.announce(now);
    ip_.up(interface_id(), config_.mtu, now);
  } else if (!carrier && state_ == State::kUp) {
    set_state(State::kWaiting);
    ip_.suspend();
  }
}

void EthernetPort::on_neighbour_wanted(const wire::IpAddr& addr, HeldPacket packet, TimePoint now) {
  if (wire::is_multicast(addr)) return ip_.request_group(addr, wire::group_mac(addr), packet, now);
  ip_.request_neighbour(addr, packet, now);
}

Status EthernetPort::add_static(const wire::IpAddr& addr, std::string_view lladdr, std::uint16_t,
                                std::uint8_t, TimePoint now) {
  if (auto can = ip_.can_be_neighbour(addr); !can) return can;
  const auto mac = wire::parse_mac(lladdr);
  if (!mac || !wire::HwAddr{*mac}.is_plausible())
    return fail(Errc::kInvalidArgument,
                "'{}' is not a unicast MAC address of 6 octets in hexadecimal", lladdr);
  return ip_.neighbours().add_static(addr, *mac, now);
}

void EthernetPort::on_arp(std::span<const std::byte> arp, std::uint16_t, std::uint32_t,
                          TimePoint now) {
  ip_.on_arp(arp, now);
}

void EthernetPort::on_nd(std::span<const std::byte> packet, std::uint16_t, TimePoint now) {
  ip_.on_nd(packet, now);
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

// --- Medium ---

wire::HwAddr EthernetPort::broadcast_hw() const {
  return kBroadcastMac;
}

void EthernetPort::broadcast(wire::EtherType type, std::span<const std::byte> payload) {
  actions_.send(encapsulate(kBroadcastMac, actions_.mac(), type, payload));
}

void EthernetPort::send(const wire::HwAddr& to, wire::EtherType type,
                        std::span<const std::byte> payload, TimePoint) {
  actions_.send(encapsulate(to.mac(), actions_.mac(), type, payload));
}

bool EthernetPort::send_to_group(const wire::IpAddr& group, std::span<const std::byte> packet,
                                 TimePoint now) {
  send(wire::group_mac(group), wire::EtherType::kIpv6, packet, now);
  return true;
}

}  // namespace ipoib::link
