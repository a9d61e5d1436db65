// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/shared/shared_group.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <vector>

#include "tests/support/seeds.h"
#include "tests/unit/lib/link/shared_sim.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

wire::VrrpAdvertisement advert_of(const SharedSim& sim, std::uint8_t priority = 100) {
  return {ip("10.0.0.1"), sim.config.vrid, priority, 100, sim.config.addresses};
}
wire::Gid stranger_gid(std::uint64_t n) {
  return wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'00ff'0000 + n);
}
std::uint64_t refusals(const SharedSim& sim, SharedRefusal reason) {
  return sim.nodes[0]->group->info(sim.now).counters.refused[static_cast<std::size_t>(reason)];
}

/// Each host gets exactly one answer, that of the member which the hash names.
void expect_one_answer_each(SharedSim& sim) {
  sim.ask_all();
  sim.run_for(10ms);
  for (const auto& host : sim.hosts) {
    EXPECT_EQ(host.answers, 1U) << "host " << std::hex << host.guid();
    EXPECT_EQ(host.server, sim.winner(host));
  }
}

void expect_all_know_each_other(const SharedSim& sim) {
  for (const auto& node : sim.nodes) {
    if (!node->alive) continue;
    auto members = node->group->members();
    std::sort(members.begin(), members.end());
    EXPECT_EQ(members, sim.alive()) << "node " << std::hex << node->guid();
  }
}

TEST(SharedGroup, P18_NoNodeAnswersBeforeItHasListenedForThreeIntervals) {
  SharedSim sim{1, 3, 10};
  sim.run_for(3s);
  EXPECT_EQ(sim.adverts, 0U);
  sim.ask_all();
  sim.run_for(10ms);
  for (const auto& host : sim.hosts) EXPECT_EQ(host.answers, 0U);
  sim.run_for(2s);
  expect_all_know_each_other(sim);
  expect_one_answer_each(sim);
}

TEST(SharedGroup, P18_ANodeThatHearsNothingStaysSilent) {
  SharedSim sim{1, 2, 10};
  sim.nodes[1]->hearing = false;
  sim.run_for(60s);
  EXPECT_TRUE(sim.nodes[0]->group->is_member());
  EXPECT_FALSE(sim.nodes[1]->group->is_member());
  sim.nodes[1]->hearing = true;
  sim.settle();
  expect_all_know_each_other(sim);
}

TEST(SharedGroup, P18_AMemberThatHearsNothingLeavesAndTakesOverNoHost) {
  SharedSim sim{1, 2, 40};
  sim.settle();
  expect_one_answer_each(sim);
  sim.forget_informed();
  // Its own advertisements still arrive.
  sim.nodes[0]->hearing = false;
  sim.nodes[0]->deaf = true;
  sim.run_for(10s);
  EXPECT_FALSE(sim.nodes[0]->group->is_member());
  EXPECT_TRUE(sim.nodes[1]->group->is_member());
  EXPECT_EQ(sim.nodes[0]->group->info(sim.now).counters.taken_over, 0U);
  for (const auto& host : sim.hosts) EXPECT_EQ(host.server, sim.nodes[1]->guid());
  sim.nodes[0]->hearing = true;
  sim.nodes[0]->deaf = false;
  sim.settle();
  expect_all_know_each_other(sim);
}

/// Rolling restarts: the other member started after the hosts had asked, and knows none of them.
TEST(SharedGroup, P18_AMemberThatRetiresHandsItsHostsOver) {
  SharedSim sim{1, 2, 200};
  sim.settle();
  expect_one_answer_each(sim);
  sim.nodes[1]->kill();
  sim.settle();
  sim.nodes[1]->restart();
  sim.settle();
  std::size_t served = 0;
  for (const auto& host : sim.hosts) served += host.server == sim.nodes[0]->guid() ? 1 : 0;
  ASSERT_GT(served, 50U);
  sim.forget_informed();
  sim.nodes[0]->group->set_serving(false, sim.now);
  sim.run_for(500ms);
  EXPECT_EQ(sim.nodes[0]->group->info(sim.now).state, "retired");
  EXPECT_EQ(sim.informed(), served) << "each of its hosts, once, and no other";
  for (const auto& host : sim.hosts) EXPECT_EQ(host.server, sim.nodes[1]->guid());
  sim.ask_all();
  sim.run_for(10s);
  for (const auto& host : sim.hosts) EXPECT_EQ(host.answers, 1U);
  sim.nodes[0]->group->set_serving(true, sim.now);
  sim.settle();
  expect_all_know_each_other(sim);
  for (const auto& host : sim.hosts) EXPECT_EQ(host.server, sim.winner(host));
}

