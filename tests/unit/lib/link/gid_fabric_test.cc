// SPDX-License-Identifier: BSD-3-Clause
// Links on ports that are addressed by GID (RoCE), in virtual time. There is no subnet manager and
// no LID on the wire, and each node has an administrator of its own that knows no other node.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/cm/manager.h"
#include "lib/link/ipoib/ipoib_link.h"
#include "lib/sa/client.h"
#include "lib/sa/embedded/administrator.h"
#include "lib/sa/sa_mad.h"
#include "tests/support/link_fakes.h"
#include "tests/support/sim_connections.h"

namespace ipoib::link {
namespace {

using fabric::PortEvent;
using table::NeighbourMode;

constexpr auto* kGroup = "239.1.2.3";
constexpr std::uint16_t kIpv4 = 0x0800;

/// A test's IP packet.
struct Datagram {
  wire::IpoibHdr hdr;
  wire::IpAddr from;
  wire::IpAddr to;
};
static_assert(wire::WireRecord<Datagram>);

class GidFabric;

struct GidNode {
  GidNode(GidFabric& f, std::uint64_t guid, std::string_view address, const LinkConfig& config);

  /// Creates the administrator as the owner of a port does when the port gets a GID, or another
  /// one.
  void make_administrator();
  void receive(const fabric::ReceivedMad& mad);
  void take(std::span<const std::byte> frame);
  /// Sends one IP packet as the datapath would.
  void send_ip(const wire::IpAddr& to);
  [[nodiscard]] wire::Gid gid() const { return actions.attr.gid(); }
  [[nodiscard]] std::optional<wire::IpAddr> local6() const;
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  void tick();

  GidFabric& fabric;
  wire::IpAddr address;
  FakeAddressSink addresses;
  FakeNeighbourSink sink;
  FakeLinkActions actions{sink};
  FakeConnectionActions hca;
  std::optional<sa::Administrator> administrator;
  sa::MadSender send_mad;
  sa::Client client;
  cm::Manager manager;
  IpoibLink link;
  bool present = true;
  std::map<wire::IpAddr, std::uint64_t> received;  ///< Packets by destination.

 private:
  std::map<HeldPacket, wire::IpAddr> waiting_;
};

class GidFabric {
 public:
  GidFabric() { config.name = "ib0"; }
  GidNode& add(std::string_view address) {
    const std::uint64_t guid = 0x0202'c9ff'fe00'0001ULL + nodes.size();
    nodes.push_back(std::make_unique<GidNode>(*this, guid, address, config));
    return *nodes.back();
  }
  [[nodiscard]] bool all_up() const {
    return std::ranges::all_of(nodes, [](const auto& n) { return n->link.state() == State::kUp; });
  }

  /// MADs to a port's own LID return to the port; others go to the port of their GID.
  Status carry(GidNode& from, const fabric::MadAddress& to, const fabric::MadBytes& bytes) {
    if (to.lid == fabric::kOwnLid) {
      fabric::ReceivedMad mad{{.lid = fabric::kOwnLid, .pkey = to.pkey}, bytes};
      later([&from, mad] { from.receive(mad); });
      return {};
    }
    EXPECT_EQ(to.lid, fabric::kElsewhereLid);
    EXPECT_FALSE(to.gid.is_zero());
    if (!from.present) return fail(Errc::kUnavailable, "no device");
    fabric::ReceivedMad mad{{.lid = fabric::kElsewhereLid, .pkey = to.pkey, .gid = from.gid()},
                            bytes};
    ++mads;
    later([this, mad, gid = to.gid] {
      for (const auto& n : nodes)
        if (n->present && n->gid() == gid) n->receive(mad);
    });
    return {};
  }

  /// Every packet has a GRH, and only that GID and the QPN address its receiver.
  void send(const GidNode& from, const SentFrame& frame) {
    EXPECT_TRUE(frame.to.global);
    if (!from.present) return;
    const bool multicast = frame.qpn == wire::kMulticastQpn;
    EXPECT_EQ(frame.to.dgid.is_multicast(), multicast);
    later([this, frame, multicast, &from, qkey = from.actions.qkey] {
      for (const auto& n : nodes) {
        const auto& attached = n->actions.attached;
        const bool listens = std::ranges::any_of(
            attached, [&](const auto& group) { return group.first.first == frame.to.dgid; });
        const bool for_it = multicast
                                ? listens && n.get() != &from
                                : n->gid() == frame.to.dgid && n->actions.own_qpn == frame.qpn;
        if (n->present && for_it && n->actions.qkey == qkey) n->take(frame.bytes);
      }
    });
  }

