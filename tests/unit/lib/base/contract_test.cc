// SPDX-License-Identifier: BSD-3-Clause
#include "lib/base/contract.h"

#include <gtest/gtest.h>

#include <thread>
#include <type_traits>

#include "tests/support/contract_checks.h"

namespace ipoib {
namespace {

void take_three(int n) {
  expects(n == 3, "n is three");
}

int make_three(int n) {
  ensures([&] { return n == 3; }, "three is made");
  return n;
}

TEST(ContractTest, KeptContractsPassEverywhere) {
  take_three(3);
  EXPECT_EQ(make_three(3), 3);
  const ActingAs role{LcoreRole::management()};
  expects_management();
}

// Builds that do not check contracts do not call the condition, so it costs nothing there.
TEST(ContractTest, ConditionsAreWorkedOutOnlyWhereTheyAreChecked) {
  int calls = 0;
  expects(
      [&] {
        ++calls;
        return true;
      },
      "the condition holds");
  EXPECT_EQ(calls, kContractsChecked ? 1 : 0);
}

TEST(ContractTest, ARoleEndsWithItsScopeAndIsTheThreadsOwn) {
  if (!kContractsChecked) {
    const ActingAs role{LcoreRole::worker_number(1)};
    EXPECT_EQ(lcore_role.kind, LcoreRole::Kind::kAny);
    return;
  }
  {
    const ActingAs outer{LcoreRole::management()};
    {
      const ActingAs inner{LcoreRole::worker_number(2)};
      EXPECT_EQ(lcore_role.kind, LcoreRole::Kind::kWorker);
      EXPECT_EQ(lcore_role.worker, 2U);
    }
    EXPECT_EQ(lcore_role.kind, LcoreRole::Kind::kManagement);
    std::thread{[] { EXPECT_EQ(lcore_role.kind, LcoreRole::Kind::kAny); }}.join();
  }
  EXPECT_EQ(lcore_role.kind, LcoreRole::Kind::kAny);
}

// A broken contract ends the process with a message of file, line and sentence. Builds that do not
// check contracts contain no code for it.
TEST(ContractDeathTest, BrokenContractsEndTheProcess) {
  expect_broken([] { take_three(4); }, "contract_test.cc:[0-9]+: the caller broke.*n is three");
  expect_broken([] { make_three(2); }, "contract_test.cc:[0-9]+: a function broke.*three is made");
}

TEST(ContractDeathTest, TheWrongLcoreEndsTheProcess) {
  expect_broken(
      [] {
        const ActingAs role{LcoreRole::worker_number(1)};
        expects_management();
      },
      "contract_test.cc:[0-9]+: wrong lcore: a worker called");
  expect_broken(
      [] {
        const ActingAs role{LcoreRole::management()};
        expects_worker();
      },
      "contract_test.cc:[0-9]+: wrong lcore: the management lcore called");
}

void call_as(const LcoreRole& caller, const OneLcore& owner) {
  const ActingAs role{caller};
  owner.expects_owner();
}

TEST(ContractTest, WhoComesFirstOwnsWhatBelongsToOneLcore) {
  const OneLcore first;
  first.expects_owner();
  call_as(LcoreRole::worker_number(0), first);
  call_as(LcoreRole::worker_number(0), first);
  first.expects_owner();
  const OneLcore second;
  call_as(LcoreRole::management(), second);
  call_as(LcoreRole::management(), second);
}

TEST(ContractDeathTest, ASecondOwnerEndsTheProcess) {
  for (const LcoreRole other : {LcoreRole::worker_number(1), LcoreRole::management()})
    expect_broken(
        [other] {
          const OneLcore owner;
          call_as(LcoreRole::worker_number(0), owner);
          call_as(other, owner);
        },
        "contract_test.cc:[0-9]+: wrong lcore: two lcores");
}

TEST(ContractTest, WhatChecksAloneAskForIsKeptWhereTheyAre) {
  ForChecks<int> kept;
  EXPECT_TRUE(kept.is(0));
  kept.set(7);
  EXPECT_TRUE(kept.is(7));
  EXPECT_EQ(kept.is(8), !kContractsChecked);
}

// Members that exist for the checks take no space in builds that do not check contracts.
struct WithoutMembers {
  std::uint32_t n;
};
struct WithMembers {
  std::uint32_t n;
  [[no_unique_address]] OneLcore owner;
  [[no_unique_address]] ForChecks<const int*> kept;
};
static_assert(kContractsChecked || (sizeof(WithMembers) == sizeof(WithoutMembers) &&
                                    std::is_empty_v<OneLcore> && std::is_empty_v<ForChecks<int>>));

TEST(ContractTest, TheRightLcorePasses) {
  expects_management();
  const ActingAs role{LcoreRole::worker_number(7)};
  expects_worker();
}

}  // namespace
}  // namespace ipoib