TEST(SharedGroup, P18_TheLastMemberRetiresWhenAnotherOneCame) {
  SharedSim sim{1, 2, 20};
  sim.nodes[1]->kill();
  sim.settle();
  sim.ask_all();
  sim.run_for(10ms);
  sim.nodes[0]->group->set_serving(false, sim.now);
  sim.run_for(30s);
  EXPECT_TRUE(sim.nodes[0]->group->is_member()) << "no other can serve the hosts";
  sim.nodes[1]->restart();
  sim.settle();
  EXPECT_FALSE(sim.nodes[0]->group->is_member());
  for (const auto& host : sim.hosts) EXPECT_EQ(host.server, sim.nodes[1]->guid());
  sim.nodes[1]->kill();
  sim.settle();
  EXPECT_TRUE(sim.nodes[0]->group->is_member()) << "it serves them again";
}

/// Hosts that the first node serves; all have asked.
std::vector<std::size_t> served_by_first(const SharedSim& sim) {
  std::vector<std::size_t> served;
  for (std::size_t i = 0; i < sim.hosts.size(); ++i)
    if (sim.hosts[i].server == sim.nodes[0]->guid()) served.push_back(i);
  return served;
}

TEST(SharedGroup, P18_OnlyTheHostsOfAMemberThatDiesAreInformed) {
  for (const std::size_t n : {2U, 3U, 8U}) {
    SharedSim sim{n, n, 1000};
    sim.settle();
    expect_one_answer_each(sim);
    const auto served = served_by_first(sim);
    sim.nodes[0]->kill();
    const TimePoint killed = sim.now;
    sim.run_for(8s);
    for (std::size_t i = 0; i < sim.hosts.size(); ++i) {
      const bool moved = std::count(served.begin(), served.end(), i) != 0;
      EXPECT_EQ(sim.hosts[i].informed, moved ? 2U : 0U) << "host " << i;
      EXPECT_EQ(sim.hosts[i].server, sim.winner(sim.hosts[i]));
    }
    const auto ms = [&](TimePoint at) {
      return std::chrono::duration_cast<std::chrono::milliseconds>(at - killed).count();
    };
    std::cout << fmt::format(
        "{} nodes, one dies: {} of 1000 hosts informed, and no other; the first {} ms after it, "
        "the "
        "last repetition {} ms\n",
        n, served.size(), ms(sim.first_informed), ms(sim.last_informed));
    EXPECT_LE(sim.first_informed - killed, 3600ms);
    expect_one_answer_each(sim);
  }
}

TEST(SharedGroup, P18_MessagesToHostsArePaced) {
  SharedSim sim{1, 2, 3000};
  sim.settle();
  sim.ask_all();
  sim.run_for(10ms);
  const auto moved = served_by_first(sim).size();
  ASSERT_GT(moved, 1300U);
  sim.nodes[0]->kill();
  sim.run_for(20s);
  const auto took = sim.last_informed - sim.first_informed;
  EXPECT_GE(took, 2 * Duration{moved * 1s} / SharedGroup::kInformRate - 100ms);
  EXPECT_LE(took, 2 * Duration{moved * 1s} / SharedGroup::kInformRate + 2s);
}

TEST(SharedGroup, P18_AMemberThatLeavesOrIsOutOfServiceIsReplacedAtOnce) {
  for (const bool in_order : {true, false}) {
    SharedSim sim{1, 3, 100};
    sim.settle();
    expect_one_answer_each(sim);
    const auto served = served_by_first(sim);
    if (in_order) sim.nodes[0]->group->leave(sim.now);
    sim.nodes[0]->kill();
    if (!in_order) sim.report(*sim.nodes[0]);
    sim.run_for(200ms);
    EXPECT_EQ(sim.informed(), served.size());
    expect_all_know_each_other(sim);
    expect_one_answer_each(sim);
  }
}

TEST(SharedGroup, P18_OnlyTheHostsThatANewMemberWinsMoveToIt) {
  for (const std::size_t n : {2U, 3U, 8U}) {
    SharedSim sim{n, n, 1000};
    sim.nodes[0]->kill();
    sim.settle();
    expect_one_answer_each(sim);
    std::vector<std::optional<std::uint64_t>> before;
    for (const auto& host : sim.hosts) before.push_back(host.server);
    sim.nodes[0]->restart();
    sim.settle();
    std::size_t moved = 0;
    for (std::size_t i = 0; i < sim.hosts.size(); ++i) {
      const bool won = sim.winner(sim.hosts[i]) == sim.nodes[0]->guid();
      moved += won ? 1 : 0;
      EXPECT_EQ(sim.hosts[i].server, won ? sim.nodes[0]->guid() : before[i]);
      EXPECT_EQ(sim.hosts[i].informed, won ? 1U : 0U);
    }
    std::cout << fmt::format("{} nodes, one comes: {} of 1000 hosts move, and no other\n", n,
                             moved);
    expect_one_answer_each(sim);
  }
}

