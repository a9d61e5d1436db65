// SPDX-License-Identifier: BSD-3-Clause
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "lib/fabric/packet_meta.h"
#include "lib/mgmt/slow_path/punt_handler.h"
#include "tests/support/mbufs.h"
#include "tests/support/packets.h"
#include "tests/unit/lib/mgmt/fake_interface.h"
#include "tests/unit/lib/mgmt/fake_route_sink.h"

namespace ipoib::mgmt {
namespace {

using Kind = msg::Up::Kind;

constexpr std::array kKinds = {Kind::kNeighbourWanted,
                               Kind::kArp,
                               Kind::kLocal,
                               Kind::kMembership,
                               Kind::kNd,
                               Kind::kIcmpError,
                               Kind::kMulticastUnknown,
                               Kind::kRedirectWanted,
                               Kind::kMulticastHeard,
                               Kind::kBroadcast,
                               Kind::kLinkFrame,
                               Kind::kForLinux};

constexpr bool has_no_packet(Kind kind) {
  return kind == Kind::kMulticastUnknown || kind == Kind::kMulticastHeard;
}

class PuntTest : public testing::Test,
                 protected route::MulticastSender,
                 protected route::DeliverySink {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fabric::register_packet_meta());
    pool_ = rte_pktmbuf_pool_create("punt_test", 63, 0, 0, 2176, SOCKET_ID_ANY);
    ASSERT_NE(pool_, nullptr);
    auto channel = WorkerChannel::create(77, -1);
    ASSERT_TRUE(channel);
    workers_.all().push_back({std::move(*channel), nullptr, 0});
    InterfaceSlot& slot = interfaces_.add({0});
    slot.control = &control_;
    slot.usable = {*wire::parse_prefix("192.168.1.1/24"), *wire::parse_prefix("fd00:1::1/64")};
    injector_.emplace(interfaces_, workers_, InjectBuffers{pool_, pool_});
    punt_.emplace(interfaces_, *injector_, 63, 1);
    punt_->set_multicast(router_);
    punt_->set_routes(routes_);
  }
  void TearDown() override {
    for (const link::HeldPacket held : control_.held)
      rte_pktmbuf_free(reinterpret_cast<rte_mbuf*>(held));
    workers_.all().front().channel->drain();
    EXPECT_EQ(rte_mempool_avail_count(pool_), 63U) << "packets leaked";
    workers_.all().clear();
    rte_mempool_free(pool_);
  }

  void send(table::InterfaceId, std::vector<std::byte>) override {}
  void set(const table::Delivery&) override {}
  void remove(table::InterfaceId, const wire::IpAddr&, const wire::IpAddr&) override {}

  /// Returns a UDP packet.
  rte_mbuf* packet(const char* from, const char* to) {
    return test::mbuf_of(pool_, fwd::test::ip_packet(*wire::parse_ip(from), *wire::parse_ip(to), 17,
                                                     std::array<std::byte, 8>{}));
  }
  void handle(Kind kind, table::InterfaceId iface, rte_mbuf* m) {
    msg::Up up{};
    up.kind = kind;
    up.iface = iface;
    up.mbuf = m;
    up.icmp_type = is_v6(m) ? 1 : 3;
    up.addr = *wire::parse_ip("192.168.1.9");
    punt_->handle(up);
  }
  static bool is_v6(const rte_mbuf* m) {
    return m != nullptr && rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*)->version() == 6;
  }
  /// Returns the number of messages sent to the worker since the last call, and frees their
  /// packets.
  unsigned sent() {
    unsigned n = 0;
    msg::Down down;
    while (rte_ring_dequeue_elem(workers_.all().front().channel->down(), &down, sizeof down) == 0) {
      rte_pktmbuf_free(down.mbuf);
      ++n;
    }
    return n;
  }

  rte_mempool* pool_ = nullptr;
  InterfaceTable interfaces_;
  FakeInterface control_{{*wire::parse_prefix("192.168.1.1/24")}};
  WorkerSet workers_;
  route::MulticastRouter router_{{}, *this, *this};
  FakeRouteSink tables_;
  route::RouteTable routes_{tables_};
  std::optional<Injector> injector_;
  std::optional<PuntHandler> punt_;
};

