// SPDX-License-Identifier: BSD-3-Clause
// The properties that every simulated run must have.
#include <fmt/format.h>

#include <algorithm>

#include "lib/wire/iba.h"
#include "tests/unit/lib/link/sim_run.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

wire::Gid mgid_of(const GroupInfo& row, const IpoibLink& link) {
  const auto scope =
      static_cast<std::uint8_t>(link.parameters().broadcast_mgid.prefix() >> 48 & 15);
  return wire::mgid_of(row.group, wire::kDefaultPkey, scope);
}

/// Returns the memberships of a node according to itself, which the administrator should know.
std::map<wire::Gid, unsigned> held_by(const SimNode& node, TimePoint now) {
  std::map<wire::Gid, unsigned> held;
  const auto& link = *node.link;
  held[link.parameters().broadcast_mgid] |= wire::join_state::kFullMember;
  for (const auto& row : link.groups(now))
    if (row.join_state != 0) held[mgid_of(row, link)] |= row.join_state;
  return held;
}

}  // namespace

void SimRun::check_held() {
  for (std::size_t i = 0; i < n_; ++i)
    if (f_.nodes[i]->oldest_held() > SimBounds::kHeld)
      wrong(fmt::format("{} holds a packet for {:.3f} s", name(i),
                        std::chrono::duration<double>(f_.nodes[i]->oldest_held()).count()));
}

std::uint64_t SimRun::things_of(std::size_t i) const {
  const auto& link = *f_.nodes[i]->link;
  return 3 + link.groups(f_.now).size() + link.neighbours(f_.now).size();
}

/// Checks that there is no request storm, with and without faults.
void SimRun::check_requests() {
  for (std::size_t i = 0; i < n_; ++i) {
    auto& node = *f_.nodes[i];
    auto& life = lives_[i];
    life.things = std::max({life.things, things_of(i), 3 + node.max_objects});
    std::uint64_t events = 1;
    for (auto s = std::chrono::floor<std::chrono::seconds>(f_.now.time_since_epoch()).count();
         s-- > 0 && f_.now.time_since_epoch() - std::chrono::seconds(s) < 4s;)
      if (const auto it = life.events.find(s + 1); it != life.events.end()) events += it->second;
    const auto bound = SimBounds::kRequestsPerThing * life.things * events;
    if (node.max_requests > bound)
      wrong(fmt::format("{} made {} requests in a second, bound is {}", name(i), node.max_requests,
                        bound));
    node.max_requests = 0;
  }
}

void SimRun::check_up() {
  for (std::size_t i = 0; i < n_; ++i)
    if (const auto& link = *f_.nodes[i]->link; link.state() != State::kUp)
      wrong(fmt::format("{} is {}: {}", name(i), to_string(link.state()), link.reason()));
}

std::string SimRun::neighbours_wrong(std::size_t i) const {
  const auto& node = *f_.nodes[i];
  for (const auto& row : node.link->neighbours(f_.now)) {
    const auto* entry = node.sink->find(row.addr);
    if (entry == nullptr || entry->state != table::NeighbourState::kValid) continue;
    const auto owner = std::find_if(f_.nodes.begin(), f_.nodes.end(),
                                    [&](const auto& other) { return other->owns(row.addr); });
    if (owner == f_.nodes.end())
      return fmt::format("{} knows {}, which nobody has", name(i), wire::to_string(row.addr));
    const auto& to = **owner;
    const auto dlid = node.actions->ahs.at(entry->ah).dlid;
    const wire::LinkAddr hw{0, wire::Be24{entry->qpn}, to.actions->attr.gid()};
    if (dlid != to.lid() || !to.actions->has_qpn(entry->qpn) || row.lladdr != wire::to_string(hw))
      return fmt::format(
          "{} has {} ({}) at LID {} QPN {:#x} {}, it is at LID {} with {} QPNs from {:#x} on, {}",
          name(i), wire::to_string(row.addr), to_string(row.phase), dlid, entry->qpn, row.lladdr,
          to.lid(), to.actions->own_queue_pairs, to.actions->own_qpn, wire::to_string(hw));
  }
  for (const auto& [index, entry] : node.sink->installed) {
    if (!wire::is_multicast(entry.addr) || entry.state != table::NeighbourState::kValid) continue;
    const auto& ah = node.actions->ahs.at(entry.ah);
    const auto& all = f_.administrator().groups();
    const auto group = all.find(ah.dgid);
    if (group == all.end() || group->second.record.mlid.host() != ah.dlid)
      return fmt::format("{} sends {} to {} MLID {:#x}, which {}", name(i),
                         wire::to_string(entry.addr), wire::to_string(ah.dgid), ah.dlid,
                         group == all.end() ? "is gone" : "has another");
  }
  return {};
}

/// Checks that valid entries have the present address and path of their owner.
void SimRun::check_neighbours() {
  for (std::size_t i = 0; i < n_; ++i)
    if (const auto what = neighbours_wrong(i); !what.empty()) wrong(what);
}

