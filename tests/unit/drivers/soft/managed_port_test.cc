// SPDX-License-Identifier: BSD-3-Clause
// A port with a manager, which supplies its attributes, events and MADs.
#include <algorithm>
#include <deque>

#include "lib/fabric/port_manager.h"
#include "tests/support/silent_mad_port.h"
#include "tests/support/sim_tsc.h"
#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

using fabric::PortEvent;
using fabric::PortState;
using Events = std::vector<PortEvent>;
using ipoib::test::read_sim_tsc;
using ipoib::test::sim_tsc;

/// Reports the attributes and events that the test sets.
class FakePortManager final : public fabric::PortManager, public test::SilentMadPort {
 public:
  fabric::MadPort& mad_port() override { return *this; }
  [[nodiscard]] const fabric::PortAttr& attr() const override { return attr_; }
  std::optional<PortEvent> next_event() override {
    if (events_.empty()) return std::nullopt;
    const PortEvent first = events_.front();
    events_.pop_front();
    return first;
  }
  [[nodiscard]] std::string problem() const override { return problem_; }
  Status send(const fabric::MadAddress& to,
              std::span<const std::byte, wire::kMadLen> /*mad*/) override {
    sent_to_.push_back(to.lid);
    return {};
  }

  fabric::PortAttr attr_{.state = PortState::kDown, .pkeys = {}};
  std::deque<PortEvent> events_;
  std::string problem_ = "no umad device fake0";
  std::vector<std::uint16_t> sent_to_;
};

class ManagedPort : public SoftFixture {
 protected:
  static constexpr std::uint64_t kHz = 2'000'000'000;

  ManagedPort() {
    SoftHcaConfig managed = config(0);
    managed.attr = {.guid = 0x77, .lid = 77, .mtu = 4};
    managed.tsc = &read_sim_tsc;
    managed.tsc_hz = kHz;
    sim_tsc = 5 * kHz;
    auto manager = std::make_unique<FakePortManager>();
    manager_ = manager.get();
    auto hca = SoftHca::create(managed, std::move(manager));
    EXPECT_TRUE(hca) << hca.error().what;
    node_.hca = std::move(*hca);
    const auto queue = node_.hca->create_ud_queue({0xffff});
    EXPECT_TRUE(queue) << "the P_Key may come later";
    node_.queue = *queue;
    EXPECT_TRUE(node_.hca->set_qkey(*node_.queue, kQkey));
    peer_ = make_node(1);
  }
  Events events() {
    Events all;
    while (const auto event = node_.hca->next_event()) all.push_back(*event);
    return all;
  }
  /// Changes the manager's attributes and adds an event.
  Events tell(auto change, PortEvent news) {
    change(manager_->attr_);
    manager_->events_.push_back(news);
    return events();
  }
  void activate() {
    tell(
        [](fabric::PortAttr& attr) {
          attr = {.guid = kGuid[0], .lid = kLid[0], .sm_lid = 9, .sm_sl = 2, .mtu = 5, .rate = 3};
        },
        PortEvent::kPortActive);
  }

  /// The link has trained again, at this rate.
  void retrain(std::uint8_t rate) {
    tell([&](fabric::PortAttr& attr) { attr.rate = rate; }, PortEvent::kPortActive);
  }
  /// Returns the octets of payload that the handle lets through at once, of 1,280 packets of 2,048.
  std::uint64_t let_through(fabric::AhIndex ah) {
    std::uint64_t octets = 0;
    for (int burst = 0; burst < 20; ++burst) {
      std::vector<rte_mbuf*> pkts;
      for (int i = 0; i < 64; ++i) pkts.push_back(packet(counting(2048), ah, 0x99));
      EXPECT_EQ(node_.queue->tx_burst(pkts.data(), 64), 64);
      octets += on_cable(1).size() * 2048;
    }
    return octets;
  }

  FakePortManager* manager_;
  Node node_;
  Node peer_;
};

TEST_F(ManagedPort, IsNothingUntilItsManagerSaysWhat) {
  EXPECT_EQ(events(), Events{});
  EXPECT_EQ(node_.hca->attr().state, PortState::kDown);
  EXPECT_EQ(node_.hca->attr().guid, 0U);
  EXPECT_EQ(node_.hca->attr().lid, 0);
  EXPECT_TRUE(node_.hca->attr().pkeys.empty());
  EXPECT_EQ(node_.hca->problem(), "no umad device fake0");
  EXPECT_EQ(arrive(peer_, ah_to(peer_, 77), node_), 0U);
  EXPECT_EQ(node_.hca->drops().get(Drop::kIbPortDown), 1U);
}

TEST_F(ManagedPort, TakesOverWhatItIsTold) {
  const Events first = tell(
      [](fabric::PortAttr& attr) {
        attr = {.guid = kGuid[0], .lid = kLid[0], .sm_lid = 9, .sm_sl = 2, .mtu = 5, .rate = 3};
      },
      PortEvent::kPortActive);
  EXPECT_EQ(first, Events{PortEvent::kPortActive}) << "it was nothing before";
  const fabric::PortAttr& attr = node_.hca->attr();
  EXPECT_EQ(attr.guid, kGuid[0]);
  EXPECT_EQ(attr.lid, kLid[0]);
  EXPECT_EQ(attr.sm_lid, 9);
  EXPECT_EQ(attr.sm_sl, 2);
  EXPECT_EQ(attr.mtu, 4) << "no more than the cable carries";
  EXPECT_EQ(arrive(peer_, ah_to(peer_, kLid[0]), node_), 1U);
  EXPECT_EQ(arrive(node_, ah_to(node_, kLid[1]), peer_), 1U);
}

