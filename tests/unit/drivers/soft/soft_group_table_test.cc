// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups of a port: their members, and the cost of a change in a large table.
#include "drivers/soft/soft_group_table.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <random>
#include <set>

#include "tests/support/contract_checks.h"
#include "tests/support/soft_fixture.h"

namespace {

std::atomic<std::uint64_t> octets_allocated{0};

void* allocate_if_possible(std::size_t size) noexcept {
  octets_allocated.fetch_add(size, std::memory_order_relaxed);
  return std::malloc(size != 0 ? size : 1);
}

void* allocate(std::size_t size) {
  if (void* memory = allocate_if_possible(size); memory != nullptr) return memory;
  throw std::bad_alloc{};
}

}  // namespace

// These replace the operators of the whole program.
void* operator new(std::size_t size) {
  return allocate(size);
}
void* operator new[](std::size_t size) {
  return allocate(size);
}
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return allocate_if_possible(size);
}
void* operator new[](std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return allocate_if_possible(size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace ipoib::soft {
namespace {

constexpr unsigned kMany = 16'384;

wire::Gid group(unsigned number) {
  wire::Gid mgid = broadcast_mgid();
  for (std::size_t i = 0; i < 4; ++i)
    mgid.bytes[12 + i] = static_cast<std::byte>(number >> (24 - 8 * i));
  return mgid;
}
std::uint16_t mlid(unsigned number) {
  return static_cast<std::uint16_t>(0xc000 + number % 0x3fff);
}

class Groups : public SoftFixture {
 protected:
  void SetUp() override {
    SoftFixture::SetUp();
    node_ = make_node(0);
    peer_ = make_node(1);
  }
  /// Returns the octets that were allocated during `work`.
  template <class Work>
  static std::uint64_t cost(Work&& work) {
    const std::uint64_t before = octets_allocated;
    work();
    return octets_allocated - before;
  }
  std::size_t arrive_at(unsigned number) {
    const fabric::AhIndex ah = group_ah(peer_, group(number), mlid(number));
    rte_mbuf* m = packet(counting(100), ah, wire::kMulticastQpn);
    EXPECT_EQ(peer_.queue->tx_burst(&m, 1), 1);
    peer_.hca->destroy_ah(ah);
    node_.poll();
    const auto got = node_.receive();
    for (rte_mbuf* received : got) rte_pktmbuf_free(received);
    return got.size();
  }

  Node node_;
  Node peer_;
};

TEST_F(Groups, JoiningAndLeavingOneCostsTheSameHoweverManyThereAre) {
  constexpr std::uint64_t kOctetsEach = 1024;
  EXPECT_LE(cost([&] {
              for (unsigned i = 0; i < kMany; ++i)
                ASSERT_TRUE(node_.hca->attach(*node_.queue, group(i), mlid(i))) << i;
            }),
            kMany * kOctetsEach);
  for (const unsigned i : {0U, 1U, 777U, kMany - 1}) EXPECT_EQ(arrive_at(i), 1U) << i;
  EXPECT_EQ(arrive_at(kMany), 0U);

  EXPECT_LE(cost([&] {
              for (unsigned i = 0; i < kMany; ++i) {
                ASSERT_TRUE(node_.hca->detach(*node_.queue, group(i), mlid(i))) << i;
                ASSERT_TRUE(node_.hca->attach(*node_.queue, group(i), mlid(i))) << i;
              }
            }),
            2 * kMany * kOctetsEach);
  for (unsigned i = 0; i < kMany; i += 2)
    ASSERT_TRUE(node_.hca->detach(*node_.queue, group(i), mlid(i))) << i;
  for (const unsigned i : {1U, 777U, kMany - 1}) EXPECT_EQ(arrive_at(i), 1U) << i;
  for (const unsigned i : {0U, 2U, 778U}) EXPECT_EQ(arrive_at(i), 0U) << i;
  EXPECT_EQ(node_.all_drops(), 4U);
}

TEST_F(Groups, WhatIsNoGroupIsNeitherJoinedNorLeft) {
  const wire::Gid unicast = node_.hca->attr().gid();
  EXPECT_EQ(node_.hca->attach(*node_.queue, unicast, mlid(0)).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(node_.hca->detach(*node_.queue, unicast, mlid(0)).error().code, Errc::kNotFound);
  EXPECT_EQ(node_.hca->detach(*node_.queue, group(0), 7).error().code, Errc::kNotFound);
}

TEST(GroupContractDeathTest, GroupsAreMulticastAndTheManagementLcores) {
  const fabric::Grace grace{nullptr};
  SoftGroupTable groups{grace, 1};
  UdDatapath datapath{{}};
  SoftUdQueue queue{datapath, 2, {}};
  const auto leave = [&](const wire::Gid& mgid) {
    static_cast<void>(groups.detach(mgid, mlid(0), queue));
  };
  leave(group(0));
  expect_broken([&] { leave(wire::Gid{}); }, "MGID and MLID are multicast");
  const ActingAs role{LcoreRole::worker_number(0)};
  expect_broken([&] { leave(group(0)); }, "wrong lcore: a worker called");
}

TEST_F(Groups, M06_ClosedQueueIsInNoGroup) {
  fabric::UdQueue* second = node_.hca->create_ud_queue({}).value();
  for (unsigned i = 0; i < 100; ++i) {
    ASSERT_TRUE(node_.hca->attach(*second, group(i), mlid(i)));
    if (i % 2 != 0) continue;
    ASSERT_TRUE(node_.hca->attach(*node_.queue, group(i), mlid(i)));
  }
  node_.hca->destroy_ud_queue(*second);
  for (unsigned i = 0; i < 100; ++i) EXPECT_EQ(arrive_at(i), i % 2 == 0 ? 1U : 0U) << i;
}

// Compares the table with the simplest possible one, at random.
TEST_F(Groups, M06_TableSaysWhatWasAttached) {
  const fabric::Grace grace{nullptr};
  SoftGroupTable table{grace, 1};
  std::vector<SoftUdQueue*> queues;
  for (int i = 0; i < 3; ++i)
    queues.push_back(static_cast<SoftUdQueue*>(node_.hca->create_ud_queue({}).value()));
  std::set<std::pair<unsigned, SoftUdQueue*>> expected;
  std::mt19937 random{3};
  for (int step = 0; step < 20'000; ++step) {
    const auto number = static_cast<unsigned>(random() % 40);
    SoftUdQueue* const queue = queues[random() % queues.size()];
    if (random() % 2 == 0) {
      const Status done = table.attach(group(number), mlid(number % 7), *queue);
      ASSERT_EQ(done.has_value(), expected.emplace(number, queue).second);
      if (!done) {
        ASSERT_EQ(done.error().code, Errc::kExists);
      }
    } else {
      ASSERT_EQ(table.detach(group(number), mlid(number % 7), *queue),
                expected.erase({number, queue}) == 1);
    }
    const auto other = static_cast<unsigned>(random() % 40);
    const auto members = table.members(group(other), mlid(other % 7));
    const std::set<SoftUdQueue*> found{members.begin(), members.end()};
    ASSERT_EQ(found.size(), members.size()) << "each once";
    for (SoftUdQueue* one : queues)
      ASSERT_EQ(found.contains(one), expected.contains({other, one})) << step;
    ASSERT_TRUE(table.members(group(other), mlid(other % 7 + 1)).empty());
    const bool any = std::any_of(expected.begin(), expected.end(),
                                 [&](const auto& e) { return e.first % 7 == other % 7; });
    ASSERT_EQ(table.has_mlid(mlid(other % 7)), any);
  }
}

TEST_F(Groups, M06_GroupHasABoundedNumberOfQueues) {
  for (std::size_t i = 0; i < SoftGroupTable::kMaxMembers; ++i) {
    fabric::UdQueue* queue = node_.hca->create_ud_queue({}).value();
    ASSERT_TRUE(node_.hca->attach(*queue, group(1), mlid(1)));
  }
  const Status refused = node_.hca->attach(*node_.queue, group(1), mlid(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kNoResources);
  EXPECT_TRUE(node_.hca->attach(*node_.queue, group(2), mlid(2))) << "others are not full";
}

}  // namespace
}  // namespace ipoib::soft
