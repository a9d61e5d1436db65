// SPDX-License-Identifier: BSD-3-Clause
// Changes of the port's attributes and of its subnet manager's state.
#include "tests/unit/drivers/umad/umad_fixture.h"

namespace ipoib::umad {
namespace {

using fabric::PortEvent;
using fabric::PortState;

class UmadWatch : public UmadFixture {
 protected:
  void change(auto change) {
    fake_.set([&](FakeUmad& f) { change(f); });
    pass(PortWatch::kPeriod * 2);
  }
};

TEST_F(UmadWatch, FirstLookTellsEverything) {
  start();
  until([this] { return port_->attr().state == PortState::kActive; });
  const fabric::PortAttr& attr = port_->attr();
  EXPECT_EQ(attr.guid, kPortGuid);
  EXPECT_EQ(attr.lid, 4);
  EXPECT_EQ(attr.sm_lid, 1);
  EXPECT_EQ(attr.mtu, 4) << "NeighborMTU";
  EXPECT_EQ(attr.rate, 7) << "4x of 10 Gb/s";
  EXPECT_EQ(attr.pkeys, std::vector<std::uint16_t>{0xffff});
  EXPECT_EQ(events_, (Events{PortEvent::kGidChange, PortEvent::kLidChange, PortEvent::kPkeyChange,
                             PortEvent::kSmChange, PortEvent::kPortActive}));
}

TEST_F(UmadWatch, EachChangeIsItsEvent) {
  start_active();
  pass(PortWatch::kPeriod * 4);
  EXPECT_EQ(take_events(), Events{}) << "nothing changed";

  change([](FakeUmad& f) { f.port_.lid = 77; });
  EXPECT_EQ(take_events(), Events{PortEvent::kLidChange});
  change([](FakeUmad& f) { f.port_.sm_lid = 8; });
  EXPECT_EQ(take_events(), Events{PortEvent::kSmChange});
  EXPECT_EQ(port_->attr().sm_lid, 8);
  change([](FakeUmad& f) { f.port_.sm_sl = 3; });
  EXPECT_EQ(take_events(), Events{PortEvent::kSmChange});
  change([](FakeUmad& f) { f.port_.prefix = 0xfec0'0000'0000'0001; });
  EXPECT_EQ(take_events(), Events{PortEvent::kGidChange});
  change([](FakeUmad& f) { f.port_.state = 1; });
  EXPECT_EQ(take_events(), Events{PortEvent::kPortDown});
  EXPECT_EQ(port_->problem(), "the port is down");
  change([](FakeUmad& f) { f.port_.state = 2; });
  EXPECT_EQ(take_events(), Events{});
  EXPECT_EQ(port_->problem(), "the port has not been configured by a subnet manager");
  // The port moved while it was down: the active event follows the event of the new LID.
  change([](FakeUmad& f) {
    f.port_.lid = 5;
    f.port_.state = 4;
  });
  EXPECT_EQ(take_events(), (Events{PortEvent::kLidChange, PortEvent::kPortActive}));
  change([](FakeUmad& f) { f.port_.sm_lid = 0; });
  EXPECT_EQ(port_->problem(), "the port has no subnet manager");
}

// The link of a port that supports 4096 octets may carry less, because its other end does.
TEST_F(UmadWatch, U09_MtuIsThatOfTheLink) {
  const auto mtu_after = [this](std::uint8_t neighbor, std::uint8_t cap) {
    change([=](FakeUmad& f) {
      f.port_.neighbor_mtu = neighbor;
      f.port_.mtu_cap = cap;
    });
    return port_->attr().mtu;
  };
  start_active();
  EXPECT_EQ(port_->attr().mtu, 4);
  EXPECT_EQ(mtu_after(3, 5), 3);
  EXPECT_EQ(take_events(), Events{PortEvent::kPortActive}) << "links look at their groups again";
  EXPECT_EQ(mtu_after(5, 4), 4) << "it cannot be larger than the port's";
  for (const int none : {0, 6, 15})
    EXPECT_EQ(mtu_after(static_cast<std::uint8_t>(none), 2), 2) << none;
}

// A removed partition leaves a hole. Entries behind it keep their indexes, which sends of MADs
// name.
TEST_F(UmadWatch, PkeyTableMayHaveHoles) {
  fake_.port_.pkeys[1] = 0x8001;
  fake_.port_.pkeys[40] = 0x0002;  // In the second block.
  start_active();
  EXPECT_EQ(port_->attr().pkeys, (std::vector<std::uint16_t>{0xffff, 0x8001, 0x0002}));
  change([](FakeUmad& f) { f.port_.pkeys[1] = 0; });
  EXPECT_EQ(take_events(), Events{PortEvent::kPkeyChange});
  EXPECT_EQ(port_->attr().pkeys, (std::vector<std::uint16_t>{0xffff, 0x0002}));

  fabric::MadBytes mad{std::byte{1}, std::byte{3}};
  fake_.take_sent();
  EXPECT_TRUE(port_->send({.lid = 1, .pkey = 0x8002}, mad)) << "the partition counts";
  EXPECT_EQ(port_->send({.lid = 1, .pkey = 0x8001}, mad).error().code, Errc::kInvalidArgument);
  const auto sent = fake_.take_sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].to.pkey_index, 40);

  Arrived report = arrived_from(1, fabric::MadBytes{std::byte{1}, std::byte{3}, {}, std::byte{6}});
  report.from.pkey_index = 40;
  fake_.arrive(report);
  settle();
  ASSERT_EQ(mads_.size(), 1U);
  EXPECT_EQ(mads_[0].from.pkey, 0x0002);

  // The port has the same partitions, but queue pairs have indices.
  change([](FakeUmad& f) { std::swap(f.port_.pkeys[1], f.port_.pkeys[40]); });
  EXPECT_EQ(take_events(), Events{PortEvent::kPkeyChange});
  EXPECT_TRUE(port_->send({.lid = 1, .pkey = 0x8002}, mad));
  EXPECT_EQ(fake_.take_sent()[0].to.pkey_index, 1);
}

// The port counts with 16 bits, from before the node started.
TEST_F(UmadWatch, U36_PacketsWithWrongKeysAreCounted) {
  const auto counted = [this](std::uint16_t pkey, std::uint16_t qkey) {
    change([=](FakeUmad& f) {
      f.port_.pkey_violations = pkey;
      f.port_.qkey_violations = qkey;
    });
    return std::pair{port_->key_violations().pkey, port_->key_violations().qkey};
  };
  using Sums = std::pair<std::uint64_t, std::uint64_t>;
  start_active();
  EXPECT_EQ(counted(7, 9), (Sums{0, 0}));
  EXPECT_EQ(counted(8, 12), (Sums{1, 3}));
  EXPECT_EQ(counted(0, 12), (Sums{1, 3})) << "cleared";
  EXPECT_EQ(counted(5, 0xffff), (Sums{6, 0xffff - 9}));
  EXPECT_EQ(counted(5, 1), (Sums{6, 0xffff - 8}));
}

// States and table sizes that do not exist are harmless.
TEST_F(UmadWatch, NonsenseIsTakenForDown) {
  start_active();
  change([](FakeUmad& f) { f.port_.state = 9; });
  EXPECT_EQ(port_->attr().state, PortState::kDown);
  change([](FakeUmad& f) {
    f.port_.state = 4;
    f.port_.partition_cap = 0;
  });
  EXPECT_TRUE(port_->attr().pkeys.empty());
  EXPECT_EQ(port_->send({.lid = 1}, fabric::MadBytes{}).error().code, Errc::kInvalidArgument);
}

TEST_F(UmadWatch, RestartedManagerIsNoticed) {
  start_active();
  pass(SmWatch::kPeriod * 3);
  change([](FakeUmad& f) { f.sm_.act_count = 101; });
  pass(SmWatch::kPeriod);
  EXPECT_EQ(take_events(), Events{}) << "it works on";
  change([](FakeUmad& f) { f.sm_.act_count = 3; });
  pass(SmWatch::kPeriod);
  EXPECT_EQ(take_events(), Events{PortEvent::kClientReregister}) << "it counts anew";
  change([](FakeUmad& f) { f.sm_.guid = kSmGuid + 1; });
  pass(SmWatch::kPeriod);
  EXPECT_EQ(take_events(), Events{PortEvent::kClientReregister}) << "it is another";
  EXPECT_EQ(count("reregistered"), 2U);
}

TEST_F(UmadWatch, ManagerThatWasAwayIsNoticed) {
  start_active();
  pass(SmWatch::kPeriod);
  fake_.set([](FakeUmad& f) { f.sm_.does = FakeUmad::SmDoes::kBounce; });
  pass(SmWatch::kPeriod);
  EXPECT_EQ(port_->problem(), "the subnet manager at LID 1 does not answer");
  EXPECT_GE(count("undeliverable"), 1U);
  EXPECT_EQ(take_events(), Events{});
  fake_.set([](FakeUmad& f) { f.sm_.does = FakeUmad::SmDoes::kAnswer; });
  pass(SmWatch::kPeriod);
  EXPECT_EQ(take_events(), Events{PortEvent::kClientReregister});
  EXPECT_EQ(port_->problem(), "");
}

TEST_F(UmadWatch, SilentManagerIsNoticed) {
  start_active();
  pass(SmWatch::kPeriod);
  fake_.set([](FakeUmad& f) { f.sm_.does = FakeUmad::SmDoes::kNothing; });
  pass(SmWatch::kPeriod * 2);
  EXPECT_EQ(port_->problem(), "") << "one lost answer is none";
  pass(SmWatch::kPeriod);
  EXPECT_EQ(port_->problem(), "the subnet manager at LID 1 does not answer");
  // An answer from another LID is not the manager's.
  fake_.set([](FakeUmad& f) { f.sm_.does = FakeUmad::SmDoes::kAnswerFromElsewhere; });
  pass(SmWatch::kPeriod);
  EXPECT_EQ(take_events(), Events{});
  EXPECT_GE(count("unasked"), 1U);
  fake_.set([](FakeUmad& f) { f.sm_.does = FakeUmad::SmDoes::kAnswer; });
  pass(SmWatch::kPeriod);
  EXPECT_EQ(take_events(), Events{PortEvent::kClientReregister});
}

// A manager at another LID is one event.
TEST_F(UmadWatch, MovedManagerIsAskedAtItsNewLid) {
  start_active();
  pass(SmWatch::kPeriod);
  change([](FakeUmad& f) {
    f.port_.sm_lid = 8;
    f.sm_.guid = kSmGuid + 1;
    f.sm_.act_count = 1;
  });
  pass(SmWatch::kPeriod * 2);
  EXPECT_EQ(take_events(), Events{PortEvent::kSmChange});
  EXPECT_EQ(port_->problem(), "");
}

}  // namespace
}  // namespace ipoib::umad