TEST_F(ManagedPort, FollowsChanges) {
  activate();
  const auto there = ah_to(node_, kLid[1]);
  EXPECT_EQ(tell([](fabric::PortAttr& a) { a.mtu = 2; }, PortEvent::kSmChange),
            Events{PortEvent::kPortActive});
  EXPECT_EQ(node_.hca->attr().mtu, 2);
  EXPECT_EQ(tell([](fabric::PortAttr& a) { a.lid = 17; }, PortEvent::kLidChange),
            Events{PortEvent::kLidChange});
  EXPECT_EQ(arrive(peer_, ah_to(peer_, 17), node_), 1U);
  EXPECT_EQ(tell([](fabric::PortAttr& a) { a.pkeys = {0x8001}; }, PortEvent::kPkeyChange),
            Events{PortEvent::kPkeyChange});
  EXPECT_EQ(arrive(node_, there, peer_), 0U);
  EXPECT_EQ(node_.hca->drops().get(Drop::kIbPkey), 1U);
  EXPECT_EQ(tell([](fabric::PortAttr& a) { a.pkeys = {0xffff}; }, PortEvent::kPkeyChange),
            Events{PortEvent::kPkeyChange});
  EXPECT_EQ(arrive(node_, there, peer_), 1U);
  EXPECT_EQ(tell([](fabric::PortAttr&) {}, PortEvent::kClientReregister),
            Events{PortEvent::kClientReregister});
}

// Attributes of a port that is down do not count: the port keeps its addresses.
TEST_F(ManagedPort, DownIsDown) {
  activate();
  EXPECT_EQ(tell(
                [](fabric::PortAttr& a) {
                  a.state = PortState::kInit;
                  a.lid = 0;
                  a.pkeys.clear();
                },
                PortEvent::kPortDown),
            Events{PortEvent::kPortDown});
  EXPECT_EQ(node_.hca->attr().state, PortState::kDown);
  EXPECT_EQ(node_.hca->attr().lid, kLid[0]);
  activate();
  EXPECT_EQ(node_.hca->attr().state, PortState::kActive);
  EXPECT_EQ(arrive(peer_, ah_to(peer_, kLid[0]), node_), 1U);
}

// Invalid attributes keep the port down, and the next valid ones bring it up.
TEST_F(ManagedPort, IsKeptDownByWhatCannotBe) {
  activate();
  EXPECT_EQ(tell([](fabric::PortAttr& a) { a.lid = 0xc123; }, PortEvent::kLidChange),
            Events{PortEvent::kPortDown});
  EXPECT_EQ(node_.hca->attr().lid, kLid[0]);
  EXPECT_EQ(tell([](fabric::PortAttr& a) { a.lid = 17; }, PortEvent::kLidChange),
            (Events{PortEvent::kLidChange, PortEvent::kPortActive}));
}

TEST_F(ManagedPort, U22_PathRateHoldsOnAPortThatGotFaster) {
  constexpr std::uint8_t k2_5Gbps = 2, k10Gbps = 3, k40Gbps = 7;
  constexpr std::uint64_t kAll = 20 * 64 * 2048;
  activate();
  ASSERT_EQ(node_.hca->attr().rate, k10Gbps);
  fabric::AhAttr to;
  to.dlid = 9;
  to.rate = k10Gbps;
  const fabric::AhIndex as_the_port = node_.hca->create_ah(to).value();
  to.rate = k2_5Gbps;
  const fabric::AhIndex slower = node_.hca->create_ah(to).value();
  EXPECT_EQ(let_through(as_the_port), kAll) << "no limit";
  EXPECT_LE(let_through(slower), 312'500U);

  retrain(k40Gbps);
  EXPECT_LE(let_through(slower), 2048U) << "what it had used up stays so";
  const std::uint64_t burst = let_through(as_the_port);
  EXPECT_LE(burst, 1'250'000U) << "one millisecond of its rate";
  EXPECT_GT(burst, 1'200'000U);
  sim_tsc += kHz / 1000;
  EXPECT_GT(let_through(as_the_port), 1'200'000U);

  retrain(k10Gbps);
  EXPECT_EQ(let_through(as_the_port), kAll);
  retrain(k40Gbps);
  EXPECT_LE(let_through(as_the_port), 1'250'000U);
}

TEST_F(ManagedPort, MadsAreTheManagers) {
  activate();
  ASSERT_TRUE(node_.hca->mad_port().send({.lid = 5}, fabric::MadBytes{}));
  EXPECT_EQ(manager_->sent_to_, std::vector<std::uint16_t>{5});
  // MADs from the cable have no receiver.
  ASSERT_TRUE(peer_.hca->mad_port().send({.lid = kLid[0]}, fabric::MadBytes{}));
  peer_.poll();
  node_.poll();
  EXPECT_EQ(node_.hca->drops().get(Drop::kIbQpn), 1U);
}

TEST_F(ManagedPort, IsNotChangedByHand) {
  activate();
  EXPECT_EQ(node_.hca->port_setter(), nullptr);
}

}  // namespace
}  // namespace ipoib::soft
