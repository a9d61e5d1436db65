// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/sim_connections.h"

#include <algorithm>

namespace ipoib::link {
namespace {

constexpr std::uint64_t kGuid = 0x0002'c903'0000'0000;

}  // namespace

Result<fabric::ConnectedQueue*> FakeConnectionActions::create_connected(fabric::Transport transport,
                                                                        unsigned queue_pair) {
  ++attempts;
  if (without_receive_queue.contains(queue_pair)) return fail(Errc::kUnavailable, "not there");
  if (!has_room) return fail(Errc::kNoResources, "no queue pairs");
  auto queue = std::make_unique<FakeConnectedQueue>(next_qpn_++, transport, queue_pair);
  return queues.emplace(queue->qpn(), std::move(queue)).first->second.get();
}

std::size_t FakeConnectionActions::connected_queues(unsigned queue_pair) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      queues, [&](const auto& entry) { return entry.second->queue_pair == queue_pair; }));
}

void FakeConnectionActions::destroy_connected(fabric::ConnectedQueue& queue, unsigned queue_pair) {
  EXPECT_EQ(queues.at(queue.qpn())->queue_pair, queue_pair);
  queues.erase(queue.qpn());
}

Status FakeConnectionActions::set_ready_to_receive(fabric::ConnectedQueue& queue,
                                                   const fabric::ReadyToReceive& attr) {
  FakeConnectedQueue& q = *queues.at(queue.qpn());
  if (q.info.state != fabric::QueueState::kInit) return fail(Errc::kRefused, "not in init");
  q.receive = attr;
  q.info.state = fabric::QueueState::kReadyToReceive;
  return {};
}

Status FakeConnectionActions::set_ready_to_send(fabric::ConnectedQueue& queue,
                                                const fabric::ReadyToSend& attr) {
  FakeConnectedQueue& q = *queues.at(queue.qpn());
  if (q.info.state != fabric::QueueState::kReadyToReceive)
    return fail(Errc::kRefused, "not in RTR");
  q.send = attr;
  q.info.state = fabric::QueueState::kReadyToSend;
  return {};
}

void FakeConnectionActions::set_error(fabric::ConnectedQueue& queue) {
  queues.at(queue.qpn())->info.state = fabric::QueueState::kError;
}

Status FakeConnectionActions::load_alternate(fabric::ConnectedQueue& queue,
                                             const fabric::AlternatePath& alternate) {
  FakeConnectedQueue& q = *queues.at(queue.qpn());
  if (q.info.state != fabric::QueueState::kReadyToSend || !loads)
    return fail(Errc::kRefused, "not in RTS");
  q.alternates.push_back(alternate);
  return {};
}

fabric::ConnectedQueueInfo FakeConnectionActions::info(const fabric::ConnectedQueue& queue) const {
  return queues.at(queue.qpn())->info;
}

SimSide::SimSide(SimConnections& sim, std::uint16_t lid, ConnectionConfig c)
    : config{c}, port_lid{lid}, sim_{sim}, lid_{lid} {
  start();
}

SimSide::~SimSide() {
  kill();
}

wire::LinkAddr SimSide::address(unsigned queue_pair) const {
  return {0, wire::Be24{0x1000 * queue_pair + 0x40U + lid_},
          wire::Gid::of(wire::kDefaultGidPrefix, kGuid + lid_)};
}

fabric::MadAddress SimSide::mad_address() const {
  if (sim_.by_gid) return {.lid = fabric::kElsewhereLid, .gid = address().gid};
  return {.lid = port_lid};
}

