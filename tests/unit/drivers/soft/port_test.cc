// SPDX-License-Identifier: BSD-3-Clause
// Events and attributes of a port, from a subnet manager or from its ethdev, and their effect on
// packets.
#include <rte_ethdev.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/support/sim_tsc.h"
#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

using fabric::PortEvent;
using fabric::PortState;
using Events = std::vector<PortEvent>;
using ipoib::test::read_sim_tsc;
using ipoib::test::sim_tsc;

class SoftPort : public SoftFixture {
 protected:
  static constexpr std::uint64_t kHz = 1'000'000;

  SoftPort() {
    sim_tsc = kHz;
    SoftHcaConfig timed = config(0);
    timed.tsc = &read_sim_tsc;
    timed.tsc_hz = kHz;
    node_ = make_node(timed);
    peer_ = make_node(1);
  }
  Events events() {
    Events all;
    while (const auto event = node_.hca->next_event()) all.push_back(*event);
    return all;
  }
  [[nodiscard]] std::uint64_t lost(Drop reason) const { return node_.hca->drops().get(reason); }

  Node node_;
  Node peer_;
};

TEST_F(SoftPort, NothingNewToBeginWith) {
  EXPECT_EQ(events(), Events{});
  EXPECT_EQ(node_.hca->attr().state, PortState::kActive);
}

