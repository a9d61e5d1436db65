// SPDX-License-Identifier: BSD-3-Clause
// Neighbours of an IPoIB link: valid addresses, broadcast, static entries, and their queue pairs.
#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/link/ipoib/ipoib_link.h"

namespace ipoib::link {
namespace {

/// Time between two messages to neighbours that move, so that there is no storm of messages.
constexpr Duration kMoveSpacing = std::chrono::milliseconds(2);
/// Limit of such messages at once, after a time in which nothing ran.
constexpr int kMovesAtOnce = 16;
constexpr std::size_t kGroupsAtOnce = 8;

}  // namespace

std::unique_ptr<Connections> IpoibLink::make_connections(const std::optional<Connected>& connected,
                                                         std::uint64_t seed) {
  if (!connected || (!config_.connected.rc && !config_.connected.uc)) return nullptr;
  ConnectionSurroundings around;
  around.path_to = [this](const wire::Gid& gid) { return paths_.ready_path(gid); };
  around.second_path_to = [this](const wire::Gid& gid, const fabric::AhAttr& in_use,
                                 std::uint8_t least_mtu, ConnectionSurroundings::SecondPath handler,
                                 TimePoint now) {
    return second_paths_.ask(gid, in_use, least_mtu, std::move(handler), now);
  };
  around.is_answered = [this](const wire::Gid& gid, TimePoint since, TimePoint now) {
    return paths_.is_answered(gid, since, now);
  };
  around.last_used = [this](const wire::IpAddr& addr) { return ip_.neighbours().last_used(addr); };
  around.queues = [this] { return queues(); };
  around.changed = [this](const wire::IpAddr& user, TimePoint now) {
    ip_.neighbours().on_path(user, now);
  };
  return std::make_unique<Connections>(config_.connected, config_.pkey, paths_, connected->actions,
                                       connected->manager, std::move(around), seed ^ 7);
}

std::unique_ptr<SharedGateway> IpoibLink::make_shared_gateway(std::uint64_t seed) {
  if (config_.shared.addresses.empty()) return nullptr;
  const auto listens = [this](const wire::IpAddr& group) {
    const auto rows = groups_->list(TimePoint{});
    return std::any_of(rows.begin(), rows.end(), [&group](const GroupInfo& row) {
      return row.group == group && row.joins > 0 && row.state == "member";
    });
  };
  return std::make_unique<SharedGateway>(SharedSurroundings{
      config_.name, config_.shared, *this, stack_, config_.ip6.routing, listens, seed});
}

NeighbourPaths& IpoibLink::neighbour_paths() {
  if (connections_) return *connections_;
  return paths_;
}

void IpoibLink::on_path(const wire::IpAddr& neighbour, TimePoint now) {
  if (const auto hw = ip_.neighbours().hw_of(neighbour); hw && connections_)
    connections_->on_path(*hw, now);
  ip_.neighbours().on_path(neighbour, now);
}

Status IpoibLink::start_connections(TimePoint now) {
  if (!connections_) return {};
  std::vector<wire::LinkAddr> own(actions_.queue_pairs(), own_address());
  for (unsigned i = 0; i < own.size(); ++i) own[i].qpn = wire::Be24{actions_.qpn(i)};
  return connections_->start(std::move(own), actions_.port(), now);
}

void IpoibLink::on_neighbour_wanted(const wire::IpAddr& addr, HeldPacket packet, TimePoint now) {
  if (!wire::is_multicast(addr)) return ip_.request_neighbour(addr, packet, now);
  if (!ip_.ready()) return sink_.drop(packet, Drop::kLinkDown, false);
  groups_->request_group(addr, packet, now);
}

Status IpoibLink::add_static(const wire::IpAddr& addr, std::string_view lladdr, std::uint16_t lid,
                             std::uint8_t sl, TimePoint now) {
  if (auto can = ip_.can_be_neighbour(addr); !can) return can;
  const wire::LinkKind kind = dialect_->format().kind;
  const auto hw = wire::parse_hw_addr(lladdr);
  if (!hw || hw->kind() != kind || !hw->is_plausible())
    return fail(
        Errc::kInvalidArgument,
        "'{}' is not a link-layer address of {} octets in hexadecimal with a unicast QPN and GID",
        lladdr, wire::hw_len(kind));
  if ((lid != 0 && !wire::is_unicast_lid(lid)) || sl > 15)
    return fail(Errc::kInvalidArgument,
                "invalid LID {} or SL {}, allowed: LID 1-49151 (0: query the SA), SL 0-15", lid,
                sl);
  const StaticNeighbour entry{*hw, lid, sl};
  const auto before = statics_.find(addr);
  const bool replaces = before != statics_.end();
  const PathKey old{(replaces ? before->second.hw : *hw).datagram_addr()};
  statics_.insert_or_assign(addr, entry);
  auto added = pin_static(addr, entry, now);
  if (!added) statics_.erase(addr);
  // A new entry removes no pin; a scan of all others for each would take quadratic time.
  if (replaces) unpin_unless_used(old);
  if (!added) unpin_unless_used(PathKey{hw->datagram_addr()});
  return added;
}

Status IpoibLink::pin_static(const wire::IpAddr& addr, const StaticNeighbour& entry,
                             TimePoint now) {
  if (entry.lid != 0) {
    fabric::AhAttr attr;
    attr.dlid = entry.lid;
    attr.sl = entry.sl;
    paths_.pin(PathKey{entry.hw.datagram_addr()}, attr, now);
  }
  return ip_.neighbours().add_static(addr, entry.hw, now);
}

Status IpoibLink::remove_neighbour(const wire::IpAddr& addr) {
  auto removed = ip_.neighbours().remove(addr);
  if (!removed) return removed;
  const auto it = statics_.find(addr);
  if (it == statics_.end()) return removed;
  const PathKey key{it->second.hw.datagram_addr()};
  statics_.erase(it);
  unpin_unless_used(key);
  return removed;
}

/// Unpins the path that a static entry defined, unless another entry defines it too.
void IpoibLink::unpin_unless_used(const PathKey& key) {
  const bool used = std::any_of(statics_.begin(), statics_.end(), [&](const auto& entry) {
    return entry.second.lid != 0 && PathKey{entry.second.hw.datagram_addr()} == key;
  });
  if (!used && key.gid != parameters_.broadcast_mgid) paths_.unpin(key);
}

// --- Spread over queue pairs, each of another worker ---

/// Messages to a peer with connected mode name the first queue pair, as announcements do: another one
/// would end its connections. Their workers are independent of it.
unsigned IpoibLink::queue_pair_for(const wire::HwAddr& peer) const {
  const unsigned n = queues();
  const bool first = n == 1 || (connections_ && connections_->is_able(peer.link_addr()));
  return first ? 0 : spread_.queue_pair_of(peer.datagram_addr().gid, n);
}

unsigned IpoibLink::served_by(const wire::HwAddr& neighbour) const {
  const auto connection = connections_ ? connections_->served_by(neighbour) : std::nullopt;
  return connection.value_or(queue_pair_for(neighbour));
}

Status IpoibLink::set_queues(unsigned n, TimePoint now) {
  const unsigned all = actions_.queue_pairs();
  if (n == 0 || n > all)
    return fail(Errc::kInvalidArgument, "{}: invalid number of queues {}, allowed: 1-{}",
                config_.name, n, all);
  const unsigned before = queues();
  config_.max_queues = n;
  const unsigned after = queues();
  const auto moves = [&](const wire::IpAddr& addr) {
    const auto hw = ip_.neighbours().hw_of(addr);
    if (!hw || wire::is_multicast(addr)) return false;
    if (connections_ && connections_->is_able(hw->link_addr())) return false;
    const wire::Gid gid = hw->datagram_addr().gid;
    return spread_.queue_pair_of(gid, before) != spread_.queue_pair_of(gid, after);
  };
  // Neighbours of an earlier change whose messages still wait stay.
  for (const wire::IpAddr& addr : ip_.neighbours().addresses())
    if (moves(addr)) to_tell_.insert(addr);
  groups_->begin_to_move();
  groups_move_ = true;
  move_due_ = now;
  return {};
}

void IpoibLink::balance(std::span<QueueLoad> loads, TimePoint now) {
  if (!config_.balance) return;
  if (connections_) {
    std::vector<double> busy;
    for (const QueueLoad& load : loads) busy.push_back(load.busy);
    connections_->set_busy(std::move(busy));
  }
  const unsigned n = std::min(queues(), static_cast<unsigned>(loads.size()));
  // Packets of neighbours that are moving arrive at the queue pairs that they had.
  if (n < 2 || state_ != State::kUp || is_moving()) return;
  const auto ports = [this] {
    auto known = paths_.ports();
    if (connections_)
      std::erase_if(known,
                    [this](const auto& port) { return connections_->may_have(port.second); });
    return known;
  };
  const auto moved = spread_.balance(loads.first(n), ports, now);
  for (const wire::Gid& gid : moved) {
    to_tell_.merge(paths_.users_of(gid));
    log(LogArea::kLink, LogLevel::kInfo, "{}: the host with GID {} moves to queue pair {}",
        config_.name, wire::to_string(gid), actions_.qpn(spread_.queue_pair_of(gid, n)));
  }
  if (moved.empty()) return;
  counters_.neighbours_moved += to_tell_.size();
  move_due_ = now;
  spread_.forget_unless(
      [this](const wire::Gid& gid) { return paths_.ready_path(gid).has_value(); });
}

/// Tells the next neighbours, by unicast requests that name their queue pairs, and moves the next
/// groups. The others send to queue pairs that still receive.
void IpoibLink::move_some(TimePoint now) {
  if (!is_moving() || now < move_due_) return;
  for (int i = 0; i < kMovesAtOnce && !to_tell_.empty() && move_due_ <= now; ++i) {
    ip_.tell(to_tell_.extract(to_tell_.begin()).value(), now);
    move_due_ += kMoveSpacing;
  }
  groups_move_ = groups_move_ && groups_->move(kGroupsAtOnce, now);
  move_due_ = std::max(move_due_, now + kMoveSpacing);
}

}  // namespace ipoib::link
