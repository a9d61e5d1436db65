// SPDX-License-Identifier: BSD-3-Clause
// Packets that management answers, holds and sends: long packets, shared ones, and packets of a
// node without free packet buffers.
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/fabric/packet_meta.h"
#include "lib/mgmt/slow_path/punt_handler.h"
#include "lib/wire/icmpv6.h"
#include "tests/support/ip4_fragments.h"
#include "tests/support/mbufs.h"
#include "tests/support/packets.h"
#include "tests/unit/lib/mgmt/fake_interface.h"
#include "tests/unit/lib/mgmt/fake_route_sink.h"

namespace ipoib::mgmt {
namespace {

using Bytes = std::vector<std::byte>;
using Kind = msg::Up::Kind;
using DownKind = msg::Down::Kind;

constexpr unsigned kPool = 255, kReserve = 31, kMaxHeld = 64;
constexpr std::uint16_t kRoom = 2048;

/// A message to a worker, with its packet as octets.
struct Sent {
  msg::Down message;
  Bytes bytes;
};

class PuntPackets : public testing::Test,
                    protected route::MulticastSender,
                    protected route::DeliverySink {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fabric::register_packet_meta());
    constexpr std::uint16_t kSize = kRoom + RTE_PKTMBUF_HEADROOM;
    pool_ = rte_pktmbuf_pool_create("punt_packets", kPool, 0, 0, kSize, -1);
    reserve_ = rte_pktmbuf_pool_create("punt_reserve", kReserve, 0, 0, kSize, -1);
    ASSERT_TRUE(pool_ != nullptr && reserve_ != nullptr);
    auto channel = WorkerChannel::create(78, -1);
    ASSERT_TRUE(channel);
    workers_.all().push_back({std::move(*channel), nullptr, 0});
    for (FakeInterface& control : controls_) {
      InterfaceSlot& slot = interfaces_.add({0});
      slot.control = &control;
      slot.usable = {*wire::parse_prefix("192.168.1.1/24"), *wire::parse_prefix("fd00:1::1/64")};
    }
    injector_.emplace(interfaces_, workers_, InjectBuffers{pool_, reserve_});
    punt_.emplace(interfaces_, *injector_, kMaxHeld, 1);
    punt_->set_multicast(router_);
    punt_->set_routes(routes_);
  }
  void TearDown() override {
    for (FakeInterface& control : controls_)
      for (const link::HeldPacket held : control.held)
        punt_->drop_held(reinterpret_cast<rte_mbuf*>(held), Drop::kLinkDown, false);
    for (const auto& slot : interfaces_) EXPECT_EQ(slot->held, 0U);
    sent();
    EXPECT_EQ(rte_mempool_avail_count(pool_), kPool) << "packets leaked";
    EXPECT_EQ(rte_mempool_avail_count(reserve_), kReserve) << "packets leaked";
    workers_.all().clear();
    rte_mempool_free(pool_);
    rte_mempool_free(reserve_);
  }

  void send(table::InterfaceId, std::vector<std::byte>) override {}
  void set(const table::Delivery&) override {}
  void remove(table::InterfaceId, const wire::IpAddr&, const wire::IpAddr&) override {}