// The new member knows no hosts, and the dead one can hand over none.
TEST(SharedGroup, P18_HostsOfADeadMemberThatANewOneWinsAreInformed) {
  SharedSim sim{5, 3, 300};
  sim.nodes[2]->kill();
  sim.settle();
  expect_one_answer_each(sim);
  sim.nodes[2]->restart();
  sim.run_for(3300ms);
  sim.nodes[0]->kill();  // It is not heard when the third node joins, but still counts.
  sim.run_for(12s);
  for (const auto& host : sim.hosts) EXPECT_EQ(host.server, sim.winner(host)) << host.guid();
}

TEST(SharedGroup, P18_StrangersDisplaceNoMember) {
  SharedSim sim{1, 3, 10};
  sim.settle();
  for (std::uint64_t n = 0; n < 1000; ++n)
    for (const auto& node : sim.nodes)
      node->group->on_advertisement(advert_of(sim), stranger_gid(n), kMemberQpn, sim.now);
  EXPECT_EQ(sim.nodes[0]->group->members().size(), kMaxSharedMembers);
  EXPECT_EQ(refusals(sim, SharedRefusal::kFull), 1000U - (kMaxSharedMembers - 3));
  for (const std::uint64_t member : sim.alive())
    EXPECT_EQ(std::count(sim.nodes[0]->group->members().begin(),
                         sim.nodes[0]->group->members().end(), member),
              1);
  sim.settle();
  expect_all_know_each_other(sim);
  expect_one_answer_each(sim);
}

TEST(SharedGroup, P18_OnlyTheConfiguredNodesAreMembers) {
  SharedSim sim{1, 3, 10};
  sim.config.members = {sim.nodes[0]->guid(), sim.nodes[1]->guid()};
  sim.settle();
  EXPECT_EQ(sim.nodes[0]->group->members().size(), 2U);
  EXPECT_GT(refusals(sim, SharedRefusal::kStranger), 0U);
}

