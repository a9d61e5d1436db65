// SPDX-License-Identifier: BSD-3-Clause
// Messages that are repeated until they are answered: their order, their times, and the work of a turn.
#include "lib/sa/embedded/retransmitter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

namespace ipoib::sa {
namespace {

using namespace std::chrono_literals;

class RetransmitterTest : public testing::Test {
 protected:
  using Sent = std::vector<std::pair<int, unsigned>>;
  /// One tick.
  void tick() {
    sent.clear();
    given_up.clear();
    r.tick(
        now, [this](int key, unsigned earlier) { sent.emplace_back(key, earlier); },
        [this](int key) { given_up.push_back(key); });
  }
  TimePoint now{100s};
  Retransmitter<int> r{1s, 1, 256};
  Sent sent;
  std::vector<int> given_up;
};

TEST_F(RetransmitterTest, RepeatsUntilAnsweredOrGivenUp) {
  r.add(7, now);
  r.add(3, now);
  EXPECT_EQ(r.next_deadline(), now);
  tick();
  EXPECT_EQ(sent, (Sent{{7, 0}, {3, 0}})) << "in the order of their turns";
  EXPECT_EQ(r.next_deadline(), now + 1s);
  r.remove(3, now);
  EXPECT_FALSE(r.in_flight(3));
  now += 1s;
  tick();
  EXPECT_EQ(sent, (Sent{{7, 1}}));
  now += 1s;
  tick();
  EXPECT_EQ(given_up, std::vector{7});
  EXPECT_FALSE(r.next_deadline());
  EXPECT_EQ(r.outstanding(), 0U);
}

TEST_F(RetransmitterTest, RemovedMessagesLoseTheirTurn) {
  r.add(1, now);
  r.add(2, now);
  r.remove(1, now);
  r.add(1, now);
  tick();
  EXPECT_EQ(sent, (Sent{{2, 0}, {1, 0}}));
}

/// A thousand messages: a turn sends some of them, the next turns follow at once, and the limit of those
/// in flight holds.
TEST_F(RetransmitterTest, P16_ATurnHandlesABoundedNumber) {
  constexpr unsigned kSteps = Retransmitter<int>::kStepsPerTick;
  for (int key = 0; key < 1000; ++key) r.add(key, now);
  for (unsigned n = kSteps; n <= 256; n += kSteps) {
    EXPECT_LE(r.next_deadline(), now);
    tick();
    EXPECT_EQ(sent.size(), kSteps);
    EXPECT_EQ(r.outstanding(), n);
  }
  EXPECT_EQ(r.next_deadline(), now + 1s);
  now += 1s;
  for (int turns = 0; turns < 4; ++turns) {
    tick();
    ASSERT_EQ(sent.size(), kSteps);
    EXPECT_EQ(sent.front().second, 1U);
  }
  EXPECT_EQ(r.next_deadline(), now + 1s);
  now += 1s;
  for (int turns = 0; turns < 4; ++turns) {
    EXPECT_LE(r.next_deadline(), now);
    tick();
    EXPECT_EQ(given_up.size() + sent.size(), kSteps);
  }
}

}  // namespace
}  // namespace ipoib::sa