std::string SimRun::members_wrong(std::size_t i) const {
  const auto& node = *f_.nodes[i];
  const auto& life = lives_[i];
  const auto gid = node.actions->attr.gid();
  const auto held = held_by(node, f_.now);
  const auto& subscribers = f_.administrator().subscriptions().all();
  const auto subscriber = subscribers.find({node.lid(), 1});
  const auto wanted = subscriber == subscribers.end() ? 0U : subscriber->second.wanted.size();
  if (wanted != 2)
    return fmt::format("{} has {} subscriptions, not those to groups created and deleted", name(i),
                       wanted);
  for (const auto& [mgid, bits] : held) {
    const auto& all = f_.administrator().groups();
    const auto group = all.find(mgid);
    const bool known = group != all.end() && group->second.members.count(gid) != 0;
    const auto there = known ? group->second.members.at(gid) : std::uint8_t{0};
    if ((there & bits) != bits)
      return fmt::format("{} holds {} with {:#x}, the administrator has {:#x}", name(i),
                         wire::to_string(mgid), bits, there);
    if ((bits & (wire::join_state::kFullMember | wire::join_state::kNonMember)) != 0 &&
        node.actions->attached.count({mgid, group->second.record.mlid.host()}) == 0)
      return fmt::format("{} is not attached to {}", name(i), wire::to_string(mgid));
  }
  for (const auto& [mgid, group] : f_.administrator().groups()) {
    const auto member = group.members.find(gid);
    if (member == group.members.end() || life.left_behind || f_.overtaken(gid, mgid)) continue;
    const auto it = held.find(mgid);
    const auto bits = it == held.end() ? 0U : it->second;
    if (member->second != bits)
      return fmt::format("the administrator has {} in {} with {:#x}, who holds {:#x}", name(i),
                         wire::to_string(mgid), member->second, bits);
  }
  for (const auto& [group, queue_pair] : node.actions->attached)
    if (held.count(group.first) == 0)
      return fmt::format("{} is attached to {}, which it does not hold", name(i),
                         wire::to_string(group.first));
  for (const auto& [group, count] : life.joined) {
    const auto rows = node.link->groups(f_.now);
    const auto row = std::ranges::find(rows, group, &GroupInfo::group);
    if (row == rows.end() || row->joins != count ||
        (row->join_state & wire::join_state::kFullMember) == 0)
      return fmt::format("{} joined {} but is {} ({})", name(i), wire::to_string(group),
                         row == rows.end() ? "nothing" : row->state,
                         row == rows.end() ? "" : row->reason);
  }
  return {};
}

/// Checks that the members at the administrator are the holders in the links, and checks again for
/// a while, because a request may be under way.
void SimRun::check_members() {
  for (std::size_t i = 0; i < n_; ++i) {
    auto what = members_wrong(i);
    for (int again = 0; again < 20 && !what.empty(); ++again) {
      f_.run_for(100ms);
      what = members_wrong(i);
    }
    if (!what.empty()) wrong(what);
  }
}

/// Checks that packets arrive: between all pairs of a few nodes, or from each of many nodes to one
/// other.
void SimRun::check_unicast() {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < n_; ++i) {
    if (n_ > 20) {
      pairs.emplace_back(i, (i + 1 + pick(n_ - 1)) % n_);
      continue;
    }
    for (std::size_t k = 0; k < n_; ++k)
      if (i != k) pairs.emplace_back(i, k);
  }
  const auto begin = f_.now;
  const auto unheard = [&](bool v6) {
    std::string what;
    for (const auto& [i, k] : pairs) {
      const auto from = v6 ? f_.nodes[i]->local6() : f_.nodes[i]->address();
      const auto to = v6 ? f_.nodes[k]->local6() : f_.nodes[k]->address();
      if (!from || !to) {
        what = fmt::format("{} or {} has no IPv6 address", name(i), name(k));
        continue;
      }
      const auto heard = f_.nodes[k]->last_received.find(*from);
      if (heard != f_.nodes[k]->last_received.end() && heard->second > begin) continue;
      f_.nodes[i]->send_ip(*to);
      what = fmt::format("{} does not hear {} by IPv{}", name(k), name(i), v6 ? 6 : 4);
    }
    return what;
  };
  for (const bool v6 : {false, true}) {
    std::string what;
    for (int tries = 0; tries < 60; ++tries) {
      what = unheard(v6);
      if (what.empty()) break;
      f_.run_for(250ms);
    }
    if (!what.empty()) wrong(what);
  }
}

/// Checks that joined receivers get all packets of a sender, and that other nodes get none.
void SimRun::check_groups() {
  for (const auto& group : groups_) {
    const auto sender = pick(n_);
    // Afterwards the sender knows the group, and no negative answer is cached.
    f_.nodes[sender]->send_ip(group);
    f_.run_for(13s);
    f_.nodes[sender]->send_ip(group);
    f_.run_for(1s);
    std::vector<std::uint64_t> before;
    for (const auto& node : f_.nodes) before.push_back(node->group_heard[group]);
    constexpr std::uint64_t kPackets = 3;
    for (std::uint64_t p = 0; p < kPackets; ++p) {
      f_.nodes[sender]->send_ip(group);
      f_.run_for(10ms);
    }
    f_.run_for(100ms);
    for (std::size_t i = 0; i < n_; ++i) {
      if (i == sender) continue;
      const auto heard = f_.nodes[i]->group_heard[group] - before[i];
      const bool joined = lives_[i].joined.count(group) != 0;
      if (heard != (joined ? kPackets : 0))
        wrong(fmt::format("{} {} {} and heard {} of {} packets of {}", name(i),
                          joined ? "joined" : "did not join", wire::to_string(group), heard,
                          kPackets, name(sender)));
    }
  }
}

}  // namespace ipoib::link