  /// Returns a packet in segments of up to `segment` octets. Each mbuf is full to its end, as
  /// devices leave them.
  rte_mbuf* mbuf(const Bytes& bytes, std::size_t segment = kRoom) {
    rte_mbuf* head = nullptr;
    for (std::size_t at = 0; at < bytes.size(); at += segment) {
      const auto len = static_cast<std::uint16_t>(std::min(segment, bytes.size() - at));
      rte_mbuf* const m = rte_pktmbuf_alloc(pool_);
      m->data_off = static_cast<std::uint16_t>(m->buf_len - len);
      m->data_len = len;
      m->pkt_len = len;
      std::memcpy(rte_pktmbuf_mtod(m, void*), &bytes[at], len);
      if (head == nullptr)
        head = m;
      else
        EXPECT_EQ(rte_pktmbuf_chain(head, m), 0);
    }
    return head;
  }
  /// Returns an echo request of `octets` octets in total, or the reply to it.
  static Bytes echo4(std::size_t octets, bool reply = false) {
    const auto here = wire::IpAddr::v4(0xc0a8'0101), there = wire::IpAddr::v4(0xc0a8'0105);
    return fwd::test::echo_packet(reply ? here : there, reply ? there : here, octets - 28, reply);
  }
  static Bytes echo6(std::size_t octets, bool reply = false) {
    const wire::IpAddr here = *wire::parse_ip("fd00:1::1"), there = *wire::parse_ip("fd00:1::5");
    return fwd::test::echo_packet(reply ? here : there, reply ? there : here, octets - 48, reply);
  }
  void handle(Kind kind, rte_mbuf* m, table::InterfaceId iface = 0,
              const char* addr = "192.168.1.9") {
    msg::Up up{};
    up.kind = kind;
    up.iface = iface;
    up.icmp_type = 3;
    up.mbuf = m;
    up.addr = *wire::parse_ip(addr);
    punt_->handle(up);
  }
  void hold(rte_mbuf* m, table::InterfaceId out, table::InterfaceId in = table::kNoInterface,
            fabric::Onward onward = fabric::Onward::kByRoute) {
    fabric::meta_of(m).held = {in, table::kNoInterface, onward, false, false, 0};
    handle(Kind::kNeighbourWanted, m, out);
  }
  /// True if a packet of this sender waits for a neighbour on `out`; else it was dropped. `link`: its
  /// link-layer sender; by default one of its own.
  bool waits(table::InterfaceId out, std::string_view from,
             std::optional<std::uint32_t> link = std::nullopt, bool neighbour = false) {
    const wire::IpAddr src = *wire::parse_ip(from);
    rte_mbuf* const m = mbuf(fwd::test::echo_packet(src, *wire::parse_ip("10.0.0.9"), 64));
    fabric::meta_of(m).held = {.in_iface = table::kNoInterface,
                               .out_iface = table::kNoInterface,
                               .onward = fabric::Onward::kByRoute,
                               .few = false,
                               .neighbour = neighbour,
                               .link_sender = link.value_or(src.v4_host())};
    handle(Kind::kNeighbourWanted, m, out);
    if (punt_->crowded(m) == link::Crowded::kNo) return true;
    controls_[out].held.pop_back();
    punt_->drop_held(m, Drop::kNeighbourPending, false);
    return false;
  }
  std::vector<Sent> sent() {
    std::vector<Sent> all;
    msg::Down down;
    while (rte_ring_dequeue_elem(workers_.all().front().channel->down(), &down, sizeof down) == 0) {
      all.push_back({down, test::take(down.mbuf)});
    }
    return all;
  }
  std::uint64_t drops(Drop reason) {
    return interfaces_.find(table::InterfaceId{0})->drops.get(reason);
  }
  /// Takes all mbufs of the pool until give_back().
  std::vector<rte_mbuf*> drain() {
    std::vector<rte_mbuf*> all;
    while (rte_mbuf* m = rte_pktmbuf_alloc(pool_)) all.push_back(m);
    return all;
  }
  static void give_back(std::vector<rte_mbuf*>& all) {
    rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
    all.clear();
  }

  rte_mempool* pool_ = nullptr;
  rte_mempool* reserve_ = nullptr;
  InterfaceTable interfaces_;
  const std::vector<wire::IpPrefix> own_{*wire::parse_prefix("192.168.1.1/24"),
                                         *wire::parse_prefix("10.9.0.1/16")};
  std::array<FakeInterface, 3> controls_{FakeInterface{own_}, FakeInterface{own_},
                                         FakeInterface{own_}};
  WorkerSet workers_;
  route::MulticastRouter router_{{}, *this, *this};
  FakeRouteSink tables_;
  route::RouteTable routes_{tables_};
  std::optional<Injector> injector_;
  std::optional<PuntHandler> punt_;
};

