// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/lib/mgmt/retirement_fixture.h"

#include <rte_cycles.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/wire/iba.h"
#include "tests/support/mbufs.h"

namespace ipoib::mgmt {
namespace {

using fwd::test::Bytes;
using fwd::test::Ip4;
using fwd::test::kEth0;
using fwd::test::kEth1;
using fwd::test::kIb0;
using fwd::test::kIb1;

table::InterfaceId link_of(unsigned peer) {
  return peer % 2 == 0 ? kIb0 : kIb1;
}
std::string address_of(unsigned peer) {
  return fmt::format("10.{}.0.{}", peer % 2, peer + 2);
}
std::uint16_t lid_of(unsigned peer) {
  return static_cast<std::uint16_t>(0x100 + peer);
}
std::uint32_t qpn_of(unsigned peer) {
  return 0x200 + peer;
}
Bytes packet_for(unsigned peer) {
  const std::string to = address_of(peer);
  return Ip4{.src = "172.16.0.9", .dst = to}.bytes();
}

/// The receive queue of a link in connected mode. Each link has its own, because each is polled by
/// one worker. It receives no packets.
class NoReceiveQueue final : public fabric::ReceiveQueue {
 public:
  NoReceiveQueue()
      : ReceiveQueue{
            [](ReceiveQueue&, rte_mbuf**, std::uint16_t) noexcept -> std::uint16_t { return 0; }} {}
};
std::array<NoReceiveQueue, 2> receive_queues;  // of kIb0 and kIb1

/// Returns the LID to which a handle leads, or 0 if there is no such handle.
unsigned destination(const soft::AhTable& handles, fabric::AhIndex ah) {
  const soft::AhTemplate* slot = nullptr;
  if (handles.view().find(ah, slot).head_len == 0) return 0;
  constexpr std::size_t kDlid = sizeof(soft::EthHdr) + offsetof(wire::Lrh, dlid);
  return std::to_integer<unsigned>(slot->head[kDlid]) << 8 |
         std::to_integer<unsigned>(slot->head[kDlid + 1]);
}

}  // namespace

/// The connection to one peer. Its memory is kept after its end, so that later use is detected.
class RetirementFixture::Queue final : public fabric::ConnectedQueue {
 public:
  Queue(RetirementFixture& fixture, unsigned peer)
      : ConnectedQueue{qpn_of(peer), fabric::Transport::kRc, &send},
        fixture_{fixture},
        peer_{peer} {}

  bool destroyed = false;

 private:
  static std::uint16_t send(ConnectedQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
    auto& self = static_cast<Queue&>(queue);
    EXPECT_FALSE(self.destroyed) << "packets by a queue that is gone";
    for (std::uint16_t i = 0; i < n; ++i) {
      const auto* const data = rte_pktmbuf_mtod(pkts[i], const std::byte*);
      self.fixture_.leaves({data, data + pkts[i]->data_len}, self.peer_);
      rte_pktmbuf_free(pkts[i]);
    }
    return n;
  }

  RetirementFixture& fixture_;
  unsigned peer_;
};

/// Writes host entries of neighbours to the workers' table. The fixture has its own routes.
class RetirementFixture::HostEntries final : public route::RouteSink {
 public:
  explicit HostEntries(RetirementFixture& fixture) : fixture_{fixture} {}

  Status add_neighbour(const wire::IpAddr& addr, table::NextHopIndex via,
                       table::NeighbourIndex neighbour) override {
    return table::add_neighbour(*fixture_.prefixes, fixture_.hops, addr.v4_host(), network_of(via),
                                neighbour);
  }
  void remove_neighbour(const wire::IpAddr& addr, table::NextHopIndex via) override {
    fixture_.prefixes->remove_neighbour(addr.v4_host(), network_of(via));
  }
  void set_next_hop(table::NextHopIndex index, const table::NextHop& hop) override {
    interface_of_[index] = hop.iface;
  }