TEST_F(SoftPort, EveryChangeIsAnEventAndShowsInTheAttributes) {
  ASSERT_TRUE(node_.hca->change_port({.lid = 17}));
  EXPECT_EQ(events(), Events{PortEvent::kLidChange});
  ASSERT_TRUE(node_.hca->change_port({.sm_lid = 5}));
  EXPECT_EQ(events(), Events{PortEvent::kSmChange});
  ASSERT_TRUE(node_.hca->change_port({.sm_sl = 2}));
  EXPECT_EQ(events(), Events{PortEvent::kSmChange});
  ASSERT_TRUE(node_.hca->change_port({.gid_prefix = 0xfec0'0000'0000'0001}));
  EXPECT_EQ(events(), Events{PortEvent::kGidChange});
  ASSERT_TRUE(node_.hca->change_port({.pkeys = {{0x8001, 0xffff}}}));
  EXPECT_EQ(events(), Events{PortEvent::kPkeyChange});
  ASSERT_TRUE(node_.hca->change_port({.reregister = true}));
  EXPECT_EQ(events(), Events{PortEvent::kClientReregister});
  ASSERT_TRUE(node_.hca->change_port({.lid = 17, .sm_lid = 5, .sm_sl = 2}));
  EXPECT_EQ(events(), Events{}) << "nothing changed";
  const fabric::PortAttr& attr = node_.hca->attr();
  EXPECT_EQ(attr.lid, 17);
  EXPECT_EQ(attr.sm_lid, 5);
  EXPECT_EQ(attr.sm_sl, 2);
  EXPECT_EQ(attr.gid().prefix(), 0xfec0'0000'0000'0001);
  EXPECT_EQ(attr.pkeys, (std::vector<std::uint16_t>{0x8001, 0xffff}));
}

TEST_F(SoftPort, WaitingEventsAreMerged) {
  for (std::uint16_t lid = 20; lid < 1020; ++lid)
    ASSERT_TRUE(node_.hca->change_port({.lid = lid, .sm_lid = lid, .reregister = true}));
  EXPECT_EQ(events(),
            (Events{PortEvent::kLidChange, PortEvent::kSmChange, PortEvent::kClientReregister}));
  ASSERT_TRUE(node_.hca->change_port({.up = false}));
  ASSERT_TRUE(node_.hca->change_port({.up = true}));
  EXPECT_EQ(events(), (Events{PortEvent::kPortDown, PortEvent::kPortActive}));
}

TEST_F(SoftPort, WhatCannotBeIsRefusedAndChangesNothing) {
  const std::vector<fabric::PortChange> wrong = {{.lid = 0},
                                                 {.lid = 0xc000},
                                                 {.sm_lid = 0xffff},
                                                 {.lid = 9, .sm_sl = 16},
                                                 {.lid = 9, .pkeys = {{0xffff, 0x8000}}}};
  for (const auto& change : wrong)
    EXPECT_EQ(node_.hca->change_port(change).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(node_.hca->attr().lid, kLid[0]);
  EXPECT_EQ(events(), Events{});
}

TEST_F(SoftPort, HandlesFollowThePortsAddresses) {
  const auto to_peer = ah_to(node_, kLid[1]);
  const auto group = group_ah(node_, broadcast_mgid(), kMlid);
  const auto to_17 = ah_to(node_, 17);
  ASSERT_TRUE(peer_.hca->attach(*peer_.queue, broadcast_mgid(), kMlid));
  ASSERT_TRUE(node_.hca->change_port({.lid = 17, .gid_prefix = 0xfec0'0000'0000'0001}));

  rte_mbuf* pkts[] = {packet(counting(24), to_peer, peer_.queue->qpn()),
                      packet(counting(24), group, wire::kMulticastQpn)};
  ASSERT_EQ(node_.queue->tx_burst(pkts, 2), 2);
  peer_.poll();
  const auto got = peer_.receive();
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(fabric::meta_of(got[0]).rx.slid, 17);
  EXPECT_EQ(fabric::meta_of(got[1]).rx.slid, 17);
  const auto* grh = reinterpret_cast<const wire::Grh*>(rte_pktmbuf_mtod(got[1], std::byte*) -
                                                       fabric::meta_of(got[1]).rx.grh_offset);
  EXPECT_EQ(grh->sgid, wire::Gid::of(0xfec0'0000'0000'0001, kGuid[0]));
  for (rte_mbuf* m : got) rte_pktmbuf_free(m);

  EXPECT_EQ(arrive(node_, to_17, node_), 1U) << "LID 17 is this port now";
  EXPECT_EQ(arrive(peer_, ah_to(peer_, 17), node_), 1U);
  EXPECT_EQ(arrive(peer_, ah_to(peer_, kLid[0]), node_), 0U);
  EXPECT_EQ(lost(Drop::kIbLid), 1U) << "the old LID is not";
}

TEST_F(SoftPort, U36_QueueWhosePkeyIsGoneDropsUntilItIsBack) {
  const auto there = ah_to(node_, kLid[1]);
  const auto back = ah_to(peer_, kLid[0]);
  ASSERT_TRUE(node_.hca->change_port({.pkeys = {{0x8001}}}));
  EXPECT_EQ(arrive(node_, there, peer_), 0U);
  EXPECT_EQ(lost(Drop::kIbPkey), 1U);
  EXPECT_EQ(arrive(peer_, back, node_), 0U);
  EXPECT_EQ(lost(Drop::kIbPkey), 2U);
  ASSERT_TRUE(node_.hca->change_port({.pkeys = {{0x8001, 0x7fff}}}));
  EXPECT_EQ(arrive(peer_, back, node_), 1U) << "a limited member hears full ones";
  ASSERT_TRUE(node_.hca->change_port({.pkeys = {{0x7fff, 0xffff}}}));
  EXPECT_EQ(arrive(node_, there, peer_), 1U);
  EXPECT_EQ(arrive(peer_, back, node_), 1U);
  EXPECT_EQ(node_.all_drops(), 2U);
}

TEST_F(SoftPort, PortTakenDownNeitherSendsNorReceives) {
  const auto there = ah_to(node_, kLid[1]);
  const auto back = ah_to(peer_, kLid[0]);
  ASSERT_TRUE(node_.hca->change_port({.up = false}));
  EXPECT_EQ(events(), Events{PortEvent::kPortDown});
  EXPECT_EQ(node_.hca->attr().state, PortState::kDown);
  EXPECT_EQ(arrive(node_, there, peer_), 0U);
  EXPECT_EQ(arrive(peer_, back, node_), 0U);
  EXPECT_EQ(lost(Drop::kIbPortDown), 2U);
  const fabric::MadBytes mad{};
  EXPECT_EQ(node_.hca->mad_port().send({.lid = 1}, mad).error().code, Errc::kUnavailable);
  ASSERT_TRUE(node_.hca->change_port({.up = true}));
  EXPECT_EQ(events(), Events{PortEvent::kPortActive});
  EXPECT_EQ(arrive(node_, there, peer_), 1U);
  EXPECT_EQ(arrive(peer_, back, node_), 1U);
}

TEST_F(SoftPort, CableThatLosesItsLinkTakesThePortDown) {
  const std::uint16_t port = Cable::get().port[0];
  ASSERT_EQ(rte_eth_dev_set_link_down(port), 0);
  EXPECT_EQ(events(), Events{}) << "the cable was looked at a moment ago";
  sim_tsc += kHz / 10;
  EXPECT_EQ(events(), Events{PortEvent::kPortDown});
  ASSERT_TRUE(node_.hca->change_port({.up = true}));
  EXPECT_EQ(node_.hca->attr().state, PortState::kDown) << "no cable, no port";
  ASSERT_EQ(rte_eth_dev_set_link_up(port), 0);
  sim_tsc += kHz / 10;
  EXPECT_EQ(events(), Events{PortEvent::kPortActive});
  EXPECT_EQ(node_.hca->attr().state, PortState::kActive);
}

// The port must not use the ethdev after on_ethdev_removed(), because its owner closes it next.
TEST_F(SoftPort, CableThatIsTakenAwayIsLeftAlone) {
  const auto ah = ah_to(node_, kLid[1]);
  ASSERT_EQ(arrive(node_, ah, peer_), 1U);
  put_on_cable(0, vector_frame("ud-arp-request"));
  node_.hca->ethdev_wire()->on_ethdev_removed();
  EXPECT_EQ(events(), Events{PortEvent::kPortDown});
  EXPECT_EQ(node_.hca->problem(), "the Ethernet device of the cable was removed");
  node_.poll();
  EXPECT_EQ(rte_ring_count(Cable::get().towards[0]), 1U) << "not read";
  EXPECT_EQ(arrive(node_, ah, peer_), 0U);
  EXPECT_EQ(lost(Drop::kIbPortDown), 1U);
  EXPECT_EQ(node_.queue->tx_lost().packets, 1U);
  EXPECT_EQ(on_cable(1).size(), 0U);
  sim_tsc += kHz;
  EXPECT_EQ(events(), Events{}) << "for good";
  on_cable(0);
}

TEST_F(SoftPort, U37_ReflectedGroupPacketsAreDeliveredUpWhateverTheirLid) {
  // The link judges a packet by source GID and QPN. The port's own LID as the source proves
  // nothing, so such a packet is delivered with the data that the link needs.
  ASSERT_TRUE(node_.hca->attach(*node_.queue, broadcast_mgid(), kMlid));
  const auto group = group_ah(node_, broadcast_mgid(), kMlid);
  rte_mbuf* own = packet(counting(24), group, wire::kMulticastQpn);
  ASSERT_EQ(node_.queue->tx_burst(&own, 1), 1);
  EXPECT_TRUE(node_.receive().empty()) << "not to the sender itself inside the port";
  auto frames = on_cable(1);
  ASSERT_EQ(frames.size(), 1U);
  Bytes other = frames[0];  // From a guest behind the same LID.
  other[kLocalHeadLen + 23] ^= std::byte{0xff};
  seal(other);
  for (const Bytes& frame : {frames[0], other}) put_on_cable(0, frame);
  node_.poll();
  const auto got = node_.receive();
  ASSERT_EQ(got.size(), 2U);
  for (rte_mbuf* m : got) {
    const auto& rx = fabric::meta_of(m).rx;
    EXPECT_EQ(rx.slid, kLid[0]);
    EXPECT_EQ(rx.src_qpn, node_.queue->qpn());
    const auto* grh =
        reinterpret_cast<const wire::Grh*>(rte_pktmbuf_mtod(m, std::byte*) - rx.grh_offset);
    EXPECT_EQ(grh->sgid == node_.hca->attr().gid(), m == got[0]);
    rte_pktmbuf_free(m);
  }
  EXPECT_EQ(node_.all_drops(), 0U);
}

TEST_F(SoftPort, DoorbellRingsForMadsWhileManagementSleeps) {
  Doorbell doorbell;
  SoftHcaConfig ringing = config(1);
  ringing.doorbell = &doorbell;
  peer_ = {};
  peer_ = make_node(ringing);
  EXPECT_FALSE(peer_.hca->mad_port().polled());
  EXPECT_TRUE(node_.hca->mad_port().polled()) << "made without one";
  const auto come = [&] {
    const fabric::MadBytes mad{};
    ASSERT_TRUE(node_.hca->mad_port().send({.lid = kLid[1]}, mad));
    node_.poll();
    peer_.poll();
    EXPECT_TRUE(peer_.hca->mad_port().pending());
    EXPECT_TRUE(peer_.hca->mad_port().receive());
    EXPECT_FALSE(peer_.hca->mad_port().pending());
  };
  doorbell.arm();
  peer_.poll();
  EXPECT_EQ(doorbell.waiting, 1U) << "nothing came";
  come();
  EXPECT_EQ(doorbell.waiting, 0U) << "rung";
  come();
}

TEST_F(SoftPort, AddressesChangeWhileAWorkerSends) {
  const auto there = ah_to(node_, kLid[1]);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> arrived{0}, strange{0};
  std::vector<std::byte> memory(rte_rcu_qsbr_get_memsize(1) + RTE_CACHE_LINE_SIZE);
  void* at = memory.data();
  std::size_t space = memory.size();
  auto* rcu = static_cast<rte_rcu_qsbr*>(
      std::align(RTE_CACHE_LINE_SIZE, rte_rcu_qsbr_get_memsize(1), at, space));
  ASSERT_EQ(rte_rcu_qsbr_init(rcu, 1), 0);
  ASSERT_EQ(rte_rcu_qsbr_thread_register(rcu, 0), 0);
  node_ = {};
  SoftHcaConfig guarded = config(0);
  guarded.qsbr = rcu;
  node_ = make_node(guarded);
  ASSERT_EQ(ah_to(node_, kLid[1]), there);
  rte_rcu_qsbr_thread_online(rcu, 0);
  std::thread worker{[&] {
    while (!stop.load(std::memory_order_relaxed)) {
      rte_mbuf* m = packet(counting(40), there, peer_.queue->qpn());
      if (node_.queue->tx_burst(&m, 1) == 0) rte_pktmbuf_free(m);
      node_.poll();
      peer_.poll();
      for (rte_mbuf* got : peer_.receive()) {
        const auto slid = fabric::meta_of(got).rx.slid;
        if (slid < 100 || slid > 100 + 50) strange += slid != kLid[0];
        rte_pktmbuf_free(got);
        ++arrived;
      }
      rte_rcu_qsbr_quiescent(rcu, 0);
    }
    rte_rcu_qsbr_thread_offline(rcu, 0);
  }};
  for (std::uint16_t lid = 100; lid <= 150; ++lid) {
    ASSERT_TRUE(node_.hca->change_port({.lid = lid, .up = lid % 2 == 0}));
    const auto before = arrived.load();
    while (lid % 2 == 0 && arrived.load() < before + 3) std::this_thread::yield();
  }
  stop = true;
  worker.join();
  EXPECT_EQ(strange, 0U);
  EXPECT_EQ(peer_.all_drops(), 0U) << "no frame was half old and half new";
}

}  // namespace
}  // namespace ipoib::soft
