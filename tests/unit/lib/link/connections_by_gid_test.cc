// SPDX-License-Identifier: BSD-3-Clause
// Connections between ports that are distinguished only by their GIDs: behind a router, or on a
// link layer without LIDs.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lib/wire/ipoib_cm.h"
#include "lib/wire/smp.h"
#include "tests/support/sim_connections.h"

namespace ipoib::link {
namespace {

using table::NeighbourMode;
using wire::CmAttr;
using wire::RejReason;

class ConnectionsByGid : public testing::Test {
 protected:
  ConnectionsByGid() { sim.by_gid = true; }

  SimConnections sim;
};

/// LIDs of one subnet are meaningless in another one, so the request refers to those of the
/// headers.
TEST_F(ConnectionsByGid, AreSetUpByWhatTheHeadersSay) {
  auto [a, b] = sim.two(rc(), rc());
  sim.run_for(2s);
  ASSERT_EQ(a.up().size(), 1U);
  ASSERT_EQ(b.up().size(), 1U);
  const auto requests = sim.all_sent<wire::CmReq>();
  ASSERT_FALSE(requests.empty());
  const wire::CmPath& path = requests.front().primary;
  EXPECT_FALSE(path.subnet_local());
  EXPECT_EQ(path.local_lid.host(), wire::kPermissiveLid);
  EXPECT_EQ(path.remote_lid.host(), wire::kPermissiveLid);
  EXPECT_EQ(path.local_gid, a.address().gid);
  EXPECT_EQ(path.remote_gid, b.address().gid);
  EXPECT_EQ(path.hop_limit, 64);

  const auto& mine = a.queue(a.up()[0].qpn).receive;
  const auto& theirs = b.queue(b.up()[0].qpn).receive;
  EXPECT_EQ(mine.peer_qpn, b.up()[0].qpn);
  EXPECT_EQ(theirs.peer_qpn, a.up()[0].qpn);
  for (const auto* receive : {&mine, &theirs}) {
    EXPECT_TRUE(receive->path.global);
    EXPECT_EQ(receive->path.dlid, fabric::kElsewhereLid);
    EXPECT_EQ(receive->path.hop_limit, 64);
  }
  EXPECT_EQ(mine.path.dgid, b.address().gid);
  EXPECT_EQ(theirs.path.dgid, a.address().gid);
}

TEST_F(ConnectionsByGid, AreToldApart) {
  SimSide& a = sim.add(rc());
  std::vector<SimSide*> others;
  for (int i = 0; i < 5; ++i) others.push_back(&sim.add(rc()));
  for (SimSide* other : others) {
    a.meet(*other);
    other->meet(a);
    a.talk(*other);
    other->talk(a);
  }
  sim.run_for(10s);
  EXPECT_EQ(a.up().size(), others.size());
  for (SimSide* other : others) {
    EXPECT_EQ(other->up().size(), 1U);
    EXPECT_EQ(a.way_to(*other).mode, NeighbourMode::kRc);
  }
  // One peer restarts and sends a new request: its old connection ends, and the others stay.
  others[2]->kill();
  others[2]->start();
  others[2]->meet(a);
  others[2]->talk(a);
  sim.run_for(20s);
  EXPECT_EQ(a.up().size(), others.size());
  EXPECT_EQ(others[2]->up().size(), 1U);
}

/// All other ports have the same LID; only the GID in the headers identifies the sender.
TEST_F(ConnectionsByGid, C16_NobodyElseEndsAConnection) {
  const auto sides = sim.two(rc(), rc());
  SimSide& a = sides.first;
  SimSide& b = sides.second;
  SimSide& m = sim.add(rc());
  sim.run_for(2s);
  ASSERT_EQ(a.up().size(), 1U);
  const std::uint32_t standing = a.up()[0].qpn;
  const std::uint32_t theirs = b.up().at(0).qpn;
  const std::uint64_t guid = a.manager->connections().all().begin()->second.remote_guid;

  const auto as_the_peer = [&](wire::CmReq& req) {
    req.primary.local_gid = b.address().gid;
    const auto said = wire::IpoibCmPrivate::of(b.address().qpn.host(), 65'524);
    wire::set_private(req.private_data, wire::bytes_of(said));
  };
  const auto ask = [&](const auto& change) {
    sim.meddle = [&](std::uint16_t from, std::uint16_t, wire::CmMad& mad) {
      if (from != m.lid() || mad.attr() != CmAttr::kReq) return true;
      auto req = wire::cm_message<wire::CmReq>(mad);
      change(req);
      mad = wire::make_cm_mad(mad.hdr.tid.host(), req);
      return true;
    };
    sim.sent.clear();
    m.meet(a);
    m.talk(a);
    sim.run_for(70s);  // longer than any back-off
    m.talk(a, false);
    m.lose(a);
    sim.run_for(70s);
    const auto rejections = sim.all_sent<wire::CmRej>();
    EXPECT_FALSE(rejections.empty());
    return rejections.empty() ? RejReason::kNone : rejections.front().why();
  };
  EXPECT_EQ(ask(as_the_peer), RejReason::kTimeout) << "its own; it gets no answer";
  EXPECT_GT(a.connections->counters().elsewhere, 0U);
  EXPECT_EQ(ask([&](wire::CmReq& req) {
              as_the_peer(req);
              req.local_ca_guid.set(guid);
              req.local_qpn.set(theirs);
            }),
            RejReason::kTimeout);
  EXPECT_EQ(a.manager->counters().refused_stale, 0U);
  ASSERT_EQ(a.up().size(), 1U);
  EXPECT_EQ(a.up()[0].qpn, standing);
}

}  // namespace
}  // namespace ipoib::link
