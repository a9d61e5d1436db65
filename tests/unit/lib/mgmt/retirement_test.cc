// SPDX-License-Identifier: BSD-3-Clause
// Numbers and pointers that workers use as references are used again only after no packet or
// message refers to their former meaning.
#include <random>
#include <set>

#include "lib/mgmt/worker/worker_retirement.h"
#include "tests/unit/lib/mgmt/retirement_fixture.h"

namespace ipoib::mgmt {
namespace {

using RetirementTest = RetirementFixture;

// The ring between two workers holds more packets than a worker takes in one loop. Although all
// workers have been quiescent since the handle was freed, packets with its number still wait in the
// ring, and leave with it.
TEST_F(RetirementTest, HandleOfPacketsThatWaitBetweenWorkersStillSendsThem) {
  ASSERT_TRUE(learn(2));
  run_once();
  step_all();
  for (int i = 0; i < 3; ++i) {
    receive_for(2, fwd::kMaxBurst);
    step(0);
  }
  ASSERT_EQ(waiting(0, 1), 3U * fwd::kMaxBurst);
  const fabric::AhIndex before = known(2).ah;
  forget(2);
  run_once();
  step_all();
  run_once();
  ASSERT_EQ(waiting(0, 1), 2U * fwd::kMaxBurst);
  ASSERT_TRUE(learn(4));
  EXPECT_NE(known(4).ah, before);
  for (int i = 0; i < 4; ++i) {
    run_once();
    step_all();
  }
  EXPECT_EQ(waiting(0, 1), 0U);
  EXPECT_EQ(arrived, 3U * fwd::kMaxBurst);
  EXPECT_EQ(lost, 0U);
  run_once();
  ASSERT_TRUE(learn(6));
  EXPECT_EQ(known(6).ah, before) << "it comes back";
}

// A worker applies messages before it takes packets that other workers handed over.
TEST_F(RetirementTest, NeighbourOfPacketsThatWaitBetweenWorkersIsNotUsedAgain) {
  ASSERT_TRUE(learn(2, true));
  run_once();
  step_all();
  receive_for(2, 3);
  step(0);
  ASSERT_EQ(waiting(0, 1), 3U);
  const table::NeighbourIndex before = known(2).number;
  forget(2);
  ASSERT_TRUE(learn(4, true));
  EXPECT_NE(known(4).number, before);
  run_once();
  step_all();
  EXPECT_EQ(arrived, 0U);
  EXPECT_EQ(workers.all()[1].worker->counters(fwd::test::kIb0).drops.get(Drop::kNeighbourGone), 3U);
}

// Packets that management itself sends wait behind messages, of which a worker takes 32 per loop.
TEST_F(RetirementTest, OwnPacketsBehindManyMessagesAreWaitedFor) {
  ASSERT_TRUE(learn(2));
  for (int i = 0; i < 100; ++i) send_own(2);
  const fabric::AhIndex before = known(2).ah;
  forget(2);
  run_once();
  for (int i = 0; i < 3; ++i) {
    step_all();
    run_once();
    ASSERT_TRUE(learn(4));
    EXPECT_NE(known(4).ah, before);
    forget(4);
  }
  step_all();
  EXPECT_EQ(arrived, 100U);
  EXPECT_EQ(lost, 0U);
}

TEST_F(RetirementTest, NumbersComeBackInBoundedSteps) {
  for (unsigned p = 0; p < kNumbers; ++p) ASSERT_TRUE(learn(p, p % 3 == 0));
  run_once();
  step_all();
  std::set<table::NeighbourIndex> numbers;
  for (unsigned p = 0; p < kNumbers; ++p) {
    numbers.insert(known(p).number);
    forget(p);
  }
  EXPECT_EQ(directory->in_use(), 0U);
  EXPECT_FALSE(learn(20));
  for (int i = 0; i < 2; ++i) {
    run_once();
    step_all();
  }
  run_once();
  for (unsigned p = 0; p < kNumbers; ++p) {
    ASSERT_TRUE(learn(p));
    EXPECT_EQ(numbers.count(known(p).number), 1U);
  }
}

TEST_F(RetirementTest, WorkerThatHangsOnlyDelaysReuse) {
  unsigned learned = 0;
  for (; learned <= kNumbers && learn(2); ++learned) {
    forget(2);
    run_once();
    step(0);
    step(1);
  }
  EXPECT_EQ(learned, kNumbers);
  const auto refused = directory->allocate_index();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kNoResources);
  EXPECT_EQ(refused.error().what, "all 12 neighbour entries are in use or not yet reclaimed (12)");
  for (int i = 0; i < 4; ++i) {
    run_once();
    step_all();
  }
  run_once();
  EXPECT_TRUE(learn(2));
}

// All actions occur in random order, from seeds; sometimes a worker hangs for a while.
TEST_F(RetirementTest, NoPacketReachesAPeerThatItWasNotSentTo) {
  unsigned refused = 0;
  for (unsigned seed = 1; seed <= 150 && !HasFailure(); ++seed) {
    std::mt19937 random{seed};
    const auto below = [&random](unsigned n) { return static_cast<unsigned>(random() % n); };
    unsigned hangs = kWorkers;
    for (int action = 0; action < 400 && !HasFatalFailure(); ++action) {
      const unsigned peer = below(kPeers);
      switch (below(12)) {
        case 0:
        case 1:
          if (!knows(peer) && !learn(peer, below(2) == 0)) ++refused;
          break;
        case 2:
        case 3:
          if (knows(peer)) forget(peer);
          break;
        case 4:
        case 5: receive_for(peer, 1 + below(40)); break;
        case 6: receive_for(peer, 1 + below(40), fwd::test::kIb0); break;
        case 7:
          if (knows(peer)) send_own(peer);
          break;
        case 8: run_once(); break;
        case 9: hangs = below(8) == 0 ? below(kWorkers) : kWorkers; break;
        default:
          if (const unsigned worker = below(kWorkers); worker != hangs) step(worker);
      }
    }
    for (unsigned p = 0; p < kPeers; ++p)
      if (knows(p)) forget(p);
    for (int i = 0; i < 40; ++i) {
      run_once();
      step_all();
    }
    run_once();
    for (unsigned p = 0; p < kNumbers; ++p) ASSERT_TRUE(learn(p)) << "seed " << seed;
    for (unsigned p = 0; p < kNumbers; ++p) forget(p);
  }
  EXPECT_GT(arrived, 10'000U);
  EXPECT_EQ(lost, 0U);
  EXPECT_GT(refused, 100U);
}

}  // namespace
}  // namespace ipoib::mgmt
