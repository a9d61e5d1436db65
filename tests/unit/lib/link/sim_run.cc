// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/lib/link/sim_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/wire/iba.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

std::int64_t second_of(TimePoint t) {
  return std::chrono::floor<std::chrono::seconds>(t.time_since_epoch()).count();
}

constexpr std::size_t kMaxViolations = 20;

}  // namespace

SimRun::SimRun(std::uint64_t seed, unsigned kinds)
    : kinds_{kinds}, random_{seed ^ 0x5eed'0000}, f_{seed} {
  // A run usually has a few nodes, and sometimes some hundreds.
  const bool large = chance(0.01);
  n_ = large ? 100 + pick(201) : 3 + pick(10);
  steps_ = large ? 60 : 60 + static_cast<unsigned>(pick(120));
  lives_.resize(n_);
  next_lid_ = static_cast<std::uint16_t>(n_ + 10);
  for (const auto* group : {"239.1.1.1", "239.1.1.2", "239.1.1.3", "224.0.0.77", "ff05::101",
                            "ff02::1:42", "ff0e::303"})
    groups_.push_back(ip(group));
  f_.config.membership_refresh = 20s;
  f_.config.neighbour.reachable = 5s;
  f_.config.group.send_idle = chance(0.5) ? Duration{15s} : Duration{300s};
  f_.switches_by_membership = chance(0.5);
}

std::string SimRun::name(std::size_t i) const {
  return fmt::format("node {} ({})", i, wire::to_string(f_.nodes[i]->address()));
}

void SimRun::wrong(std::string what) {
  if (violations_.size() < kMaxViolations)
    violations_.push_back(
        fmt::format("at {:.3f} s: {}",
                    std::chrono::duration<double>(f_.now.time_since_epoch()).count() - 100, what));
}

void SimRun::run() {
  begin();
  suffer();
  heal();
  settle();
  check();
  end();
}

// The run:

void SimRun::begin() {
  // If hosts have these habits, the configuration allows for them.
  const bool senders_only = chance(0.2), source_checks = chance(0.2);
  f_.config.anonymous_requests = !senders_only;
  f_.one_queue_pair = source_checks;
  for (std::size_t i = 0; i < n_; ++i) {
    f_.config.ip6.routing = chance(0.3);
    f_.config.group.multicast_router = chance(0.1);
    f_.config.group.send_only = chance(0.15) ? SendOnly::kFullMember : SendOnly::kNonMember;
    SimNode& node = f_.add_node(fmt::format("10.0.{}.{}/16", i / 200, i % 200 + 1));
    node.habits = {.answers_senders_only = senders_only && chance(0.3),
                   .checks_source_qpn = source_checks && chance(0.3)};
  }
  if (may(SimKinds::kWire)) {
    f_.faults.loss = chance(0.2) ? 0 : 0.3 * static_cast<double>(pick(100)) / 100;
    f_.faults.duplication = 0.2 * static_cast<double>(pick(100)) / 100;
    constexpr Duration kDelays[] = {50us, 5ms, 50ms, 300ms};
    f_.faults.max_delay = kDelays[pick(4)];
  }
  if (may(SimKinds::kAnswers) && chance(0.7)) {
    f_.faults.late = 0.1;
    f_.faults.wrong_transaction = 0.05;
    f_.faults.wrong_record = 0.05;
    f_.faults.duplication = std::max(f_.faults.duplication, 0.1);
  }
  for (std::size_t i = 0; i < n_; ++i) {
    f_.nodes[i]->start();
    if (chance(0.3)) f_.run_for(std::chrono::milliseconds(pick(300)));
  }
}

void SimRun::suffer() {
  for (unsigned i = 0; i < steps_; ++i) {
    step();
    f_.run_for(std::chrono::milliseconds(pick(n_ > 50 ? 300 : 800)));
    check_held();
    check_requests();
  }
}

void SimRun::step() {
  // Each step has more actions if there are more nodes.
  for (std::size_t k = 0; k < 1 + n_ / 10; ++k) {
    const auto i = pick(n_);
    const auto what = pick(10);
    if (what < 2) trouble(i);
    if (what >= 2 && what < 6 && may(SimKinds::kGroups)) group_life(i);
    if (what >= 6 && may(SimKinds::kUnicast)) talk(i);
  }
  if (chance(0.1)) keep_talking();
}