TEST(SharedGroup, P18_AdvertisementsOfOtherSettingsDoNotCount) {
  SharedSim sim{1, 1, 1};
  sim.settle();
  auto& group = *sim.nodes[0]->group;
  auto other = advert_of(sim);
  other.addresses.push_back(ip("10.0.0.101"));
  group.on_advertisement(other, stranger_gid(1), kMemberQpn, sim.now);
  EXPECT_EQ(refusals(sim, SharedRefusal::kAddresses), 1U);
  other = advert_of(sim);
  other.interval_cs = 99;
  group.on_advertisement(other, stranger_gid(1), kMemberQpn, sim.now);
  EXPECT_EQ(refusals(sim, SharedRefusal::kInterval), 1U);
  group.on_advertisement(advert_of(sim), wire::Gid{}, kMemberQpn, sim.now);
  group.on_advertisement(advert_of(sim), stranger_gid(1), wire::kGsiQpn, sim.now);
  group.on_advertisement(advert_of(sim), wire::Gid::of(0xff12'401b'ffff'0000, 1), kMemberQpn,
                         sim.now);
  EXPECT_EQ(refusals(sim, SharedRefusal::kNoGid), 3U);
  group.on_advertisement(advert_of(sim, wire::kVrrpLeaves), stranger_gid(1), kMemberQpn, sim.now);
  group.on_advertisement(advert_of(sim), sim.nodes[0]->gid(), kMemberQpn, sim.now);
  EXPECT_EQ(group.members().size(), 1U);
  group.on_advertisement(advert_of(sim), stranger_gid(1), kMemberQpn, sim.now);
  EXPECT_EQ(group.members().size(), 2U);
}

// Each change costs a look at all hosts, and messages to some.
TEST(SharedGroup, P18_AMemberThatComesAndGoesAllTheTimeIsLeftOut) {
  SharedSim sim{1, 1, 100};
  sim.settle();
  sim.ask_all();
  sim.run_for(10ms);
  for (int i = 0; i < 1000; ++i) {
    auto& group = *sim.nodes[0]->group;
    group.on_advertisement(advert_of(sim, i % 2 == 0 ? 100 : wire::kVrrpLeaves), stranger_gid(1),
                           kMemberQpn, sim.now);
    sim.run_for(3ms);
  }
  EXPECT_EQ(refusals(sim, SharedRefusal::kLeft), 499U);
  EXPECT_LE(sim.informed(), 300U);
}

// A look at all hosts takes a while.
TEST(SharedGroup, P18_ChangesAreLookedAtTenTimesInASecond) {
  SharedSim sim{1, 1, 100};
  sim.settle();
  sim.ask_all();
  sim.run_for(10ms);
  auto& group = *sim.nodes[0]->group;
  group.on_advertisement(advert_of(sim), stranger_gid(1), kMemberQpn, sim.now);
  sim.run_for(1s);
  group.on_advertisement(advert_of(sim), stranger_gid(2), kMemberQpn, sim.now);
  sim.run_for(70ms);
  const auto informed = sim.informed();
  EXPECT_GT(informed, 0U);
  group.on_advertisement(advert_of(sim, wire::kVrrpLeaves), stranger_gid(1), kMemberQpn, sim.now);
  sim.run_for(20ms);
  EXPECT_EQ(sim.informed(), informed);
  sim.run_for(200ms);
  EXPECT_GT(sim.informed(), informed);
}

TEST(SharedGroup, P18_AStrangerThatMakesUpHostsLosesItsOwn) {
  SharedSim sim{1, 1, 0};
  SharedGroup group{sim.name, sim.config, sim.config.addresses, *sim.nodes[0], 1, 100};
  group.up(sim.now);
  for (const TimePoint end = sim.now + 5s; sim.now < end; sim.now += 10ms) group.tick(sim.now);
  const auto asks = [&](std::uint64_t guid, std::uint32_t source) {
    const wire::LinkAddr hw{0, wire::Be24{0x100}, wire::Gid::of(wire::kDefaultGidPrefix, guid)};
    static_cast<void>(
        group.answers(sim.config.addresses[0], ip("10.0.1.1"), wire::HwAddr{hw}, source, sim.now));
  };
  for (std::uint64_t i = 0; i < 40; ++i) asks(1000 + i, static_cast<std::uint32_t>(i));
  for (std::uint64_t i = 0; i < 10'000; ++i) asks(100'000 + i, 77);
  EXPECT_EQ(group.info(sim.now).hosts, 100U);
  EXPECT_EQ(group.info(sim.now).counters.forgotten, 9940U);
  // The hosts of others are still known: all are reminded when another interface claims the address.
  EXPECT_FALSE(group.claimed(std::nullopt, sim.now));
  EXPECT_EQ(group.info(sim.now).to_inform, 100U);
}

TEST(SharedGroup, P18_ClaimsOfMembersAreNoneAndThoseOfOthersRemindTheHosts) {
  SharedSim sim{1, 2, 20};
  sim.settle();
  expect_one_answer_each(sim);
  auto& group = *sim.nodes[0]->group;
  const wire::LinkAddr member{0, wire::Be24{kMemberQpn}, sim.nodes[1]->gid()};
  EXPECT_TRUE(group.claimed(wire::HwAddr{member}, sim.now));
  const wire::LinkAddr other{0, wire::Be24{kMemberQpn}, stranger_gid(1)};
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(group.claimed(wire::HwAddr{other}, sim.now));
    sim.run_for(50ms);
  }
  EXPECT_EQ(sim.informed(), served_by_first(sim).size());
  EXPECT_EQ(group.info(sim.now).counters.claims, 100U);
}

/// A stranger can cause reminders of all hosts.
TEST(SharedGroup, P18_HostsThatHaveMovedComeBeforeReminders) {
  SharedSim sim{1, 2, 4000};
  sim.settle();
  expect_one_answer_each(sim);
  const wire::LinkAddr stranger{0, wire::Be24{kMemberQpn}, stranger_gid(1)};
  EXPECT_FALSE(sim.nodes[0]->group->claimed(wire::HwAddr{stranger}, sim.now));
  EXPECT_GT(sim.nodes[0]->group->info(sim.now).to_inform, 1500U);
  std::size_t moved = 0;
  for (const auto& host : sim.hosts) moved += host.server == sim.nodes[1]->guid() ? 1 : 0;
  sim.nodes[1]->group->leave(sim.now);
  sim.nodes[1]->kill();
  sim.run_for(300ms + moved * Duration{1s} / SharedGroup::kInformRate);
  for (const auto& host : sim.hosts) EXPECT_EQ(host.server, sim.nodes[0]->guid());
}