  void run_for(Duration d) {
    const TimePoint end = now + d;
    for (;;) {
      auto next = events_.empty() ? TimePoint::max() : events_.begin()->first;
      for (const auto& n : nodes) next = std::min(next, n->next_deadline().value_or(next));
      if (next > end) break;
      now = std::max(now, next);
      while (!events_.empty() && events_.begin()->first <= now) {
        const auto event = events_.extract(events_.begin());
        event.mapped()();
      }
      for (const auto& n : nodes) n->tick();
    }
    now = end;
  }
  template <class Condition>
  bool run_until(Condition done, Duration limit) {
    for (const auto end = now + limit; !done(); run_for(10ms))
      if (now >= end) return false;
    return true;
  }

  LinkConfig config;
  TimePoint now{1000s};
  std::uint8_t subnet_mtu = 4;  ///< Code; for nodes that are added later.
  std::uint64_t mads = 0;       ///< MADs on the wire.
  std::vector<std::unique_ptr<GidNode>> nodes;

 private:
  void later(std::function<void()> what) { events_.emplace(now + 10us, std::move(what)); }
  std::multimap<TimePoint, std::function<void()>> events_;
};

LinkConfig with_address(LinkConfig config, std::string_view address) {
  config.addresses = {prefix(address)};
  return config;
}

GidNode::GidNode(GidFabric& f, std::uint64_t guid, std::string_view text, const LinkConfig& config)
    : fabric{f},
      address{prefix(text).addr},
      send_mad{[this](const auto& to, std::span<const std::byte, wire::kMadLen> mad) {
        fabric::MadBytes bytes;
        std::ranges::copy(mad, bytes.begin());
        return fabric.carry(*this, to, bytes);
      }},
      client{send_mad, {}, guid},
      manager{send_mad, {}, guid + 1},
      link{with_address(config, text),        actions, sink, client, guid + 2, addresses,
           IpoibLink::Connected{hca, manager}} {
  actions.attr.link_layer = fabric::LinkLayer::kEthernet;
  actions.attr.guid = guid;
  actions.attr.lid = actions.attr.sm_lid = fabric::kOwnLid;
  actions.own_qpn = 0x40 + static_cast<std::uint32_t>(guid & 0xff);
  actions.on_send = [this](const SentFrame& frame) { fabric.send(*this, frame); };
  sink.on_release = [this](HeldPacket p) {
    const auto to = waiting_.at(p);
    waiting_.erase(p);
    send_ip(to);
  };
  client.set_report_handler(
      [this](const wire::Notice& notice, TimePoint at) { link.on_report(notice, at); });
  make_administrator();
}

void GidNode::make_administrator() {
  sa::AdministratorConfig config;
  config.gid = gid();
  config.lid = fabric::kOwnLid;
  config.elsewhere_lid = fabric::kElsewhereLid;
  config.mtu = fabric.subnet_mtu;
  auto made = sa::Administrator::create(config);
  ASSERT_TRUE(made) << made.error().what;
  administrator.emplace(std::move(*made));
  client.set_sm(fabric::kOwnLid, 0, fabric.now);
  manager.set_port({gid(), fabric::kOwnLid, 0});
}

void GidNode::receive(const fabric::ReceivedMad& mad) {
  const auto header = *wire::read<wire::MadHdr>(mad.bytes);
  if (header.mgmt_class == static_cast<std::uint8_t>(wire::MgmtClass::kComMgt)) {
    manager.on_mad(mad, fabric.now);
  } else if (sa::is_for_client(header.method)) {
    client.on_mad(mad, fabric.now);
  } else if (const auto answer = administrator->answer(mad, fabric.now)) {
    EXPECT_TRUE(send_mad(mad.from, wire::bytes_of(*answer)));
  }
}

/// Handles a packet of the queue pair as the datapath would. There is no source LID.
void GidNode::take(std::span<const std::byte> frame) {
  const auto type = wire::read<wire::IpoibHdr>(frame)->type.host();
  const auto packet = frame.subspan(sizeof(wire::IpoibHdr));
  if (type == 0x0806) return link.on_arp(packet, 0, 0, fabric.now);
  if (type == 0x86dd) return link.on_nd(packet, 0, fabric.now);
  ++received[wire::read<Datagram>(frame)->to];
}

void GidNode::send_ip(const wire::IpAddr& to) {
  const auto* n = sink.find(to);
  if (n == nullptr || n->state != table::NeighbourState::kValid) {
    if (n != nullptr && n->state == table::NeighbourState::kFailed) return;
    const auto packet = sink.new_packet();
    waiting_[packet] = to;
    return link.on_neighbour_wanted(to, packet, fabric.now);
  }
  sink.used[*sink.index_of(to)] = fabric.now;
  if (n->mode != NeighbourMode::kUd) return;  // this test does not follow packets of connections
  const Datagram d{{wire::Be16{kIpv4}, {}}, address, to};
  actions.send(n->ah, n->qpn, wire::bytes_of(d));
}

std::optional<wire::IpAddr> GidNode::local6() const {
  for (const auto& [iface, own] : addresses.ready)
    if (wire::is_link_local6(own.addr)) return own.addr;
  return std::nullopt;
}

std::optional<TimePoint> GidNode::next_deadline() const {
  const auto next = earlier(client.next_deadline(), manager.next_deadline());
  return earlier(next, earlier(link.next_deadline(), administrator->next_deadline()));
}

void GidNode::tick() {
  client.tick(fabric.now);
  manager.tick(fabric.now);
  administrator->tick(fabric.now, send_mad);
  link.tick(fabric.now);
}

class ByGid : public testing::Test {
 protected:
  void start(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
      f.add("10.0.0." + std::to_string(i + 1) + "/24").link.start(f.now);
    ASSERT_TRUE(f.run_until([this] { return f.all_up(); }, 5s));
  }
  void TearDown() override {
    for (const auto& n : f.nodes) n->link.stop(f.now);
    f.run_for(30s);
    for (const auto& n : f.nodes) {
      EXPECT_EQ(n->link.state(), State::kStopped);
      EXPECT_TRUE(n->sink.indexes.empty());
      EXPECT_TRUE(n->sink.open.empty());
      EXPECT_TRUE(n->actions.ahs.empty());
      EXPECT_TRUE(n->actions.attached.empty());
      EXPECT_TRUE(n->hca.queues.empty());
      EXPECT_EQ(n->administrator->groups().size(), 1U) << "the broadcast group is configured";
    }
  }
  /// Both nodes send to each other. Returns true when both have received a packet, and false after
  /// a time limit.
  bool talk(GidNode& a, GidNode& b) {
    const auto before = std::pair{a.received[a.address], b.received[b.address]};
    return f.run_until(
        [&] {
          a.send_ip(b.address);
          b.send_ip(a.address);
          return a.received[a.address] > before.first && b.received[b.address] > before.second;
        },
        20s);
  }
  GidNode& node(std::size_t i) { return *f.nodes.at(i); }