  Status set_prefix(const wire::IpPrefix& /*prefix*/, table::NextHopIndex /*hop*/) override {
    return {};
  }
  void remove_prefix(const wire::IpPrefix& /*prefix*/) override {}
  Result<table::NeighbourIndex> use_gateway(table::InterfaceId /*iface*/,
                                            const wire::IpAddr& /*addr*/) override {
    return table::kNoNeighbour;
  }
  void forget_gateway(table::InterfaceId /*iface*/, const wire::IpAddr& /*addr*/) override {}
  [[nodiscard]] bool has_failed(table::InterfaceId /*iface*/,
                                const wire::IpAddr& /*addr*/) const override {
    return false;
  }
  std::uint64_t mark_time() override { return 0; }
  bool is_past(std::uint64_t /*moment*/, bool /*wait*/) override { return true; }

 private:
  /// The next hop of the link's network in the workers' table. No peer has the last address.
  table::NextHopIndex network_of(table::NextHopIndex via) {
    return fixture_.prefixes->lookup(interface_of_.at(via) == kIb0 ? 0x0a00'fffe : 0x0a01'fffe);
  }

  RetirementFixture& fixture_;
  std::map<table::NextHopIndex, table::InterfaceId> interface_of_;
};

RetirementFixture::RetirementFixture() = default;
RetirementFixture::~RetirementFixture() = default;

void RetirementFixture::SetUp() {
  WorkerFixture::SetUp();
  retirement = std::make_unique<WorkerRetirement>(workers, *rcu);
  for (const table::InterfaceId i : {kEth0, kEth1, kIb0, kIb1}) {
    entries[i].owner = i < kIb0 ? 0 : static_cast<std::uint8_t>(i - kIb0 + 1);
    if (i >= kIb0) connect(i, receive_queues[i - kIb0]);
    interfaces_.add({entries[i].owner});
  }
  settings.burst = fwd::kMaxBurst;
  neighbour_capacity = kNumbers;
  for (unsigned i = 0; i < kWorkers * kWorkers; ++i) {
    if (i / kWorkers == i % kWorkers) continue;
    rte_ring* const ring = rte_ring_create(fmt::format("retirement{}", i).c_str(), kRingSize,
                                           SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    ASSERT_NE(ring, nullptr);
    // The ring's 32-bit positions wrap around soon.
    for (rte_ring_headtail* end : {&ring->prod, &ring->cons}) {
      end->head = 0xffff'ff80;
      end->tail = 0xffff'ff80;
    }
    between_[i] = ring;
    retirement->watch(*ring);
  }
  for (unsigned i = 0; i < kWorkers; ++i) ASSERT_NO_FATAL_FAILURE(make_worker(i));

  port_.guid = 0x0002'c903'000a'0b01;
  port_.lid = 1;
  handles = *soft::AhTable::create(SOCKET_ID_ANY, rte_get_tsc_hz(), *retirement);
  injector_ = std::make_unique<Injector>(interfaces_, workers, InjectBuffers{pool, pool});
  punt_ = std::make_unique<PuntHandler>(interfaces_, *injector_, 64, 1);
  directory = std::make_unique<NeighbourDirectory>(workers, *punt_, *retirement, kNumbers);
  host_entries_ = std::make_unique<HostEntries>(*this);
  routes_ = std::make_unique<route::RouteTable>(*host_entries_);
  ASSERT_TRUE(routes_->add_network(kIb0, *wire::parse_prefix("10.0.0.1/16")));
  ASSERT_TRUE(routes_->add_network(kIb1, *wire::parse_prefix("10.1.0.1/16")));
  directory->set_routes(*routes_);
  punt_->set_routes(*routes_);
}

void RetirementFixture::make_worker(unsigned number) {
  auto channel = WorkerChannel::create(number, SOCKET_ID_ANY);
  ASSERT_TRUE(channel) << channel.error().what;
  fwd::WorkerConfig c;
  c.number = number;
  c.up = (*channel)->up();
  c.down = (*channel)->down();
  use_tables(c);
  for (unsigned other = 0; other < kWorkers; ++other) {
    c.handoff_out.push_back(between_[number * kWorkers + other]);
    c.handoff_in.push_back(between_[other * kWorkers + number]);
  }
  auto worker = fwd::Worker::create(c);
  ASSERT_TRUE(worker) << worker.error().what;
  workers.all().push_back({std::move(*channel), std::move(*worker), 0});
  ASSERT_EQ(rte_rcu_qsbr_thread_register(rcu, number), 0);
  rte_rcu_qsbr_thread_online(rcu, number);
}

void RetirementFixture::TearDown() {
  workers.all().clear();
  for (rte_ring* ring : between_) {
    if (ring != nullptr) test::empty(ring);
    rte_ring_free(ring);
  }
  WorkerFixture::TearDown();
}

bool RetirementFixture::learn(unsigned peer, bool connected) {
  const auto number = directory->allocate_index();
  if (!number) return false;
  fabric::AhAttr path;
  path.dlid = lid_of(peer);
  const auto ah = handles->add(port_, path);
  EXPECT_TRUE(ah);
  table::Neighbour n = ib_neighbour(link_of(peer), address_of(peer), *ah, qpn_of(peer));
  if (connected) {
    queues_.push_back(std::make_unique<Queue>(*this, peer));
    n.mode = table::NeighbourMode::kRc;
    n.queue = queues_.back().get();
    n.worker = entries[n.iface].owner;
  }
  directory->install(*number, n);
  EXPECT_EQ(prefixes->lookup(n.addr.v4_host()), table::adjacency_of(*number, false));
  known_[peer] = {*number, *ah, n.queue};
  return true;
}

void RetirementFixture::forget(unsigned peer) {
  const Known gone = known_.at(peer);
  known_.erase(peer);
  directory->remove(gone.number);
  handles->remove(gone.ah);
  if (gone.queue != nullptr) old_queues_.add(gone.queue, *retirement);
}

void RetirementFixture::run_once() {
  for (WorkerHandle& w : workers.all()) {
    std::array<msg::Up, 64> messages;
    const std::size_t n = w.channel->receive(messages);
    for (std::size_t i = 0; i < n; ++i) rte_pktmbuf_free(messages[i].mbuf);
    w.channel->flush();
  }
  retirement->advance();
  old_queues_.reclaim(*retirement, [](fabric::ConnectedQueue* queue) {
    static_cast<Queue*>(queue)->destroyed = true;
  });
}

void RetirementFixture::send_own(unsigned peer) {
  injector_->send_raw(link_of(peer), known_.at(peer).ah, qpn_of(peer), to_link(packet_for(peer)));
}

void RetirementFixture::step(unsigned worker) {
  workers.all()[worker].worker->iterate();
  if (worker == 0) on_wire_ -= std::min<unsigned>(on_wire_, fwd::kMaxBurst);
  look_at_links();
}

void RetirementFixture::step_all() {
  for (unsigned i = 0; i < kWorkers; ++i) step(i);
}

void RetirementFixture::receive_for(unsigned peer, unsigned packets, table::InterfaceId by) {
  if (rte_mempool_avail_count(pool) < 512) return;
  if (by == kEth0) {
    packets = std::min(packets, kRingSize - 1 - on_wire_);
    on_wire_ += packets;
  }
  const Bytes packet = packet_for(peer);
  for (unsigned i = 0; i < packets; ++i)
    receive(by, by == kEth0 ? to_eth0(packet) : to_link(packet));
}

void RetirementFixture::look_at_links() {
  for (const table::InterfaceId link : {kIb0, kIb1}) {
    links[link - kIb0].room = 1000;
    for (const fwd::test::SentOnLink& sent : sent_by_link(link)) {
      const unsigned lid = destination(*handles, sent.to.ah);
      if (lid == 0)
        ++lost;
      else
        leaves(sent.bytes, lid - 0x100);
    }
  }
}

void RetirementFixture::leaves(const Bytes& frame, unsigned peer) {
  ASSERT_GE(frame.size(), sizeof(wire::IpoibHdr) + sizeof(wire::Ipv4Hdr));
  const auto ip = wire::read<wire::Ipv4Hdr>(std::span{frame}.subspan(sizeof(wire::IpoibHdr)));
  ASSERT_EQ(wire::to_string(wire::IpAddr::v4(ip->dst.host())), address_of(peer))
      << "a packet reached a peer that it was not sent to";
  ++arrived;
}

}  // namespace ipoib::mgmt