// A message of any kind that names no interface, or one that does not exist, is counted, and its
// packet returns to the pool.
TEST_F(PuntTest, MessagesThatNameNoInterfaceAreCountedAndFreed) {
  std::uint64_t lost = 0;
  for (const Kind kind : kKinds) {
    for (const table::InterfaceId iface : {table::kNoInterface, table::InterfaceId{1}}) {
      for (const bool v6 : {false, true}) {
        const bool none = has_no_packet(kind);
        rte_mbuf* const m = none ? nullptr
                            : v6 ? packet("fd00:1::5", "fd00:1::1")
                                 : packet("192.168.1.5", "192.168.1.1");
        handle(kind, iface, m);
        lost += none ? 0 : 1;
        EXPECT_EQ(punt_->drops().get(Drop::kLocalFromSelf), lost) << static_cast<int>(kind);
        EXPECT_EQ(sent(), 0U);
      }
    }
  }
}

// The messages are of the same kinds, from an existing interface: each packet is answered, held or
// freed.
TEST_F(PuntTest, MessagesOfAnInterfaceLeaveNothingBehind) {
  for (const Kind kind : kKinds)
    for (const bool v6 : {false, true})
      handle(kind, 0,
             has_no_packet(kind) ? nullptr
             : v6                ? packet("fd00:1::5", "fd00:1::1")
                                 : packet("192.168.1.5", "192.168.1.1"));
  EXPECT_EQ(punt_->drops().get(Drop::kLocalFromSelf), 0U);
  EXPECT_EQ(control_.held.size(), 2U);
  // The messages are a port unreachable for each kLocal and kMembership, the requested ICMP errors,
  // and a redirect.
  EXPECT_EQ(sent(), 7U);
}

TEST_F(PuntTest, NothingIsToldToAnOwnAddress) {
  handle(Kind::kIcmpError, 0, packet("192.168.1.1", "10.0.0.9"));
  handle(Kind::kIcmpError, 0, packet("fd00:1::1", "fd00:2::9"));
  handle(Kind::kRedirectWanted, 0, packet("192.168.1.1", "10.0.0.9"));
  handle(Kind::kRedirectWanted, 0, packet("fd00:1::1", "fd00:2::9"));
  handle(Kind::kLocal, 0, packet("192.168.1.1", "192.168.1.1"));
  handle(Kind::kLocal, 0, packet("fd00:1::1", "fd00:1::1"));
  EXPECT_EQ(sent(), 0U);
  EXPECT_EQ(punt_->icmp_counters().suppressed, 4U);
  EXPECT_EQ(interfaces_.find(table::InterfaceId{0})->drops.get(Drop::kIpMartianSource), 2U);
  EXPECT_EQ(punt_->icmp_counters().sent, 0U);
}

// An own link-local address of another interface passes the fast path. Neither a querier nor a
// listener of that address exists on the wire.
TEST_F(PuntTest, MembershipMessagesFromAnOwnAddressAreMartian) {
  for (const auto& [from, to, protocol] :
       {std::tuple{"192.168.1.1", "224.0.0.1", std::uint8_t{2}}, {"fd00:1::1", "ff02::1", 58}}) {
    std::array<std::byte, 24> query{
        std::byte{protocol == 2 ? std::uint8_t{0x11} : std::uint8_t{130}}};
    handle(Kind::kMembership, 0,
           test::mbuf_of(pool_, fwd::test::ip_packet(*wire::parse_ip(from), *wire::parse_ip(to),
                                                     protocol, query, 1)));
  }
  EXPECT_EQ(punt_->counters().membership, 0U);
  EXPECT_EQ(interfaces_.find(table::InterfaceId{0})->drops.get(Drop::kIpMartianSource), 2U);
}

// These packets of this node itself have waited for their neighbour until it failed.
TEST_F(PuntTest, OwnPacketsThatWaitedInVainAreCountedAndToldToNobody) {
  for (rte_mbuf* m : {packet("192.168.1.1", "192.168.1.9"), packet("fd00:1::1", "fd00:1::9")}) {
    fabric::meta_of(m).held = {
        table::kNoInterface, table::kNoInterface, fabric::Onward::kByRoute, false, false, 0};
    handle(Kind::kNeighbourWanted, 0, m);
    control_.held.clear();
    punt_->drop_held(m, Drop::kNeighbourFailed, true);
  }
  EXPECT_EQ(interfaces_.find(table::InterfaceId{0})->drops.get(Drop::kNeighbourFailed), 2U);
  EXPECT_EQ(sent(), 0U);
}

}  // namespace
}  // namespace ipoib::mgmt
