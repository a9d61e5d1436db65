#include "lib/link/ipoib_link.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lib/base/log.h"
#include "lib/link/own_addresses.h"
#include "lib/wire/iba.h"

namespace ipoib::link {
namespace {

using ArpFrame = std::array<std::byte, sizeof(wire::IpoibHdr) + sizeof(wire::IpoibArp)>;

std::vector<std::byte> encapsulate_ip6(std::span<const std::byte> packet) {
  const wire::IpoibHdr hdr{wire::Be16{static_cast<std::uint16_t>(wire::EtherType::kIpv6)}, {}};
  const auto head = wire::bytes_of(hdr);
  std::vector<std::byte> frame{head.begin(), head.end()};
  frame.insert(frame.end(), packet.begin(), packet.end());
  return frame;
}

ArpFrame encapsulate(std::span<const std::byte> arp) {
  ArpFrame frame{};
  const wire::IpoibHdr hdr{wire::Be16{static_cast<std::uint16_t>(wire::EtherType::kArp)}, {}};
  std::memcpy(frame.data(), &hdr, sizeof hdr);
  std::memcpy(frame.data() + sizeof hdr, arp.data(), std::min(arp.size(), sizeof(wire::IpoibArp)));
  return frame;
}

LinkParameters parameters_of(const wire::McMemberRecord& r) {
  LinkParameters p;
  p.broadcast_mgid = r.mgid;
  p.broadcast_mlid = r.mlid.host();
  p.qkey = r.qkey.host();
  p.mtu_code = wire::value_of(r.mtu);
  p.rate = wire::value_of(r.rate);
  p.sl = r.sl();
  p.tclass = r.tclass;
  p.hop_limit = r.hop_limit();
  p.flow_label = r.flow_label();
  return p;
}

/// Multicast always carries a GRH with the MGID (RFC 4391 §6).
fabric::AhAttr broadcast_ah(const LinkParameters& p) {
  fabric::AhAttr attr;
  attr.dlid = p.broadcast_mlid;
  attr.sl = p.sl;
  attr.rate = p.rate;
  attr.global = true;
  attr.tclass = p.tclass;
  attr.hop_limit = p.hop_limit;
  attr.flow_label = p.flow_label;
  attr.dgid = p.broadcast_mgid;
  return attr;
}

}  // namespace

IpoibLink::IpoibLink(LinkConfig config, LinkActions& actions, NeighbourSink& sink, sa::Client& sa,
                     std::uint64_t seed, AddressSink& receiver)
    : config_{std::move(config)},
      actions_{actions},
      sink_{sink},
      receiver_{receiver},
      arp_{config_.name, config_.addresses, *this, cache_},
      own_groups_{*this},
      nd_{{config_.name, config_.id, config_.ip6, own_groups_, receiver}, *this, cache_, seed ^ 4},
      solicitor_{arp_, nd_},
      paths_{{config_.name, config_.pkey, config_.neighbour.negative},
             actions,
             sa,
             counters_,
             [this](const wire::IpAddr& user, TimePoint now) { cache_.on_path(user, now); },
             seed ^ 1},
      cache_{config_.neighbour, config_.id, sink, solicitor_, paths_, seed ^ 2},
      membership_{config_, actions, sa, counters_, *this, seed ^ 3} {}

std::string IpoibLink::reason() const {
  if (state_ == State::kUp) return {};
  return membership_.reason();
}

LinkCounters IpoibLink::counters() const {
  LinkCounters c = counters_;
  c.arp_sent = arp_.counters().sent;
  c.arp_received = arp_.counters().received;
  c.arp_invalid = arp_.counters().invalid;
  c.nd = nd_.counters();
  c.address_conflicts = arp_.counters().conflicts + c.nd.conflicts;
  c.contradictions = arp_.counters().contradictions + c.nd.contradictions;
  return c;
}

void IpoibLink::start(TimePoint now) {
  if (state_ != State::kDown && state_ != State::kStopped) return;
  started_ = true;
  for (const auto& own : config_.addresses)
    if (own.addr.is_v4()) receiver_.address_ready(config_.id, own);
  membership_.start(now);
}

void IpoibLink::stop(TimePoint now) {
  if (state_ == State::kStopping || state_ == State::kStopped) return;
  nd_.down(now);
  own_groups_.clear(now);
  groups_started_ = false;
  const bool started = std::exchange(started_, false);
  for (const auto& own : config_.addresses)
    if (started && own.addr.is_v4()) receiver_.address_gone(config_.id, own);
  const bool attached = std::exchange(operational_, false);
  arp_.stop();
  cache_.withdraw(Drop::kLinkDown);
  paths_.clear();
  pinned_.clear();
  if (attached) actions_.detach(parameters_.broadcast_mgid, parameters_.broadcast_mlid);
  parameters_ = {};
  mtu_ = 0;
  membership_.stop(now);
}

// --- Bring-up ---

Status IpoibLink::may_join() const {
  const auto& port = actions_.port();
  if (port.state != fabric::PortState::kActive)
    return fail(Errc::kUnavailable, "the port is not active (state {})",
                static_cast<unsigned>(port.state));
  const auto full = static_cast<std::uint16_t>(config_.pkey | wire::kFullMemberBit);
  const auto limited = static_cast<std::uint16_t>(full ^ wire::kFullMemberBit);
  const auto has = [&](std::uint16_t pkey) {
    return std::find(port.pkeys.begin(), port.pkeys.end(), pkey) != port.pkeys.end();
  };
  if (has(full)) return {};
  if (has(limited))
    return fail(Errc::kUnavailable,
                "the port is only a limited member of partition 0x{:04x} (P_Key 0x{:04x})", full,
                limited);
  std::string table;
  for (const auto pkey : port.pkeys)
    if (pkey != 0) table += fmt::format("{}0x{:04x}", table.empty() ? "" : " ", pkey);
  return fail(Errc::kUnavailable, "P_Key 0x{:04x} is not in the port's table ({})", full,
              table.empty() ? "empty" : table);
}

Status IpoibLink::on_joined(const wire::McMemberRecord& record, TimePoint now) {
  const auto next = parameters_of(record);
  const auto& port = actions_.port();
  const unsigned octets = wire::mtu_octets(next.mtu_code);
  if (octets == 0)
    return fail(Errc::kProtocol, "the broadcast group has MTU code {}, which does not exist",
                next.mtu_code);
  if (next.mtu_code > port.mtu)
    return fail(Errc::kUnavailable,
                "the broadcast group's MTU {} (code {}) is larger than the port's {} (code {})",
                octets, next.mtu_code, wire::mtu_octets(port.mtu), port.mtu);
  if ((next.qkey & 0x8000'0000U) == 0 && reported_qkey_ != next.qkey) {
    reported_qkey_ = next.qkey;
    log(LogArea::kLink, LogLevel::kWarning, "{}: the Q_Key 0x{:08x} of the group is uncontrolled",
        config_.name, next.qkey);
  }
  return apply(next, now);
}

/// Takes the group's parameters, the first time and whenever they changed.
Status IpoibLink::apply(const LinkParameters& next, TimePoint now) {
  const bool first = !operational_;
  const bool moved = first || next.broadcast_mlid != parameters_.broadcast_mlid ||
                     next.broadcast_mgid != parameters_.broadcast_mgid;
  if (first || next.qkey != parameters_.qkey) {
    if (auto set = actions_.set_qkey(next.qkey); !set) return set;
  }
  if (moved) {
    if (auto attached = actions_.attach(next.broadcast_mgid, next.broadcast_mlid); !attached)
      return attached;
    if (!first) actions_.detach(parameters_.broadcast_mgid, parameters_.broadcast_mlid);
  }
  const auto mtu =
      static_cast<std::uint16_t>(wire::mtu_octets(next.mtu_code) - sizeof(wire::IpoibHdr));
  const bool mtu_changed = std::exchange(mtu_, mtu) != mtu;
  parameters_ = next;
  operational_ = true;
  paths_.resume(next.tclass, mtu, now);
  paths_.pin(next.broadcast_mgid, broadcast_ah(next), now);
  if (paths_.ah(next.broadcast_mgid) == fabric::kNoAh)
    return fail(Errc::kNoResources, "no address handle for the broadcast group");
  if (mtu_changed && !first) cache_.reinstall();
  return {};
}

void IpoibLink::on_membership_changed(TimePoint now) {
  using Membership = BroadcastMembership::State;
  switch (membership_.state()) {
    case Membership::kIdle: return set_state(State::kDown);
    case Membership::kWaiting: return set_state(State::kWaiting);
    case Membership::kJoining: return set_state(State::kJoining);
    case Membership::kLeaving: return set_state(State::kStopping);
    case Membership::kLeft: return set_state(State::kStopped);
    case Membership::kMember: break;
  }
  if (state_ == State::kUp) return;
  set_state(State::kUp);
  went_up(now);
}

/// The first time, and when the membership is back.
void IpoibLink::went_up(TimePoint now) {
  arp_.announce(now);
  if (!groups_started_) own_groups_.start(config_.addresses, config_.ip6.routing, now);
  groups_started_ = true;
  const auto& port = actions_.port();
  nd_.up(config_.addresses, wire::interface_id(port.guid, config_.ip6.interface_id, port.lid), mtu_,
         now);
}

void IpoibLink::set_state(State state) {
  if (state == state_) return;
  state_ = state;
  if (state == State::kUp)
    log(LogArea::kLink, LogLevel::kNotice, "{}: up, MTU {}, broadcast MLID 0x{:04x}", config_.name,
        mtu_, parameters_.broadcast_mlid);
  actions_.state_changed(state);
}

void IpoibLink::on_port_event(fabric::PortEvent event, TimePoint now) {
  using fabric::PortEvent;
  membership_.ask_again(now);
  if (event == PortEvent::kSmChange || event == PortEvent::kClientReregister ||
      event == PortEvent::kLidChange || event == PortEvent::kGidChange)
    paths_.refresh_all(now);
}

// --- Neighbours ---

void IpoibLink::on_neighbour_wanted(const wire::IpAddr& addr, HeldPacket packet, TimePoint now) {
  if (const auto why = why_no_neighbour(own(addr), addr)) return sink_.drop(packet, *why, false);
  if (!operational_) return sink_.drop(packet, Drop::kLinkDown, true);
  if (!addr.is_v4() && !nd_.running()) return sink_.drop(packet, Drop::kIp6Unsupported, false);
  if (is_broadcast(config_.addresses, addr)) {
    // All broadcast addresses are the broadcast group (RFC 4391 §4, §5).
    const wire::LinkAddr group{0, wire::Be24{wire::kMulticastQpn}, parameters_.broadcast_mgid};
    if (!cache_.add_static(addr, group, now))
      return sink_.drop(packet, Drop::kNeighbourTableFull, false);
  }
  cache_.want(addr, packet, now);
}

Result<table::NeighbourIndex> IpoibLink::use_gateway(const wire::IpAddr& addr, TimePoint now) {
  if (!is_neighbour_address(own(addr), addr))
    return fail(Errc::kInvalidArgument, "{} cannot be a neighbour on {}", wire::to_string(addr),
                config_.name);
  return cache_.use_gateway(addr, now);
}

Status IpoibLink::add_static(const wire::IpAddr& addr, std::string_view lladdr, std::uint16_t lid,
                             std::uint8_t sl, TimePoint now) {
  if (!is_neighbour_address(own(addr), addr))
    return fail(Errc::kInvalidArgument, "{} cannot be a neighbour on {}", wire::to_string(addr),
                config_.name);
  const auto hw = wire::parse_link_addr(lladdr);
  if (!hw || !is_plausible(*hw))
    return fail(Errc::kInvalidArgument,
                "'{}' is no link-layer address: 20 octets in hex with a unicast QPN and GID",
                lladdr);
  if ((lid != 0 && !wire::is_unicast_lid(lid)) || sl > 15)
    return fail(Errc::kInvalidArgument, "LID {} and SL {} are not 1-49151 (0: ask the SA) and 0-15",
                lid, sl);
  const auto before = pinned_.find(addr);
  const auto old = before == pinned_.end() ? wire::Gid{} : before->second;
  if (lid != 0) {
    fabric::AhAttr attr;
    attr.dlid = lid;
    attr.sl = sl;
    paths_.pin(hw->gid, attr, now);
    pinned_[addr] = hw->gid;
  } else {
    pinned_.erase(addr);
  }
  auto added = cache_.add_static(addr, *hw, now);
  if (!added) pinned_.erase(addr);
  unpin_unless_used(old);
  unpin_unless_used(hw->gid);
  return added;
}

Status IpoibLink::remove_neighbour(const wire::IpAddr& addr) {
  auto removed = cache_.remove(addr);
  if (!removed) return removed;
  const auto it = pinned_.find(addr);
  if (it == pinned_.end()) return removed;
  const auto gid = it->second;
  pinned_.erase(it);
  unpin_unless_used(gid);
  return removed;
}

/// Gives up what static entries knew of a path, unless another one still says so.
void IpoibLink::unpin_unless_used(const wire::Gid& gid) {
  const bool used = std::any_of(pinned_.begin(), pinned_.end(),
                                [&](const auto& entry) { return entry.second == gid; });
  if (!used && gid != parameters_.broadcast_mgid) paths_.unpin(gid);
}

void IpoibLink::on_arp(std::span<const std::byte> arp, std::uint16_t, std::uint32_t,
                       TimePoint now) {
  // Replies go over the path the SA gives: the SLID a request came with need not lead back
  // (RFC 4391 §9.1.2).
  if (operational_) arp_.on_arp(arp, now);
}

void IpoibLink::on_nd(std::span<const std::byte> packet, TimePoint now) {
  if (operational_) nd_.on_nd(packet, now);
}

Status IpoibLink::join_group(const wire::IpAddr& group, TimePoint) {
  if (!wire::is_multicast(group))
    return fail(Errc::kInvalidArgument, "{} is no multicast group", wire::to_string(group));
  return fail(Errc::kUnavailable, "{}: IPoIB groups but the broadcast group cannot be joined",
              config_.name);
}

Status IpoibLink::leave_group(const wire::IpAddr& group, TimePoint) {
  return fail(Errc::kNotFound, "{} is not joined on {}", wire::to_string(group), config_.name);
}

std::vector<GroupInfo> IpoibLink::groups(TimePoint) const {
  return {};
}

wire::LinkAddr IpoibLink::own_hw() const {
  return {0, wire::Be24{actions_.qpn()}, actions_.port().gid()};
}

void IpoibLink::broadcast_arp(std::span<const std::byte> arp) {
  const auto ah = paths_.ah(parameters_.broadcast_mgid);
  if (ah == fabric::kNoAh) {
    ++counters_.arp_unsent;
    return;
  }
  actions_.send(ah, wire::kMulticastQpn, encapsulate(arp));
}

void IpoibLink::unicast_arp(const wire::LinkAddr& to, std::span<const std::byte> arp,
                            TimePoint now) {
  paths_.send(to, encapsulate(arp), now);
}

/// Groups but the broadcast group are not joined here yet, so what is for them is lost.
void IpoibLink::send_to_group(const wire::IpAddr&, std::span<const std::byte>, TimePoint) {
  ++counters_.nd_unsent;
}

void IpoibLink::send_to(const wire::LinkAddr& to, std::span<const std::byte> packet,
                        TimePoint now) {
  paths_.send(to, encapsulate_ip6(packet), now);
}

// --- Time ---

void IpoibLink::tick(TimePoint now) {
  membership_.tick(now);
  paths_.tick(now);
  cache_.tick(now);
  arp_.tick(now);
  own_groups_.tick(now);
  nd_.tick(now);
}

std::optional<TimePoint> IpoibLink::next_deadline() const {
  return earlier(earlier(membership_.next_deadline(), paths_.next_deadline()),
                 earlier(earlier(cache_.next_deadline(), arp_.next_deadline()),
                         earlier(own_groups_.next_deadline(), nd_.next_deadline())));
}

}  // namespace ipoib::link