/// The requests are segmented like packets of a connection, and no segment has room for more
/// octets.
TEST_F(PuntPackets, LongPingsAreAnswered) {
  for (const std::size_t octets : {60U, 2048U, 2049U, 4200U, 9000U, 65'520U}) {
    for (const std::size_t segment : {std::size_t{kRoom}, std::size_t{1000}}) {
      handle(Kind::kLocal, mbuf(echo4(octets), segment));
      handle(Kind::kLocal, mbuf(echo6(octets), segment));
      const auto answers = sent();
      ASSERT_EQ(answers.size(), 2U) << octets;
      EXPECT_EQ(answers[0].bytes, echo4(octets, true));
      EXPECT_EQ(answers[1].bytes, echo6(octets, true));
      for (const Sent& s : answers) {
        EXPECT_EQ(s.message.kind, DownKind::kSendRouted);
        EXPECT_EQ(s.message.in, table::kNoInterface) << "this node's own";
      }
    }
  }
  EXPECT_EQ(drops(Drop::kLocalUnsupported), 0U);
}

/// The whole of IPv6 fragments; empty unless they are all of a packet.
Bytes whole6(const std::vector<Bytes>& parts) {
  struct NoLoss final : route::FragmentSink {
    void fragment_lost(table::InterfaceId, Drop) override { ADD_FAILURE(); }
    void packet_timed_out(table::InterfaceId, std::span<const std::byte>) override {}
  } sink;
  route::Reassembler reassembler{sink};
  Bytes packet;
  for (const Bytes& part : parts) {
    EXPECT_LE(part.size(), wire::kMinIpv6Mtu);
    const auto fragment = route::fragment_of(part);
    if (!fragment) return {};
    if (const auto whole = reassembler.add(*fragment, 0, TimePoint{}))
      packet.assign(whole->packet.begin(), whole->packet.end());
  }
  return packet;
}

TEST_F(PuntPackets, P05_PingsInFragmentsAreAnswered) {
  for (const std::size_t octets : {3000U, 17'000U, 65'520U}) {
    const auto before = punt_->counters();
    const auto requests4 = test::fragments4(echo4(octets), 1480, 0);
    for (const Bytes& part : requests4) handle(Kind::kLocal, mbuf(part));
    const auto answers = sent();
    ASSERT_EQ(answers.size(), 1U) << octets;
    EXPECT_EQ(answers[0].bytes, echo4(octets, true)) << "the worker makes fragments of it";
    const auto requests6 = route::fragments6(echo6(octets), 1280, 5);
    // A fragment may be a chain.
    for (const Bytes& part : requests6) handle(Kind::kLocal, mbuf(part, 1000));
    std::vector<Bytes> parts;
    for (const Sent& s : sent()) parts.push_back(s.bytes);
    EXPECT_EQ(whole6(parts), echo6(octets, true)) << "this node makes them";
    EXPECT_EQ(punt_->counters().answered, before.answered + 2);
    EXPECT_EQ(punt_->counters().joined,
              before.joined + requests4.size() - 1 + requests6.size() - 1);
  }
  EXPECT_EQ(drops(Drop::kLocalUnsupported), 0U);
  EXPECT_EQ(punt_->waiting_fragments(), 0U);
}

TEST_F(PuntPackets, P05_SendersHearOfPacketsThatStayInPieces) {
  const auto v4 = test::fragments4(echo4(3000), 1480);
  const auto v6 = route::fragments6(echo6(3000), 1280, 5);
  handle(Kind::kLocal, mbuf(v4[0]));
  handle(Kind::kLocal, mbuf(v6[0]));
  EXPECT_EQ(punt_->waiting_fragments(), 2U);
  ASSERT_TRUE(punt_->next_deadline());
  punt_->set_now(*punt_->next_deadline());
  punt_->tick();
  EXPECT_EQ(punt_->waiting_fragments(), 0U);
  EXPECT_EQ(drops(Drop::kIpFragmentTimeout), 2U);
  const auto errors = sent();
  ASSERT_EQ(errors.size(), 2U);
  // Time exceeded, code 1: fragment reassembly.
  EXPECT_EQ(errors[0].bytes.at(20), std::byte{11});
  EXPECT_EQ(errors[0].bytes.at(21), std::byte{1});
  EXPECT_EQ(errors[1].bytes.at(40), std::byte{3});
  EXPECT_EQ(errors[1].bytes.at(41), std::byte{1});
}

TEST_F(PuntPackets, PingsAreAnsweredFromTheAddressThatWasPinged) {
  auto& usable = interfaces_.find(table::InterfaceId{0})->usable;
  usable.insert(usable.begin(),
                {*wire::parse_prefix("192.168.1.2/24"), *wire::parse_prefix("fd00:1::2/64")});
  handle(Kind::kLocal, mbuf(echo4(84)));
  handle(Kind::kLocal, mbuf(echo6(104)));
  const auto answers = sent();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].bytes, echo4(84, true));
  EXPECT_EQ(answers[1].bytes, echo6(104, true));
}

