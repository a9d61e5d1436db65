// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/worker/worker_channel.h"

#include <rte_ring_elem.h>

#include <gtest/gtest.h>

#include <array>

namespace ipoib::mgmt {
namespace {

TEST(WorkerChannel, KeepsWhatTheRingDoesNotTakeAndItsOrder) {
  const auto channel = std::move(*WorkerChannel::create(7, SOCKET_ID_ANY));
  constexpr table::NeighbourIndex kMessages = 10'000;
  for (table::NeighbourIndex i = 0; i < kMessages; ++i) {
    msg::Down m{};
    m.kind = msg::Down::Kind::kNeighbourRemove;
    m.index = i;
    channel->send(m);
  }
  EXPECT_GT(channel->waiting(), 0U);

  table::NeighbourIndex next = 0;
  for (int turn = 0; turn < 100 && next < kMessages; ++turn) {
    msg::Down m;
    while (rte_ring_sc_dequeue_elem(channel->down(), &m, sizeof m) == 0) ASSERT_EQ(m.index, next++);
    channel->flush();
  }
  EXPECT_EQ(next, kMessages);
  EXPECT_EQ(channel->waiting(), 0U);
}

TEST(WorkerChannel, GivesMessagesOfItsWorker) {
  const auto channel = std::move(*WorkerChannel::create(7, SOCKET_ID_ANY));
  EXPECT_FALSE(channel->has_messages());
  for (std::uint16_t i = 0; i < 3; ++i) {
    msg::Up m{};
    m.mtu = i;
    ASSERT_EQ(rte_ring_sp_enqueue_elem(channel->up(), &m, sizeof m), 0);
  }
  EXPECT_TRUE(channel->has_messages());
  std::array<msg::Up, 2> out{};
  EXPECT_EQ(channel->receive(out), 2U);
  EXPECT_EQ(out[1].mtu, 1);
  EXPECT_EQ(channel->receive(out), 1U);
  EXPECT_EQ(out[0].mtu, 2);
}

TEST(WorkerChannel, ASecondOfTheSameWorkerIsRefused) {
  const auto channel = std::move(*WorkerChannel::create(7, SOCKET_ID_ANY));
  EXPECT_EQ(WorkerChannel::create(7, SOCKET_ID_ANY).error().code, Errc::kNoResources);
}

}  // namespace
}  // namespace ipoib::mgmt
