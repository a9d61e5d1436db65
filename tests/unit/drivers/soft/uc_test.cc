// SPDX-License-Identifier: BSD-3-Clause
// The rules of UC for lost packets, frame by frame. Source: iba-wire.md §7.
#include "tests/unit/drivers/soft/connected_fixture.h"

namespace ipoib::soft {
namespace {

class Uc : public ConnectedFixture {
 protected:
  /// Returns the packets of messages of 5000 octets, three each.
  std::vector<Bytes> packets(std::uint32_t messages,
                             const fabric::ReceiveQueueConfig& receive = {}) {
    connect({.transport = fabric::Transport::kUc, .receive = receive});
    for (std::uint32_t i = 0; i < messages; ++i) EXPECT_TRUE(send(0, pattern(i, 5000)));
    return cut(1);
  }
  /// Delivers these packets, and returns the numbers of the complete messages.
  std::vector<std::uint32_t> give(const std::vector<Bytes>& all,
                                  const std::vector<std::size_t>& which) {
    for (const std::size_t i : which) put(1, all[i]);
    peers[1].poll();
    EXPECT_TRUE(cut(0).empty()) << "the peer is told nothing";
    std::vector<std::uint32_t> numbers;
    for (const Bytes& m : receive(1))
      for (std::uint32_t i = 0; i < 4; ++i)
        if (m == pattern(i, 5000)) numbers.push_back(i);
    return numbers;
  }
  using Numbers = std::vector<std::uint32_t>;
};

TEST_F(Uc, C11_LostPacketLosesItsMessageAndNothingElse) {
  for (std::size_t lost = 0; lost < 9; ++lost) {
    SCOPED_TRACE(lost);
    clear();
    const auto all = packets(3);
    ASSERT_EQ(all.size(), 9U);
    std::vector<std::size_t> rest;
    for (std::size_t i = 0; i < 9; ++i)
      if (i != lost) rest.push_back(i);
    Numbers expected{0, 1, 2};
    expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(lost / 3));
    EXPECT_EQ(give(all, rest), expected);
    const bool tail_of_all = lost == 8;  // This loss is not noticeable yet.
    EXPECT_EQ(peers[1].drops(Drop::kIbSequence), tail_of_all ? 0U : 2U);
    EXPECT_EQ(peers[1].all_drops(), tail_of_all ? 0U : 2U);
  }
}

TEST_F(Uc, C11_PacketsOfTwoMessagesNeverMeet) {
  const auto all = packets(3);
  EXPECT_EQ(give(all, {0, 1, 5}), Numbers{}) << "first, middle and another's last";
  EXPECT_EQ(give(all, {0, 4, 2}), Numbers{});
  EXPECT_EQ(give(all, {1, 0, 1, 2}), Numbers{0}) << "taken from its first on";
  EXPECT_EQ(give(all, {3, 3, 4, 5}), Numbers{1}) << "begun again";
  EXPECT_EQ(give(all, {8, 7, 6}), Numbers{});
}

TEST_F(Uc, C11_SentMessagesAreFreedAtOnce) {
  (void)packets(3);
  EXPECT_EQ(mbufs_in_use(), 0U);
  EXPECT_EQ(peers[0].info().counters.tx_done, 3U);
}

TEST_F(Uc, C11_MessageWithoutABufferIsLost) {
  const auto all = packets(3, {.depth = 1});
  EXPECT_EQ(give(all, {0, 1, 2, 3, 4, 5}), Numbers{0});
  EXPECT_EQ(peers[1].drops(Drop::kIbNoBuffer), 1U);
  EXPECT_EQ(peers[1].drops(Drop::kIbSequence), 2U) << "the rest of it";
  EXPECT_EQ(give(all, {6, 7, 8}), Numbers{2});
}

TEST_F(Uc, C11_WrongLengthsAndOpcodesLoseTheMessageOnly) {
  const auto all = packets(3, {.max_message = 4500});
  EXPECT_EQ(give(all, {0, 1, 2}), Numbers{});
  EXPECT_EQ(peers[1].drops(Drop::kIbMessageTooLong), 3U);
  clear();
  auto odd = packets(3);
  edit(odd[0], [](wire::Bth& bth) { bth.opcode = 0x22; });  // A last packet without a first.
  edit(odd[4], [](wire::Bth& bth) { bth.opcode = 0x2a; });  // RDMA WRITE
  EXPECT_EQ(give(odd, {0}), Numbers{});
  EXPECT_EQ(peers[1].drops(Drop::kIbMessage), 1U);
  EXPECT_EQ(give(odd, {3, 4, 5, 6, 7, 8}), Numbers{2});
  EXPECT_EQ(peers[1].drops(Drop::kIbOpcode), 1U);
  EXPECT_EQ(peers[1].info().state, fabric::QueueState::kReadyToSend);
}

}  // namespace
}  // namespace ipoib::soft