TEST_F(PuntPackets, NothingIsAnsweredToAnOwnAddress) {
  Bytes ping = echo6(60);
  std::copy_n(&ping[24], 16, &ping[8]);  // the source is the destination
  const auto hdr = *wire::read<wire::Ipv6Hdr>(ping);
  std::fill_n(&ping[42], 2, std::byte{0});
  const wire::Be16 checksum{wire::icmp6_checksum(hdr.src, hdr.dst, std::span{ping}.subspan(40))};
  std::memcpy(&ping[42], &checksum, sizeof checksum);
  handle(Kind::kLocal, mbuf(ping, kRoom));
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(drops(Drop::kIpMartianSource), 1U);
}

/// A shared echo request is not changed; the answer is a copy of it.
TEST_F(PuntPackets, SharedPacketsStayAsTheyAre) {
  const Bytes ping = echo4(100);
  rte_mbuf* const m = mbuf(ping);
  rte_mbuf* const indirect = rte_pktmbuf_clone(m, pool_);
  rte_mbuf_refcnt_update(m, 1);
  handle(Kind::kLocal, m);
  handle(Kind::kLocal, indirect);
  const auto answers = sent();
  ASSERT_EQ(answers.size(), 2U);
  for (const Sent& s : answers) EXPECT_EQ(s.bytes, echo4(100, true));
  EXPECT_EQ(std::memcmp(rte_pktmbuf_mtod(m, void*), ping.data(), ping.size()), 0);
  rte_pktmbuf_free(m);
}

TEST_F(PuntPackets, ALongAnswerWithoutMbufsIsCounted) {
  rte_mbuf* const m = mbuf(echo4(9000));
  auto taken = drain();
  handle(Kind::kLocal, m);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(drops(Drop::kNoMbuf), 1U);
  EXPECT_EQ(punt_->counters().answered, 1U);
  EXPECT_EQ(injector_->originated(), 1U);
  EXPECT_EQ(rte_mempool_avail_count(reserve_), kReserve) << "which is for short packets";
  give_back(taken);
}

/// The reserve lets the node send the messages that it depends on: ARP, neighbour discovery, ICMP
/// errors.
TEST_F(PuntPackets, OwnPacketsHaveAReserve) {
  std::vector<rte_mbuf*> taken = drain();
  injector_->send_raw(0, 5, 0xffffff, Bytes(60));
  injector_->send_on_interface(0, echo4(1280));
  EXPECT_EQ(rte_mempool_avail_count(reserve_), kReserve - 2);
  EXPECT_EQ(sent().size(), 2U);
  EXPECT_EQ(drops(Drop::kNoMbuf), 0U);
  // The reserve runs out, too; then losses are counted.
  for (unsigned i = 0; i < kReserve + 5; ++i) injector_->send_raw(0, 5, 0xffffff, Bytes(60));
  EXPECT_EQ(sent().size(), kReserve);
  EXPECT_EQ(drops(Drop::kNoMbuf), 5U);
  give_back(taken);
}

TEST_F(PuntPackets, ErrorsAreToldOutOfTheReserve) {
  rte_mbuf* const lost = mbuf(echo4(60));
  std::vector<rte_mbuf*> taken = drain();
  handle(Kind::kIcmpError, lost);
  EXPECT_EQ(punt_->icmp_counters().sent, 1U);
  EXPECT_EQ(sent().size(), 1U);
  give_back(taken);
}

