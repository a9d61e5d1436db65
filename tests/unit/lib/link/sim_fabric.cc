#include "tests/unit/lib/link/sim_fabric.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/wire/iba.h"

namespace ipoib::link {
namespace {

constexpr std::uint16_t kAdministratorLid = 1;

/// What stands for an IP packet.
struct Datagram {
  wire::IpoibHdr hdr;
  wire::IpAddr from;
  wire::IpAddr to;
  wire::Be64 id;
};
static_assert(wire::WireRecord<Datagram>);

}  // namespace

// --- Node ---

SimNode::SimNode(SimFabric& fabric, std::uint16_t lid, std::uint64_t guid, std::string_view address)
    : fabric_{fabric}, prefix_{prefix(address)} {
  address_ = prefix_.addr;
  attr_.guid = guid;
  attr_.lid = lid;
  attr_.sm_lid = kAdministratorLid;
  make();
}

void SimNode::make() {
  link.reset();
  client.reset();
  waiting_.clear();
  sink = std::make_unique<FakeSink>();
  addresses = std::make_unique<FakeAddresses>();
  sink->on_release = [this](HeldPacket p) {
    const auto to = waiting_.at(p);
    waiting_.erase(p);
    const auto* n = sink->find(to);
    ASSERT_NE(n, nullptr);
    EXPECT_EQ(n->state, table::NeighbourState::kValid);
    put_on_wire(to, *n);
  };
  actions = std::make_unique<FakeLinkActions>(*sink);
  actions->attr = attr_;
  actions->own_qpn = 2 + static_cast<std::uint32_t>(fabric_.random() % 0xff'0000);
  actions->on_send = [this](const SentFrame& f) {
    fabric_.send({attr_.lid, actions->attr.gid(), actions->own_qpn, actions->qkey,
                  fabric_.config.pkey, f.to, f.qpn, f.bytes});
  };
  client = std::make_unique<sa::Client>(
      [this](const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) {
        fabric_.to_administrator(*this, to, *wire::read<wire::SaMad>(mad));
        return Status{};
      },
      sa::ClientConfig{}, fabric_.random());
  client->set_sm(kAdministratorLid, 0, fabric_.now);
  client->set_report_handler([this](const wire::Notice& notice, TimePoint now) {
    if (fabric_.reports) link->on_report(notice, now);
  });
  auto config = fabric_.config;
  config.addresses = {prefix_};
  link = std::make_unique<IpoibLink>(std::move(config), *actions, *sink, *client, fabric_.random(),
                                     *addresses);
}

void SimNode::start() {
  link->start(fabric_.now);
}

void SimNode::crash_and_restart() {
  make();
  start();
}

void SimNode::set_lid(std::uint16_t lid) {
  attr_.lid = lid;
  actions->attr.lid = lid;
}

void SimNode::send_ip(const wire::IpAddr& to) {
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
  waiting_[packet] = to;
  link->on_neighbour_wanted(to, packet, fabric_.now);
  if (sink->open.count(packet) == 0) waiting_.erase(packet);
}

void SimNode::put_on_wire(const wire::IpAddr& to, const table::Neighbour& n) {
  const Datagram d{{wire::Be16{0x0800}, {}}, address_, to, wire::Be64{++fabric_.packet_id_}};
  ++sent[to];
  actions->send(n.ah, n.qpn, wire::bytes_of(d));
}

bool SimNode::nothing_left() const {
  return sink->indexes.empty() && sink->open.empty() && actions->ahs.empty() &&
         actions->attached.empty() && client->outstanding() == 0;
}

std::optional<TimePoint> SimNode::next_deadline() const {
  return earlier(client->next_deadline(), link->next_deadline());
}

void SimNode::tick() {
  client->tick(fabric_.now);
  link->tick(fabric_.now);
}

// --- Fabric ---

SimFabric::SimFabric(std::uint64_t seed, SimFaults f) : faults{f}, random{seed} {
  config.name = "ib0";
  make_administrator();
}

void SimFabric::make_administrator() {
  sa::AdministratorConfig c;
  c.gid = wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'00ff'0001);
  c.lid = kAdministratorLid;
  auto made = sa::Administrator::create(c);
  ASSERT_TRUE(made) << made.error().what;
  administrator_.emplace(std::move(*made));
}

void SimFabric::restart_administrator() {
  make_administrator();
}

const sa::Group* SimFabric::group(std::string_view addr) const {
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
  nodes.push_back(std::make_unique<SimNode>(*this, static_cast<std::uint16_t>(n),
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

void SimFabric::transmit(const std::function<void()>& what) {
  std::uniform_real_distribution<double> chance{0, 1};
  std::uniform_int_distribution<Duration::rep> delay{faults.min_delay.count(),
                                                     faults.max_delay.count()};
  if (chance(random) < faults.loss) return;
  events_.push({now + Duration{delay(random)}, ++order_, what});
  if (chance(random) < faults.duplication)
    events_.push({now + Duration{delay(random)}, ++order_, what});
}

void SimFabric::to_administrator(SimNode& from, const fabric::MadAddress& to,
                                 const wire::SaMad& mad) {
  ++mads;
  if (to.lid != kAdministratorLid) return;
  transmit([this, &from, mad, lid = from.attr_.lid] {
    if (administrator_silent) return;
    const fabric::MadAddress source{lid, 0, 1, wire::kDefaultPkey};
    const auto answer = administrator_->answer(source, wire::bytes_of(mad), now);
    if (!answer) return;
    from_administrator(from, *answer);
  });
}

void SimFabric::from_administrator(SimNode& to, const wire::SaMad& mad) {
  transmit([this, &to, mad] {
    fabric::ReceivedMad received{{kAdministratorLid, 0, 1, wire::kDefaultPkey}, {}};
    static_cast<void>(wire::write(std::span{received.bytes}, 0, mad));
    to.client->on_mad(received, now);
  });
}

/// Segments of tables and Reports, which no request called for.
void SimFabric::tick_administrator() {
  if (administrator_silent) return;
  administrator_->tick(now, [this](const fabric::MadAddress& to, auto mad) {
    for (const auto& node : nodes)
      if (node->attr_.lid == to.lid) from_administrator(*node, *wire::read<wire::SaMad>(mad));
    return Status{};
  });
}

/// A multicast packet reaches every port, the sender's too; a unicast one the port of its LID.
void SimFabric::send(const Packet& packet) {
  if (packet.qpn == wire::kMulticastQpn) ++broadcasts;
  for (const auto& node : nodes) {
    if (packet.qpn != wire::kMulticastQpn && node->attr_.lid != packet.to.dlid) continue;
    transmit([this, packet, n = node.get()] { deliver(packet, *n); });
  }
}

/// The checks of an HCA, in its order.
void SimFabric::deliver(const Packet& packet, SimNode& node) {
  const bool multicast = packet.qpn == wire::kMulticastQpn;
  if (multicast && node.actions->attached.count({packet.to.dgid, packet.to.dlid}) == 0) {
    ++lost["mgid"];
    return;
  }
  if (!multicast && node.attr_.lid != packet.to.dlid) {
    ++lost["lid"];
    return;
  }
  if (!multicast && packet.qpn != node.actions->own_qpn) {
    ++lost["qpn"];
    return;
  }
  if (!wire::pkeys_match(packet.pkey, config.pkey) || packet.qkey != node.actions->qkey) {
    ++lost["key"];
    return;
  }
  const auto hdr = *wire::read<wire::IpoibHdr>(packet.bytes);
  if (hdr.type.host() == 0x0806) {
    node.link->on_arp(std::span{packet.bytes}.subspan(4), packet.slid, packet.src_qpn, now);
  } else if (const auto d = wire::read<Datagram>(packet.bytes)) {
    if (wire::is_multicast(d->to)) {
      if (node.address_ != d->from && node.seen_.insert(d->id.host()).second)
        ++node.group_received[d->to];
      return;
    }
    if (d->to != node.address_) {
      ++lost["misdirected"];
      return;
    }
    if (node.seen_.insert(d->id.host()).second) ++node.received[d->from];
    node.last_received[d->from] = now;
  }
}

void SimFabric::run_until(TimePoint end) {
  for (;;) {
    std::optional<TimePoint> next;
    if (!events_.empty()) next = events_.top().at;
    for (const auto& node : nodes) next = earlier(next, node->next_deadline());
    if (!administrator_silent) next = earlier(next, administrator_->next_deadline());
    if (!next || *next > end) break;
    now = std::max(now, *next);
    while (!events_.empty() && events_.top().at <= now) {
      const auto what = events_.top().what;
      events_.pop();
      what();
    }
    tick_administrator();
    for (const auto& node : nodes)
      if (const auto due = node->next_deadline(); due && *due <= now) node->tick();
  }
  now = std::max(now, end);
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
