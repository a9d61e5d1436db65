// SPDX-License-Identifier: BSD-3-Clause
// Decisions about workers that spread their packets, from loads that are given as numbers.
#include "lib/mgmt/node/flow_spread.h"

#include <gtest/gtest.h>

namespace ipoib::mgmt {
namespace {

using Loads = std::vector<FlowSpread::Load>;

constexpr Duration kPeriod = std::chrono::seconds(5);

FlowSpread::Load load(double busy, double rate = 0) {
  return {.busy = busy, .rate = rate, .hangs = false, .relieved = false};
}
FlowSpread::Load hanging() {
  return {.busy = 1, .rate = 0, .hangs = true, .relieved = false};
}

class FlowSpreadTest : public testing::Test {
 protected:
  std::vector<FlowSpread::Change> period(const Loads& loads, bool allowed = true) {
    now_ += kPeriod;
    return spread_.end_period(loads, allowed, now_);
  }
  /// The workers that share the packets of the only worker that changes; none: no worker does.
  std::optional<std::uint64_t> change(const Loads& loads, unsigned worker = 0) {
    const auto changes = period(loads);
    if (changes.empty()) return std::nullopt;
    EXPECT_EQ(changes.size(), 1U);
    EXPECT_EQ(changes[0].worker, worker);
    reason_ = changes[0].reason;
    return changes[0].workers;
  }
  /// Worker 0 takes 100 us for each packet, and shares its packets with worker 1.
  void begin() {
    EXPECT_EQ(change({load(0.9, 9000), load(0.1)}), std::nullopt);
    EXPECT_EQ(change({load(0.9, 9000), load(0.1)}), 0b11U);
  }
  void keep() { EXPECT_EQ(change({load(0.9, 18000), load(0.6)}), std::nullopt); }
  /// Periods of the same load until worker 0 changes.
  unsigned periods_until_change(const Loads& loads) {
    for (unsigned n = 1; n < 2000; ++n)
      if (change(loads)) return n;
    return 0;
  }

  FlowSpread spread_;
  TimePoint now_{};
  std::string reason_;
};

TEST_F(FlowSpreadTest, P14_BeginsAfterTwoBusyPeriods) {
  EXPECT_EQ(change({load(0.81, 8100), load(0.1), load(0.2)}), std::nullopt);
  EXPECT_EQ(change({load(0.79, 7900), load(0.1), load(0.2)}), std::nullopt);
  EXPECT_EQ(change({load(0.81, 8100), load(0.1), load(0.2)}), std::nullopt);
  EXPECT_EQ(change({load(0.85, 8500), load(0.1), load(0.2)}), 0b111U);
  EXPECT_EQ(reason_, "it is 85 % busy, and a packet takes it 100000 ns");
  for (const unsigned worker : {0U, 1U, 2U}) EXPECT_TRUE(spread_.takes_part(worker));
}

TEST_F(FlowSpreadTest, P14_WaitsWhileNeighboursLeave) {
  FlowSpread::Load relieved = load(0.9, 9000);
  relieved.relieved = true;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(change({relieved, load(0.1)}), std::nullopt);
  EXPECT_EQ(change({load(0.9, 9000), load(0.1)}), std::nullopt);
  EXPECT_EQ(change({load(0.9, 9000), load(0.1)}), 0b11U);
}

TEST_F(FlowSpreadTest, P14_NeedsIdleWorkers) {
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(change({load(0.9, 9000), load(0.5), hanging()}), std::nullopt);
  EXPECT_EQ(change({load(0.9, 9000), load(0.49), hanging()}), 0b011U);
}

TEST_F(FlowSpreadTest, P14_AWorkerThatHangsDoesNotBegin) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(change({hanging(), load(0.1)}), std::nullopt);
}

TEST_F(FlowSpreadTest, P14_TakesTheIdlest) {
  const Loads loads{load(0.3), load(0.1), load(0.9, 9000), load(0.2), load(0.4), load(0.1)};
  EXPECT_EQ(change(loads, 2), std::nullopt);
  EXPECT_EQ(change(loads, 2), 0b101110U);
  EXPECT_FALSE(spread_.takes_part(0));
}

// Each packet still takes worker 0 most of the time that it took before.
TEST_F(FlowSpreadTest, P14_EndsWithoutGainAndWaitsLonger) {
  begin();
  EXPECT_EQ(change({load(0.9, 10500), load(0.3)}), 0U) << "14 % less";
  EXPECT_EQ(reason_, "a packet takes it 85714 ns, and took 100000 ns before");
  EXPECT_FALSE(spread_.takes_part(0));
  EXPECT_FALSE(spread_.takes_part(1));
  const Loads same{load(0.9, 9000), load(0.1)};
  for (const unsigned minutes : {5U, 10U, 20U, 40U, 60U, 60U}) {
    EXPECT_EQ(periods_until_change(same), minutes * 12);
    EXPECT_EQ(change(same), 0U);
  }
}

TEST_F(FlowSpreadTest, P14_GoesOnWithGain) {
  begin();
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(change({load(0.9, 10700), load(0.3)}), std::nullopt) << "16 % less";
  // In short bursts a packet takes longer.
  for (int i = 0; i < 5; ++i) EXPECT_EQ(change({load(0.49, 5100), load(0.3)}), std::nullopt);
}

TEST_F(FlowSpreadTest, P14_EndsWhenTheGainEnds) {
  begin();
  keep();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(change({load(0.9, 9000), load(0.3)}), std::nullopt) << "one period says little";
    keep();
  }
  EXPECT_EQ(change({load(0.9, 9000), load(0.3)}), std::nullopt);
  EXPECT_EQ(change({load(0.9, 9000), load(0.3)}), 0U);
  EXPECT_EQ(periods_until_change({load(0.9, 9000), load(0.1)}), 60U);
}

