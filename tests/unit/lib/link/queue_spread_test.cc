// SPDX-License-Identifier: BSD-3-Clause
// Peers move from the queue pairs of busy workers to those of idle ones.
#include "lib/link/ipoib/queue_spread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "lib/wire/iba.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

wire::Gid gid(unsigned n) {
  return wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'0000'0000 + n);
}

/// Peers with constant loads, the LID of each 100 plus its number.
class PeerSpreadTest : public ::testing::Test {
 protected:
  struct Peer {
    double load = 0;
    std::uint16_t lid = 0;
  };

  void add(unsigned n, double load) { peers[n] = {load, static_cast<std::uint16_t>(100 + n)}; }
  /// Adds a peer to which the hash gives that queue pair. Returns its number.
  unsigned add_at(unsigned queue_pair, double load) {
    for (unsigned n = 1;; ++n)
      if (!peers.contains(n) && spread.queue_pair_of(gid(n), queue_pairs) == queue_pair) {
        add(n, load);
        return n;
      }
  }
  [[nodiscard]] unsigned place(unsigned n) const {
    return spread.queue_pair_of(gid(n), queue_pairs);
  }
  [[nodiscard]] std::vector<QueueLoad> loads(std::size_t sample = 1000) const {
    std::vector<QueueLoad> all(queue_pairs);
    for (const auto& [n, peer] : peers) all[place(n)].received += peer.load;
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i].busy = all[i].received + (i < other.size() ? other[i] : 0);
    for (const auto& [n, peer] : peers) {
      QueueLoad& load = all[place(n)];
      const auto part =
          static_cast<std::size_t>(static_cast<double>(sample) * peer.load / load.received);
      load.senders.insert(load.senders.end(), part, peer.lid);
    }
    return all;
  }
  std::vector<wire::Gid> balance(std::size_t sample = 1000) {
    now += 5s;
    return spread.balance(
        loads(sample),
        [this] {
          PeerSpread::PortsByLid ports;
          for (const auto& [n, peer] : peers) ports[peer.lid] = gid(n);
          return ports;
        },
        now);
  }

  PeerSpread spread{1};
  unsigned queue_pairs = 2;
  std::map<unsigned, Peer> peers;
  std::vector<double> other;  ///< Loads of the workers beside the queue pairs.
  TimePoint now{};
};

TEST_F(PeerSpreadTest, P14_PeersLeaveABusyWorkerUntilTheLoadIsEven) {
  const unsigned large = add_at(0, 0.4);
  const unsigned small = add_at(0, 0.35);
  EXPECT_EQ(balance(), (std::vector{gid(large)}));
  EXPECT_EQ(place(large), 1U);
  EXPECT_EQ(place(small), 0U);
  EXPECT_TRUE(balance().empty());
}

TEST_F(PeerSpreadTest, P14_NoPeerMovesWithoutShortageOrDifference) {
  add_at(0, 0.2);
  add_at(0, 0.25);
  EXPECT_TRUE(balance().empty()) << "nobody is short of time";
  add_at(0, 0.25);
  add_at(1, 0.55);
  EXPECT_TRUE(balance().empty()) << "0.7 and 0.55";
}

// It would be short of time there too.
TEST_F(PeerSpreadTest, P14_ThePeerThatIsTheWholeLoadStays) {
  const unsigned large = add_at(0, 0.8);
  EXPECT_TRUE(balance().empty());
  const unsigned small = add_at(0, 0.1);
  EXPECT_EQ(balance(), (std::vector{gid(small)})) << "it leaves the large one alone";
  EXPECT_EQ(place(large), 0U);
}

TEST_F(PeerSpreadTest, P14_LoadOfOtherInterfacesCounts) {
  const unsigned n = add_at(0, 0.3);
  other = {0.5, 0.1};
  EXPECT_EQ(balance(), (std::vector{gid(n)}));
  // No packet of the link causes the shortage that is left.
  other = {0.9, 0.0};
  EXPECT_TRUE(balance().empty());
}