  GidFabric f;
};

TEST_F(ByGid, NeighboursAreResolvedByArp) {
  start(3);
  for (const auto& a : f.nodes)
    for (const auto& b : f.nodes) EXPECT_TRUE(a == b || talk(*a, *b));
  const auto rows = node(0).link.neighbours(f.now);
  ASSERT_EQ(rows.size(), 2U);
  for (const auto& row : rows) EXPECT_EQ(row.lid, fabric::kElsewhereLid);
  for (const auto& [index, n] : node(0).sink.installed) {
    const auto& ah = node(0).actions.ahs.at(n.ah);
    EXPECT_TRUE(ah.global);
    EXPECT_EQ(ah.hop_limit, 64);
  }
  EXPECT_EQ(f.mads, 0U) << "nobody asks another node's administrator";
}

/// Each port has its own administrator, which has the same subnet of 4096 octets.
TEST_F(ByGid, U09_M07_PortOf2048IsNotInAGroupOf4096) {
  f.subnet_mtu = 5;
  for (const char* address : {"10.0.0.1/24", "10.0.0.2/24"}) f.add(address);
  node(0).actions.attr.mtu = 5;
  for (const auto& n : f.nodes) n->link.start(f.now);
  f.run_for(1min);
  EXPECT_EQ(node(0).link.state(), State::kUp);
  EXPECT_EQ(node(1).link.state(), State::kJoining);
  EXPECT_NE(node(1).link.reason().find("larger than the port's 2048"), std::string::npos)
      << node(1).link.reason();
  EXPECT_TRUE(node(1).actions.attached.empty());
  node(1).actions.attr.mtu = 5;
  node(1).link.on_port_event(fabric::PortEvent::kPortActive, f.now);
  f.run_for(1s);
  EXPECT_EQ(node(1).link.state(), State::kUp) << node(1).link.reason();
}

TEST_F(ByGid, NeighboursAreResolvedByNeighbourDiscovery) {
  start(2);
  ASSERT_TRUE(f.run_until([&] { return node(0).local6() && node(1).local6(); }, 10s));
  const auto a = *node(0).local6(), b = *node(1).local6();
  ASSERT_TRUE(f.run_until(
      [&] {
        node(0).send_ip(b);
        node(1).send_ip(a);
        return node(0).received[a] != 0 && node(1).received[b] != 0;
      },
      10s));
  EXPECT_EQ(node(0).link.neighbour(b, f.now)->qpn, node(1).actions.own_qpn);
}

// The sender has no information about the listeners of the group.
TEST_F(ByGid, GroupsAreReachedThatNobodyHereKnowsOf) {
  start(3);
  ASSERT_TRUE(node(1).link.join_group(ip(kGroup), f.now));
  f.run_for(100ms);
  for (int i = 0; i < 10; ++i) {
    node(0).send_ip(ip(kGroup));
    f.run_for(100ms);
  }
  EXPECT_EQ(node(1).received[ip(kGroup)], 10U) << "the first one waited";
  EXPECT_EQ(node(2).received[ip(kGroup)], 0U);
  // The sender itself listens for a while, too.
  ASSERT_TRUE(node(0).link.join_group(ip(kGroup), f.now));
  f.run_for(100ms);
  node(1).send_ip(ip(kGroup));
  f.run_for(100ms);
  EXPECT_EQ(node(0).received[ip(kGroup)], 1U);
  ASSERT_TRUE(node(0).link.leave_group(ip(kGroup), f.now));
  f.run_for(1s);
  for (int i = 0; i < 10; ++i) {
    node(0).send_ip(ip(kGroup));
    node(1).send_ip(ip(kGroup));
    f.run_for(100ms);
  }
  EXPECT_EQ(node(0).received[ip(kGroup)], 1U);
  EXPECT_EQ(node(1).received[ip(kGroup)], 20U);
}

TEST_F(ByGid, ConnectionsAreSetUp) {
  f.config.connected = rc();
  start(3);
  const auto connected = [](const GidNode& a, const GidNode& b) {
    const auto* n = a.sink.find(b.address);
    return n != nullptr && n->mode == NeighbourMode::kRc;
  };
  const auto all = [&] {
    bool done = true;
    for (const auto& a : f.nodes)
      for (const auto& b : f.nodes) {
        if (a == b) continue;
        a->send_ip(b->address);
        done = done && connected(*a, *b);
      }
    return done;
  };
  ASSERT_TRUE(f.run_until(all, 20s));
  for (const auto& n : f.nodes) {
    EXPECT_EQ(n->hca.queues.size(), 2U);
    for (const auto& [qpn, queue] : n->hca.queues) {
      const auto& path = queue->receive.path;
      EXPECT_TRUE(path.global);
      EXPECT_EQ(path.hop_limit, 64);
      const auto peer = std::ranges::find_if(
          f.nodes, [&](const auto& other) { return other->gid() == path.dgid; });
      ASSERT_NE(peer, f.nodes.end());
      EXPECT_EQ((*peer)->hca.queues.count(queue->receive.peer_qpn), 1U);
    }
  }
}

// The device disappears and returns as another one, with a new queue pair and GID.
TEST_F(ByGid, ALostDeviceComesBackWithAnotherAddress) {
  f.config.connected = rc();
  start(2);
  ASSERT_TRUE(node(1).link.join_group(ip(kGroup), f.now));
  ASSERT_TRUE(talk(node(0), node(1)));
  node(0).send_ip(ip(kGroup));
  f.run_for(1s);
  ASSERT_EQ(node(1).received[ip(kGroup)], 1U);

  auto& n = node(1);
  n.present = false;
  n.actions.attr.state = fabric::PortState::kDown;
  n.actions.own_qpn = 0;
  n.link.on_port_event(PortEvent::kFatal, f.now);
  n.link.on_port_event(PortEvent::kPortDown, f.now);
  f.run_for(5s);
  EXPECT_EQ(n.link.state(), State::kWaiting);
  EXPECT_TRUE(n.actions.ahs.empty());
  EXPECT_TRUE(n.actions.attached.empty());

  n.present = true;
  n.actions.attr.state = fabric::PortState::kActive;
  n.actions.attr.guid = 0x0202'c9ff'fe00'0077;
  n.actions.own_qpn = 0x99;
  n.make_administrator();
  n.link.on_port_event(PortEvent::kGidChange, f.now);
  n.link.on_port_event(PortEvent::kPortActive, f.now);
  ASSERT_TRUE(f.run_until([this] { return f.all_up(); }, 5s));
  ASSERT_TRUE(f.run_until(
      [&] {
        node(0).send_ip(n.address);
        const auto* found = node(0).sink.find(n.address);
        return found != nullptr && found->mode == NeighbourMode::kRc;
      },
      60s))
      << "by a connection again";
  const auto row = node(0).link.neighbour(n.address, f.now);
  ASSERT_TRUE(row);
  EXPECT_NE(row->lladdr.find("00:00:99:fe:80"), std::string::npos) << row->lladdr;
  EXPECT_NE(row->lladdr.find("fe:00:00:77"), std::string::npos) << row->lladdr;
  const auto before = n.received[ip(kGroup)];
  for (int i = 0; i < 10; ++i) {
    node(0).send_ip(ip(kGroup));
    f.run_for(100ms);
  }
  EXPECT_EQ(n.received[ip(kGroup)], before + 10);
  EXPECT_EQ(n.administrator->groups().begin()->second.members.count(n.gid()), 1U);
}

}  // namespace
}  // namespace ipoib::link
