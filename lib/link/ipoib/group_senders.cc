// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/group_senders.h"

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/wire/iba.h"
#include "lib/wire/igmp_mld.h"

namespace ipoib::link {
namespace {

constexpr std::size_t kMaxFramesPerGroup = 8;
constexpr std::size_t kMaxFrames = 256;
constexpr Duration kUsedLately = std::chrono::seconds(3);

/// Largest IP packet of a group. Precondition: its MTU code is valid.
std::uint16_t ip_mtu(const wire::McMemberRecord& group) {
  const unsigned octets = wire::mtu_octets(wire::value_of(group.mtu));
  return static_cast<std::uint16_t>(octets - unsigned{sizeof(wire::IpoibHdr)});
}

bool same_sender(const table::Neighbour& a, const table::Neighbour& b) {
  return a.state == b.state && a.mtu == b.mtu && a.ah == b.ah && a.iface == b.iface &&
         a.via_routers == b.via_routers;
}

}  // namespace

fabric::AhAttr group_ah(const wire::McMemberRecord& r) {
  fabric::AhAttr attr;
  attr.dlid = r.mlid.host();
  attr.sl = r.sl();
  attr.rate = wire::value_of(r.rate);
  attr.global = true;
  attr.tclass = r.tclass;
  attr.hop_limit = r.hop_limit();
  attr.flow_label = r.flow_label();
  attr.dgid = r.mgid;
  return attr;
}

GroupSenders::GroupSenders(const LinkConfig& config, LinkActions& actions, NeighbourSink& sink,
                           LinkCounters& counters)
    : config_{config},
      actions_{actions},
      sink_{sink},
      counters_{counters},
      held_{sink, config.neighbour} {}

// --- Demand ---

/// Removes the senders of the group for which `gone` is true. Each is asked about once, in order.
template <typename Gone>
void GroupSenders::remove_senders(Group& g, Gone gone) {
  const auto further = [&g] { return g.senders.empty() ? 0 : g.senders.size() - 1; };
  const std::size_t before = further();
  for (auto it = g.senders.begin(); it != g.senders.end();) {
    const bool stays = !gone(it->second);
    if (!stays) sink_.remove(it->second.index);
    it = stays ? std::next(it) : g.senders.erase(it);
  }
  further_ -= before - further();
}

/// At a limit, the address of the group that is unused for the longest time makes room for another.
bool GroupSenders::make_room(Group& g, TimePoint now) {
  const std::size_t n = g.senders.size();
  if (n == 0 || (n < kMaxOfGroup && further_ < kMaxFurther)) return true;
  const auto used = [this](const auto& entry) {
    return std::max(entry.second.touched, sink_.last_used(entry.second.index));
  };
  const auto oldest = std::ranges::min_element(g.senders, {}, used);
  if (!oldest->second.held.empty() || now - used(*oldest) < kUsedLately) return false;
  remove_senders(g, [unused = &oldest->second](const GroupSender& s) { return &s == unused; });
  return true;
}

void GroupSenders::request_group(Group& g, const wire::IpAddr& addr, HeldPacket packet,
                                 TimePoint now) {
  auto it = g.senders.find(addr);
  if (it == g.senders.end()) {
    // If no packet can wait, none is worth a query.
    if (g.ah == fabric::kNoAh && held_.full(packet))
      return sink_.drop(packet, Drop::kNeighbourPending, false);
    if (!make_room(g, now)) {
      ++counters_.group_refused_local;
      return sink_.drop(packet, Drop::kNeighbourTableFull, false);
    }
    const auto index = sink_.allocate_index();
    if (!index) return sink_.drop(packet, Drop::kNeighbourTableFull, false);
    if (!g.senders.empty()) ++further_;
    it = g.senders.emplace(addr, GroupSender{}).first;
    it->second.index = *index;
    install(g, addr, it->second, table::NeighbourState::kIncomplete);
    it->second.touched = now;
    return held_.hold(it->second.held, packet, HeldShare::kAll, now);
  }
  GroupSender& s = it->second;
  s.touched = now;
  switch (s.installed.state) {
    case table::NeighbourState::kValid: return sink_.release(packet);
    case table::NeighbourState::kFailed: return sink_.drop(packet, Drop::kGroupAbsent, false);
    default: held_.hold(s.held, packet, HeldShare::kAll, now);
  }
}

void GroupSenders::send(Group& g, const wire::IpAddr& to, std::span<const std::byte> frame,
                        TimePoint now) {
  g.own_used = now;
  if (usable(g, to)) return actions_.send(g.ah, wire::kMulticastQpn, frame);
  const bool absent = g.delivery == GroupDelivery::kNone || g.ah != fabric::kNoAh;
  if (absent || g.frames.size() >= kMaxFramesPerGroup || frames_ >= kMaxFrames) {
    ++counters_.group_frames_unsent;
    return;
  }
  if (g.frames.empty()) g.frames_expire = now + config_.neighbour.max_held_age;
  g.frames.push_back({to, {frame.begin(), frame.end()}});
  ++frames_;
}

// --- Ways ---

/// Packets with link-local scope take no detour: all hosts that want them are in the group.
bool GroupSenders::usable(const Group& g, const wire::IpAddr& addr) const {
  const bool detour = g.delivery == GroupDelivery::kRouters || g.delivery == GroupDelivery::kFlood;
  return g.ah != fabric::kNoAh && (!detour || !wire::is_link_scope_group(addr));
}

void GroupSenders::install(const Group& g, const wire::IpAddr& addr, GroupSender& s,
                           table::NeighbourState state) {
  table::Neighbour n;
  n.addr = addr;
  n.iface = config_.id;
  n.state = state;
  n.mode = table::NeighbourMode::kUd;
  if (state == table::NeighbourState::kValid) {
    n.ah = g.ah;
    n.qpn = wire::kMulticastQpn;
    n.mtu = g.mtu;
    n.via_routers = g.delivery == GroupDelivery::kRouters;
  }
  if (same_sender(n, s.installed)) return;
  s.installed = n;
  sink_.install(s.index, n);
}

/// Installs the known delivery on the workers and releases the packets that waited for it.
void GroupSenders::apply_delivery(Group& g, const wire::IpAddr& addr, GroupSender& s) {
  if (g.delivery == GroupDelivery::kUnknown && g.ah == fabric::kNoAh) return;
  const bool good = usable(g, addr);
  const auto packets = held_.take(s.held);
  install(g, addr, s, good ? table::NeighbourState::kValid : table::NeighbourState::kFailed);
  if (!good) return drop_all(packets, Drop::kGroupAbsent);
  for (const auto& h : packets) sink_.release(h.packet);
}

void GroupSenders::set_delivery(Group& g, GroupDelivery delivery,
                                const wire::McMemberRecord* target) {
  if (delivery == GroupDelivery::kUnknown) return;
  g.delivery = delivery;
  auto old = fabric::kNoAh;
  if (target == nullptr) {
    old = std::exchange(g.ah, fabric::kNoAh);
  } else if (const auto attr = group_ah(*target); g.ah == fabric::kNoAh || attr != g.attr) {
    const auto made = actions_.create_ah(attr);
    if (!made) g.reason = made.error().what;
    old = std::exchange(g.ah, made ? *made : fabric::kNoAh);
    g.attr = attr;
  }
  if (target != nullptr) g.mtu = std::min(mtu_, ip_mtu(*target));
  if (!g.v4 && mtu6_ != 0) g.mtu = std::min(g.mtu, mtu6_);
  std::vector<wire::IpAddr> addrs;
  for (const auto& [addr, s] : g.senders) addrs.push_back(addr);
  for (const auto& addr : addrs)
    if (const auto it = g.senders.find(addr); it != g.senders.end())
      apply_delivery(g, addr, it->second);
  if (old != fabric::kNoAh) actions_.destroy_ah(old);
  if (g.ah == fabric::kNoAh) return drop_frames(g);
  frames_ -= g.frames.size();
  g.frames_expire = kNever;
  for (const auto& frame : std::exchange(g.frames, {})) {
    if (usable(g, frame.to))
      actions_.send(g.ah, wire::kMulticastQpn, frame.octets);
    else
      ++counters_.group_frames_unsent;
  }
}

void GroupSenders::forget_delivery(Group& g) {
  g.delivery = GroupDelivery::kUnknown;
  for (auto& [addr, s] : g.senders) install(g, addr, s, table::NeighbourState::kIncomplete);
  destroy_handle(g);
}

void GroupSenders::destroy_handle(Group& g) {
  if (g.ah != fabric::kNoAh) actions_.destroy_ah(std::exchange(g.ah, fabric::kNoAh));
}

void GroupSenders::clear(Group& g, Drop reason) {
  HeldQueue packets;
  remove_senders(g, [&](GroupSender& s) {
    const auto held = held_.take(s.held);
    packets.insert(packets.end(), held.begin(), held.end());
    return true;
  });
  drop_frames(g);
  g.own_used.reset();
  g.delivery = GroupDelivery::kUnknown;
  destroy_handle(g);
  drop_all(packets, reason);
}

void GroupSenders::forget_unused(Group& g, TimePoint since) {
  if (g.frames.empty()) g.own_used.reset();
  remove_senders(g, [&](const GroupSender& s) {
    const bool failed = s.installed.state == table::NeighbourState::kFailed;
    const bool used = std::max(s.touched, sink_.last_used(s.index)) > since;
    return failed || (!used && s.held.empty());
  });
}

TimePoint GroupSenders::last_used(const Group& g) const {
  auto last = TimePoint::min();
  for (const auto& [addr, s] : g.senders)
    if (s.installed.state != table::NeighbourState::kFailed)
      last = std::max({last, s.touched, sink_.last_used(s.index)});
  return last;
}

void GroupSenders::drop_all(const HeldQueue& packets, Drop reason) {
  for (const auto& h : packets) sink_.drop(h.packet, reason, false);
}

void GroupSenders::drop_frames(Group& g) {
  frames_ -= g.frames.size();
  counters_.group_frames_unsent += g.frames.size();
  g.frames.clear();
  g.frames_expire = kNever;
}

// --- Time ---

void GroupSenders::expire(Group& g, TimePoint now) {
  if (g.frames_expire <= now) drop_frames(g);
  if (g.own_used && g.frames.empty() && now - *g.own_used >= config_.group.send_idle)
    g.own_used.reset();
  HeldQueue late;
  remove_senders(g, [&](GroupSender& s) {
    const auto expired = held_.take_expired(s.held, now);
    late.insert(late.end(), expired.begin(), expired.end());
    s.touched = std::max(s.touched, sink_.last_used(s.index));
    return s.held.empty() && now - s.touched >= config_.group.send_idle;
  });
  drop_all(late, Drop::kNeighbourHeldTooLong);
}

TimePoint GroupSenders::due(const Group& g) const {
  auto due = g.frames_expire;
  if (g.own_used && g.frames.empty()) due = *g.own_used + config_.group.send_idle;
  for (const auto& [addr, s] : g.senders)
    due = std::min(due,
                   s.held.empty() ? s.touched + config_.group.send_idle : s.held.front().expires);
  return due;
}

}  // namespace ipoib::link
