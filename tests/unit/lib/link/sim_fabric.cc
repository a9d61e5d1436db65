// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/lib/link/sim_fabric.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/wire/arp.h"
#include "lib/wire/iba.h"

namespace ipoib::link {
namespace {

constexpr std::uint16_t kDatagram = 0x0800;

/// A simulated IP packet.
struct Datagram {
  wire::IpoibHdr hdr;
  wire::IpAddr from;
  wire::IpAddr to;
  wire::Be64 id;
};
static_assert(wire::WireRecord<Datagram>);

}  // namespace

// Nodes:

SimNode::SimNode(SimFabric& fabric, std::uint16_t lid, std::uint64_t guid, std::string_view address)
    : fabric_{fabric},
      number_{fabric.nodes.size()},
      one_queue_pair_{fabric.one_queue_pair},
      config_{fabric.config},
      prefix_{prefix(address)} {
  address_ = prefix_.addr;
  config_.addresses = {prefix_};
  attr_.guid = guid;
  attr_.lid = lid;
  attr_.lmc = fabric.lmc;
  attr_.sm_lid = fabric.administrator_lid();
  make();
}

void SimNode::make() {
  link.reset();
  client.reset();
  waiting_.clear();
  sink = std::make_unique<FakeNeighbourSink>();
  addresses = std::make_unique<FakeAddressSink>();
  sink->on_release = [this](HeldPacket p) {
    const auto to = waiting_.at(p).to;
    waiting_.erase(p);
    const auto* n = sink->find(to);
    ASSERT_NE(n, nullptr);
    EXPECT_EQ(n->state, table::NeighbourState::kValid);
    put_on_wire(to, *n);
  };
  actions = std::make_unique<FakeLinkActions>(*sink);
  actions->attr = attr_;
  actions->own_qpn = 2 + static_cast<std::uint32_t>(fabric_.random() % 0xff'0000);
  actions->own_queue_pairs = one_queue_pair_ ? 1 : 1 + actions->own_qpn % 3;
  worker_ = 0;
  actions->on_send = [this](const SentFrame& f) {
    fabric_.send(
        *this, {attr_.lid_with(f.to.src_path_bits), actions->attr.gid(), actions->own_qpn + worker_,
                actions->qkey, config_.pkey, f.to, f.qpn, f.bytes});
  };
  client = std::make_unique<sa::Client>(
      [this](const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) {
        fabric_.to_administrator(*this, to, *wire::read<wire::SaMad>(mad));
        return Status{};
      },
      sa::ClientConfig{}, fabric_.random());
  client->set_sm(fabric_.administrator_lid(), 0, fabric_.now);
  client->set_report_handler([this](const wire::Notice& notice, TimePoint now) {
    if (fabric_.reports) link->on_report(notice, now);
  });
  link = std::make_unique<IpoibLink>(LinkConfig{config_}, *actions, *sink, *client,
                                     fabric_.random(), *addresses);
}

void SimNode::start() {
  link->start(fabric_.now);
}

void SimNode::crash() {
  make();
  alive_ = false;
  crashed = fabric_.now;
}

void SimNode::restart() {
  alive_ = true;
  start();
}

void SimNode::crash_and_restart() {
  crash();
  restart();
}

void SimNode::set_lid(std::uint16_t lid) {
  attr_.lid = lid;
  actions->attr.lid = lid;
}

void SimNode::port_event(fabric::PortEvent event) {
  actions->attr = attr_;
  if (alive_) link->on_port_event(event, fabric_.now);
}

void SimNode::set_pkey(bool has) {
  attr_.pkeys.clear();
  if (has) attr_.pkeys.push_back(static_cast<std::uint16_t>(config_.pkey | wire::kFullMemberBit));
  port_event(fabric::PortEvent::kPkeyChange);
}

void SimNode::set_port(bool active) {
  attr_.state = active ? fabric::PortState::kActive : fabric::PortState::kDown;
  port_event(active ? fabric::PortEvent::kPortActive : fabric::PortEvent::kPortDown);
}

bool SimNode::on_fabric() const {
  return alive_ && attr_.state == fabric::PortState::kActive;
}

std::optional<wire::IpAddr> SimNode::local6() const {
  for (const auto& [iface, own] : addresses->ready)
    if (wire::is_link_local6(own.addr)) return own.addr;
  return std::nullopt;
}

bool SimNode::owns(const wire::IpAddr& addr) const {
  return addr == address_ || std::any_of(addresses->ready.begin(), addresses->ready.end(),
                                         [&](const auto& own) { return own.second.addr == addr; });
}

void SimNode::send_ip(const wire::IpAddr& to) {
  if (!alive_) return;
  const auto index = sink->index_of(to);
  if (index) {
    const auto& n = sink->installed.at(*index);
    if (n.state == table::NeighbourState::kFailed) {
      if (wire::is_multicast(to)) ++group_refused[to];
      return;
    }
    if (n.state == table::NeighbourState::kValid) {
      sink->used[*index] = std::chrono::floor<std::chrono::seconds>(fabric_.now);
      return put_on_wire(to, n);
    }
  }
  const auto packet = sink->new_packet();
  waiting_[packet] = {to, fabric_.now};
  link->on_neighbour_wanted(to, packet, fabric_.now);
  if (sink->open.count(packet) == 0) waiting_.erase(packet);
}

void SimNode::put_on_wire(const wire::IpAddr& to, const table::Neighbour& n) {
  const auto from = to.is_v4() ? address_ : local6().value_or(address_);
  const Datagram d{{wire::Be16{kDatagram}, {}}, from, to, wire::Be64{++fabric_.packet_id_}};
  // Messages of the link itself leave by its first queue pair.
  worker_ = static_cast<unsigned>(++sent[to] % actions->own_queue_pairs);
  const bool several = n.mode == table::NeighbourMode::kUdPaths;
  const auto flow = static_cast<std::uint32_t>(d.id.host());
  actions->send(several ? n.handle_of(flow) : n.ah, n.qpn, wire::bytes_of(d));
  worker_ = 0;
}

bool SimNode::is_ignored(std::span<const std::byte> arp) const {
  const auto record = wire::parse_arp(wire::LinkKind::kInfiniband, arp);
  return habits.answers_senders_only && record && record->op == wire::ArpOp::kRequest &&
         record->sender_ip == 0;
}

bool SimNode::is_foreign(const wire::IpAddr& from, std::uint32_t src_qpn) const {
  const table::Neighbour* const known = habits.checks_source_qpn ? sink->find(from) : nullptr;
  return known != nullptr && known->state == table::NeighbourState::kValid && known->qpn != src_qpn;
}

/// Handles a packet of the queue pair as the datapath would.
void SimNode::take(std::span<const std::byte> bytes, std::uint16_t slid, std::uint32_t src_qpn) {
  const auto type = wire::read<wire::IpoibHdr>(bytes)->type.host();
  const auto packet = bytes.subspan(sizeof(wire::IpoibHdr));
  if (type == 0x0806 && is_ignored(packet)) return;
  if (type == 0x0806) return link->on_arp(packet, slid, src_qpn, fabric_.now);
  if (type == 0x86dd) return link->on_nd(packet, slid, fabric_.now);
  const auto d = wire::read<Datagram>(bytes);
  if (!d || type != kDatagram) return;
  if (wire::is_multicast(d->to)) {
    if (owns(d->from) || !seen_.insert(d->id.host()).second) return;
    ++group_received[d->to];
    if (addresses->listening.count({config_.id, d->to}) != 0) ++group_heard[d->to];
    return;
  }
  if (!owns(d->to)) {
    ++fabric_.lost["misdirected"];
    return;
  }
  if (is_foreign(d->from, src_qpn)) {
    ++fabric_.lost["source"];
    return;
  }
  if (seen_.insert(d->id.host()).second) ++received[d->from];
  last_received[d->from] = fabric_.now;
}

bool SimNode::nothing_left() const {
  return sink->indexes.empty() && sink->open.empty() && actions->ahs.empty() &&
         actions->nb_attached == 0 && client->outstanding() == 0 && client->waiting() == 0;
}

Duration SimNode::oldest_held() const {
  Duration oldest{};
  for (const auto packet : sink->open)
    oldest = std::max<Duration>(oldest, fabric_.now - waiting_.at(packet).since);
  return oldest;
}

void SimNode::count_request() {
  const auto second = std::chrono::floor<std::chrono::seconds>(fabric_.now.time_since_epoch());
  if (second != request_second_) requests = 0;
  request_second_ = second;
  max_requests = std::max(max_requests, ++requests);
  max_objects = std::max<std::uint64_t>(max_objects, link->sa_objects());
}

std::optional<TimePoint> SimNode::next_deadline() const {
  return earlier(client->next_deadline(), link->next_deadline());
}

void SimNode::tick() {
  client->tick(fabric_.now);
  link->tick(fabric_.now);
}

// The fabric:

SimFabric::SimFabric(std::uint64_t seed, SimFaults f, std::uint8_t of_ports)
    : SimTime{TimePoint{std::chrono::seconds(100)}, seed}, lmc{of_ports}, faults{f} {
  config.name = "ib0";
  make_administrator();
}

std::uint16_t SimFabric::administrator_lid() const {
  return static_cast<std::uint16_t>(1U << lmc);
}

void SimFabric::make_administrator() {
  sa::AdministratorConfig c;
  c.gid = wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'00ff'0001);
  c.lid = administrator_lid();
  c.lmc = lmc;
  auto made = sa::Administrator::create(c);
  ASSERT_TRUE(made) << made.error().what;
  administrator_.emplace(std::move(*made));
  administrator_due_known_ = false;
  overtaken_.clear();
  late_.clear();
}

void SimFabric::restart_administrator() {
  make_administrator();
}

bool SimFabric::overtaken(const wire::Gid& port, const wire::Gid& mgid) const {
  const auto it = overtaken_.lower_bound({port, mgid, 0});
  return it != overtaken_.end() && std::get<0>(*it) == port && std::get<1>(*it) == mgid;
}

const sa::McGroup* SimFabric::group(std::string_view addr) const {
  const auto it = administrator_->groups().find(wire::mgid_of(ip(addr), config.pkey, 2));
  return it == administrator_->groups().end() ? nullptr : &it->second;
}

unsigned SimFabric::join_state(std::string_view addr, const SimNode& node) const {
  const auto* g = group(addr);
  if (g == nullptr) return 0;
  const auto it = g->members.find(node.actions->attr.gid());
  return it == g->members.end() ? 0 : it->second;
}

SimNode& SimFabric::add_node(std::string_view address) {
  const auto n = nodes.size() + 2;
  nodes.push_back(std::make_unique<SimNode>(*this, static_cast<std::uint16_t>(n << lmc),
                                            0x0002'c903'0000'0000ULL + n, address));
  return *nodes.back();
}

std::size_t SimFabric::broadcast_members() const {
  const auto* g = group("255.255.255.255");
  return g == nullptr ? 0 : g->members.size();
}

std::size_t SimFabric::members() const {
  std::size_t members = 0;
  for (const auto& [mgid, group] : administrator_->groups()) members += group.members.size();
  return members;
}

bool SimFabric::all_up() const {
  return std::all_of(nodes.begin(), nodes.end(),
                     [](const auto& n) { return n->link->state() == State::kUp; });
}

void SimFabric::transmit(const std::function<void()>& what, Duration later) {
  std::uniform_int_distribution<Duration::rep> delay{faults.min_delay.count(),
                                                     faults.max_delay.count()};
  if (chance(faults.loss)) return;
  at(now + later + Duration{delay(random)}, what);
  if (chance(faults.duplication)) at(now + later + Duration{delay(random)}, what);
}

/// Records joins and subscriptions that a later leave overtook on the wire.
void SimFabric::note_order(const wire::SaMad& mad, std::uint16_t lid, std::uint64_t sent) {
  const auto method = static_cast<wire::Method>(mad.hdr.mad.method);
  const auto attr = static_cast<wire::Attr>(mad.hdr.mad.attr_id.host());
  if (attr == wire::Attr::kInformInfo && method == wire::Method::kSet) {
    auto& ended = unsubscribed_[lid];
    if (wire::read<wire::InformInfo>(mad.data)->subscribe == 0)
      ended = std::max(ended, sent);
    else if (ended > sent)
      late_.insert(lid);
  }
  if (attr != wire::Attr::kMcMemberRecord) return;
  const auto r = *wire::read<wire::McMemberRecord>(mad.data);
  const Membership what{r.port_gid, r.mgid, r.join()};
  if (method == wire::Method::kDelete) {
    auto& left = left_[what];
    left = std::max(left, sent);
    overtaken_.erase(what);
  } else if (method == wire::Method::kSet) {
    const auto it = left_.find(what);
    if (it != left_.end() && it->second > sent) overtaken_.insert(what);
  }
}

void SimFabric::to_administrator(SimNode& from, const fabric::MadAddress& to,
                                 const wire::SaMad& mad) {
  ++mads;
  ++from.mads;
  if ((mad.hdr.mad.method & wire::kMethodResponse) == 0) from.count_request();
  if (to.lid != administrator_lid() || !from.on_fabric()) return;
  transmit([this, &from, mad, lid = from.attr_.lid, island = from.island, sent = ++mad_order_] {
    if (administrator_silent || island != 0) return;
    note_order(mad, lid, sent);
    const fabric::MadAddress source{lid, 0, 1, wire::kDefaultPkey};
    administrator_due_known_ = false;
    const auto answer = administrator_->answer(source, wire::bytes_of(mad), now);
    if (answer && lid == from.attr_.lid) from_administrator(from, *answer);
  });
}

void SimFabric::from_administrator(SimNode& to, const wire::SaMad& mad) {
  auto sent = mad;
  Duration later{};
  const bool report = mad.hdr.mad.method == static_cast<std::uint8_t>(wire::Method::kReport);
  if (!report && chance(faults.late)) later = std::chrono::milliseconds(400 + random() % 4600);
  if (!report && chance(faults.wrong_transaction))
    sent.hdr.mad.tid.set(mad.hdr.mad.tid.host() ^ (1 + random() % 255));
  if (!report && mad.hdr.mad.status.host() == 0) {
    auto& earlier = earlier_answers_[{mad.hdr.mad.attr_id.host(), mad.hdr.mad.method}];
    const bool any = earlier.hdr.mad.base_version != 0;
    if (any && chance(faults.wrong_record)) sent.data = earlier.data;
    earlier = mad;
  }
  transmit(
      [this, &to, sent] {
        if (!to.on_fabric() || to.island != 0) return;
        fabric::ReceivedMad received{{administrator_lid(), 0, 1, wire::kDefaultPkey}, {}};
        static_cast<void>(wire::write(std::span{received.bytes}, 0, sent));
        to.client->on_mad(received, now);
        schedule(to);
      },
      later);
}

/// Sends segments of tables and Reports, which are not answers to a request.
void SimFabric::tick_administrator() {
  if (administrator_silent || !administrator_due() || *administrator_due() > now) return;
  administrator_due_known_ = false;
  administrator_->tick(now, [this](const fabric::MadAddress& to, auto mad) {
    for (const auto& node : nodes)
      if (node->attr_.lid == to.lid) from_administrator(*node, *wire::read<wire::SaMad>(mad));
    return Status{};
  });
}

/// A multicast packet reaches every port of the island to which its switches send it, including the
/// sender's; a unicast packet reaches the port of its LID.
void SimFabric::send(const SimNode& from, Packet&& made) {
  const bool multicast = made.qpn == wire::kMulticastQpn;
  if (multicast) ++broadcasts;
  if (!from.on_fabric() || !from.has_pkey()) return;
  if (!multicast && broken_lids.count(made.to.dlid) != 0) return;
  const sa::McGroup* group = nullptr;
  if (multicast && switches_by_membership) {
    const auto it = administrator_->groups().find(made.to.dgid);
    if (it == administrator_->groups().end()) return;
    group = &it->second;
    if (group->members.count(made.sgid) == 0) return;
  }
  const auto packet = std::make_shared<const Packet>(std::move(made));
  for (const auto& node : nodes) {
    if (node->island != from.island || !node->on_fabric()) continue;
    if (!multicast && !node->attr_.has_lid(packet->to.dlid)) continue;
    if (multicast && node->actions->attached.count({packet->to.dgid, packet->to.dlid}) == 0) {
      ++lost["mgid"];
      continue;
    }
    if (group != nullptr) {
      const auto member = group->members.find(node->actions->attr.gid());
      const unsigned bits = member == group->members.end() ? 0U : member->second;
      if ((bits & (wire::join_state::kFullMember | wire::join_state::kNonMember)) == 0) {
        ++lost["switch"];
        continue;
      }
    }
    transmit([this, packet, n = node.get(), island = from.island] {
      if (n->island != island || !n->on_fabric() || !n->has_pkey()) return;
      deliver(*packet, *n);
      schedule(*n);
    });
  }
}

/// Makes the checks of an HCA, in its order.
void SimFabric::deliver(const Packet& packet, SimNode& node) {
  const bool multicast = packet.qpn == wire::kMulticastQpn;
  if (multicast && node.actions->attached.count({packet.to.dgid, packet.to.dlid}) == 0) {
    ++lost["mgid"];
    return;
  }
  if (!multicast && !node.attr_.has_lid(packet.to.dlid)) {
    ++lost["lid"];
    return;
  }
  if (!multicast && !node.actions->has_qpn(packet.qpn)) {
    ++lost["qpn"];
    return;
  }
  if (!wire::pkeys_match(packet.pkey, node.config_.pkey) || packet.qkey != node.actions->qkey) {
    ++lost["key"];
    return;
  }
  node.take(packet.bytes, packet.slid, packet.src_qpn);
}

const std::optional<TimePoint>& SimFabric::administrator_due() {
  if (!std::exchange(administrator_due_known_, true))
    administrator_due_ = administrator_->next_deadline();
  return administrator_due_;
}

void SimFabric::schedule(SimNode& node) {
  const auto due = node.alive_ ? node.next_deadline() : std::nullopt;
  if (due == node.due_) return;
  node.due_ = due;
  if (due) due_.push({*due, node.number_});
}

/// Removes outdated places from the queue.
std::optional<TimePoint> SimFabric::next_node() {
  while (!due_.empty() && nodes[due_.top().second]->due_ != due_.top().first) due_.pop();
  if (due_.empty()) return std::nullopt;
  return due_.top().first;
}

void SimFabric::run_until(TimePoint end) {
  constexpr unsigned kMaxAtOnce = 1'000'000;
  for (const auto& node : nodes) schedule(*node);
  for (unsigned at_once = 0; at_once < kMaxAtOnce; ++at_once) {
    auto next = earlier(next_node(), next_event());
    if (!administrator_silent) next = earlier(next, administrator_due());
    if (!next || *next > end) {
      now = std::max(now, end);
      return;
    }
    if (*next > now) at_once = 0;
    advance(*next);
    tick_administrator();
    if (const auto due = next_node(); due && *due <= now) {
      auto& node = *nodes[due_.top().second];
      due_.pop();
      node.due_.reset();
      node.tick();
      schedule(node);
    }
  }
  ADD_FAILURE() << "time stands still: a timer is due again and again";
}

bool SimFabric::run_until(const std::function<bool()>& done, Duration limit) {
  const auto end = now + limit;
  while (!done()) {
    if (now >= end) return false;
    run_for(std::chrono::milliseconds(50));
  }
  return true;
}

}  // namespace ipoib::link