TEST_F(PuntPackets, U03_NoErrorIsAboutADirectedBroadcast) {
  const auto to = [](const char* dst) {
    return fwd::test::echo_packet(*wire::parse_ip("10.0.0.9"), *wire::parse_ip(dst), 32);
  };
  const auto is_told = [&](const char* dst) {
    const auto before = punt_->icmp_counters().suppressed;
    handle(Kind::kIcmpError, mbuf(to(dst)));
    const std::size_t told = sent().size();
    EXPECT_EQ(punt_->icmp_counters().suppressed + told, before + 1);
    return told != 0;
  };
  ASSERT_TRUE(routes_.add_address(0, *wire::parse_prefix("192.168.1.1/24")));
  ASSERT_TRUE(routes_.add_address(1, *wire::parse_prefix("10.1.2.1/24")));
  interfaces_.find(table::InterfaceId{1})->usable = {*wire::parse_prefix("10.1.2.1/24")};
  EXPECT_FALSE(is_told("192.168.1.255"));
  EXPECT_FALSE(is_told("192.168.1.0")) << "the obsolete form";
  EXPECT_FALSE(is_told("255.255.255.255"));
  EXPECT_TRUE(is_told("192.168.2.255")) << "of no prefix of this node";
  EXPECT_TRUE(is_told("10.255.255.255")) << "a host, unless an interface is set";
  routes_.set_all_subnets(1, true);
  EXPECT_FALSE(is_told("10.255.255.255")) << "to all subnets";
  ASSERT_TRUE(
      routes_.add_static(*wire::parse_prefix("10.255.255.255/32"), {*wire::parse_ip("10.1.2.9")}));
  EXPECT_TRUE(is_told("10.255.255.255")) << "a host behind a gateway";
}

/// The reserve is used only when the pool is empty.
TEST_F(PuntPackets, TheReserveIsTheLastToGo) {
  for (unsigned i = 0; i < kPool; ++i) injector_->send_raw(0, 5, 0xffffff, Bytes(60));
  EXPECT_EQ(rte_mempool_avail_count(reserve_), kReserve);
  EXPECT_EQ(sent().size(), kPool);
}

TEST_F(PuntPackets, HeldPacketsGoOnByTheirIngress) {
  hold(mbuf(echo4(100)), 1, 2);
  hold(mbuf(echo4(100)), 1);
  for (const link::HeldPacket held : controls_[1].held)
    punt_->send_held(reinterpret_cast<rte_mbuf*>(held));
  controls_[1].held.clear();
  const auto down = sent();
  ASSERT_EQ(down.size(), 2U);
  EXPECT_EQ(down[0].message.kind, DownKind::kSendRouted);
  EXPECT_EQ(down[0].message.in, 2);
  EXPECT_EQ(down[1].message.in, table::kNoInterface);
}

/// Workers have copied packets to broadcasts and groups for each interface, and the routes may name
/// several. Another packet to such an address may have a route by the gateway that it waited for.
TEST_F(PuntPackets, U03_HeldCopiesLeaveByTheInterfaceThatTheyWaitedFor) {
  using fabric::Onward;
  FakeInterface control{{*wire::parse_prefix("10.1.2.1/24")}};
  link::Interface* const before =
      std::exchange(interfaces_.find(table::InterfaceId{1})->control, &control);
  for (const auto onward : {Onward::kByRoute, Onward::kOnInterface, Onward::kToRouters}) {
    const auto packet =
        fwd::test::echo_packet(*wire::parse_ip("10.0.0.9"), *wire::parse_ip("10.255.255.255"), 32);
    hold(mbuf(packet), 1, 2, onward);
    for (const link::HeldPacket held : control.held)
      punt_->send_held(reinterpret_cast<rte_mbuf*>(held));
    control.held.clear();
  }
  interfaces_.find(table::InterfaceId{1})->control = before;
  const auto down = sent();
  ASSERT_EQ(down.size(), 3U);
  EXPECT_EQ(down[0].message.kind, DownKind::kSendRouted) << "by a gateway";
  EXPECT_EQ(down[1].message.kind, DownKind::kSendOnInterface);
  EXPECT_EQ(down[2].message.kind, DownKind::kSendToRouters);
  for (const Sent& s : down) {
    EXPECT_EQ(s.message.iface, 1);
    EXPECT_EQ(s.message.in, 2);
  }
}