void SimRun::talk(std::size_t i) {
  auto& node = *f_.nodes[i];
  const auto& peer = *f_.nodes[pick(n_)];
  auto to = peer.address();
  if (chance(0.4)) to = peer.local6().value_or(to);
  if (chance(0.05)) to = ip("10.0.255.7");  // a host that does not exist
  if (node.owns(to)) return;
  if (to != ip("10.0.255.7")) lives_[i].talks_to.insert(to);
  node.send_ip(to);
}

void SimRun::group_life(std::size_t i) {
  auto& node = *f_.nodes[i];
  auto& life = lives_[i];
  const auto& group = groups_[pick(groups_.size())];
  if (!node.alive()) return;
  switch (pick(5)) {
    case 0:
    case 1:
      if (node.link->join_group(group, f_.now)) ++life.joined[group];
      break;
    case 2:
      if (life.joined.count(group) == 0) break;
      if (!node.link->leave_group(group, f_.now)) wrong(name(i) + " may not leave its group");
      if (--life.joined[group] == 0) life.joined.erase(group);
      break;
    default: life.talks_to.insert(group); node.send_ip(group);
  }
}

void SimRun::trouble(std::size_t i) {
  auto& node = *f_.nodes[i];
  auto& life = lives_[i];
  switch (pick(11)) {
    case 0:
      if (may(SimKinds::kAdministrator) && chance(0.5)) restart_administrator();
      break;
    case 1:
      if (may(SimKinds::kAdministrator)) f_.administrator_silent = chance(0.5);
      break;
    case 2:
      if (!may(SimKinds::kPorts)) break;
      node.set_lid(next_lid_++);
      event(i, fabric::PortEvent::kLidChange);
      break;
    case 3:
      if (may(SimKinds::kPorts)) event(i, fabric::PortEvent::kClientReregister);
      break;
    case 4:
      if (!may(SimKinds::kPorts)) break;
      life.no_port = !life.no_port;
      note_event(i);
      node.set_port(!life.no_port);
      break;
    case 5:
      if (may(SimKinds::kIslands))
        for (const auto& other : f_.nodes)
          other->island = chance(0.5) ? 0 : 1 + static_cast<int>(pick(2));
      break;
    case 6:
      for (const auto& other : f_.nodes) other->island = 0;
      break;
    case 7:
      if (!may(SimKinds::kPartition)) break;
      life.no_pkey = !life.no_pkey;
      note_event(i);
      node.set_pkey(!life.no_pkey);
      break;
    case 8:
      if (may(SimKinds::kCrash)) node.alive() ? crash(i) : revive(i);
      break;
    case 9:
      if (!may(SimKinds::kStop) || !node.alive()) break;
      if (life.stopped && node.link->state() != State::kStopped) break;
      note_event(i);
      if (life.stopped)
        node.link->start(f_.now);
      else
        node.link->stop(f_.now);
      // A stop of which the administrator is not informed leaves memberships behind.
      life.left_behind = true;
      life.parted = f_.now;
      life.stopped = !life.stopped;
      break;
    default:
      if (node.alive() && chance(0.3)) node.link->flush();
  }
}

void SimRun::restart_administrator() {
  f_.restart_administrator();
  for (std::size_t i = 0; i < n_; ++i) {
    // Messages that a node sent before it crashed or stopped may still be under way.
    lives_[i].left_behind = f_.now - lives_[i].parted < SimBounds::kParting;
  }
  if (chance(0.5)) return;
  // The new administrator asks all ports to repeat their registrations.
  for (std::size_t i = 0; i < n_; ++i) event(i, fabric::PortEvent::kClientReregister);
}

void SimRun::note_event(std::size_t i) {
  ++lives_[i].events[second_of(f_.now)];
}

void SimRun::event(std::size_t i, fabric::PortEvent e) {
  note_event(i);
  f_.nodes[i]->port_event(e);
}

void SimRun::crash(std::size_t i) {
  auto& life = lives_[i];
  life.things = std::max(life.things, things_of(i));
  f_.nodes[i]->crash();
  life.joined.clear();
  life.left_behind = true;
  life.parted = f_.now;
  life.stopped = false;
}

