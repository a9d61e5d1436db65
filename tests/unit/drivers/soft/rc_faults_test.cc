// SPDX-License-Identifier: BSD-3-Clause
// RC and UC over a cable that loses, repeats and reorders frames by a seed, in virtual time.
#include <set>

#include "tests/unit/drivers/soft/connected_fixture.h"

namespace ipoib::soft {
namespace {

struct Rate {
  double probability;
  const char* name;
};
constexpr Rate kRates[] = {{0, "0"}, {0.001, "0.1"}, {0.01, "1"}, {0.05, "5"}};

/// Lengths around every boundary: of a packet, of a pad, of a message of several packets.
std::size_t length_of(std::uint32_t number) {
  constexpr std::size_t kLengths[] = {4,    5,    68,   1999,  2047,  2048,  2049,  4096,
                                      4097, 6143, 9000, 20000, 65520, 65535, 65536, 2044};
  return kLengths[number % std::size(kLengths)];
}

class FaultyCable : public ConnectedFixture {
 protected:
  void start(fabric::Transport transport, double probability, std::uint64_t seed) {
    clear();
    random.seed(seed);
    faults = {.loss = probability, .repetition = probability, .reordering = probability};
    connect({.transport = transport});
  }
  /// Both ends send `n` messages. `got` holds those that each received.
  void exchange(std::uint32_t n, std::vector<Bytes> (&got)[2], const std::function<bool()>& done) {
    std::uint32_t sent[2] = {0, 0};
    const bool ended = run([&] {
      for (int side : {0, 1}) {
        while (sent[side] < n && send(side, pattern(sent[side], length_of(sent[side]))))
          ++sent[side];
        for (Bytes& m : receive(side)) got[side].push_back(std::move(m));
      }
      return sent[0] == n && sent[1] == n && done();
    });
    EXPECT_TRUE(ended) << "sent " << sent[0] << " and " << sent[1];
  }
};

TEST_F(FaultyCable, C11_RcDeliversEveryMessageOnceAndInOrder) {
  constexpr std::uint32_t kMessages = 64;
  for (const Rate& rate : kRates)
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(testing::Message() << rate.name << " %, seed " << seed);
      start(fabric::Transport::kRc, rate.probability, seed);
      std::vector<Bytes> got[2];
      exchange(kMessages, got, [&] {
        return peers[0].info().counters.tx_done == kMessages &&
               peers[1].info().counters.tx_done == kMessages;
      });
      for (int side : {0, 1}) {
        ASSERT_EQ(got[side].size(), kMessages);
        for (std::uint32_t i = 0; i < kMessages; ++i)
          ASSERT_EQ(got[side][i], pattern(i, length_of(i))) << i;
        EXPECT_EQ(peers[side].info().state, fabric::QueueState::kReadyToSend);
        EXPECT_EQ(peers[side].info().counters.rx_messages, kMessages);
        if (rate.probability == 0) {
          EXPECT_EQ(peers[side].all_drops(), 0U);
          EXPECT_EQ(peers[side].info().counters.tx_repeated, 0U);
        } else if (rate.probability >= 0.01) {
          EXPECT_GT(peers[side].info().counters.tx_repeated, 0U);
        }
      }
    }
}

TEST_F(FaultyCable, C11_UcDeliversWholeMessagesOrNone) {
  constexpr std::uint32_t kMessages = 64;
  for (const Rate& rate : kRates)
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(testing::Message() << rate.name << " %, seed " << seed);
      start(fabric::Transport::kUc, rate.probability, seed);
      std::vector<Bytes> got[2];
      exchange(kMessages, got, [&] {
        return peers[0].info().counters.tx_done == kMessages &&
               peers[1].info().counters.tx_done == kMessages;
      });
      run(100);
      for (int side : {0, 1}) {
        for (Bytes& m : receive(side)) got[side].push_back(std::move(m));
        std::set<std::uint32_t> numbers;
        for (const Bytes& m : got[side]) {
          std::uint32_t number = 0;
          std::memcpy(&number, m.data(), sizeof(number));
          ASSERT_LT(number, kMessages);
          ASSERT_EQ(m, pattern(number, length_of(number)));
          numbers.insert(number);
        }
        if (rate.probability == 0) {
          EXPECT_EQ(got[side].size(), kMessages);
          EXPECT_EQ(peers[side].all_drops(), 0U);
        } else {
          EXPECT_GT(numbers.size(), kMessages / 4);
        }
        if (rate.probability >= 0.01) {
          EXPECT_GT(peers[side].drops(Drop::kIbSequence), 0U);
        }
        EXPECT_EQ(peers[side].info().counters.tx_repeated, 0U);
      }
    }
}

// Every frame ends as part of a message, as an ACK, or as one drop.
TEST_F(FaultyCable, C11_EveryFrameHasOneEnd) {
  for (const auto transport : {fabric::Transport::kRc, fabric::Transport::kUc}) {
    SCOPED_TRACE(to_string(transport));
    delivered[0] = delivered[1] = delivered_acks[0] = delivered_acks[1] = 0;
    start(transport, 0, 7);
    faults = {.loss = 0.02, .repetition = 0.05, .reordering = 0.05};
    std::vector<Bytes> got[2];
    exchange(64, got, [&] {
      return peers[0].info().counters.tx_done == 64 && peers[1].info().counters.tx_done == 64;
    });
    run(100);
    for (int side : {0, 1})
      for (Bytes& m : receive(side)) got[side].push_back(std::move(m));
    for (int side : {0, 1}) {
      std::uint64_t in_messages = 0;
      for (const Bytes& m : got[side])
        in_messages += std::max<std::uint64_t>((m.size() + 2047) / 2048, 1);
      const std::uint64_t good_acks = delivered_acks[side] - peers[side].drops(Drop::kIbAck);
      EXPECT_EQ(delivered[side], in_messages + good_acks + peers[side].all_drops());
      EXPECT_GT(peers[side].all_drops(), 0U);
    }
    EXPECT_EQ(mbufs_in_use(), 0U);
  }
}

// More frames are lost in total than the retry count allows for one message, with successes between
// them.
TEST_F(FaultyCable, C13_RetriesStartAnewWithProgress) {
  start(fabric::Transport::kRc, 0, 3);
  faults.loss = 0.1;
  for (std::uint32_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(send(0, pattern(i, 68)));
    std::vector<Bytes> got;
    ASSERT_TRUE(run([&] {
      for (Bytes& m : receive(1)) got.push_back(std::move(m));
      return peers[0].info().counters.tx_done == i + 1;
    }));
    ASSERT_EQ(got.size(), 1U);
    ASSERT_EQ(got[0], pattern(i, 68));
  }
  EXPECT_GT(peers[0].info().counters.timeouts, 20U);
}

}  // namespace
}  // namespace ipoib::soft
