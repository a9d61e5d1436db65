// SPDX-License-Identifier: BSD-3-Clause
// Three workers, stepped one by one, and the parts of a management lcore that assign numbers and
// pointers. Each packet is checked when it leaves: it must go to the peer to which it was sent.
//
// Worker 0 owns eth0 and eth1, worker 1 ib0, worker 2 ib1. Peer p is on ib0 if p is even, else on
// ib1; its address is 10.0.0.(p+2) or 10.1.0.(p+2), its LID 0x100 + p, its QPN 0x200 + p.
#pragma once

#include <rte_ring.h>

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "drivers/soft/ah_table.h"
#include "lib/mgmt/slow_path/neighbour_directory.h"
#include "lib/mgmt/slow_path/punt_handler.h"
#include "lib/mgmt/worker/worker_retirement.h"
#include "lib/route/route_table.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::mgmt {

class RetirementFixture : public fwd::test::WorkerFixture {
 protected:
  static constexpr unsigned kWorkers = 3;
  static constexpr unsigned kPeers = 24;
  static constexpr std::uint32_t kNumbers = 12;  ///< Neighbour numbers.
  static constexpr unsigned kRingSize = 256;     ///< Places of a ring between workers.

  RetirementFixture();
  ~RetirementFixture() override;
  void SetUp() override;
  void TearDown() override;

  // Management: a known peer has a neighbour number, an address handle and, if it is connected, a
  // queue.
  /// Returns false if there is no free number.
  bool learn(unsigned peer, bool connected = false);
  void forget(unsigned peer);
  [[nodiscard]] bool knows(unsigned peer) const { return known_.count(peer) != 0; }
  /// Runs one iteration of the management loop.
  void run_once();
  /// Sends a packet of management itself, with the peer's address handle.
  void send_own(unsigned peer);

  // Workers:
  void step(unsigned worker);
  void step_all();
  /// Receives as many of these packets as the wire and the mempool have room for.
  void receive_for(unsigned peer, unsigned packets, table::InterfaceId by = fwd::test::kEth0);
  [[nodiscard]] unsigned waiting(unsigned from, unsigned to) const {
    return rte_ring_count(between_[from * kWorkers + to]);
  }

  struct Known {
    table::NeighbourIndex number;
    fabric::AhIndex ah;
    fabric::ConnectedQueue* queue;
  };
  [[nodiscard]] const Known& known(unsigned peer) const { return known_.at(peer); }

  WorkerSet workers;
  std::unique_ptr<WorkerRetirement> retirement;
  std::unique_ptr<NeighbourDirectory> directory;
  std::unique_ptr<soft::AhTable> handles;
  unsigned arrived = 0;  ///< Packets sent to the right peer.
  unsigned lost = 0;     ///< Packets whose address handle no longer existed.

 private:
  class Queue;
  class HostEntries;

  void make_worker(unsigned number);
  void look_at_links();
  /// Checks that the packet's destination is this peer.
  void leaves(const fwd::test::Bytes& frame, unsigned peer);

  std::unique_ptr<HostEntries> host_entries_;
  std::unique_ptr<route::RouteTable> routes_;
  InterfaceTable interfaces_;
  std::unique_ptr<Injector> injector_;
  std::unique_ptr<PuntHandler> punt_;
  fabric::PortAttr port_;
  std::array<rte_ring*, kWorkers * kWorkers> between_{};
  unsigned on_wire_ = 0;  ///< Packets that wait on eth0's wire.
  std::map<unsigned, Known> known_;
  std::vector<std::unique_ptr<Queue>> queues_;
  fabric::Retired<fabric::ConnectedQueue*> old_queues_;
};

}  // namespace ipoib::mgmt
