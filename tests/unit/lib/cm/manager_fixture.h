// SPDX-License-Identifier: BSD-3-Clause
// Two managers. The tests carry the MADs between them, or lose them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <string>

#include "lib/cm/manager.h"
#include "lib/wire/ipoib_cm.h"

namespace ipoib::cm {

using namespace std::chrono_literals;
using wire::CmAttr;
using wire::RejReason;

inline constexpr std::uint64_t kService = wire::ipoib_service_id(wire::ServiceIdForm::kIetf, 0x49);
inline constexpr std::uint64_t kGuid[] = {0x0002c903000a0b00, 0x0002c903000a0c00};
inline constexpr std::uint16_t kLid[] = {3, 4};

inline std::vector<std::byte> said_by(std::uint32_t ud_qpn) {
  const auto data = wire::IpoibCmPrivate::of(ud_qpn, 65'524);
  const auto octets = wire::bytes_of(data);
  return {octets.begin(), octets.end()};
}

struct Sent {
  fabric::MadAddress to;
  wire::CmMad mad;
};

/// One end: a manager, a consumer that records its callbacks, and the MADs that wait to be carried.
struct End final : Consumer {
  std::uint16_t lid;
  std::deque<Sent> sent;
  TimePoint& now;
  Manager manager;
  std::vector<std::string> told;
  Handle handle = kNoHandle;
  wire::CmReq req{};
  wire::CmRep rep{};
  wire::CmLap lap{};
  wire::ApStatus alternate_status = wire::ApStatus::kNotSupported;
  Closed closed{};
  std::vector<Handle> requests;  ///< Handles of all requests.
  std::size_t asked = 0;         ///< Calls of admit() that may query the SA.
  /// The consumer's word on requests from this address; empty: all are accepted.
  std::function<Admission(const fabric::MadAddress& from)> admits;

  End(std::size_t i, TimePoint& time, ManagerConfig config = {}, std::uint64_t seed = 0)
      : lid{kLid[i]},
        now{time},
        manager{
            [this](const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> octets) {
              sent.push_back({to, wire::read<wire::CmMad>(octets).value()});
              return Status{};
            },
            with_guid(config, kGuid[i]), seed + i + 1} {
    manager.set_port({wire::Gid::of(wire::kDefaultGidPrefix, kGuid[i] + 1), lid, 0});
  }
  static ManagerConfig with_guid(ManagerConfig config, std::uint64_t guid) {
    config.ca_guid = guid;
    return config;
  }

  Admission admit(const wire::CmReq&, const fabric::MadAddress& from,
                  std::optional<TimePoint> waits_since, TimePoint) override {
    if (waits_since) ++asked;
    return admits ? admits(from) : Admission{};
  }
  void on_request(Handle h, const wire::CmReq& r, const fabric::MadAddress&, TimePoint) override {
    told.emplace_back("request");
    handle = h;
    req = r;
    requests.push_back(h);
  }
  void on_reply(Handle h, const wire::CmRep& r, TimePoint) override {
    told.emplace_back("reply");
    EXPECT_EQ(h, handle);
    rep = r;
  }
  void on_established(Handle, TimePoint) override { told.emplace_back("established"); }
  void on_closed(Handle, const Closed& c, TimePoint) override {
    told.emplace_back("closed: " + std::string{to_string(c.reason)});
    closed = c;
  }
  void on_released(Handle, TimePoint) override { told.emplace_back("released"); }
  wire::ApStatus on_alternate(Handle h, const wire::CmLap& said, TimePoint) override {
    told.emplace_back("alternate");
    EXPECT_EQ(h, handle);
    lap = said;
    return alternate_status;
  }
  void on_alternate_answer(Handle, std::optional<wire::ApStatus> status, TimePoint) override {
    told.push_back("answer: " + (status ? std::to_string(static_cast<int>(*status)) : "none"));
  }

  bool feed(const wire::CmMad& mad, std::uint16_t from, const wire::Gid& gid = {}) {
    fabric::ReceivedMad received;
    received.from.lid = from;
    received.from.gid = gid;
    std::memcpy(received.bytes.data(), &mad, sizeof(mad));
    return manager.on_mad(received, now);
  }
  [[nodiscard]] State state() const {
    const Connection* c = manager.find(handle);
    return c == nullptr ? State::kTimeWait : c->state;
  }
  /// Returns the kinds of the waiting MADs, for example "REQ RTU".
  [[nodiscard]] std::string kinds() const {
    std::string all;
    for (const Sent& s : sent) {
      if (!all.empty()) all += ' ';
      all += to_string(s.mad.attr());
    }
    return all;
  }
  std::vector<std::string> news() { return std::exchange(told, {}); }
  [[nodiscard]] std::uint64_t count(CmAttr attr) const {
    return manager.counters().sent[wire::index_of(attr)];
  }
};
using News = std::vector<std::string>;

class ManagerFixture : public testing::Test {
 protected:
  TimePoint now{10s};
  End a{0, now}, b{1, now};

  void SetUp() override { ASSERT_TRUE(b.manager.listen(kService, b, said_by(0x49))); }

  static ConnectParams params() {
    ConnectParams p;
    p.to = {.lid = kLid[1], .sl = 2, .pkey = 0x8001};
    p.service_id = kService;
    p.qpn = 0x408;
    p.starting_psn = 0x123456;
    p.srq = true;
    p.retry_count = 5;
    p.rnr_retry = 6;
    p.primary.local_lid.set(kLid[0]);
    p.primary.remote_lid.set(kLid[1]);
    p.primary.local_gid = wire::Gid::of(wire::kDefaultGidPrefix, kGuid[0] + 1);
    p.primary.remote_gid = wire::Gid::of(wire::kDefaultGidPrefix, kGuid[1] + 1);
    p.primary.set_subnet_local(true);
    p.primary.set_ack_timeout(17);
    p.lifetime = 16;
    p.remote_timeout = 18;
    p.local_timeout = 17;
    p.max_retries = 3;
    p.private_data = said_by(0x48);
    return p;
  }
  static AcceptParams answer() {
    AcceptParams p;
    p.qpn = 0x507;
    p.starting_psn = 0x654321;
    p.private_data = said_by(0x49);
    return p;
  }
  void connect() { a.handle = a.manager.connect(params(), a, now).value(); }
  /// Carries the waiting MADs, and those that they cause.
  void carry() {
    while (!a.sent.empty() || !b.sent.empty()) {
      for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
        if (from->sent.empty()) continue;
        const Sent s = from->sent.front();
        from->sent.pop_front();
        EXPECT_EQ(s.to.lid, to->lid);
        EXPECT_TRUE(to->feed(s.mad, from->lid));
      }
    }
  }
  /// Carries one MAD and returns it.
  wire::CmMad pass(End& from, End& to) {
    const Sent s = from.sent.front();
    from.sent.pop_front();
    to.feed(s.mad, from.lid);
    return s.mad;
  }
  void establish() {
    connect();
    carry();
    ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
    carry();
    ASSERT_TRUE(a.manager.confirm(a.handle, now));
    carry();
    ASSERT_EQ(a.state(), State::kEstablished);
    ASSERT_EQ(b.state(), State::kEstablished);
    a.told.clear();
    b.told.clear();
  }
  /// Advances the time to the next deadline of an end.
  void next(End& end) {
    now = end.manager.next_deadline().value();
    end.manager.tick(now);
  }
  void run_out(End& end) {
    while (end.manager.next_deadline()) next(end);
  }
  static wire::CmRej rej_of(const Sent& s) {
    EXPECT_EQ(s.mad.attr(), CmAttr::kRej);
    return wire::cm_message<wire::CmRej>(s.mad);
  }
  static bool same(const wire::CmMad& x, const wire::CmMad& y) {
    return std::ranges::equal(wire::bytes_of(x), wire::bytes_of(y));
  }
};

/// The suite to which the cases of four files belong.
using CmManager = ManagerFixture;

}  // namespace ipoib::cm
