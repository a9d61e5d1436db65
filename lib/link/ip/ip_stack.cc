// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/ip_stack.h"

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/link/ip/address_class.h"
#include "lib/wire/ip_prefix.h"

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

void IpStack::share(SharedAddresses& shared) {
  shared_ = &shared;
  arp_.share(shared);
  nd_.share(shared, addresses_);
}

// --- Life ---

void IpStack::start() {
  started_ = true;
  for (const auto& own : addresses_)
    if (own.addr.is_v4()) receiver_.address_ready(config_.id, own);
}

bool IpStack::join_groups(TimePoint now) {
  if (std::exchange(groups_joined_, true)) return false;
  groups_.follow(addresses_, config_.ip6.routing, now);
  for (const wire::IpAddr& host : listened_) groups_.add(wire::solicited_node(host), now);
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
  if (const auto learned = rarp_.learned()) {
    std::erase(addresses_, *learned);
    receiver_.address_released(config_.id, *learned);
  }
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
  if (auto s = receiver_.address_assigned(config_.id, own); !s) {
    log(LogArea::kLink, LogLevel::kErr, "{}: address {} obtained by RARP not used: {}",
        config_.name, wire::to_string(own), s.error().what);
    return rarp_.stop();
  }
  log(LogArea::kLink, LogLevel::kNotice, "{}: obtained address {} by RARP", config_.name,
      wire::to_string(own));
  begin4(own, now);
}

// --- Addresses at run time ---

Status IpStack::can_add(const wire::IpPrefix& address) const {
  const auto refuse = [&](Errc code, std::string_view why) {
    return fail(code, "cannot add address {} to {}: {}", wire::to_string(address), config_.name,
                why);
  };
  const wire::IpAddr& addr = address.addr;
  if (!wire::is_interface_address(address))
    return refuse(Errc::kInvalidArgument, "it is no address of one host");
  if (addr.is_v4() && !medium_.carries_v4())
    return refuse(Errc::kRefused, "all-nodes = \"instead\" disables IPv4 there");
  if (!addr.is_v4() && !config_.ip6.enabled)
    return refuse(Errc::kRefused, "IPv6 is not configured there");
  const auto own6 = nd_.list();
  if (is_own(addresses_, addr) ||
      std::any_of(own6.begin(), own6.end(), [&](const auto& a) { return a.address.addr == addr; }))
    return refuse(Errc::kExists, "it is there already");
  if (is_broadcast(addresses_, addr))
    return refuse(Errc::kInvalidArgument, "it is a broadcast address there");
  if (neighbours_.is_static(addr)) return refuse(Errc::kExists, "it is a static neighbour there");
  if (addresses_.size() >= kMaxAddresses)
    return refuse(Errc::kNoResources, fmt::format("it has {} addresses", kMaxAddresses));
  return {};
}

Status IpStack::add_address(const wire::IpPrefix& address, const AddressOptions& options,
                            TimePoint now) {
  if (auto can = can_add(address); !can) return can;
  if (auto assigned = receiver_.address_assigned(config_.id, address); !assigned) return assigned;
  const auto before = addresses_;
  if (address.addr.is_v4()) {
    begin4(address, now);
  } else {
    addresses_.push_back(address);
    nd_.add(address, options.detect_duplicates, now);
  }
  review_neighbours(address, before);
  return {};
}

Status IpStack::remove_address(const wire::IpPrefix& address, TimePoint now) {
  const auto it = std::find(addresses_.begin(), addresses_.end(), address);
  if (it == addresses_.end())
    return fail(Errc::kNotFound, "{} has no address {}", config_.name, wire::to_string(address));
  if (rarp_.learned() == address)
    return fail(Errc::kRefused, "cannot remove address {} from {}: it was obtained by RARP",
                wire::to_string(address), config_.name);
  if (is_shared(address.addr))
    return fail(Errc::kRefused, "cannot remove address {} from {}: it is shared with other nodes",
                wire::to_string(address), config_.name);
  const auto before = addresses_;
  addresses_.erase(it);
  if (address.addr.is_v4())
    end4(address, now);
  else
    nd_.remove(address, now);
  receiver_.address_released(config_.id, address);
  review_neighbours(address, before);
  return {};
}

