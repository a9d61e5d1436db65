// SPDX-License-Identifier: BSD-3-Clause
// Callers that break the preconditions of the stages, and the lcore role of a worker in its loop.
#include <gtest/gtest.h>

#include <array>

#include "lib/fwd/eth_input.h"
#include "lib/fwd/histogram.h"
#include "lib/fwd/ip4_header.h"
#include "lib/fwd/ip_trim.h"
#include "lib/fwd/ones_sum.h"
#include "tests/support/contract_checks.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

TEST(StageContractDeathTest, ABurstHoldsNoMore) {
  expect_caught(
      [] {
        Burst burst;
        for (unsigned i = 0; i <= kMaxBurst; ++i) burst.push(nullptr);
      },
      "burst.h:[0-9]+: the caller broke a contract: the packet fits");
}

TEST(StageContractDeathTest, InputStagesTakeABurstIntoEmptyOnes) {
  std::array<rte_mbuf*, kMaxBurst + 1> pkts{};
  InputBursts out;
  expects_input_shape(std::span{pkts}.first(kMaxBurst), out);
  expect_broken([&] { expects_input_shape(pkts, out); }, "the packets are a burst");
  out.ip6.n = 1;
  expect_broken([&] { expects_input_shape({}, out); }, "the output is empty");
}

TEST(StageContractDeathTest, HeadersAreAskedForWhatTheyHave) {
  wire::Ipv4Hdr hdr{};
  expect_broken([&] { decrement_ttl(hdr); }, "the TTL can go down");
  for (const std::size_t len : {0U, 16U, 64U, 21U})
    expect_caught([&, len] { static_cast<void>(ip4_header_sum(hdr, len)); },
                  "it is a header's length");
}

TEST(StageContractDeathTest, PacketsAreNotReadBeyondTheirEnd) {
  std::array<std::byte, 100> octets{};
  rte_mbuf m{};
  m.buf_addr = octets.data();
  m.data_len = 100;
  m.pkt_len = 100;
  m.nb_segs = 1;
  OnesSum sum;
  sum.add(&m, 40, 60);
  expect_caught([&] { sum.add(&m, 41, 60); }, "the octets are the packet's");
  expect_broken([&] { trim(&m, 101); }, "the rest is within the packet");
}

TEST(StageContractDeathTest, SharesAreOfOne) {
  const Histogram::Counts none{};
  EXPECT_EQ(Histogram::percentile(none, 1), 0U);
  expect_broken([&] { static_cast<void>(Histogram::percentile(none, 99)); }, "share is one of 1");
}

/// Records the role of the lcore that receives from it.
class RoleQueue final : public fabric::UdQueue {
 public:
  RoleQueue() : UdQueue{1, &receive, &send} {}
  LcoreRole asked_by{};

 private:
  static std::uint16_t receive(UdQueue& queue, rte_mbuf**, std::uint16_t) noexcept {
    static_cast<RoleQueue&>(queue).asked_by = lcore_role;
    return 0;
  }
  static std::uint16_t send(UdQueue&, rte_mbuf**, std::uint16_t) noexcept { return 0; }
};

class WorkerContractDeathTest : public WorkerFixture {};

TEST_F(WorkerContractDeathTest, ALoopIsMadeInTheRoleOfItsWorker) {
  RoleQueue queue;
  ud_queues[0] = &queue;
  start();
  const ActingAs role{LcoreRole::management()};  // The one thread plays both roles in turn.
  loop();
  if (kContractsChecked) {
    EXPECT_EQ(queue.asked_by.kind, LcoreRole::Kind::kWorker);
    EXPECT_EQ(queue.asked_by.worker, 0U);
  }
  rte_mbuf* m = nullptr;
  expect_broken([&] { queue.rx_burst(&m, 1); }, "hca.h:[0-9]+: wrong lcore: the management lcore");
  const ActingAs other{LcoreRole::worker_number(1)};
  expect_broken([&] { queue.rx_burst(&m, 1); }, "hca.h:[0-9]+: wrong lcore: two lcores");
}

TEST_F(WorkerContractDeathTest, WorkersDoNotChangeInterfaces) {
  const ActingAs role{LcoreRole::worker_number(0)};
  expect_broken([&] { entries[kEth0].set_up(true, 1500); }, "wrong lcore: a worker called");
}

}  // namespace
}  // namespace ipoib::fwd::test