/// One interface can hold half of the part that one sender may use, the next one half of the rest,
/// and so on, so that none is shut out. The limit counts segments, not packets.
TEST_F(PuntPackets, HeldPacketsLeaveRoomForOthers) {
  const auto fill = [this](table::InterfaceId out, std::size_t octets) {
    for (unsigned n = 0;; ++n) {
      rte_mbuf* const m = mbuf(echo4(octets));
      hold(m, out);
      if (punt_->crowded(m) == link::Crowded::kNo) continue;
      controls_[out].held.pop_back();
      punt_->drop_held(m, Drop::kNeighbourPending, false);
      return n;
    }
  };
  constexpr unsigned kOfOne = kMaxHeld - kMaxHeld / 4;
  EXPECT_EQ(fill(0, 100), kOfOne / 2);
  EXPECT_EQ(fill(1, 4 * kRoom), kOfOne / 4 / 4) << "of four mbufs each";
  EXPECT_EQ(fill(2, 100), kOfOne / 8);
  std::size_t held = 0;
  for (const auto& slot : interfaces_) held += slot->held;
  EXPECT_LE(held, kOfOne);
  EXPECT_EQ(drops(Drop::kNeighbourPending), 1U);
  // Released packets make room.
  for (const link::HeldPacket m : controls_[0].held)
    punt_->send_held(reinterpret_cast<rte_mbuf*>(m));
  controls_[0].held.clear();
  sent();
  EXPECT_GT(fill(2, 100), kOfOne / 8);
}

/// One sender leaves a quarter of the limit to senders of which few packets wait, also on the
/// interface that it uses most.
TEST_F(PuntPackets, P16_TheLastQuarterOfHeldPacketsIsForSendersWithFew) {
  std::size_t held = 0;
  for (table::InterfaceId out = 0; out < 3; ++out)
    while (waits(out, "192.168.1.66")) ++held;
  EXPECT_LE(held, kMaxHeld * 3 / 4);
  for (table::InterfaceId out = 0; out < 3; ++out) EXPECT_TRUE(waits(out, "192.168.1.67")) << out;
  EXPECT_TRUE(waits(0, "192.168.1.67"));
  EXPECT_FALSE(waits(0, "192.168.1.67")) << "it has more than few now";
  // Its packets that have left do not count.
  for (link::HeldPacket m : controls_[0].held) punt_->send_held(reinterpret_cast<rte_mbuf*>(m));
  controls_[0].held.clear();
  sent();
  EXPECT_TRUE(waits(0, "192.168.1.66"));
  EXPECT_TRUE(waits(0, "192.168.1.68"));
}

/// Made-up senders have few packets each, but they are of one interface.
TEST_F(PuntPackets, P16_ManySendersOnOneInterfaceLeaveHeldPacketsToOthers) {
  for (unsigned n = 0; n < 100; ++n) waits(0, fmt::format("192.168.1.{}", 100 + n));
  EXPECT_EQ(interfaces_.find(table::InterfaceId{0})->held, (kMaxHeld - kMaxHeld / 8) / 2);
  EXPECT_TRUE(waits(1, "192.168.1.20"));
  for (unsigned n = 0; n < 100; ++n) waits(1, fmt::format("192.168.1.{}", 100 + n));
  EXPECT_TRUE(waits(2, "192.168.1.21"));
}

/// A host that forges the IP sources of its packets gets no more than any other sender.
TEST_F(PuntPackets, P16_ForgedSourcesOfOneLinkSenderLeaveTheLastQuarter) {
  std::size_t held = 0;
  for (table::InterfaceId out = 0; out < 3; ++out)
    for (unsigned n = 0; n < 100; ++n)
      if (waits(out, fmt::format("10.9.{}.{}", out, n), 7)) ++held;
  EXPECT_LE(held, kMaxHeld * 3 / 4);
  for (table::InterfaceId out = 0; out < 3; ++out) EXPECT_TRUE(waits(out, "192.168.1.67")) << out;
}