/// Takes one more IPv4 address into use.
void IpStack::begin4(const wire::IpPrefix& own, TimePoint now) {
  addresses_.push_back(own);
  if (groups_joined_) groups_.follow(addresses_, config_.ip6.routing, now);
  if (started_) receiver_.address_ready(config_.id, own);
  if (ready_) arp_.announce(own.addr, now);
}

/// `own` is no longer in `addresses_`.
void IpStack::end4(const wire::IpPrefix& own, TimePoint now) {
  arp_.forget(own.addr);
  if (groups_joined_) groups_.follow(addresses_, config_.ip6.routing, now);
  if (started_) receiver_.address_removed(config_.id, own);
}

/// Forgets the neighbours that the change of an address made something else: an own address, a
/// broadcast address or no longer one, a host that is not on the link any more. `before`: the
/// addresses before the change.
void IpStack::review_neighbours(const wire::IpPrefix& changed,
                                const std::vector<wire::IpPrefix>& before) {
  static_cast<void>(neighbours_.remove(changed.addr));
  const auto review = [&](const std::optional<wire::IpAddr>& addr) {
    if (addr && is_broadcast(before, *addr) != is_broadcast(addresses_, *addr))
      static_cast<void>(neighbours_.remove(*addr));
  };
  const auto& more = before.size() > addresses_.size() ? before : addresses_;
  for (const auto& own : more) {
    review(wire::directed_broadcast(own));
    review(wire::net_broadcast(own));
  }
  // Link-local addresses are on the link, independent of own ones.
  const bool covered = std::any_of(addresses_.begin(), addresses_.end(), [&](const auto& own) {
    return own.len <= changed.len && wire::contains(own, changed.addr);
  });
  if (covered || wire::is_link_local6(changed.addr)) return;
  neighbours_.flush([&](const wire::IpAddr& addr) {
    return wire::contains(changed, addr) && !is_on_link(addresses_, addr);
  });
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
  if (proxy_ != nullptr && !ready_) proxy_->on_request(*this, addr, now);
  if (refuses(addr, packet)) return;
  // The route has changed since the packet was punted.
  if (proxy_ != nullptr && proxy_->has_just_left(*this, addr, now)) return sink_.release(packet);
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

// --- Subnets that other interfaces share ---

void IpStack::share_subnets(SubnetProxy& proxy) {
  proxy_ = &proxy;
  proxy.add(*this);
  arp_.set_proxy(proxy, *this);
  nd_.set_proxy(proxy, *this);
  neighbours_.set_watch(*this);
}

void IpStack::ask(const wire::IpAddr& addr, bool detects, const std::optional<wire::NdNonce>& nonce,
                  TimePoint now) {
  if (!addr.is_v4() && detects)
    nd_.ask_if_used(addr, nonce, now);
  else if (detects)
    arp_.ask_if_used(addr);
  else
    agent_of(addr).request(addr, 0, now);
}

void IpStack::answer(const wire::IpAddr& addr, const ProxyAsker& asker, TimePoint now) {
  if (addr.is_v4())
    arp_.answer_for(addr, asker, now);
  else
    nd_.answer_for(addr, asker, now);
}

void IpStack::announce_for(const wire::IpAddr& addr, TimePoint now) {
  if (addr.is_v4())
    arp_.announce_for(addr);
  else
    nd_.announce_for(addr, now);
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
  if (proxy_ != nullptr) proxy_->tick(now);
  neighbours_.tick(now);
  arp_.tick(now);
  if (ready_) rarp_.tick(now);
  groups_.tick(now);
  if (ready_) nd_.tick(now);
}

std::optional<TimePoint> IpStack::next_deadline() const {
  auto always =
      earlier(earlier(neighbours_.next_deadline(), arp_.next_deadline()), groups_.next_deadline());
  if (proxy_ != nullptr) always = earlier(always, proxy_->next_deadline());
  if (!ready_) return always;
  return earlier(always, earlier(rarp_.next_deadline(), nd_.next_deadline()));
}

}  // namespace ipoib::link
