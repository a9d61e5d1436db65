// SPDX-License-Identifier: BSD-3-Clause
// Connected mode beside a host of Linux that sends: the end of its connection costs it no packet.
#include "tests/unit/lib/link/linux_peer.h"

#include <gtest/gtest.h>

namespace ipoib::link {
namespace {

/// A packet each millisecond.
void stream(SimConnections& sim, LinuxPeer& peer, Duration d) {
  for (const TimePoint end = sim.now + d; sim.now < end;) {
    peer.send();
    sim.run_for(1ms);
  }
}

/// Closes the connection of the peer, as an operator does.
void close_all(SimConnections& sim, SimSide& side) {
  for (const ConnectionInfo& row : side.up())
    ASSERT_TRUE(side.connections->close(row.handle, sim.now));
}

/// The kernel sends to the old queue pair until its time-wait is over, which also depends on the ACK
/// delay in the REP, and on the slots of its timers.
TEST(LinuxPeerTest, C07_OurDisconnectCostsThePeerNoPacket) {
  for (std::uint8_t lifetime = 0; lifetime <= 19; ++lifetime) {
    SimConnections sim;
    SimSide& own = sim.add(rc());
    LinuxPeer peer{sim, own, lifetime};
    sim.run_for(1ms);
    stream(sim, peer, 100ms);
    for (std::size_t i = 1; i <= 6; ++i) {
      stream(sim, peer, 43ms * i);  // Another phase of the kernel's clock.
      ASSERT_TRUE(peer.connected());
      close_all(sim, own);
      for (int s = 0; s < 8 && peer.ends < i; ++s) stream(sim, peer, 1s);
      ASSERT_EQ(peer.ends, i) << unsigned{lifetime};
    }
    EXPECT_EQ(peer.lost, 0U) << "of " << peer.sent << ", lifetime " << unsigned{lifetime};
    EXPECT_EQ(peer.requests, 7U) << unsigned{lifetime};
    sim.run_for(30s);
    EXPECT_EQ(own.queues(), 1U) << "old queue pairs are released";
  }
}

/// The host sends again just when this side has ended the connection for want of use. Before that,
/// its entry in this side's neighbour cache has expired, which ends nothing.
TEST(LinuxPeerTest, C07_TheEndOfAnIdleConnectionCostsThePeerNoPacket) {
  SimConnections sim;
  ConnectionConfig config = rc();
  config.idle = 20s;
  SimSide& own = sim.add(config);
  LinuxPeer peer{sim, own, 18};
  stream(sim, peer, 100ms);
  ASSERT_TRUE(peer.connected());
  own.lose(*sim.sides.at(1));
  stream(sim, peer, 5s);
  EXPECT_EQ(peer.lost, 0U);
  EXPECT_EQ(peer.requests, 1U);
  for (int i = 0; i < 60'000 && own.queues() != 0 && !own.up().empty(); ++i) sim.run_for(1ms);
  ASSERT_EQ(own.connections->counters().ended_by(ConnectionEnd::kIdle), 1U);
  stream(sim, peer, 10s);
  EXPECT_EQ(peer.ends, 1U);
  EXPECT_EQ(peer.lost, 0U) << "of " << peer.sent;
}

}  // namespace
}  // namespace ipoib::link