/// Link-layer addresses can be forged, too: the last eighth is for neighbours, which cannot.
TEST_F(PuntPackets, P16_TheLastEighthOfHeldPacketsIsForNeighbours) {
  std::size_t held = 0;
  for (table::InterfaceId out = 0; out < 3; ++out)
    for (unsigned n = 0; n < 100; ++n)
      if (waits(out, fmt::format("10.9.{}.{}", out, n))) ++held;
  EXPECT_LE(held, kMaxHeld * 7 / 8);
  for (table::InterfaceId out = 0; out < 3; ++out)
    EXPECT_TRUE(waits(out, "192.168.1.67", std::nullopt, true)) << out;
}

/// RFC 1812 §5.2.7.2: a redirect goes to the host, about one destination host, from the own address
/// of the subnet that the host shares with the next hop.
TEST_F(PuntPackets, RedirectsAreTold) {
  const auto udp = [](std::uint32_t src) {
    Bytes out = echo4(60);
    wire::Ipv4Hdr ip = *wire::read<wire::Ipv4Hdr>(out);
    ip.src.set(src);
    std::memcpy(out.data(), &ip, sizeof ip);
    return out;
  };
  handle(Kind::kRedirectWanted, mbuf(udp(0xc0a8'0105)), 0, "192.168.1.9");
  handle(Kind::kRedirectWanted, mbuf(udp(0x0a09'0105)), 0, "10.9.7.7");
  const auto told = sent();
  ASSERT_EQ(told.size(), 2U);
  const auto ip = *wire::read<wire::Ipv4Hdr>(told[0].bytes);
  EXPECT_EQ(ip.src.host(), 0xc0a8'0101U);
  EXPECT_EQ(ip.dst.host(), 0xc0a8'0105U);
  const auto icmp = *wire::read<wire::IcmpHdr>(told[0].bytes, 20);
  EXPECT_EQ(icmp.type, 5);
  EXPECT_EQ(icmp.code, 1);
  EXPECT_EQ(icmp.rest.host(), 0xc0a8'0109U) << "the gateway";
  EXPECT_EQ(wire::internet_checksum(std::span{told[0].bytes}.subspan(20)), 0);
  EXPECT_EQ(Bytes(told[0].bytes.begin() + 28, told[0].bytes.end()), udp(0xc0a8'0105));
  EXPECT_EQ(wire::read<wire::Ipv4Hdr>(told[1].bytes)->src.host(), 0x0a09'0001U);

  // The next hop is on another subnet of the same link, or the host is on no subnet of this node.
  handle(Kind::kRedirectWanted, mbuf(udp(0xc0a8'0105)), 0, "10.9.7.7");
  handle(Kind::kRedirectWanted, mbuf(udp(0xac10'0001)), 0, "192.168.1.9");
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(punt_->icmp_counters().suppressed, 2U);
  // Redirects to one host are rate-limited.
  for (int i = 0; i < 100; ++i)
    handle(Kind::kRedirectWanted, mbuf(udp(0xc0a8'0106)), 0, "192.168.1.9");
  EXPECT_LE(sent().size(), 10U);
}

/// Neighbour discovery sends the redirects of IPv6; here it does not run, and counts them.
TEST_F(PuntPackets, LimitedRedirectsOfIpv6AreCounted) {
  for (int i = 0; i < 50; ++i)
    handle(Kind::kRedirectWanted, mbuf(echo6(100, true)), 0, "fd00:1::9");
  const auto suppressed = punt_->icmp_counters().suppressed;
  EXPECT_GE(suppressed, 40U);
  EXPECT_EQ(suppressed + controls_[0].ip_counters().nd.unsent, 50U);
}

TEST_F(PuntPackets, EchoesToAGroupAreLimitedAndCounted) {
  const wire::IpAddr group = wire::all_nodes(), host = *wire::parse_ip("fd00:1::5");
  for (int i = 0; i < 50; ++i)
    handle(Kind::kLocal, mbuf(fwd::test::echo_packet(host, group, 52, false)));
  const auto answers = sent().size();
  EXPECT_GE(answers, 1U);
  EXPECT_LE(answers, 10U);
  EXPECT_EQ(answers + drops(Drop::kPuntRateLimited), 50U);
  EXPECT_EQ(drops(Drop::kLocalUnsupported), 0U);
}

}  // namespace
}  // namespace ipoib::mgmt