void SimSide::start() {
  killed_ = false;
  cm::ManagerConfig cm;
  cm.ca_guid = kGuid + 0x100 + lid_;
  const auto send = [this](const fabric::MadAddress& to,
                           std::span<const std::byte, wire::kMadLen> octets) -> Status {
    if (!killed_) sim_.send(lid_, to, octets);
    return {};
  };
  manager = std::make_unique<cm::Manager>(send, cm, sim_.random());
  fabric::PortAttr port;
  port.guid = kGuid + lid_;
  port.lid = sim_.by_gid ? fabric::kOwnLid : port_lid;
  port.lmc = lmc;
  manager->set_port({.gid = address().gid, .lid = port.lid, .lmc = lmc, .by_gid = sim_.by_gid});
  ConnectionSurroundings around;
  around.path_to = [this](const wire::Gid& gid) -> std::optional<PathTable::ReadyPath> {
    if (!has_path) return std::nullopt;
    if (sim_.by_gid)
      return PathTable::ReadyPath{
          {.dlid = fabric::kElsewhereLid, .sl = 1, .global = true, .hop_limit = 64, .dgid = gid},
          4,
          path_lifetime};
    const std::size_t number = gid.guid() - kGuid - 1;
    if (number >= sim_.sides.size()) return std::nullopt;
    const std::uint16_t dlid = paths_.try_emplace(gid, sim_.sides[number]->port_lid).first->second;
    return PathTable::ReadyPath{
        {.dlid = dlid, .sl = 1, .src_path_bits = src_path_bits, .dgid = gid}, 4, path_lifetime};
  };
  around.second_path_to = [this](const wire::Gid&, const fabric::AhAttr& in_use, std::uint8_t,
                                 ConnectionSurroundings::SecondPath handler, TimePoint) {
    if (!second_path) return false;
    sim_.at(sim_.now + 1ms, [this, handler = std::move(handler), in_use] {
      if (!alive()) return;
      const auto attr = second_path(in_use);
      handler(attr ? std::optional{PathTable::ReadyPath{*attr, 4, second_lifetime}} : std::nullopt,
              sim_.now);
    });
    return true;
  };
  around.is_answered = [this](const wire::Gid& gid, TimePoint since, TimePoint) {
    return is_answered(gid, since);
  };
  around.last_used = [this](const wire::IpAddr& to) {
    return talks_to_.contains(to) ? sim_.now : TimePoint::min();
  };
  around.queues = [this] { return queue_pairs; };
  around.changed = [this](const wire::IpAddr& user, TimePoint) { told.push_back(user); };
  connections =
      std::make_unique<Connections>(config, wire::kDefaultPkey, static_cast<NeighbourPaths&>(*this),
                                    hca, *manager, around, sim_.random());
  std::vector<wire::LinkAddr> own;
  for (unsigned i = 0; i < queue_pairs; ++i) own.push_back(address(i));
  static_cast<void>(connections->start(std::move(own), port, sim_.now));
}

void SimSide::kill() {
  killed_ = true;
  connections.reset();
  manager.reset();
  hca.queues.clear();
  neighbours_.clear();
  paths_.clear();
  answered_.clear();
  talks_to_.clear();
}

/// The SA answers queries after a millisecond, unless there is no path.
bool SimSide::is_answered(const wire::Gid& gid, TimePoint since) {
  const auto answered = answered_.find(gid);
  if (answered != answered_.end() && answered->second >= since) return true;
  if (!sa_answers || !asked_.insert(gid).second) return false;
  ++path_queries;
  sim_.at(sim_.now + 1ms, [this, gid] {
    paths_.erase(gid);
    asked_.erase(gid);
    answered_[gid] = sim_.now;
    for (const auto& [ip, address] : std::map{neighbours_})
      if (alive() && address.gid == gid) connections->on_path(wire::HwAddr{address}, sim_.now);
  });
  return false;
}

void SimSide::refresh(const wire::HwAddr& hw, TimePoint now) {
  sim_.at(now + 1ms, [this, hw] {
    paths_.erase(hw.link_addr().gid);
    if (alive()) connections->on_path(hw, sim_.now);
  });
}

void SimSide::meet(const SimSide& other, std::uint8_t flags) {
  const auto named_here = other.named.find(address().gid);
  auto hw = other.address(named_here != other.named.end() ? named_here->second : 0);
  hw.flags = flags;
  const auto before = neighbours_.find(other.ip());
  if (before != neighbours_.end() && !wire::HwAddr{before->second}.same_interface(hw))
    connections->moved(other.ip(), before->second, hw, sim_.now);
  else
    connections->acquire(other.ip(), hw, sim_.now);
  neighbours_[other.ip()] = hw;
}

