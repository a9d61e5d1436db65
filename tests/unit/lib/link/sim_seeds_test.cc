// SPDX-License-Identifier: BSD-3-Clause
// Many simulated runs, each from its seed (tests/support/seeds.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <tuple>

#include "tests/support/seeds.h"
#include "tests/unit/lib/link/sim_run.h"

namespace ipoib::link {
namespace {

void run_seeds(unsigned kinds, std::uint64_t count) {
  test::for_seeds(count, [&](std::uint64_t seed) {
    SimRun run{seed, kinds};
    run.run();
    for (const auto& violation : run.violations()) ADD_FAILURE() << violation;
  });
}

TEST(Simulation, U33_AllFaultsTogether) {
  run_seeds(SimKinds::kAll, 750);
}

TEST(Simulation, U08_UpWithinTheBackOffOnceTheAdministratorIsReached) {
  run_seeds(SimKinds::kWire | SimKinds::kAdministrator | SimKinds::kIslands | SimKinds::kPartition |
                SimKinds::kStop,
            50);
}

TEST(Simulation, U20_PathsFollowChangedLids) {
  run_seeds(SimKinds::kPorts | SimKinds::kUnicast | SimKinds::kAdministrator, 40);
}

TEST(Simulation, U26_EntriesOfRestartedNodesHeal) {
  run_seeds(SimKinds::kCrash | SimKinds::kUnicast | SimKinds::kWire, 40);
}

TEST(Simulation, U31_SendersFollowGroupsThatComeAndGo) {
  run_seeds(SimKinds::kGroups | SimKinds::kWire | SimKinds::kAdministrator, 40);
}

TEST(Simulation, U30_NoRequestStormAcrossIslands) {
  run_seeds(SimKinds::kIslands | SimKinds::kGroups | SimKinds::kUnicast, 40);
}

TEST(Simulation, U35_AnswersThatAreLateDoubledOrWrong) {
  run_seeds(SimKinds::kAnswers | SimKinds::kGroups | SimKinds::kUnicast | SimKinds::kPorts, 40);
}

/// The properties detect violations that the test causes on purpose.
TEST(Simulation, PropertiesAreNotBlind) {
  const auto settled = [] {
    auto run = std::make_unique<SimRun>(3, SimKinds::kAll & ~SimKinds::kCrash);
    run->begin();
    run->suffer();
    run->heal();
    run->settle();
    run->check();
    EXPECT_TRUE(run->violations().empty());
    return run;
  };
  auto run = settled();
  run->fabric().restart_administrator();
  run->check_neighbours();
  run->check_members();
  EXPECT_FALSE(run->violations().empty()) << "memberships that the administrator does not know";

  run = settled();
  run->fabric().nodes[1]->crash_and_restart();
  run->check_neighbours();
  EXPECT_FALSE(run->violations().empty()) << "entries of another queue pair";

  run = settled();
  run->fabric().nodes[1]->set_lid(999);
  run->check_neighbours();
  EXPECT_FALSE(run->violations().empty()) << "entries of another LID";

  run = settled();
  run->fabric().nodes[1]->set_port(false);
  run->fabric().nodes[1]->crash_and_restart();
  run->check_up();
  EXPECT_FALSE(run->violations().empty()) << "a link that does not come up";

  run = settled();
  run->fabric().nodes[1]->actions->qkey = 1;
  run->check_unicast();
  EXPECT_FALSE(run->violations().empty()) << "a node that hears nobody";

  run = settled();
  static_cast<void>(run->fabric().nodes[0]->link->join_group(ip("239.9.9.9"), run->fabric().now));
  run->end();
  EXPECT_FALSE(run->violations().empty()) << "a group that is still listened to after the end";
}

TEST(Simulation, TheSameSeedGivesTheSameLife) {
  const auto life = [](std::uint64_t seed) {
    SimRun run{seed};
    run.run();
    return std::tuple{run.fabric().now, run.fabric().mads, run.fabric().broadcasts};
  };
  EXPECT_EQ(life(42), life(42));
  EXPECT_NE(life(42), life(43));
}

}  // namespace
}  // namespace ipoib::link