TEST_F(PeerSpreadTest, P14_AMovedPeerStaysForAMinute) {
  const unsigned n = add_at(0, 0.3);
  add_at(0, 0.35);
  other = {0.2, 0.0};
  ASSERT_EQ(place(n), 0U);
  const auto first = balance();
  ASSERT_EQ(first.size(), 1U);
  const auto there = [&] {
    for (const auto& [number, peer] : peers)
      if (gid(number) == first[0]) return place(number);
    return ~0U;
  };
  ASSERT_EQ(there(), 1U);
  other = {0.0, 0.6};
  for (TimePoint end = now + 55s; now < end;) {
    for (const wire::Gid& moved : balance()) EXPECT_NE(moved, first[0]);
    ASSERT_EQ(there(), 1U);
  }
  EXPECT_EQ(balance(), first);
  EXPECT_EQ(there(), 0U);
}

TEST_F(PeerSpreadTest, P14_FewerQueuePairsReturnToTheHash) {
  queue_pairs = 3;
  const unsigned n = add_at(0, 0.4);
  add_at(0, 0.35);
  add_at(1, 0.1);
  ASSERT_EQ(balance().size(), 1U);
  ASSERT_EQ(place(n), 2U);
  EXPECT_EQ(spread.queue_pair_of(gid(n), 2), PeerSpread{1}.queue_pair_of(gid(n), 2));
  EXPECT_EQ(spread.queue_pair_of(gid(n), 1), 0U);
}

TEST_F(PeerSpreadTest, P14_PeersWithoutPathsAreForgotten) {
  const unsigned n = add_at(0, 0.4);
  add_at(0, 0.35);
  ASSERT_EQ(balance(), (std::vector{gid(n)}));
  peers.erase(n);
  add_at(0, 0.4);
  ASSERT_EQ(balance().size(), 1U);
  EXPECT_EQ(place(n), 0U);
}

// A few packets of a sample say nothing, and neither does a small sample.
TEST_F(PeerSpreadTest, P14_ChanceMovesNobody) {
  for (int i = 0; i < 200; ++i) add_at(0, 0.004);
  EXPECT_TRUE(balance(1000).empty()) << "four packets of each";
  peers.clear();
  add_at(0, 0.4);
  add_at(0, 0.4);
  EXPECT_TRUE(balance(50).empty());
  EXPECT_FALSE(balance(100).empty());
}

TEST_F(PeerSpreadTest, P14_UnknownSendersAndNoLoadsAreNothing) {
  const auto none = [] { return PeerSpread::PortsByLid{}; };
  EXPECT_TRUE(spread.balance({}, none, now).empty());
  std::vector<QueueLoad> all(2);
  all[0] = {.busy = 0.9, .received = 0.9, .senders = std::vector<std::uint16_t>(500, 7)};
  EXPECT_TRUE(spread.balance(all, none, now).empty());
}

// Peers with random loads come to rest, and no move could mend the difference that is left.
TEST_F(PeerSpreadTest, P14_LoadsComeToRest) {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 engine{seed};
    const auto random = [&engine](unsigned n) { return static_cast<unsigned>(engine() % n); };
    spread = PeerSpread{seed};
    peers.clear();
    queue_pairs = 2 + random(7);
    const unsigned n = 1 + random(60);
    double sum = 0;
    for (unsigned i = 0; i < n; ++i) add(i, std::pow(static_cast<double>(random(1000) + 1), 2));
    for (const auto& [number, peer] : peers) sum += peer.load;
    const double all = (random(90) + 10) / 100.0 * queue_pairs;
    for (auto& [number, peer] : peers) peer.load *= all / sum;
    std::map<wire::Gid, unsigned> moves;
    unsigned quiet = 0;
    for (int i = 0; i < 200 && quiet < 13; ++i) {
      const auto moved = balance(5000);
      quiet = moved.empty() ? quiet + 1 : 0;
      EXPECT_LE(moved.size(), PeerSpread::kMovesAtOnce);
      for (const wire::Gid& g : moved) EXPECT_LE(++moves[g], 10U);
    }
    ASSERT_EQ(quiet, 13U) << "moves for ever";  // longer than a peer stays
    const auto rest = loads();
    const auto [idlest, busiest] = std::ranges::minmax(rest, {}, &QueueLoad::busy);
    const double difference = busiest.busy - idlest.busy;
    if (busiest.busy < 0.5 || difference < 0.2) continue;
    const auto from =
        static_cast<unsigned>(std::ranges::max_element(rest, {}, &QueueLoad::busy) - rest.begin());
    for (const auto& [number, peer] : peers) {
      if (place(number) != from || peer.load < busiest.received * 0.01) continue;
      EXPECT_GT(peer.load * 4 / 3, difference) << "peer " << number << " could move";
    }
  }
}

}  // namespace
}  // namespace ipoib::link