void SimRun::revive(std::size_t i) {
  if (f_.nodes[i]->alive() || f_.now - f_.nodes[i]->crashed < 1s) return;
  note_event(i);
  f_.nodes[i]->restart();
}

/// Ends all faults, and restarts the nodes that are down.
void SimRun::heal() {
  f_.faults = {};
  f_.administrator_silent = false;
  for (const auto& node : f_.nodes) node->island = 0;
  if (may(SimKinds::kAdministrator) && chance(0.5)) restart_administrator();
  f_.run_for(1s);
  for (std::size_t i = 0; i < n_; ++i) {
    auto& node = *f_.nodes[i];
    auto& life = lives_[i];
    if (std::exchange(life.no_port, false)) note_event(i), node.set_port(true);
    if (std::exchange(life.no_pkey, false)) note_event(i), node.set_pkey(true);
    revive(i);
    if (std::exchange(life.stopped, false)) {
      if (node.link->state() == State::kStopping) f_.run_for(3s);
      note_event(i);
      node.link->start(f_.now);
    }
  }
}

/// Uses every entry of every node, so that the node checks it.
void SimRun::keep_talking() {
  for (std::size_t i = 0; i < n_; ++i) {
    auto& node = *f_.nodes[i];
    if (!node.alive()) continue;
    auto all = lives_[i].talks_to;
    for (const auto& [index, entry] : node.sink->installed) all.insert(entry.addr);
    for (const auto& to : all)
      if (!node.owns(to)) node.send_ip(to);
  }
}

void SimRun::settle() {
  const auto healed = f_.now;
  bool was_up = false;
  while (f_.now < healed + SimBounds::kUp + SimBounds::kSettled) {
    keep_talking();
    f_.run_for(1s);
    check_held();
    check_requests();
    if (!was_up && f_.now >= healed + SimBounds::kUp) {
      check_up();
      was_up = true;
    }
  }
}

void SimRun::check() {
  check_up();
  check_neighbours();
  check_members();
  if (may(SimKinds::kUnicast)) check_unicast();
  if (may(SimKinds::kGroups)) check_groups();
}

void SimRun::leave_groups() {
  for (std::size_t i = 0; i < n_; ++i)
    for (const auto& [group, count] : std::exchange(lives_[i].joined, {}))
      for (unsigned k = 0; k < count; ++k)
        if (!f_.nodes[i]->link->leave_group(group, f_.now))
          wrong(name(i) + " may not leave its group");
}

/// Checks that an orderly end of every node leaves nothing behind.
void SimRun::end() {
  const bool leave_first = chance(0.5);
  if (leave_first) leave_groups();
  for (const auto& node : f_.nodes) node->link->stop(f_.now);
  if (!leave_first) leave_groups();
  f_.run_for(3s);
  for (std::size_t i = 0; i < n_; ++i)
    if (f_.nodes[i]->link->state() != State::kStopped) wrong(name(i) + " does not stop");
  f_.run_for(30s);
  for (std::size_t i = 0; i < n_; ++i) {
    const auto& node = *f_.nodes[i];
    if (!node.nothing_left() || !node.addresses->listening.empty() ||
        !node.addresses->ready.empty())
      wrong(fmt::format(
          "{} kept {} entries, {} packets, {} handles, {} attachments, {} requests, {} "
          "addresses after its end",
          name(i), node.sink->indexes.size(), node.sink->open.size(), node.actions->ahs.size(),
          node.actions->attached.size(), node.client->outstanding() + node.client->waiting(),
          node.addresses->listening.size() + node.addresses->ready.size()));
    if (node.link->next_deadline()) wrong(name(i) + " has a timer after its end");
    const auto& subscribers = f_.administrator().subscriptions().all();
    if (const auto it = subscribers.find({node.lid(), 1});
        it != subscribers.end() && !it->second.wanted.empty() && !lives_[i].left_behind &&
        !f_.subscribed_late(node.lid()))
      wrong(name(i) + " is still subscribed after its end");
    const auto gid = node.actions->attr.gid();
    for (const auto& [mgid, group] : f_.administrator().groups())
      if (group.members.count(gid) != 0 && !lives_[i].left_behind && !f_.overtaken(gid, mgid))
        wrong(
            fmt::format("{} is still member of {} after its end", name(i), wire::to_string(mgid)));
  }
}

}  // namespace ipoib::link
