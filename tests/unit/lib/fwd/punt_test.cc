// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/punt.h"

#include <rte_cycles.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <optional>

#include "lib/fwd/ip4_header.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

/// The stage without a worker's loop; the test supplies the time.
class PuntTest : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    start();
    configs[0].punt = {.interval_us = 1000,
                       .neighbour_per_key = 3,
                       .neighbour = 8,
                       .icmp_error = 2,
                       .arp = 4,
                       .local = 5,
                       .membership = 6,
                       .nd = 3};
    make();
  }
  void make() {
    trace_.emplace(configs[0]);
    punt_.emplace(configs[0], punts_, *trace_);
    punt_->begin_loop(now_);
  }
  void wanted(std::string_view address, table::InterfaceId iface = kIb0) {
    punt_->neighbour_wanted(in_, mbuf(Ip4{}.bytes()), iface, wire::IpAddr::v4(addr(address)));
  }
  void next_interval() { punt_->begin_loop(now_ += rte_get_tsc_hz() / 1000); }
  std::uint64_t lost(Drop reason) { return counters_.drops.get(reason); }

  InterfaceCounters counters_;
  Ingress in_{kEth0, counters_};
  Counter punts_;
  std::uint64_t now_ = 1'000'000;
  std::optional<Tracer> trace_;
  std::optional<Punt> punt_;
};

TEST_F(PuntTest, P07_OneNeighbourGetsItsShareOfAnInterval) {
  for (int i = 0; i < 5; ++i) wanted("10.0.0.2");
  EXPECT_EQ(punted().size(), 3U);
  EXPECT_EQ(lost(Drop::kNeighbourPending), 2U);
  wanted("10.0.0.3");
  wanted("10.0.0.2", kIb1);
  EXPECT_EQ(punted().size(), 2U) << "others, and the same address on another link, have their own";
  // The end of the interval renews the budget, and no moment before it does.
  punt_->begin_loop(now_ + rte_get_tsc_hz() / 1000 - 1);
  wanted("10.0.0.2");
  EXPECT_EQ(punted().size(), 0U);
  next_interval();
  wanted("10.0.0.2");
  EXPECT_EQ(punted().size(), 1U);
  EXPECT_EQ(lost(Drop::kNeighbourPending), 3U);
  EXPECT_EQ(punts_.get(), 6U);
}