void SimSide::lose(const SimSide& other) {
  const auto it = neighbours_.find(other.ip());
  connections->release(other.ip(), it->second);
  neighbours_.erase(it);
}

void SimSide::talk(const SimSide& other, bool on) {
  if (on)
    talks_to_.insert(other.ip());
  else
    talks_to_.erase(other.ip());
}

table::Neighbour SimSide::way_to(const SimSide& other) const {
  table::Neighbour n;
  const auto known = neighbours_.find(other.ip());
  static_cast<const NeighbourPaths&>(*connections)
      .describe(known != neighbours_.end() ? known->second : other.address(), n);
  return n;
}

std::vector<ConnectionInfo> SimSide::up() const {
  auto rows = connections->list(sim_.now);
  std::erase_if(rows, [](const ConnectionInfo& row) { return row.state != "established"; });
  return rows;
}

SimSide& SimConnections::add(ConnectionConfig config) {
  sides.push_back(
      std::make_unique<SimSide>(*this, static_cast<std::uint16_t>(sides.size() + 1), config));
  return *sides.back();
}

std::pair<SimSide&, SimSide&> SimConnections::two(const ConnectionConfig& a,
                                                  const ConnectionConfig& b) {
  SimSide& first = add(a);
  SimSide& second = add(b);
  first.meet(second);
  second.meet(first);
  first.talk(second);
  return {first, second};
}

void give_lids(SimSide& a, SimSide& b, std::uint8_t lmc) {
  constexpr std::uint16_t kFirst = 0x10, kSecond = 0x20;
  for (SimSide* side : {&a, &b}) {
    side->kill();
    side->port_lid = side == &a ? kFirst : kSecond;
    side->lmc = lmc;
    side->hca.migrates = true;
    side->start();
  }
  a.second_path = [lmc](const fabric::AhAttr& in_use) -> std::optional<fabric::AhAttr> {
    fabric::AhAttr next;
    next.src_path_bits = static_cast<std::uint8_t>((in_use.src_path_bits + 1) & ((1 << lmc) - 1));
    next.dlid = static_cast<std::uint16_t>(kSecond + next.src_path_bits);
    next.sl = 3;
    next.rate = 6;
    return next;
  };
}

SimSide* SimConnections::at_lid(std::uint16_t lid) const {
  const auto it = std::ranges::find(sides, lid, &SimSide::port_lid);
  return it == sides.end() ? nullptr : it->get();
}

void SimConnections::send(std::uint16_t from, const fabric::MadAddress& to,
                          std::span<const std::byte, wire::kMadLen> octets) {
  auto cm = wire::read<wire::CmMad>(octets).value();
  sent.push_back(cm);
  SimSide* const there = by_gid ? sides.at(to.gid.guid() - kGuid - 1).get() : at_lid(to.lid);
  if (there == nullptr || chance(loss) || (meddle && !meddle(from, there->lid(), cm))) return;
  fabric::ReceivedMad mad;
  mad.from = sides.at(from - 1U)->mad_address();
  mad.from.pkey = to.pkey;
  std::ranges::copy(wire::bytes_of(cm), mad.bytes.begin());
  const auto more =
      static_cast<Duration::rep>(random() % (static_cast<std::uint64_t>(spread.count()) + 1));
  at(now + delay + Duration{more}, [this, there, mad] {
    if (there->alive()) there->manager->on_mad(mad, now);
  });
}

void SimConnections::run_for(Duration d) {
  const auto next_deadline = [this] {
    std::optional<TimePoint> next;
    for (const auto& side : sides)
      if (side->alive())
        next = earlier(next,
                       earlier(side->manager->next_deadline(), side->connections->next_deadline()));
    return next;
  };
  run_to(now + d, next_deadline, [this] {
    for (const auto& side : sides) {
      if (!side->alive()) continue;
      side->manager->tick(now);
      side->connections->tick(now);
    }
  });
}

}  // namespace ipoib::link
