// SPDX-License-Identifier: BSD-3-Clause
// The device is absent, refused, lost, or returns. The port reports the reason for which it does
// not work.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "tests/unit/drivers/umad/umad_fixture.h"

namespace ipoib::umad {
namespace {

using fabric::PortEvent;
using fabric::PortState;

class UmadDevice : public UmadFixture {};

// An absent device does not fail the port: the port reports it, tries again, and uses the device
// when it exists.
TEST_F(UmadDevice, ComesUpWhenTheDeviceDoes) {
  fake_.open_error_ = Error{Errc::kNotFound, "no umad device fake0"};
  start();
  until([this] { return port_->problem() == "no umad device fake0"; });
  EXPECT_EQ(port_->attr().state, PortState::kDown);
  EXPECT_EQ(port_->attr().guid, 0U);
  EXPECT_EQ(port_->send({.lid = 1}, fabric::MadBytes{}).error().code, Errc::kUnavailable);
  EXPECT_TRUE(events_.empty());

  fake_.set([](FakeUmad& f) { f.open_error_.reset(); });
  until([this] { return port_->attr().state == PortState::kActive; });
  EXPECT_EQ(port_->problem(), "");
  EXPECT_EQ(device_.opened_, "fake0");
  EXPECT_EQ(count("device_opened"), 1U);
}

TEST_F(UmadDevice, TellsOfMissingPermission) {
  fake_.open_error_ = Error{Errc::kRefused, "permission denied on /dev/infiniband/umad0"};
  start();
  until([this] { return port_->problem() == "permission denied on /dev/infiniband/umad0"; });
  const Status sent = port_->send({.lid = 1}, fabric::MadBytes{});
  EXPECT_NE(sent.error().what.find("permission denied"), std::string::npos);
}

// Another agent owns a class: the port keeps nothing open meanwhile, and works once the class is
// free.
TEST_F(UmadDevice, WaitsForAClassThatAnotherAgentHas) {
  fake_.refused_class_ = 0x03;
  start();
  until([this] {
    return port_->problem() == "umad device fake0: class 0x03 is registered by another agent";
  });
  fake_.set([](FakeUmad& f) { f.refused_class_.reset(); });
  until([this] { return port_->attr().state == PortState::kActive; });
  EXPECT_EQ(fake_.open_descriptors(), 1) << "each failed attempt has closed its own";
}

// The kernel's communication manager may own its class; the rest of the port works.
TEST_F(UmadDevice, WorksWithoutTheClassOfConnections) {
  fake_.refused_class_ = 0x07;
  start_active();
  const auto sent = port_->send({.lid = 1}, fabric::MadBytes{std::byte{1}, std::byte{7}});
  EXPECT_EQ(sent.error().code, Errc::kUnavailable);
  EXPECT_TRUE(port_->send({.lid = 1}, fabric::MadBytes{std::byte{1}, std::byte{3}}));
}

// Registers every class that may be sent to the port, and leaves RMPP of subnet administration to
// the kernel.
TEST_F(UmadDevice, RegistersWhatMayCome) {
  start_active();
  fake_.set([](FakeUmad& f) {
    ASSERT_EQ(f.registered_.size(), 4U);
    EXPECT_EQ(f.registered_.at(0x03).rmpp_version, 1);
    EXPECT_EQ(f.registered_.at(0x03).version, 2);
    EXPECT_EQ(f.registered_.at(0x03).request_methods, 1U << 6) << "Reports";
    EXPECT_EQ(f.registered_.at(0x01).request_methods, 0U);
    EXPECT_EQ(f.registered_.at(0x81).version, 1);
    EXPECT_EQ(f.registered_.at(0x07).version, 2);
    EXPECT_EQ(f.registered_.at(0x07).request_methods, 1U << 3) << "Send";
  });
}

TEST_F(UmadDevice, GoesDownAndUpWithTheDevice) {
  start_active();
  fake_.set([](FakeUmad& f) {
    f.open_error_ = Error{Errc::kNotFound, "no umad device fake0"};
    f.receive_error_ = EIO;
  });
  until([this] { return port_->attr().state == PortState::kDown; });
  EXPECT_EQ(events_, (Events{PortEvent::kPortDown}));
  until([this] { return port_->problem() == "no umad device fake0"; });
  EXPECT_EQ(fake_.open_descriptors(), 0);
  EXPECT_EQ(device_.opened_, "");
  EXPECT_EQ(count("device_lost"), 1U);

  take_events();
  fake_.set([](FakeUmad& f) { f.open_error_.reset(); });
  until([this] { return port_->attr().state == PortState::kActive; });
  EXPECT_EQ(events_, (Events{PortEvent::kPortActive})) << "all else is as it was";
  EXPECT_EQ(count("device_opened"), 2U);
}

// An old kernel does not report that a device is gone; the device just stops answering.
TEST_F(UmadDevice, IsOpenedAgainWhenThePortIsSilent) {
  start_active();
  fake_.set([](FakeUmad& f) { f.port_.answers = false; });
  pass(PortWatch::kPeriod * (PortWatch::kMaxMissed - 1));
  EXPECT_EQ(port_->attr().state, PortState::kActive) << "one lost answer is none";
  until([this] {
    pass(PortWatch::kPeriod);
    return port_->attr().state == PortState::kDown;
  });
  EXPECT_EQ(events_, (Events{PortEvent::kPortDown}));
  until([this] { return count("device_lost") >= 1; });
  fake_.set([](FakeUmad& f) { f.port_.answers = true; });
  until([this] {
    pass(PortWatch::kPeriod);
    return port_->attr().state == PortState::kActive;
  });
  EXPECT_EQ(port_->problem(), "");
}

// Questions that cannot be sent count as questions without an answer.
TEST_F(UmadDevice, CountsWhatItCannotSend) {
  start_active();
  fake_.set([](FakeUmad& f) { f.send_error_ = EINVAL; });
  const std::uint64_t before = count("send_failed");
  const Status sent = port_->send({.lid = 1}, fabric::MadBytes{std::byte{1}, std::byte{3}});
  EXPECT_EQ(sent.error().code, Errc::kUnavailable);
  EXPECT_NE(sent.error().what.find("Invalid argument"), std::string::npos);
  EXPECT_EQ(count("send_failed"), before + 1);
}

// Events of the port lead to a query at once; events of other ports are ignored.
TEST_F(UmadDevice, FollowsEventsOfTheDevice) {
  start_active();
  fake_.set([](FakeUmad& f) { f.port_.lid = 9; });
  device_.events_.push_back({PortEvent::kLidChange, 1});
  settle();
  EXPECT_TRUE(events_.empty()) << "of another port";
  device_.events_.push_back({PortEvent::kLidChange, 2});
  settle();
  EXPECT_EQ(events_, (Events{PortEvent::kLidChange})) << "no time has passed";
  EXPECT_EQ(port_->attr().lid, 9);

  take_events();
  device_.events_.push_back({PortEvent::kClientReregister, 2});
  settle();
  EXPECT_EQ(events_, (Events{PortEvent::kClientReregister}));

  take_events();
  device_.events_.push_back({PortEvent::kFatal, 0});
  until([this] { return count("device_opened") == 2; });
  ASSERT_FALSE(events_.empty());
  EXPECT_EQ(events_[0], PortEvent::kFatal);
}

// MADs wake a sleeping management lcore.
TEST_F(UmadDevice, RingsWhenMadsCame) {
  Doorbell doorbell;
  doorbell.eventfd = eventfd(0, EFD_NONBLOCK);
  start({.device = "fake0", .doorbell = &doorbell, .now = {}});
  EXPECT_FALSE(port_->polled());
  until([this] { return port_->attr().state == PortState::kActive; });
  settle();
  eventfd_t rung = 0;
  eventfd_read(doorbell.eventfd, &rung);
  doorbell.arm();
  EXPECT_NE(eventfd_read(doorbell.eventfd, &rung), 0);
  fake_.arrive(arrived_from(1, fabric::MadBytes{}));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (eventfd_read(doorbell.eventfd, &rung) != 0)
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "nobody rang";
  EXPECT_TRUE(port_->pending());
  port_.reset();
  close(doorbell.eventfd);
}

// The queue of MADs that are not taken is bounded.
TEST_F(UmadDevice, CountsMadsThatFindTheQueueFull) {
  start({.device = "fake0", .max_queued = 4, .now = {}});
  until([this] { return port_->attr().state == PortState::kActive; });
  settle();
  for (int i = 0; i < 10; ++i) fake_.arrive(arrived_from(1, fabric::MadBytes{}));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!fake_.idle()) ASSERT_LT(std::chrono::steady_clock::now(), end);
  EXPECT_EQ(count("overflowed"), 6U);
}

// Messages about connections that the loop is too slow for are dropped, so that neither its memory
// grows nor answers of the subnet administrator wait behind them.
TEST_F(UmadDevice, P16_FloodOfConnectionRequestsIsBounded) {
  start({.device = "fake0", .max_queued = 4, .now = {}});
  until([this] { return port_->attr().state == PortState::kActive; });
  settle();
  mads_.clear();
  const auto arrive = [this](wire::MgmtClass mgmt_class, wire::Method method) {
    fabric::MadBytes mad{};
    mad[0] = std::byte{1};
    mad[1] = static_cast<std::byte>(mgmt_class);
    mad[3] = static_cast<std::byte>(method);
    fake_.arrive(arrived_from(1, mad));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!fake_.idle()) ASSERT_LT(std::chrono::steady_clock::now(), end);
    collect();
  };
  for (int i = 0; i < 10; ++i) arrive(wire::MgmtClass::kComMgt, wire::Method::kSend);
  EXPECT_EQ(count("overflowed"), 6U);
  arrive(wire::MgmtClass::kSubnAdm, wire::Method::kGetResp);
  EXPECT_EQ(count("overflowed"), 6U);
  while (auto mad = port_->receive()) mads_.push_back(std::move(*mad));
  ASSERT_EQ(mads_.size(), 5U);
  EXPECT_EQ(wire::read<wire::MadHdr>(mads_[4].bytes)->mgmt_class,
            static_cast<std::uint8_t>(wire::MgmtClass::kSubnAdm));
}

}  // namespace
}  // namespace ipoib::umad
