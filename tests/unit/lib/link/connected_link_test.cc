// SPDX-License-Identifier: BSD-3-Clause
// An IPoIB link with connected mode: the flags in its address, its requests, and the entries of its
// neighbours. The peer is a communication manager that accepts. Names of tests are those of
// tests/requirements.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/support/sim_connections.h"
#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;
using table::NeighbourMode;

const wire::IpAddr kPeer = ip("10.0.0.2");

class ConnectedLink : public ::testing::Test, cm::Consumer {
 protected:
  static constexpr std::uint32_t kPeerQpn = 0x50;

  explicit ConnectedLink(unsigned queue_pairs = 1, const LinkConfig& link = config())
      : manager{[this](const auto& to, const auto& mad) { return carry(to, mad, peer, 2); },
                {.ca_guid = 1},
                1},
        peer{[this](const auto& to, const auto& mad) { return carry(to, mad, manager, peer_lid); },
             {.ca_guid = 2},
             2},
        sim{link, 1, IpoibLink::Connected{hca, manager}} {
    sim.actions.own_queue_pairs = queue_pairs;
    sim.bring_up();
    sim.run_for(3s);
    hw = sim.add_host(0xb, kPeerQpn, 3);
    hw.flags = wire::LinkAddr::kFlagRc;
    listen(kPeerQpn);
  }
  ~ConnectedLink() override {
    sim.link.stop(sim.now);
    run_for(1s);
    EXPECT_TRUE(sim.link.connections()->list(sim.now).empty());
  }
  static LinkConfig config() {
    LinkConfig c = SimIpoibLink::default_config();
    c.connected.rc = true;
    return c;
  }
  static std::vector<std::byte> private_data(std::uint32_t qpn = kPeerQpn) {
    const auto said = wire::IpoibCmPrivate::of(qpn, 32'772);
    const auto octets = wire::bytes_of(said);
    return {octets.begin(), octets.end()};
  }
  void listen(std::uint32_t qpn) {
    EXPECT_TRUE(peer.listen(wire::ipoib_service_id(wire::ServiceIdForm::kIetf, qpn), *this,
                            private_data(qpn)));
  }
  Status carry(const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> octets,
               cm::Manager& receiver, std::uint16_t from) {
    fabric::ReceivedMad mad;
    mad.from = {.lid = from, .pkey = to.pkey};
    std::ranges::copy(octets, mad.bytes.begin());
    wire_.emplace_back(&receiver, mad);
    return {};
  }
  void deliver() {
    while (!wire_.empty()) {
      auto [receiver, mad] = wire_.front();
      wire_.erase(wire_.begin());
      receiver->on_mad(mad, sim.now);
    }
  }
  void run_for(Duration d, Duration step = 10ms) {
    for (const auto end = sim.now + d; sim.now < end;) {
      sim.run_for(step);
      manager.tick(sim.now);
      peer.tick(sim.now);
      deliver();
    }
  }
  /// Resolves the peer if necessary, and keeps its entry in use.
  void talk(Duration d) {
    if (!sim.sink.valid(kPeer)) {
      sim.want(kPeer);
      sim.receive_arp_reply(hw, "10.0.0.2");
    }
    for (const auto end = sim.now + d; sim.now < end;) {
      if (const auto index = sim.sink.index_of(kPeer)) sim.sink.used[*index] = sim.now;
      run_for(250ms);
    }
  }

  /// A request of the peer for a connection.
  [[nodiscard]] cm::ConnectParams request(std::uint32_t qpn) const {
    cm::ConnectParams params;
    params.to = {.lid = 2};
    params.service_id = wire::ipoib_service_id(wire::ServiceIdForm::kIetf, 0x48);
    params.qpn = qpn;
    params.primary.local_lid.set(3);
    params.primary.remote_lid.set(2);
    params.primary.local_gid = hw.gid;
    params.primary.set_subnet_local(true);
    params.private_data = private_data();
    return params;
  }
  /// The peer forgets its connections, and its last words are lost.
  void crash() {
    peer.detach(*this, sim.now);
    listen(kPeerQpn);
    wire_.clear();
  }
  /// True if the link has a connection that its peer has confirmed.
  [[nodiscard]] bool is_up() const {
    const auto rows = sim.link.connections()->list(sim.now);
    return std::ranges::any_of(rows, [](const auto& row) { return row.state == "established"; });
  }
  /// The peer requests a connection.
  void connect(const cm::ConnectParams& params) {
    EXPECT_TRUE(peer.connect(params, *this, sim.now));
  }

  void on_request(cm::Handle handle, const wire::CmReq& r, const fabric::MadAddress& from,
                  TimePoint now) override {
    req = r;
    req_from = from;
    handle_ = handle;
    const auto service = wire::ipoib_service_of(r.service_id.host());
    EXPECT_TRUE(peer.accept(
        handle, {.qpn = 0x777, .starting_psn = 9, .private_data = private_data(service->ud_qpn)},
        now));
  }
  void on_reply(cm::Handle handle, const wire::CmRep&, TimePoint now) override {
    EXPECT_TRUE(peer.confirm(handle, now));
  }
  void on_established(cm::Handle, TimePoint) override { established = true; }
  void on_closed(cm::Handle, const cm::Closed& c, TimePoint) override { closed = c.reason; }
  void on_released(cm::Handle, TimePoint) override {}

  std::uint16_t peer_lid = 3;
  FakeConnectionActions hca;
  std::vector<std::pair<cm::Manager*, fabric::ReceivedMad>> wire_;
  cm::Manager manager;
  cm::Manager peer;
  SimIpoibLink sim;
  wire::LinkAddr hw;
  std::optional<wire::CmReq> req;
  fabric::MadAddress req_from;
  cm::Handle handle_ = cm::kNoHandle;
  bool established = false;
  std::optional<cm::CloseReason> closed;
};

/// Each queue pair is of another worker.
class ConnectedLinkOfWorkers : public ConnectedLink {
 protected:
  explicit ConnectedLinkOfWorkers(const LinkConfig& link = config()) : ConnectedLink{3, link} {}
  /// The QPN in the last ARP packet to the peer alone.
  [[nodiscard]] std::uint32_t told() const {
    for (auto frame = sim.actions.frames.rbegin(); frame != sim.actions.frames.rend(); ++frame)
      if (const auto arp = frame->arp(); arp && !frame->broadcast())
        return arp->sender_hw.link_addr().qpn.host();
    return 0;
  }
  /// The packets to that queue pair keep its worker busy. Half of them are those of a host.
  void press_on(unsigned queue_pair, unsigned lid_of_host) {
    const auto lid = static_cast<std::uint16_t>(lid_of_host);
    std::vector<QueueLoad> loads(3);
    QueueLoad& busy = loads[queue_pair];
    busy = {.busy = 0.9, .received = 0.8, .senders = std::vector<std::uint16_t>(64, lid)};
    busy.senders.resize(128, 0x99);
    sim.link.balance(loads, sim.now);
  }
};

class ConnectedLinkWithoutBalance : public ConnectedLinkOfWorkers {
 protected:
  ConnectedLinkWithoutBalance() : ConnectedLinkOfWorkers{without_balance()} {}
  static LinkConfig without_balance() {
    LinkConfig c = config();
    c.balance = false;
    return c;
  }
};

// Announcements name it too, and must not end connections.
TEST_F(ConnectedLinkOfWorkers, P14_PeersWithConnectedModeAreToldTheFirstQueuePair) {
  talk(3s);
  ASSERT_TRUE(established);
  const auto said = wire::read<wire::IpoibCmPrivate>(req->private_data).value();
  EXPECT_EQ(said.ud_qpn.host(), 0x48U);
  unsigned spread = 0;
  for (std::uint16_t n = 0; n < 20; ++n) {
    wire::LinkAddr host = sim.add_host(0x100U + n, 0x50, static_cast<std::uint16_t>(100 + n));
    for (const std::uint8_t flags : {wire::LinkAddr::kFlagRc, std::uint8_t{0}}) {
      host.flags = flags;
      sim.receive_arp_request(host, fmt::format("10.0.0.{}", 100 + n));
      run_for(100ms);
      const unsigned told_now = told() - 0x48;
      EXPECT_EQ(told_now, sim.link.queue_pair_for(host));
      if (flags != 0) {
        EXPECT_EQ(told_now, 0U);
      } else {
        spread |= 1U << told_now;
      }
    }
  }
  EXPECT_EQ(spread, 7U) << "all three queue pairs serve hosts without connected mode";
}

// A message with another queue pair would end their connections. The load is where the hash would
// put each host.
TEST_F(ConnectedLinkOfWorkers, P14_OnlyHostsWithoutConnectedModeMoveByTheirLoad) {
  for (const std::uint8_t flags : {wire::LinkAddr::kFlagRc, std::uint8_t{0}}) {
    wire::LinkAddr host = sim.add_host(0xcU + flags, 0x51, 4 + flags);
    const unsigned queue_pair = sim.link.queue_pair_for(host);
    host.flags = flags;
    const auto address = fmt::format("10.0.0.{}", 3 + flags);
    sim.want(ip(address));
    sim.receive_arp_reply(host, address);
    run_for(100ms);
    press_on(queue_pair, 4 + flags);
    EXPECT_EQ(sim.link.counters().neighbours_moved, flags == 0 ? 1U : 0U);
  }
}

TEST_F(ConnectedLinkOfWorkers, P14_NewConnectionsAvoidABusyWorker) {
  EXPECT_EQ(sim.link.served_by(hw), 0U) << "no connection: the worker of its datagrams";
  talk(3s);
  ASSERT_TRUE(established);
  EXPECT_EQ(sim.link.served_by(hw), 0U);
  press_on(0, 3);
  const auto rows = sim.link.connections()->list(sim.now);
  ASSERT_EQ(rows.size(), 1U);
  ASSERT_TRUE(sim.link.connections()->close(rows[0].handle, sim.now));
  established = false;
  talk(5s);
  ASSERT_TRUE(established);
  EXPECT_EQ(sim.link.served_by(hw), 1U);
  EXPECT_EQ(sim.sink.find(kPeer)->worker, 11);
}

TEST_F(ConnectedLinkWithoutBalance, P14_NewConnectionsIgnoreTheLoadIfConfigured) {
  press_on(0, 3);
  talk(3s);
  ASSERT_TRUE(established);
  EXPECT_EQ(sim.link.served_by(hw), 0U);
}

// They know the first queue pair in any case, so that no message to them is necessary.
TEST_F(ConnectedLinkOfWorkers, P14_NumberOfQueuesDoesNotConcernHostsWithConnectedMode) {
  wire::LinkAddr datagram = sim.add_host(0xc, 0x51, 4);
  for (std::uint64_t guid = 0xd; sim.link.queue_pair_for(datagram) == 0; ++guid)
    datagram = sim.add_host(guid, 0x51, 4);
  for (const auto& [host, address] : {std::pair{hw, "10.0.0.2"}, std::pair{datagram, "10.0.0.3"}}) {
    sim.want(ip(address));
    sim.receive_arp_reply(host, address);
  }
  talk(3s);
  ASSERT_TRUE(established);
  const auto id = sim.link.connections()->list(sim.now).at(0).handle;
  sim.actions.frames.clear();
  ASSERT_TRUE(sim.link.set_queues(1, sim.now));
  sim.run_for(100ms);
  std::vector<std::uint32_t> told_hosts;
  for (const SentFrame& frame : sim.actions.frames)
    if (const auto arp = frame.arp(); arp && !frame.broadcast())
      told_hosts.push_back(arp->target_ip & 0xff);
  EXPECT_EQ(told_hosts, std::vector{3U});
  talk(1s);
  EXPECT_EQ(sim.link.connections()->list(sim.now).at(0).handle, id);
}

TEST_F(ConnectedLink, C01_FlagsAreInArp) {
  sim.actions.frames.clear();
  sim.want(kPeer);
  const auto arp = sim.actions.frames.at(0).arp();
  ASSERT_TRUE(arp);
  EXPECT_EQ(arp->sender_hw.link_addr().flags, wire::LinkAddr::kFlagRc);
  EXPECT_EQ(arp->sender_hw.link_addr().qpn.host(), 0x48U);
}

TEST_F(ConnectedLink, C12_NeighbourGoesByUdThenByItsConnection) {
  sim.want(kPeer);
  sim.receive_arp_reply(hw, "10.0.0.2");
  run_for(30ms);
  ASSERT_TRUE(sim.sink.valid(kPeer));
  EXPECT_EQ(sim.sink.find(kPeer)->mode, NeighbourMode::kUd);
  const auto ud_mtu = sim.sink.find(kPeer)->mtu;
  talk(3s);
  ASSERT_TRUE(established);
  const auto* n = sim.sink.find(kPeer);
  EXPECT_EQ(n->mode, NeighbourMode::kRc);
  EXPECT_EQ(n->mtu, 32'768);
  EXPECT_NE(n->queue, nullptr);
  EXPECT_EQ(req->primary.remote_lid.host(), 3);
  EXPECT_EQ(req->primary.remote_gid, hw.gid);
  EXPECT_EQ(req->primary.local_gid, sim.actions.attr.gid());
  EXPECT_EQ(req->pkey.host(), 0xffff);

  // C-15: the queue pair fails. Packets use UD at once, and later a new queue pair.
  const auto qpn = n->queue->qpn();
  sim.link.connections()->on_queue_event({qpn, fabric::QueueEvent::Kind::kError}, sim.now);
  EXPECT_EQ(sim.sink.find(kPeer)->mode, NeighbourMode::kUd);
  EXPECT_EQ(sim.sink.find(kPeer)->mtu, ud_mtu);
  EXPECT_EQ(sim.sink.find(kPeer)->queue, nullptr);
  talk(5s);
  EXPECT_EQ(sim.sink.find(kPeer)->mode, NeighbourMode::kRc);
}

// The peer returns with another queue pair on the same port, and does not send a request itself.
TEST_F(ConnectedLink, C16_RestartedPeerIsAskedByItsNewName) {
  talk(3s);
  ASSERT_TRUE(established);
  established = false;
  hw.qpn = wire::Be24{kPeerQpn + 1};
  listen(kPeerQpn + 1);
  run_for(2s);  // an address that has just changed does not change again at once
  sim.receive_arp_reply(hw, "10.0.0.2");
  EXPECT_EQ(sim.sink.find(kPeer)->mode, NeighbourMode::kUd) << "at once";
  EXPECT_EQ(sim.sink.find(kPeer)->qpn, kPeerQpn + 1);
  talk(3s);
  EXPECT_TRUE(established);
  EXPECT_EQ(req->service_id.host(),
            wire::ipoib_service_id(wire::ServiceIdForm::kIetf, kPeerQpn + 1));
  EXPECT_EQ(sim.sink.find(kPeer)->mode, NeighbourMode::kRc);
  EXPECT_EQ(sim.link.connections()->list(sim.now).size(), 1U) << "the old one is gone";
}

TEST_F(ConnectedLink, C16_AConnectionEndsWhenItsPeerHasMoved) {
  talk(3s);
  ASSERT_TRUE(established);
  ASSERT_EQ(sim.sink.find(kPeer)->mode, NeighbourMode::kRc);
  sim.sa.paths[hw.gid].dlid.set(44);
  sim.on_port_event(fabric::PortEvent::kClientReregister, 0ms);
  run_for(100ms);
  EXPECT_EQ(sim.link.connections()->counters().ended_by(ConnectionEnd::kMoved), 1U);
  EXPECT_EQ(sim.sink.find(kPeer)->mode, NeighbourMode::kUd);
  EXPECT_EQ(sim.actions.ahs.at(sim.sink.find(kPeer)->ah).dlid, 44);
}

/// The peer requests a connection before its address is known. Another port has the GID that it
/// names, or its own.
TEST_F(ConnectedLink, C16_APeersRequestIsAcceptedIfItsPathAgrees) {
  for (const std::uint16_t lid : {std::uint16_t{44}, std::uint16_t{3}}) {
    SCOPED_TRACE(lid);
    sim.sa.paths[hw.gid].dlid.set(lid);
    const auto queries = sim.sa.path_queries.size();
    connect(request(0x770U + lid));
    run_for(100ms);
    EXPECT_EQ(sim.sa.path_queries.size(), queries + 1);
    const bool agrees = lid == 3;
    auto rows = sim.link.connections()->list(sim.now);
    ASSERT_EQ(rows.size(), agrees ? 1U : 0U);
    EXPECT_EQ(hca.attempts, agrees ? 1U : 0U) << "queue pairs";
    if (agrees) {
      EXPECT_EQ(rows[0].state, "established");
      EXPECT_FALSE(rows[0].sending);
    } else {
      EXPECT_EQ(sim.link.connections()->counters().elsewhere, 1U);
    }
    sim.want(kPeer);
    sim.receive_arp_reply(hw, "10.0.0.2");
    run_for(100ms);
    EXPECT_EQ(sim.sink.find(kPeer)->mode, agrees ? NeighbourMode::kRc : NeighbourMode::kUd);
    EXPECT_FALSE(req) << "the link itself need not ask";
    if (agrees) continue;
    EXPECT_FALSE(closed) << "there is no answer";
    ASSERT_TRUE(sim.link.remove_neighbour(kPeer));
    run_for(60s);  // The path is forgotten.
    closed.reset();
  }
}

/// A peer that has restarted with another LID, whether or not its former one is known.
TEST_F(ConnectedLink, C16_APeerThatMovedIsAcceptedWithinASecond) {
  for (const bool known : {true, false}) {
    SCOPED_TRACE(known);
    if (known) {
      talk(3s);
      ASSERT_TRUE(established);
      ASSERT_EQ(sim.link.connections()->list(sim.now).size(), 1U);
    } else {
      ASSERT_TRUE(sim.link.remove_neighbour(kPeer));
      run_for(120s);
    }
    crash();
    established = false;
    peer_lid = known ? 44 : 45;
    sim.sa.paths[hw.gid].dlid.set(peer_lid);
    auto params = request(0x900U + peer_lid);
    params.primary.local_lid.set(peer_lid);
    connect(params);
    run_for(1100ms);
    EXPECT_TRUE(is_up()) << "accepted, and the reply confirmed";
    const auto rows = sim.link.connections()->list(sim.now);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(hca.queues.at(rows[0].qpn)->receive.path.dlid, peer_lid);
    EXPECT_EQ(sim.link.connections()->counters().ended_by(ConnectionEnd::kMoved), 1U);
  }
}

/// One port sends 5,000 requests a second in made-up names, and keeps none of its attempts or gives
/// each up for the next one. Another host sends an ARP request, and a third one a request.
TEST_F(ConnectedLink, P16_RequestsInMadeUpNamesDelayNoHost) {
  connect(request(0x770));
  const auto like =
      wire::cm_message<wire::CmReq>(*wire::read<wire::CmMad>(wire_.back().second.bytes));
  crash();
  std::uint32_t next = 0;
  const auto flood = [&](Duration d, bool gives_up) {
    for (const auto end = sim.now + d; sim.now < end; run_for(1ms, 1ms))
      for (int i = 0; i < 5; ++i, ++next) {
        auto lie = like;
        lie.local_id.set(0x1000 + (gives_up ? next % 16 : next));
        lie.local_qpn.set(0x1000 + next);
        lie.primary.local_lid.set(77);
        lie.primary.local_gid = wire::Gid::of(wire::kDefaultGidPrefix, 0xbad0'0000 + next);
        fabric::ReceivedMad mad;
        mad.from = {.lid = 77};
        std::ranges::copy(wire::bytes_of(wire::make_cm_mad(next, lie)), mad.bytes.begin());
        manager.on_mad(mad, sim.now);
        ASSERT_LE(sim.link.sa_objects(), PathTable::kMaxClaimed + 20);
      }
  };
  for (const bool gives_up : {false, true}) {
    SCOPED_TRACE(gives_up);
    flood(2s, gives_up);
    const std::uint64_t guid = gives_up ? 0xd : 0xc;
    sim.actions.frames.clear();
    sim.receive_arp_request(sim.add_host(guid, 0x60, static_cast<std::uint16_t>(guid)),
                            gives_up ? "10.0.0.4" : "10.0.0.3");
    flood(900ms, gives_up);
    EXPECT_TRUE(std::ranges::any_of(sim.actions.frames, [](const SentFrame& frame) {
      const auto arp = frame.arp();
      return arp && arp->op == wire::ArpOp::kReply;
    })) << "the answer";
    connect(request(0x780));
    flood(1900ms, gives_up);
    EXPECT_TRUE(is_up());
    crash();
    for (const auto& row : sim.link.connections()->list(sim.now))
      EXPECT_TRUE(sim.link.connections()->close(row.handle, sim.now));
    run_for(60s);
  }
}

/// The SA is silent, and the request is gone before it answers.
TEST_F(ConnectedLink, C16_ANeighbourKeepsThePathOfARequest) {
  sim.sa.silent = true;
  connect(request(0x770));
  run_for(100ms);
  ASSERT_EQ(manager.waiting(), 1U);
  sim.want(kPeer);
  sim.receive_arp_reply(hw, "10.0.0.2");
  run_for(8s);
  sim.sa.silent = false;
  run_for(5s);
  ASSERT_NE(sim.sink.find(kPeer), nullptr);
  EXPECT_EQ(sim.actions.ahs.at(sim.sink.find(kPeer)->ah).dlid, 3);
}

TEST_F(ConnectedLink, MtuOfTheLinkBoundsItsConnectionsToo) {
  talk(3s);
  ASSERT_TRUE(established);
  ASSERT_EQ(sim.sink.find(kPeer)->mtu, 32'768);
  EXPECT_EQ(sim.link.set_mtu(65'521, sim.now).error().what,
            "invalid MTU 65521 of ib0, allowed: 68-65520, limited by its connections");
  ASSERT_TRUE(sim.link.set_mtu(4000, sim.now));
  EXPECT_EQ(sim.sink.find(kPeer)->mtu, 4000);
  EXPECT_EQ(sim.link.mtu(), 2044) << "of datagrams";
  ASSERT_TRUE(sim.link.set_mtu(1500, sim.now));
  EXPECT_EQ(sim.sink.find(kPeer)->mtu, 1500);
  EXPECT_EQ(sim.link.mtu(), 1500);
  ASSERT_TRUE(sim.link.set_mtu(65'520, sim.now));
  EXPECT_EQ(sim.sink.find(kPeer)->mtu, 32'768) << "what the neighbour takes";
  EXPECT_EQ(sim.link.mtu(), 2044);
}

/// ARP goes to the peer's UD queue pair, even while unicast IP uses a connection.
TEST_F(ConnectedLink, C10_ArpIsSentByUdWhileTheConnectionStands) {
  talk(3s);
  ASSERT_EQ(sim.sink.find(kPeer)->mode, NeighbourMode::kRc);
  sim.actions.frames.clear();
  sim.receive_arp_request(hw, "10.0.0.2");
  ASSERT_EQ(sim.actions.frames.size(), 1U);
  const SentFrame& reply = sim.actions.frames[0];
  EXPECT_EQ(reply.qpn, kPeerQpn);
  EXPECT_EQ(reply.to.dlid, 3);
  EXPECT_EQ(reply.arp()->op, wire::ArpOp::kReply);
  EXPECT_EQ(sim.sink.find(kPeer)->mode, NeighbourMode::kRc);
}

TEST_F(ConnectedLink, C07_LinkDownEndsConnectionsAndTheyComeBackWithIt) {
  talk(3s);
  ASSERT_TRUE(established);
  sim.actions.attr.pkeys.clear();
  sim.link.on_port_event(fabric::PortEvent::kPkeyChange, sim.now);
  run_for(1s);
  EXPECT_EQ(closed, cm::CloseReason::kPeer);
  EXPECT_TRUE(sim.link.connections()->list(sim.now).empty());
  established = false;
  sim.actions.attr.pkeys = {wire::kDefaultPkey};
  sim.link.on_port_event(fabric::PortEvent::kPkeyChange, sim.now);
  run_for(2s);
  talk(5s);
  EXPECT_TRUE(established);
}

TEST_F(ConnectedLink, C07_ExpiredNeighbourEndsItsConnection) {
  talk(3s);
  ASSERT_TRUE(established);
  EXPECT_TRUE(sim.link.remove_neighbour(kPeer));
  run_for(1s);
  EXPECT_EQ(closed, cm::CloseReason::kPeer);
}

TEST_F(ConnectedLink, C01_FlagsThatAppearLaterAreFollowed) {
  hw.flags = 0;
  talk(5s);
  EXPECT_FALSE(req);
  hw.flags = wire::LinkAddr::kFlagRc;
  sim.receive_arp_request(hw, "10.0.0.2");
  talk(3s);
  EXPECT_TRUE(established);
}

TEST_F(ConnectedLink, C07_AnotherLidEndsConnectionsThatPeersKnowByTheOld) {
  talk(3s);
  ASSERT_TRUE(established);
  sim.actions.attr.lid = 12;
  sim.link.on_port_event(fabric::PortEvent::kLidChange, sim.now);
  run_for(100ms);
  EXPECT_EQ(closed, cm::CloseReason::kPeer);
  established = false;
  talk(5s);
  EXPECT_TRUE(established);
  EXPECT_EQ(req->primary.local_lid.host(), 12);
}

}  // namespace
}  // namespace ipoib::link
