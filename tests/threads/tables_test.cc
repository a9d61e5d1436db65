// SPDX-License-Identifier: BSD-3-Clause
// Tables that management changes while a worker forwards.
#include <rte_ring_elem.h>

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "tests/support/worker_fixture.h"
#include "tests/threads/worker_thread.h"

namespace ipoib::fwd::test {
namespace {

using ::ipoib::test::WorkerThread;

constexpr table::NextHopIndex kVia = 100, kVia6 = 101, kOther = 102;
constexpr table::NeighbourIndex kGateway = 7;

class TablesUnderTraffic : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    hops.set(kVia, kLives);
    hops.set(kVia6, kLives);
    hops.set(kOther, {table::NextHopKind::kBlackhole, 0, kIb0, table::kNoNeighbour});
    ASSERT_TRUE(prefixes->add(*wire::parse_prefix("172.16.0.0/16"), kVia));
    ASSERT_TRUE(prefixes6->add(*wire::parse_prefix("fd00:77::/32"), kVia6));
    start();
    set_neighbour(kGateway, ib_neighbour(kIb0, "10.0.0.2", 3, 0x77));
    loop();
  }

  /// One loop has four packets, IPv4 and IPv6. None may be lost without a count. The worker's
  /// thread also plays the wires and the receiver of punted packets.
  void forward() {
    for (const auto* dst : destinations_) receive(kEth0, to_eth0(Ip4{.dst = dst}.bytes()));
    for (const auto* dst : {"fd00:77::9", "fd00:77:8000::9"})
      receive(kEth0, ethernet(mac(0xa0), mac(0x10), 0x86dd, Ip6{.dst = dst}.bytes()));
    received_ += 4;
    links[0].room = 1000;
    links[0].tx_bursts.clear();
    worker().iterate();
    for (const SentOnLink& one : sent_by_link(kIb0)) {
      ++sent_;
      const bool is_second = wire::read<wire::Ipv4Hdr>(one.bytes, 4)->dst.host() == 0x0a00'0702;
      EXPECT_EQ(one.to.qpn, is_second ? 0x78U : 0x77U);
    }
    // A packet that is already counted as lost may still be punted, to send an ICMP error to its
    // sender.
    for (const Punted& one : punted()) waiting_ += one.message.kind != msg::Up::Kind::kIcmpError;
  }

  /// Changes tables in parallel to the worker until its loops are done.
  template <class Change>
  void run(Change change) {
    WorkerThread worker{rcu, WorkerThread::kLoops, [this] { forward(); }};
    worker_ = &worker;
    std::uint32_t changes = 0;
    while (!worker.is_over()) {
      change(changes++);
      worker.tell_of_change();
    }
    worker.join();
    EXPECT_GT(changes, 0U);
    EXPECT_GE(received_, 4U * WorkerThread::kLoops);
    EXPECT_EQ(sent_ + waiting_ + all_drops(), received_);
  }

  /// Waits while the ring is full and the worker still empties it.
  void tell(const msg::Down& message) {
    msg::Down copy = message;
    while (rte_ring_sp_enqueue_elem(down[0], &copy, sizeof(copy)) != 0 && !worker_->is_over())
      std::this_thread::yield();
  }

  static constexpr table::NextHop kLives{table::NextHopKind::kGateway, 0, kIb0, kGateway};
  std::array<const char*, 2> destinations_{"172.16.0.9", "172.16.0.200"};
  std::uint64_t received_ = 0, sent_ = 0, waiting_ = 0;
  const WorkerThread* worker_ = nullptr;  ///< Set while run() lasts.
};

TEST_F(TablesUnderTraffic, NextHopsChange) {
  run([this](std::uint32_t i) {
    const table::NextHop dead{table::NextHopKind::kUnreachable, 0, kIb0, table::kNoNeighbour};
    for (const auto hop : {kVia, kVia6}) hops.set(hop, i % 2 == 0 ? dead : kLives);
  });
}

// Longer prefixes are added and removed: groups of the IPv4 table are used again, and copies of the
// IPv6 table are swapped.
TEST_F(TablesUnderTraffic, PrefixesComeAndGo) {
  const auto longer = *wire::parse_prefix("172.16.0.128/25");
  const auto longer6 = *wire::parse_prefix("fd00:77:8000::/33");
  run([&](std::uint32_t i) {
    if (i % 2 == 0) {
      static_cast<void>(prefixes->add(longer, kOther));  // This may have to wait for its group.
      EXPECT_TRUE(prefixes6->add(longer6, kOther));
    } else {
      static_cast<void>(prefixes->remove(longer));
      EXPECT_TRUE(prefixes6->remove(longer6));
    }
  });
}

// Host entries of neighbours come and go beside a longer prefix: groups are opened and closed.
TEST_F(TablesUnderTraffic, HostEntriesComeAndGo) {
  destinations_ = {"10.0.0.2", "10.0.7.2"};
  set_neighbour(8, ib_neighbour(kIb0, "10.0.7.2", 3, 0x78));
  const auto longer = *wire::parse_prefix("10.0.0.0/24");
  const auto network = prefixes->lookup(0x0a00'6302);  // no neighbour has this address
  ASSERT_FALSE(table::is_adjacency(network));
  run([&](std::uint32_t i) {
    if (i % 3 == 0) {
      for (const table::NeighbourIndex n : {kGateway, table::NeighbourIndex{8}}) {
        const std::uint32_t addr = n == kGateway ? 0x0a00'0002 : 0x0a00'0702;
        static_cast<void>(table::add_neighbour(*prefixes, hops, addr, network, n));
      }
    } else if (i % 3 == 1) {
      EXPECT_TRUE(prefixes->add(longer, kOther));
    } else {
      EXPECT_TRUE(prefixes->remove(longer));
      for (const std::uint32_t addr : {0x0a00'0002U, 0x0a00'0702U})
        prefixes->remove_neighbour(addr, network);
    }
  });
}

// The neighbour of every route is removed and returns with the same number.
TEST_F(TablesUnderTraffic, NeighboursComeAndGo) {
  run([&](std::uint32_t i) {
    msg::Down message{};
    message.kind = i % 2 == 0 ? msg::Down::Kind::kNeighbourRemove : msg::Down::Kind::kNeighbourSet;
    message.index = kGateway;
    if (i % 2 != 0) message.neighbour = ib_neighbour(kIb0, "10.0.0.2", 3 + i % 16, 0x77);
    tell(message);
  });
}

// Multicast deliveries, which the worker keeps in its own table.
TEST_F(TablesUnderTraffic, DeliveriesComeAndGo) {
  run([&](std::uint32_t i) {
    msg::Down message{};
    message.kind = i % 2 == 0 ? msg::Down::Kind::kDeliverySet : msg::Down::Kind::kDeliveryRemove;
    message.delivery = {*wire::parse_ip("239.1.1.1"), *wire::parse_ip("192.168.1.10"), kEth0};
    message.delivery.out = 1U << kIb1;
    tell(message);
  });
}

}  // namespace
}  // namespace ipoib::fwd::test