// It sends for others, or reads their frames: sharing its few packets cannot help.
TEST_F(FlowSpreadTest, P14_AWorkerThatIsBusyWithOtherThingsDoesNotBegin) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(change({load(0.95, 900), load(0.1)}), std::nullopt);
}

TEST_F(FlowSpreadTest, P14_GainEndsTheLongPauses) {
  begin();
  const Loads same{load(0.9, 9000), load(0.1)};
  EXPECT_EQ(change(same), 0U);
  EXPECT_EQ(periods_until_change(same), 60U);
  keep();
  EXPECT_EQ(change({load(0.1, 2000), load(0.1)}), 0U);
  EXPECT_EQ(periods_until_change(same), 2U);
  EXPECT_EQ(change(same), 0U);
  EXPECT_EQ(periods_until_change(same), 60U);
}

TEST_F(FlowSpreadTest, P14_EndsWhenTheWorkIsLess) {
  begin();
  keep();
  EXPECT_EQ(change({load(0.2, 5100), load(0.2)}), std::nullopt);
  EXPECT_EQ(change({load(0.2, 4900), load(0.2)}), 0U);
  EXPECT_EQ(reason_, "its packets would take it 49 % of its time");
  begin();
  EXPECT_EQ(change({hanging(), load(0)}), std::nullopt) << "nothing is known";
  EXPECT_EQ(change({load(0, 0), load(0)}), 0U) << "nothing was received to compare";
  EXPECT_EQ(periods_until_change({load(0.9, 9000), load(0.1)}), 60U) << "else it would alternate";
}

// A worker that helps may be full, as long as the other one could not do the work alone.
TEST_F(FlowSpreadTest, P14_EndsWhenAWorkerThatHelpsIsNeededLessThanItHasWork) {
  begin();
  EXPECT_EQ(change({load(0.6, 14000), load(0.92)}), std::nullopt) << "a large flow went there";
  EXPECT_EQ(change({load(1, 18000), load(1)}), std::nullopt);
  EXPECT_EQ(change({load(0.6, 9400), load(0.89)}), std::nullopt);
  EXPECT_EQ(change({load(0.6, 9600), load(0.91)}), std::nullopt);
  EXPECT_EQ(change({load(0.6, 9400), load(0.91)}), 0U);
  EXPECT_EQ(reason_, "worker 1 is 91 % busy, and its packets would take it 94 %");
  EXPECT_EQ(periods_until_change({load(0.9, 9000), load(0.1)}), 60U) << "else it would alternate";
}

TEST_F(FlowSpreadTest, P14_WorkersThatHangAreLeftOut) {
  const Loads loads{load(0.9, 9000), load(0.1), load(0.1)};
  EXPECT_EQ(change(loads), std::nullopt);
  EXPECT_EQ(change(loads), 0b111U);
  EXPECT_EQ(change({load(0.9, 18000), hanging(), load(0.3)}), 0b101U);
  EXPECT_EQ(reason_, "worker 1 hangs");
  EXPECT_EQ(change({load(0.9, 18000), hanging(), load(0.3)}), std::nullopt);
  EXPECT_EQ(change({load(0.9, 18000), hanging(), hanging()}), 0U);
}

TEST_F(FlowSpreadTest, P14_EndsWhenItIsNotAllowed) {
  const Loads loads{load(0.9, 9000), load(0.1)};
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(period(loads, false).empty());
  EXPECT_EQ(change(loads), std::nullopt) << "the first period of routing, or a part of it";
  EXPECT_EQ(change(loads), 0b11U);
  const auto changes = period({load(0.9, 18000), load(0.4)}, false);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].workers, 0U);
}

// A worker has a part in one spread only, and one begins at a time.
TEST_F(FlowSpreadTest, P14_SpreadsAreApart) {
  const Loads loads{load(0.9, 9000), load(0.95, 9500), load(0.1), load(0.1), load(0.2)};
  EXPECT_EQ(change(loads, 1), std::nullopt);
  EXPECT_EQ(change(loads, 1), 0b11110U) << "the busier one";
  const Loads later{load(0.9, 9000), load(0.9, 19000), load(0.1), load(0.1), load(0.85, 1000)};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(change(later), std::nullopt) << "no worker is left";
}

TEST_F(FlowSpreadTest, P14_WorkersWithoutABitTakeNoPart) {
  Loads loads(66, load(0.6));
  loads[65] = load(0.95, 9000);
  loads[64] = load(0.1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(change(loads), std::nullopt);
  loads[0] = load(0.9, 9000);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(change(loads), std::nullopt);
  loads[63] = load(0.1);
  EXPECT_EQ(change(loads), 1U | std::uint64_t{1} << 63);
}

}  // namespace
}  // namespace ipoib::mgmt