TEST_F(PuntTest, P07_AllNeighboursTogetherAreLimited) {
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    punt_->neighbour_wanted(in_, mbuf(Ip4{}.bytes()), kIb0, wire::IpAddr::v4(0x0a00'0000 + i));
  }
  EXPECT_EQ(punted().size(), 8U);
  EXPECT_EQ(lost(Drop::kPuntRateLimited), 100'000U - 8);
  next_interval();
  wanted("10.0.0.2");
  EXPECT_EQ(punted().size(), 1U);
}

TEST_F(PuntTest, P07_KindsHaveLimitsOfTheirOwn) {
  for (int i = 0; i < 10; ++i) {
    punt_->arp(in_, mbuf(Bytes(28)));
    punt_->local(in_, mbuf(Ip4{}.bytes()));
    punt_->membership(in_, mbuf(Ip4{}.bytes()), true);
    punt_->nd(in_, mbuf(Ip6{}.bytes()), true);
    punt_->icmp_error(in_, mbuf(Ip4{}.bytes()), Drop::kIpNoRoute,
                      wire::unreachable4(wire::IcmpUnreachable::kNet));
  }
  std::map<msg::Up::Kind, int> kinds;
  for (const Punted& p : punted()) ++kinds[p.message.kind];
  EXPECT_EQ(kinds[msg::Up::Kind::kArp], 4);
  EXPECT_EQ(kinds[msg::Up::Kind::kLocal], 5);
  EXPECT_EQ(kinds[msg::Up::Kind::kMembership], 6);
  EXPECT_EQ(kinds[msg::Up::Kind::kNd], 3);
  EXPECT_EQ(kinds[msg::Up::Kind::kIcmpError], 2);
  EXPECT_EQ(lost(Drop::kPuntRateLimited), 6U + 5U + 4U + 7U);
  EXPECT_EQ(lost(Drop::kIpNoRoute), 10U) << "counted once each, whether the error went up or not";
}

TEST_F(PuntTest, P07_FullRingNeverBlocks) {
  configs[0].punt = {.interval_us = 1000,
                     .neighbour_per_key = 10'000,
                     .neighbour = 10'000,
                     .icmp_error = 10'000,
                     .arp = 10'000,
                     .local = 10'000};
  make();
  const unsigned room = rte_ring_free_count(up[0]);
  for (unsigned i = 0; i < room; ++i) punt_->arp(in_, mbuf(Bytes(28)));
  EXPECT_EQ(lost(Drop::kPuntRingFull), 0U);
  punt_->arp(in_, mbuf(Bytes(28)));
  punt_->local(in_, mbuf(Ip4{}.bytes()));
  wanted("10.0.0.2");
  EXPECT_EQ(lost(Drop::kPuntRingFull), 3U);
  punt_->icmp_error(in_, mbuf(Ip4{}.bytes()), Drop::kIpTtlExceeded, wire::kTtlExceeded);
  EXPECT_EQ(lost(Drop::kPuntRingFull), 3U);
  EXPECT_EQ(lost(Drop::kIpTtlExceeded), 1U) << "its own reason, and no other";
  EXPECT_EQ(punts_.get(), room);
}

/// Pings arrive faster than management handles them. There is still room in the ring for messages
/// about memberships and neighbours.
TEST_F(PuntTest, P07_PingsLeaveRoomInTheRing) {
  configs[0].punt = {.interval_us = 1000, .arp = 10'000, .local = 10'000, .membership = 10'000};
  make();
  const unsigned room = rte_ring_free_count(up[0]);
  for (unsigned i = 0; i < room; ++i) punt_->local(in_, mbuf(Ip4{}.bytes()));
  const auto refused = lost(Drop::kPuntRingFull);
  EXPECT_GE(refused, room / 4 - 1);
  EXPECT_LE(refused, room / 4 + 1);
  punt_->membership(in_, mbuf(Ip4{}.bytes()), true);
  punt_->arp(in_, mbuf(Bytes(28)));
  EXPECT_EQ(lost(Drop::kPuntRingFull), refused);
  EXPECT_EQ(rte_ring_free_count(up[0]), refused - 2);
}

TEST_F(PuntTest, P07_RingsOnlyWhenManagementSleeps) {
  const auto rung = [this] {
    std::uint64_t n = 0;
    return read(doorbell.eventfd, &n, sizeof(n)) == sizeof(n) ? n : 0;
  };
  punt_->ring_doorbell();
  EXPECT_EQ(rung(), 0U) << "nothing went up";

  punt_->arp(in_, mbuf(Bytes(28)));
  punt_->ring_doorbell();
  EXPECT_EQ(rung(), 0U) << "management is awake";

  doorbell.waiting = 1;
  punt_->ring_doorbell();
  EXPECT_EQ(rung(), 0U) << "nothing new since";

  punt_->arp(in_, mbuf(Bytes(28)));
  punt_->arp(in_, mbuf(Bytes(28)));
  punt_->ring_doorbell();
  EXPECT_EQ(rung(), 1U) << "once for both";
  EXPECT_EQ(doorbell.waiting, 0U);
  punt_->arp(in_, mbuf(Bytes(28)));
  punt_->ring_doorbell();
  EXPECT_EQ(rung(), 0U) << "it has been woken already";
}

/// Many packets go to addresses without a host, beside an established flow, which loses none.
TEST_F(PuntTest, P07_StormLeavesEstablishedFlowsAlone) {
  set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", 7, 1));
  loop();
  links[0].room = 2'000;
  std::size_t flow = 0, gone_up = 0;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    Bytes storm = Ip4{.dst = "10.0.128.0"}.bytes();
    wire::Ipv4Hdr hdr = *wire::read<wire::Ipv4Hdr>(storm);
    hdr.dst.set(hdr.dst.host() + i);
    set_ip4_checksum(hdr, sizeof(hdr));
    std::memcpy(storm.data(), &hdr, sizeof(hdr));
    receive(kEth0, to_eth0(storm));
    if (i % 10 == 0) receive(kEth0, to_eth0(Ip4{}.bytes()));
    if (i % 20 != 19) continue;
    loop();
    flow += sent_by_link(kIb0).size();
    gone_up += punted().size();
  }
  EXPECT_EQ(flow, 2'000U);
  EXPECT_EQ(gone_up + all_drops(), 20'000U);
  EXPECT_GT(drops(kEth0, Drop::kPuntRateLimited), 10'000U);
}

}  // namespace
}  // namespace ipoib::fwd::test