TEST(SharedGroup, P18_OneMemberAnswersDuplicateAddressDetection) {
  SharedSim sim{1, 3, 0};
  sim.settle();
  unsigned answers = 0;
  for (const auto& node : sim.nodes)
    answers += node->group->answers(sim.config.addresses[0], wire::IpAddr::v4(0), std::nullopt, 1,
                                    sim.now);
  EXPECT_EQ(answers, 1U);
  EXPECT_EQ(sim.nodes[0]->group->info(sim.now).hosts, 0U);
}

/// Something happens to a node, the wire or a host.
void something_happens(SharedSim& sim) {
  auto& node = *sim.nodes[sim.pick(sim.nodes.size())];
  switch (sim.pick(10)) {
    case 0:
      node.kill();
      if (sim.chance(0.5)) sim.report(node);
      break;
    case 1:
      if (node.alive) node.group->leave(sim.now);
      node.kill();
      break;
    case 2:
    case 3:
      if (!node.alive) node.restart();
      break;
    case 4: node.island = static_cast<int>(sim.pick(2)); break;
    case 5: sim.loss = sim.chance(0.5) ? 0 : 0.3; break;
    case 6: sim.hosts[sim.pick(sim.hosts.size())].island = static_cast<int>(sim.pick(2)); break;
    case 7:
      if (node.alive) {
        node.group->down();
        node.group->up(sim.now);
      }
      break;
    default: sim.ask(sim.pick(sim.hosts.size()));
  }
}

// After any history, nodes that are left in peace agree: each host has one server, the hosts of one that
// dies, and no others, are informed, and those that one that comes wins.
TEST(SharedGroup, P18_LivesWithAllFaults) {
  test::for_seeds(1000, [](std::uint64_t seed) {
    SharedSim sim{seed, 2 + seed % 7, 24};
    for (int i = 0; i < 60; ++i) {
      something_happens(sim);
      sim.run_for(std::chrono::milliseconds(sim.pick(2000)));
    }
    sim.loss = 0;
    for (auto& node : sim.nodes) node->island = 0;
    for (auto& host : sim.hosts) host.island = 0;
    if (!sim.nodes[0]->alive) sim.nodes[0]->restart();
    if (!sim.nodes[1]->alive) sim.nodes[1]->restart();
    sim.settle();
    expect_all_know_each_other(sim);
    expect_one_answer_each(sim);

    // The minimum moves when one dies, in peace.
    sim.forget_informed();
    const auto served = served_by_first(sim);
    sim.nodes[0]->kill();
    sim.settle();
    for (std::size_t i = 0; i < sim.hosts.size(); ++i) {
      const bool moved = std::count(served.begin(), served.end(), i) != 0;
      EXPECT_EQ(sim.hosts[i].informed, moved ? 2U : 0U) << "host " << i;
      EXPECT_EQ(sim.hosts[i].server, sim.winner(sim.hosts[i])) << "host " << i;
    }
    sim.forget_informed();
    sim.nodes[0]->restart();
    sim.settle();
    for (std::size_t i = 0; i < sim.hosts.size(); ++i) {
      const bool moved = sim.winner(sim.hosts[i]) == sim.nodes[0]->guid();
      EXPECT_EQ(sim.hosts[i].informed, moved ? 1U : 0U) << "host " << i;
      EXPECT_EQ(sim.hosts[i].server, sim.winner(sim.hosts[i])) << "host " << i;
    }
    expect_one_answer_each(sim);
  });
}

// Without loss, a host that asked once always finds its way again after any change of the nodes.
TEST(SharedGroup, P18_WithoutLossHostsFollowTheirServersWithoutAsking) {
  test::for_seeds(1000, [](std::uint64_t seed) {
    SharedSim sim{seed, 3 + seed % 6, 24};
    sim.settle();
    expect_one_answer_each(sim);
    for (int i = 0; i < 20; ++i) {
      auto& node = *sim.nodes[1 + sim.pick(sim.nodes.size() - 1)];
      if (!node.alive) {
        node.restart();
      } else {
        if (sim.chance(0.3)) node.group->leave(sim.now);
        node.kill();
      }
      sim.run_for(std::chrono::milliseconds(sim.pick(12'000)));
    }
    sim.settle();
    expect_all_know_each_other(sim);
    for (const auto& host : sim.hosts)
      EXPECT_EQ(host.server, sim.winner(host)) << "host " << std::hex << host.guid();
  });
}

}  // namespace
}  // namespace ipoib::link
