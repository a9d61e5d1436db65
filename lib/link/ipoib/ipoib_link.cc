// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/ipoib_link.h"

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/wire/append.h"
#include "lib/wire/iba.h"
#include "lib/wire/icmpv6.h"
#include "lib/wire/igmp.h"

namespace ipoib::link {
namespace {

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

/// The shared addresses become addresses of the link.
LinkConfig with_shared_addresses(LinkConfig config) {
  const auto shared = shared_prefixes(config.shared);
  config.addresses.insert(config.addresses.end(), shared.begin(), shared.end());
  return config;
}

}  // namespace

IpoibLink::IpoibLink(LinkConfig config, LinkActions& actions, NeighbourSink& sink, sa::Client& sa,
                     std::uint64_t seed, AddressSink& receiver, std::optional<Connected> connected)
    : Interface{stack_},
      config_{with_shared_addresses(std::move(config))},
      dialect_{make_dialect(config_)},
      actions_{actions},
      sink_{sink},
      spread_{seed ^ 8},
      paths_{{config_.name, config_.pkey, config_.neighbour.negative, dialect_->encapsulation(),
              config_.paths},
             actions,
             sa,
             counters_,
             [this](const wire::IpAddr& user, TimePoint now) { on_path(user, now); },
             seed ^ 1,
             [this](const wire::IpAddr& user, TimePoint since, TimePoint now) {
               return ip_.neighbours().probe(user, since, now);
             }},
      connections_{make_connections(connected, seed)},
      second_paths_{config_.pkey, actions, sa},
      stack_{config_, *this, neighbour_paths(), sink, receiver, seed},
      finder_{dialect_->make_finder(config_, actions, connected ? &connected->manager : nullptr,
                                    counters_)},
      server_{dialect_->make_server(config_, connected ? &connected->manager : nullptr, counters_)},
      membership_{config_, actions, sa, counters_, *this, finder_.get(), seed ^ 3},
      groups_{dialect_->make_groups(group_surroundings(sa, receiver, seed ^ 5))},
      shared_{make_shared_gateway(seed ^ 9)},
      traps_{config_, sa, counters_, seed ^ 6,
             [this](TimePoint now) { groups_->look_for_groups(now); }} {}

std::string IpoibLink::reason() const {
  if (state_ == State::kUp) return {};
  return membership_.reason();
}

LinkCounters IpoibLink::counters() const {
  const IpCounters ip = ip_.counters();
  LinkCounters c = counters_;
  c.arp_sent = ip.arp.sent;
  c.arp_received = ip.arp.received;
  c.arp_invalid = ip.arp.invalid;
  c.nd = ip.nd;
  c.rarp = ip.rarp;
  c.neighbours = ip.neighbours;
  c.address_conflicts = ip.arp.conflicts + ip.nd.conflicts;
  c.contradictions = ip.arp.contradictions + ip.nd.contradictions;
  return c;
}

void IpoibLink::start(TimePoint now) {
  if (state_ != State::kDown && state_ != State::kStopped) return;
  ip_.start();
  twin_ = false;
  membership_.start(now);
}

// --- Bring-up ---

Status IpoibLink::may_join() const {
  const auto& port = actions_.port();
  if (port.state != fabric::PortState::kActive)
    return fail(Errc::kUnavailable, "the port is not active (state {})",
                static_cast<unsigned>(port.state));
  if (has_pkey()) return {};
  const auto full = static_cast<std::uint16_t>(config_.pkey | wire::kFullMemberBit);
  const auto limited = static_cast<std::uint16_t>(full ^ wire::kFullMemberBit);
  if (std::find(port.pkeys.begin(), port.pkeys.end(), limited) != port.pkeys.end())
    return fail(Errc::kUnavailable,
                "the port is a limited member of partition 0x{:04x} (P_Key 0x{:04x}), full "
                "membership is required",
                full, limited);
  std::string table;
  for (const auto pkey : port.pkeys)
    if (pkey != 0) table += fmt::format("{}0x{:04x}", table.empty() ? "" : " ", pkey);
  return fail(Errc::kUnavailable, "P_Key 0x{:04x} is not in the P_Key table of the port ({})", full,
              table.empty() ? "empty" : table);
}

bool IpoibLink::has_pkey() const {
  const auto& pkeys = actions_.port().pkeys;
  const auto full = static_cast<std::uint16_t>(config_.pkey | wire::kFullMemberBit);
  return std::find(pkeys.begin(), pkeys.end(), full) != pkeys.end();
}

Status IpoibLink::on_joined(const wire::McMemberRecord& record, TimePoint now) {
  const auto next = parameters_of(record);
  if (!wire::is_controlled_qkey(next.qkey) && reported_qkey_ != next.qkey) {
    reported_qkey_ = next.qkey;
    log(LogArea::kLink, LogLevel::kWarning,
        "{}: the broadcast group has uncontrolled Q_Key 0x{:08x}", config_.name, next.qkey);
  }
  if (auto applied = apply(next, now); !applied) return applied;
  groups_->resume(record, now);
  return {};
}

/// Applies the group's parameters, the first time and after each change.
Status IpoibLink::apply(const LinkParameters& next, TimePoint now) {
  const bool first = !ip_.ready();
  if (first || next.qkey != parameters_.qkey) {
    if (auto set = actions_.set_qkey(next.qkey); !set) return set;
  }
  if (auto attached = attach_broadcast({next.broadcast_mgid, next.broadcast_mlid}); !attached)
    return attached;
  if (!first && next.broadcast_mgid != parameters_.broadcast_mgid) {
    ip_.forget_broadcast_neighbours();
    paths_.unpin(parameters_.broadcast_mgid);
  }
  parameters_ = next;
  const bool mtu_changed = update_mtu();
  ip_.resume();
  resume_paths(now);
  paths_.pin(next.broadcast_mgid, broadcast_ah(next), now);
  if (paths_.ah(next.broadcast_mgid) == fabric::kNoAh)
    return fail(Errc::kNoResources, "cannot create an address handle for the broadcast group");
  if (auto listens = start_connections(now); !listens) return listens;
  if (mtu_changed && !first) {
    ip_.neighbours().reinstall();
    start_ip6(now);
  }
  if (server_) server_->offer(parameters_);
  return {};
}

void IpoibLink::resume_paths(TimePoint now) {
  paths_.resume(dialect_->path_tclass(parameters_.tclass), mtu_, parameters_.qkey, now);
}

/// Largest IP packet that fits the group's MTU.
std::uint16_t IpoibLink::group_mtu(const LinkParameters& p) const {
  return dialect_->mtu(wire::mtu_octets(p.mtu_code));
}

/// Returns true if the MTU changed.
bool IpoibLink::update_mtu() {
  const std::uint16_t max = group_mtu(parameters_);
  const std::uint16_t mtu = std::min(max, max_mtu_.value_or(max));
  return std::exchange(mtu_, mtu) != mtu;
}

Status IpoibLink::set_mtu(std::uint16_t mtu, TimePoint now) {
  const unsigned port_mtu = dialect_->mtu(wire::mtu_octets(actions_.port().mtu));
  const unsigned datagrams = ip_.ready() ? group_mtu(parameters_) : port_mtu;
  const unsigned max = connections_ ? std::max(datagrams, connections_->max_mtu()) : datagrams;
  if (mtu < kMinMtu || mtu > max)
    return fail(Errc::kInvalidArgument, "invalid MTU {} of {}, allowed: {}-{}, limited by its {}",
                mtu, config_.name, kMinMtu, max,
                max > datagrams ? "connections"
                : ip_.ready()   ? "broadcast group"
                                : "port");
  max_mtu_ = mtu;
  if (connections_) connections_->limit_mtu(mtu);
  if (!ip_.ready()) return {};
  const bool changed = update_mtu();
  if (changed) resume_paths(now);
  ip_.neighbours().reinstall();
  if (changed) start_ip6(now);
  return {};
}

/// Starts IPv6 with the link's MTU, or stops it, if that is less than 1280 octets.
void IpoibLink::start_ip6(TimePoint now) {
  if (state_ == State::kUp) ip_.start_ip6(interface_id(), mtu_, now);
}

void IpoibLink::on_membership_changed(TimePoint now) {
  using Broadcast = BroadcastMembership::State;
  if (server_ && membership_.state() != Broadcast::kMember) server_->withdraw();
  switch (membership_.state()) {
    case Broadcast::kIdle: return set_state(State::kDown);
    case Broadcast::kWaiting:
      if (!has_pkey()) suspend(now);
      return set_state(State::kWaiting);
    case Broadcast::kJoining: return set_state(State::kJoining);
    case Broadcast::kLeaving: return set_state(State::kStopping);
    case Broadcast::kLeft: return finish_stop(now);
    case Broadcast::kMember: break;
  }
  const bool moved = std::exchange(moved_, false);
  if (state_ == State::kUp && !moved) {
    // The port may have been down for a moment, which ended the membership in the group of nodes.
    if (shared_ && actions_.port().state == fabric::PortState::kActive) shared_->up(now);
    return;
  }
  set_state(State::kUp);
  on_up(now);
}

/// Called the first time, when the membership is restored, and when the port moved.
void IpoibLink::on_up(TimePoint now) {
  ip_.announce(now);
  traps_.renew(now);
  join_own_groups(now);
  look_for_twin();
  ip_.up(interface_id(), mtu_, now);
  if (shared_) shared_->up(now);
}

std::uint64_t IpoibLink::interface_id() const {
  const fabric::PortAttr& port = actions_.port();
  const auto id = dialect_->interface_id(port, config_.ip6.interface_id);
  return twin_ && id == wire::interface_id(port.guid) ? interface_id_beside(config_, port.guid)
                                                      : id;
}

/// Joins the groups that follow from the configuration (RFC 4391 §5, §11), once until stop().
void IpoibLink::join_own_groups(TimePoint now) {
  if (!ip_.join_groups(now)) return;
  if (config_.all_nodes != AllNodes::kAuto) ip_.add_group(wire::all_nodes(), now);
  if (!config_.group.multicast_router) return;
  ip_.add_group(wire::kIgmpAllRouters, now);
  ip_.add_group(wire::all_routers(), now);
}

void IpoibLink::set_state(State state) {
  if (state == state_) return;
  state_ = state;
  if (state == State::kUp)
    log(LogArea::kLink, LogLevel::kNotice, "{}: up, MTU {}, broadcast MLID 0x{:04x}", config_.name,
        mtu_, parameters_.broadcast_mlid);
  actions_.state_changed(state);
}

void IpoibLink::on_arp(std::span<const std::byte> arp, std::uint16_t slid, std::uint32_t src_qpn,
                       TimePoint now) {
  // Replies use a path of the SA: the SLID of a request need not lead back (RFC 4391 §9.1.2).
  paths_.prefer_lid(slid);
  if (shared_) shared_->set_source(slid, src_qpn);
  const auto record = ip_.on_arp(arp, now);
  paths_.prefer_lid(0);
  if (record) heard(record->sender_hw, slid, now);
}

void IpoibLink::on_nd(std::span<const std::byte> packet, std::uint16_t slid, TimePoint now) {
  paths_.prefer_lid(slid);
  if (shared_) shared_->set_source(slid, 0);
  const auto sender = ip_.on_nd(packet, now);
  paths_.prefer_lid(0);
  if (sender) heard(*sender, slid, now);
}

void IpoibLink::heard(const wire::HwAddr& from, std::uint16_t slid, TimePoint now) {
  actions_.port_heard(from.datagram_addr().gid, slid, now);
  paths_.heard(from, slid, now);
}

Status IpoibLink::join_group(const wire::IpAddr& group, TimePoint now) {
  return groups_->join(group, now);
}

Status IpoibLink::leave_group(const wire::IpAddr& group, TimePoint now) {
  return groups_->leave(group, now);
}

/// The former attachment ends first: devices know it by MGID and queue pair, regardless of the MLID.
Status IpoibLink::attach_broadcast(const BroadcastAttachment& wanted) {
  if (attached_ == wanted) return {};
  detach_broadcast();
  const auto [mgid, mlid] = wanted;
  if (auto attached = actions_.attach(0, mgid, mlid); !attached) return attached;
  attached_ = wanted;
  return {};
}

void IpoibLink::detach_broadcast() {
  if (!attached_) return;
  actions_.detach(0, attached_->first, attached_->second);
  attached_.reset();
}

// --- Medium ---

wire::LinkAddr IpoibLink::own_address() const {
  return {connections_ ? connections_->flags() : std::uint8_t{0}, wire::Be24{actions_.qpn(0)},
          actions_.port().gid()};
}

wire::HwAddr IpoibLink::address_of(unsigned queue_pair) const {
  const wire::LinkAddr own = own_address();
  return dialect_->address({own.flags, actions_.qpn(queue_pair), parameters_.qkey, own.gid});
}

bool IpoibLink::is_own(const wire::HwAddr& hw) const {
  for (unsigned i = 0; i < actions_.queue_pairs(); ++i)
    if (hw.same_interface(address_of(i))) return true;
  return false;
}

/// All broadcast addresses map to the broadcast group (RFC 4391 §4, §5).
wire::HwAddr IpoibLink::broadcast_hw() const {
  return dialect_->address({0, wire::kMulticastQpn, parameters_.qkey, parameters_.broadcast_mgid});
}

std::vector<std::byte> IpoibLink::encapsulate(wire::EtherType type,
                                              std::span<const std::byte> payload) const {
  const wire::Be32 hdr =
      wire::encapsulation_header(dialect_->encapsulation(), dialect_->type_of(type));
  std::vector<std::byte> frame;
  frame.reserve(sizeof hdr + payload.size());
  wire::append(frame, wire::bytes_of(hdr));
  wire::append(frame, payload);
  return frame;
}

/// Returns false if there is no broadcast group to send to.
bool IpoibLink::broadcast_frame(std::span<const std::byte> frame) {
  const auto ah = paths_.ah(parameters_.broadcast_mgid);
  if (ah == fabric::kNoAh) return false;
  actions_.send(ah, wire::kMulticastQpn, frame);
  return true;
}

void IpoibLink::broadcast(wire::EtherType type, std::span<const std::byte> payload) {
  if (!broadcast_frame(encapsulate(type, payload))) ++counters_.arp_unsent;
}

GroupSurroundings IpoibLink::group_surroundings(sa::Client& sa, AddressSink& receiver,
                                                std::uint64_t seed) {
  return {
      .config = config_,
      .actions = actions_,
      .sink = sink_,
      .receiver = receiver,
      .sa = sa,
      .counters = counters_,
      .ip = stack_,
      .broadcast_hw = [this] { return broadcast_hw(); },
      .is_member = [this] { return membership_.state() == BroadcastMembership::State::kMember; },
      .broadcast = [this](std::span<const std::byte> frame) { return broadcast_frame(frame); },
      .seed = seed};
}

void IpoibLink::send(const wire::HwAddr& to, wire::EtherType type,
                     std::span<const std::byte> payload, TimePoint now) {
  paths_.send(to, encapsulate(type, payload), now);
}

bool IpoibLink::send_to_group(const wire::IpAddr& group, std::span<const std::byte> packet,
                              TimePoint now) {
  const auto type = group.is_v4() ? wire::EtherType::kIpv4 : wire::EtherType::kIpv6;
  return groups_->send(group, encapsulate(type, packet), now);
}

// --- Time ---

void IpoibLink::tick(TimePoint now) {
  if (rejoins_.take(now)) rejoin(now);
  membership_.tick(now);
  paths_.tick(now);
  if (connections_) connections_->tick(now);
  ip_.tick(now);
  groups_->tick(now);
  traps_.tick(now);
  if (shared_) shared_->tick(now);
  move_some(now);
  if (state_ == State::kStopping) finish_stop(now);
}

std::optional<TimePoint> IpoibLink::next_deadline() const {
  auto next =
      earlier(earlier(membership_.next_deadline(), paths_.next_deadline()), ip_.next_deadline());
  if (connections_) next = earlier(next, connections_->next_deadline());
  next = earlier(next, earlier(groups_->next_deadline(), traps_.next_deadline()));
  next = earlier(next, rejoins_.next());
  if (shared_) next = earlier(next, shared_->next_deadline());
  if (is_moving()) next = earlier(next, move_due_);
  if (state_ != State::kStopping) return next;
  const bool all_left = membership_.state() == BroadcastMembership::State::kLeft && leaves_done();
  return earlier(next, all_left ? TimePoint{} : stop_by_);
}

}  // namespace ipoib::link
