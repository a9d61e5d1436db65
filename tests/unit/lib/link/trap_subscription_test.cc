// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/trap_subscription.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "lib/wire/notice.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

/// Two links of one port, and the requests of their client to the SA.
struct TrapSubscriptionTest : testing::Test {
  TrapSubscriptionTest() { client.set_sm(1, 0, now); }

  void run(Duration d) {
    for (const TimePoint end = now + d; now < end; now += 10ms) {
      client.tick(now);
      a.tick(now);
      b.tick(now);
    }
  }
  /// Sends the SA's positive answer to each request.
  void answer_all() {
    for (wire::SaMad mad : std::exchange(asked, {})) {
      mad.hdr.mad.method = static_cast<std::uint8_t>(wire::Method::kGetResp);
      fabric::ReceivedMad received{{1, 0, 1, wire::kDefaultPkey}, {}};
      const auto bytes = wire::bytes_of(mad);
      std::copy(bytes.begin(), bytes.end(), received.bytes.begin());
      client.on_mad(received, now);
    }
    client.tick(now);
  }
  [[nodiscard]] std::size_t asked_to(bool subscribe) const {
    std::size_t n = 0;
    for (const auto& mad : asked)
      n += (wire::read<wire::InformInfo>(mad.data)->subscribe != 0) == subscribe;
    return n;
  }

  TimePoint now{100s};
  std::vector<wire::SaMad> asked;
  sa::Client client{
      [this](const fabric::MadAddress&, std::span<const std::byte, wire::kMadLen> mad) -> Status {
        asked.push_back(*wire::read<wire::SaMad>(mad));
        return {};
      },
      {},
      1};
  LinkConfig config;
  LinkCounters counters;
  TrapSubscription a{config, client, counters, 1, [](TimePoint) {}};
  TrapSubscription b{config, client, counters, 2, [](TimePoint) {}};
};

TEST_F(TrapSubscriptionTest, U31_EndedByTheLastLinkOfThePortThatNeedsIt) {
  a.renew(now);
  b.renew(now);
  run(100ms);
  EXPECT_EQ(asked_to(true), 4U);  // each link subscribes to creation and deletion
  answer_all();

  a.end(now);
  run(100ms);
  EXPECT_TRUE(asked.empty());
  EXPECT_TRUE(a.ended());

  b.end(now);
  run(100ms);
  EXPECT_EQ(asked_to(false), 2U);
  EXPECT_FALSE(b.ended());
  answer_all();
  EXPECT_TRUE(b.ended());
  EXPECT_FALSE(b.next_deadline());
  EXPECT_EQ(counters.subscriptions_failed, 0U);
}

// An administrator that starts again at its LID counts its transactions from the start.
TEST_F(TrapSubscriptionTest, U31_ReportOfARestartedSaIsHeardInSpiteOfItsTransactionId) {
  unsigned heard = 0;
  client.set_report_handler([&](const wire::Notice&, TimePoint) { ++heard; });
  const auto report = [&] {
    wire::SaMad mad{};
    mad.hdr.mad.base_version = wire::kMadBaseVersion;
    mad.hdr.mad.mgmt_class = static_cast<std::uint8_t>(wire::MgmtClass::kSubnAdm);
    mad.hdr.mad.class_version = wire::kSaClassVersion;
    mad.hdr.mad.method = static_cast<std::uint8_t>(wire::Method::kReport);
    mad.hdr.mad.tid.set(1);
    mad.hdr.mad.attr_id.set(static_cast<std::uint16_t>(wire::Attr::kNotice));
    const auto mgid = wire::Gid::of(0xff12'401b'ffff'0000, 0x0101'0203);
    const auto notice = wire::make_notice(wire::Trap::kGroupCreated, mgid, 1, {});
    EXPECT_TRUE(wire::write(std::span{mad.data}, 0, notice));
    fabric::ReceivedMad received{{1, 0, 1, wire::kDefaultPkey}, {}};
    EXPECT_TRUE(wire::write(std::span{received.bytes}, 0, mad));
    client.on_mad(received, now);
    client.tick(now);
  };
  a.renew(now);
  run(100ms);
  answer_all();
  report();
  report();
  EXPECT_EQ(heard, 1U);
  a.renew(now);  // After a client reregistration.
  run(100ms);
  answer_all();
  report();
  EXPECT_EQ(heard, 2U);
}

TEST_F(TrapSubscriptionTest, U31_NothingIsEndedThatNeverBegan) {
  a.end(now);
  run(100ms);
  EXPECT_TRUE(asked.empty());
  EXPECT_TRUE(a.ended());
}

}  // namespace
}  // namespace ipoib::link
