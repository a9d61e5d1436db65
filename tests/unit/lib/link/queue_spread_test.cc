// SPDX-License-Identifier: BSD-3-Clause
// Peers move from the queue pairs of busy workers to those of idle ones.
#include "lib/link/ipoib/queue_spread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

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
  std::vector<wire::Gid> balance(std::span<QueueLoad> measured) {
    const auto ports = [this] {
      PeerSpread::PortsByLid known;
      for (const auto& [n, peer] : peers) known[peer.lid] = gid(n);
      return known;
    };
    return spread.balance(measured, ports, now);
  }
  std::vector<wire::Gid> balance(std::size_t sample = 1000) {
    now += 5s;
    auto all = loads(sample);
    return balance(all);
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
  ASSERT_EQ(place(n), 1U);
  spread.forget_unless([&](const wire::Gid& g) { return g == gid(n); });
  EXPECT_EQ(place(n), 1U);
  spread.forget_unless([](const wire::Gid&) { return false; });
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

// The busiest worker has one peer, which cannot be divided. Another one has two.
TEST_F(PeerSpreadTest, P14_ABusyWorkerThatCannotBeRelievedHidesNoOther) {
  queue_pairs = 3;
  add_at(0, 0.95);
  add_at(1, 0.45);
  add_at(1, 0.45);
  const auto moved = balance();
  ASSERT_EQ(moved.size(), 1U);
  EXPECT_EQ(spread.queue_pair_of(moved[0], 3), 2U);
}

TEST_F(PeerSpreadTest, P14_LoadsFollowTheMoves) {
  add_at(0, 0.4);
  add_at(0, 0.3);
  auto all = loads();
  ASSERT_EQ(balance(all).size(), 1U);
  EXPECT_NEAR(all[0].busy, 0.3, 0.01);
  EXPECT_NEAR(all[1].busy, 0.4, 0.01);
}

/// Links whose queue pairs are the same workers', with peers of random loads and samples.
class RandomLoads {
 public:
  explicit RandomLoads(std::uint32_t seed) : random_{seed} {
    const unsigned n = 1 + below(40);
    links_.resize(1 + below(2));
    for (Link& link : links_) {
      link.spread = PeerSpread{random_()};
      for (unsigned i = 0; i < n; ++i) link.peers.push_back({gid(i), std::pow(1 + below(1000), 2)});
    }
    double sum = 0;
    for (const Link& link : links_)
      for (const Peer& p : link.peers) sum += p.load;
    const double all = (below(90) + 10) / 100.0 * queue_pairs_;
    for (Link& link : links_)
      for (Peer& p : link.peers) p.load *= all / sum;
  }
  /// Returns the number of peers that moved.
  std::size_t pass_period() {
    now_ += 5s;
    std::size_t moved = 0;
    std::vector<double> busy = workers();
    for (std::size_t i = 0; i < links_.size(); ++i) {
      std::vector<QueueLoad> loads = measure(links_[i], busy);
      const auto gids = links_[i].spread.balance(
          loads, [&] { return ports(links_[i]); }, now_);
      EXPECT_LE(gids.size(), PeerSpread::kMovesAtOnce);
      for (const wire::Gid& g : gids) EXPECT_LE((++moves_[{i, g}]), 10U);
      moved += gids.size();
      for (unsigned q = 0; q < queue_pairs_; ++q) busy[q] = loads[q].busy;
    }
    return moved;
  }
  /// Expects that no move would mend what is uneven.
  void expect_no_better() {
    const std::vector<double> busy = workers();
    const double idlest = *std::ranges::min_element(busy);
    for (const Link& link : links_)
      for (const Peer& p : link.peers) {
        const double own = busy[link.spread.queue_pair_of(p.gid, queue_pairs_)];
        if (own < 0.5 || own - idlest < 0.2 || p.load < 0.03 * own) continue;
        // A sample shows loads roughly.
        EXPECT_GT(p.load * 4 / 3 * 1.25, own - idlest);
      }
  }

 private:
  struct Peer {
    wire::Gid gid;
    double load;
  };
  struct Link {
    PeerSpread spread{0};
    std::vector<Peer> peers;
  };
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  static PeerSpread::PortsByLid ports(const Link& link) {
    PeerSpread::PortsByLid known;
    for (const Peer& p : link.peers) known[lid_of(p)] = p.gid;
    return known;
  }
  static std::uint16_t lid_of(const Peer& p) {
    return static_cast<std::uint16_t>(100 + (p.gid.guid() & 0xff));
  }
  std::vector<double> workers() const {
    std::vector<double> busy(queue_pairs_);
    for (const Link& link : links_)
      for (const Peer& p : link.peers)
        busy[link.spread.queue_pair_of(p.gid, queue_pairs_)] += p.load;
    return busy;
  }
  std::vector<QueueLoad> measure(const Link& link, const std::vector<double>& busy) {
    std::vector<QueueLoad> loads(queue_pairs_);
    std::vector<std::vector<double>> weights(queue_pairs_, std::vector<double>(link.peers.size()));
    for (std::size_t i = 0; i < link.peers.size(); ++i) {
      const unsigned q = link.spread.queue_pair_of(link.peers[i].gid, queue_pairs_);
      weights[q][i] = link.peers[i].load;
      loads[q].received += link.peers[i].load;
    }
    for (unsigned q = 0; q < queue_pairs_; ++q) {
      loads[q].busy = busy[q];
      if (loads[q].received == 0) continue;
      std::discrete_distribution<std::size_t> packet{weights[q].begin(), weights[q].end()};
      for (int i = 0; i < 1024; ++i)
        loads[q].senders.push_back(lid_of(link.peers[packet(random_)]));
    }
    return loads;
  }

  std::mt19937_64 random_;
  unsigned queue_pairs_ = 2 + below(7);
  std::vector<Link> links_;
  std::map<std::pair<std::size_t, wire::Gid>, unsigned> moves_;
  TimePoint now_{};
};

TEST(RandomLoads, P14_ComeToRestWhereNoMoveIsBetter) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    RandomLoads loads{seed};
    unsigned quiet = 0;
    for (int i = 0; i < 300 && quiet < 13; ++i) quiet = loads.pass_period() == 0 ? quiet + 1 : 0;
    ASSERT_EQ(quiet, 13U) << "longer than a peer stays";
    loads.expect_no_better();
  }
}

}  // namespace
}  // namespace ipoib::link
