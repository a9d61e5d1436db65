// SPDX-License-Identifier: BSD-3-Clause
// A UmadPort on a fake device, with a clock that the test advances.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "drivers/umad/umad_port.h"
#include "tests/unit/drivers/umad/fake_umad.h"

namespace ipoib::umad {

class FakeDeviceEvents final : public DeviceEvents {
 public:
  void open(const std::string& device) override { opened_ = device; }
  void close() override { opened_.clear(); }
  std::optional<DeviceEvent> next() override {
    if (events_.empty()) return std::nullopt;
    const DeviceEvent first = events_.front();
    events_.pop_front();
    return first;
  }

  std::string opened_;
  std::deque<DeviceEvent> events_;
};

class UmadFixture : public testing::Test {
 protected:
  using Events = std::vector<fabric::PortEvent>;

  /// Opens the device. `fake_` decides beforehand if that succeeds.
  void start(UmadConfig config = {.device = "fake0", .now = {}}) {
    config.first_retry = std::chrono::milliseconds(1);
    config.max_retry = std::chrono::milliseconds(4);
    config.now = [this] { return now_; };
    port_ = UmadPort::create(std::move(config), std::move(owned_), std::move(owned_events_));
  }
  void start_active() {
    start();
    until([this] { return port_->attr().state == fabric::PortState::kActive; });
    settle();
    events_.clear();
  }

  void collect() {
    while (const auto event = port_->next_event()) events_.push_back(*event);
  }
  /// Waits in real time, because a thread is involved. Returns as soon as the condition holds.
  template <class Condition>
  void until(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    for (collect(); !condition(); collect()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << port_->problem();
      std::this_thread::yield();
    }
  }
  /// Waits until all MADs that arrived are taken and handled. The order of the two questions
  /// matters: MADs that the thread took before it waits are in the port's queue.
  void settle() {
    until([this] {
      while (auto mad = port_->receive()) mads_.push_back(std::move(*mad));
      return fake_.idle() && !port_->pending();
    });
    collect();  // Events of the last MAD.
  }
  /// Advances the clock in steps of the management lcore's loop.
  void pass(Duration duration) {
    constexpr Duration kStep = std::chrono::milliseconds(50);
    for (const TimePoint end = now_ + duration; now_ < end; now_ += kStep) settle();
    settle();
  }
  [[nodiscard]] std::uint64_t count(std::string_view name) const {
    for (const auto& [key, value] : port_->counters())
      if (key == name) return value;
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }
  Events take_events() { return std::exchange(events_, {}); }

  TimePoint now_{std::chrono::seconds(1000)};
  std::unique_ptr<FakeUmad> owned_ = std::make_unique<FakeUmad>();
  std::unique_ptr<FakeDeviceEvents> owned_events_ = std::make_unique<FakeDeviceEvents>();
  FakeUmad& fake_ = *owned_;
  FakeDeviceEvents& device_ = *owned_events_;
  std::unique_ptr<UmadPort> port_;
  Events events_;
  std::vector<fabric::ReceivedMad> mads_;
};

}  // namespace ipoib::umad
