// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/worker_fixture.h"

#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "lib/wire/iba.h"
#include "tests/support/drops.h"
#include "tests/support/ring_device.h"

namespace ipoib::fwd::test {
namespace {

constexpr unsigned kPoolSize = 2047;
constexpr unsigned kWireSize = 256;
constexpr unsigned kUpSize = 512;
constexpr unsigned kDownSize = 256;

std::string wire_name(table::InterfaceId iface) {
  return "wire" + std::to_string(iface);
}

}  // namespace

FakeUdQueue::~FakeUdQueue() {
  for (rte_mbuf* m : incoming) rte_pktmbuf_free(m);
  for (rte_mbuf* m : sent) rte_pktmbuf_free(m);
}

std::uint16_t FakeUdQueue::receive(UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
  auto& self = static_cast<FakeUdQueue&>(queue);
  std::uint16_t got = 0;
  for (; got < n && !self.incoming.empty(); ++got) {
    pkts[got] = self.incoming.front();
    self.incoming.pop_front();
  }
  return got;
}

std::uint16_t FakeUdQueue::send(UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
  auto& self = static_cast<FakeUdQueue&>(queue);
  const auto taken = static_cast<std::uint16_t>(std::min<std::size_t>(n, self.room));
  for (std::uint16_t i = 0; i < taken; ++i) {
    if (!self.loses) {
      self.sent.push_back(pkts[i]);
      continue;
    }
    self.tx_lost_.add(pkts[i]->pkt_len);
    rte_pktmbuf_free(pkts[i]);
  }
  self.room -= taken;
  self.tx_bursts.push_back(n);
  return taken;
}

const fabric::UdFrames FakeUdQueue::kFrames = {
    .keys = &keys, .head = &head, .tx_burst = &send_frames, .heads_version = &version};

bool FakeUdQueue::keys(UdQueue& queue, fabric::FrameKeys& keys) noexcept {
  auto& self = static_cast<FakeUdQueue&>(queue);
  keys = {.eth_tail = 0x1122'3344'5566'7788,
          .lrh = 0x99aa'0000'0000'0000,
          .bth = {0x0000'0064, 0x0000'1064, 0x0000'2064, 0x0000'3064},
          .qkey = 0xbbcc'ddee'0000'0000,
          .src_qp = 0x0102'0300,
          .psn = &self.psn_,
          .groups = self.takes_groups};
  return self.has_keys && !self.loses;
}

namespace {

std::uint16_t mgid_mid_of(fabric::AhIndex ah) {
  return static_cast<std::uint16_t>(ah * 0x0709);
}

std::uint64_t mgid_low_of(fabric::AhIndex ah) {
  return std::uint64_t{ah} * 0x0102'0304'0506'0709;
}

}  // namespace

fabric::GroupGrh FakeUdQueue::grh_of(fabric::AhIndex ah) const {
  std::array<std::uint64_t, 4> words = {0x4142'0000'4344'4546, 0x5152'5354'5556'5758,
                                        0x6162'6364'6566'6768, 0x7374'7576'7778};
  if (ah >= first_odd) words[odd_word] += 1;
  return {.start = words[0],
          .sgid = {words[1] + std::uint64_t{qpn()}, words[2]},  // each link has its own
          .mgid_start = words[3]};
}

bool FakeUdQueue::head(const UdQueue& queue, fabric::AhIndex ah, fabric::FrameHead& head) noexcept {
  const auto& self = static_cast<const FakeUdQueue&>(queue);
  const bool group = ah >= self.first_group;
  const std::uint32_t lnh = group ? 3 : 2;
  head = {.mac = {}, .lrh = ah << 16 | lnh << 8, .max_payload = 2048};
  head.mac.fill(static_cast<std::byte>(self.generation));
  if (group) {
    head.group = self.grh_of(ah);
    head.mgid_mid = mgid_mid_of(ah);
    head.mgid_low = mgid_low_of(ah);
  }
  return ah < self.first_by_handle;
}

const std::atomic<std::uint32_t>& FakeUdQueue::version(const UdQueue& queue) noexcept {
  return static_cast<const FakeUdQueue&>(queue).heads_version;
}

std::uint16_t FakeUdQueue::send_frames(UdQueue& queue, rte_mbuf** frames,
                                       std::uint16_t n) noexcept {
  auto& self = static_cast<FakeUdQueue&>(queue);
  const auto room = static_cast<std::uint16_t>(std::min<std::size_t>(n, self.room));
  for (std::uint16_t i = 0; i < room; ++i) frames[i] = self.packet_of(frames[i]);
  self.frames_sent += room;
  return send(queue, frames, n);
}

/// Checks every octet of a frame that its packet does not determine, and takes the headers off.
rte_mbuf* FakeUdQueue::packet_of(rte_mbuf* frame) {
  constexpr std::uint32_t kIcrc = 4;
  const Bytes octets = ipoib::test::bytes_of(frame);
  const auto* const lrh = rte_pktmbuf_mtod_offset(frame, const std::byte*, 14);
  fabric::PacketMeta::Tx to{};
  std::memcpy(&to.ah, lrh + 2, 2);
  const bool group = lrh[1] == std::byte{3};
  const std::uint32_t grh = group ? 40 : 0;
  const std::byte* const bth = lrh + 8 + grh;
  const std::uint32_t pad = std::to_integer<std::uint32_t>(bth[1]) >> 4;
  const std::uint32_t len = frame->pkt_len - fabric::kFrameHeadLen - grh - pad - kIcrc;
  EXPECT_EQ((len + pad) % 4, 0U);
  EXPECT_EQ(frame->data_len, frame->pkt_len);
  EXPECT_EQ(fabric::ip_len_of_frame(frame), len - sizeof(wire::IpoibHdr));
  const std::uint32_t words = (frame->pkt_len - 14) / 4;
  Bytes wanted(14, static_cast<std::byte>(generation));
  const auto add = [&](std::uint64_t value, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) wanted.push_back(static_cast<std::byte>(value >> 8 * i));
  };
  wanted.resize(6);
  add(0x1122'3344'5566'7788, 8);
  wanted.insert(wanted.end(), lrh, lrh + 4);
  add(words >> 8, 1);
  add(words, 1);
  add(0x99aa, 2);
  if (group) {
    const std::uint32_t pay_len = frame->pkt_len - 14 - 8 - grh;
    const fabric::GroupGrh fixed = grh_of(to.ah);
    add(fixed.start | std::uint64_t{pay_len >> 8 | (pay_len & 0xff) << 8} << 32, 8);
    add(fixed.sgid[0], 8);
    add(fixed.sgid[1], 8);
    add(fixed.mgid_start, 6);
    add(mgid_mid_of(to.ah), 2);
    add(mgid_low_of(to.ah), 8);
  }
  add(0x64 | pad << 12, 4);
  wanted.insert(wanted.end(), bth + 4, bth + 8);
  // PSNs go up. Those of frames that did not leave are missing.
  const std::uint32_t psn = wire::read<wire::Bth>(octets, 22 + grh)->psn.host();
  EXPECT_LT((psn - next_psn_) & 0xff'ffff, 256U);
  next_psn_ = psn + 1;
  add(__builtin_bswap32(psn), 4);
  add(0xbbcc'ddee, 4);
  add(0x0102'0300, 4);
  const auto head_len = static_cast<std::ptrdiff_t>(wanted.size());
  EXPECT_EQ(Bytes(octets.begin(), octets.begin() + head_len), wanted);
  for (std::size_t i = octets.size() - kIcrc - pad; i < octets.size(); ++i)
    EXPECT_EQ(octets[i], std::byte{0}) << i;

  std::memcpy(&to.qpn, bth + 4, sizeof(to.qpn));
  to.qpn = __builtin_bswap32(to.qpn);
  fabric::meta_of(frame).tx = to;
  frame->data_off = static_cast<std::uint16_t>(frame->data_off + fabric::kFrameHeadLen + grh);
  frame->data_len = static_cast<std::uint16_t>(len);
  frame->pkt_len = len;
  return frame;
}

void WorkerFixture::SetUp() {
  pool =
      rte_pktmbuf_pool_create("fixture", kPoolSize, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  ASSERT_NE(pool, nullptr);
  pool_size_ = rte_mempool_avail_count(pool);
  rcu = static_cast<rte_rcu_qsbr*>(
      rte_zmalloc("rcu", rte_rcu_qsbr_get_memsize(4), RTE_CACHE_LINE_SIZE));
  ASSERT_EQ(rte_rcu_qsbr_init(rcu, 4), 0);
  auto table =
      table::PrefixTable::create({.name = "fixture", .max_prefixes = 1024, .max_groups = 64}, rcu);
  ASSERT_TRUE(table) << table.error().what;
  prefixes = std::move(*table);
  auto table6 = table::Prefix6Table::create({.max_prefixes = 64}, rcu);
  ASSERT_TRUE(table6) << table6.error().what;
  prefixes6 = std::move(*table6);
  doorbell.eventfd = eventfd(0, EFD_NONBLOCK);

  entries = std::vector<InterfaceEntry>(4);
  for (const table::InterfaceId i : {kEth0, kEth1}) {
    make_port(i);
    entries[i].mac = mac(static_cast<std::uint8_t>(0xa0 + i));
    entries[i].mtu = 1500;
  }
  for (const table::InterfaceId i : {kIb0, kIb1}) {
    entries[i].kind = InterfaceKind::kIpoib;
    entries[i].ud_queues = {&ud_queues[i - kIb0], 1};
    entries[i].mtu = 2044;
  }
  for (InterfaceEntry& entry : entries) {
    entry.up = true;
    entry.max_segments = fabric::kAnySegments;
  }
  settings.forwarding = true;

  using table::NextHopKind;
  add_route("192.168.1.0/24", {NextHopKind::kConnected, 0, kEth0, table::kNoNeighbour});
  add_route("192.168.2.0/24", {NextHopKind::kConnected, 0, kEth1, table::kNoNeighbour});
  add_route("10.0.0.0/16", {NextHopKind::kConnected, 0, kIb0, table::kNoNeighbour});
  add_route("10.1.0.0/16", {NextHopKind::kConnected, 0, kIb1, table::kNoNeighbour});
  add_route("192.168.1.1/32", {NextHopKind::kLocal, 0, kEth0, table::kNoNeighbour});
  add_route("10.0.0.1/32", {NextHopKind::kLocal, 0, kIb0, table::kNoNeighbour});
  add_route("10.0.255.255/32", {NextHopKind::kBroadcast, 0, kIb0, table::kNoNeighbour});

  add_route("fd00:1::/64", {NextHopKind::kConnected, 0, kEth0, table::kNoNeighbour});
  add_route("fd00:a::/64", {NextHopKind::kConnected, 0, kIb0, table::kNoNeighbour});
  add_route("fd00:b::/64", {NextHopKind::kConnected, 0, kIb1, table::kNoNeighbour});
  add_route("fd00:1::1/128", {NextHopKind::kLocal, 0, kEth0, table::kNoNeighbour});
  add_route("fd00:a::1/128", {NextHopKind::kLocal, 0, kIb0, table::kNoNeighbour});

  configs.resize(1);
}

void WorkerFixture::share_between_two_workers() {
  configs.resize(2);
  entries[kEth0].owner = 0;
  entries[kIb1].owner = 0;
  entries[kEth1].owner = 1;
  entries[kIb0].owner = 1;
}

void WorkerFixture::TearDown() {
  workers_.clear();
  for (std::size_t i = 0; i < up.size(); ++i) punted(i);
  for (const table::InterfaceId i : {kEth0, kEth1}) {
    for (const unsigned queue : {0U, 1U}) sent_by_port(i, queue);
    EXPECT_EQ(rte_eth_dev_stop(entries[i].ethdev_port), 0);
    // rte_eth_from_rings() gives its device this name.
    EXPECT_EQ(rte_vdev_uninit(("net_ring_" + wire_name(i)).c_str()), 0);
  }
  for (const table::InterfaceId i : {kIb0, kIb1}) sent_by_link(i);
  EXPECT_EQ(rte_mempool_avail_count(pool), pool_size_) << "packets leaked";
  for (rte_ring* ring : rings_) rte_ring_free(ring);
  prefixes.reset();
  prefixes6.reset();
  rte_mempool_free(pool);
  rte_free(rcu);
  close(doorbell.eventfd);
}

rte_ring* WorkerFixture::make_ring(std::string_view name, unsigned element_size, unsigned n) {
  const std::string unique = std::string{name} + std::to_string(made_++);
  rte_ring* const ring = rte_ring_create_elem(unique.c_str(), element_size, n, SOCKET_ID_ANY,
                                              RING_F_SP_ENQ | RING_F_SC_DEQ);
  EXPECT_NE(ring, nullptr);
  rings_.push_back(ring);
  return ring;
}

void WorkerFixture::make_port(table::InterfaceId iface) {
  for (rte_ring*& ring : wire_in_[iface]) ring = make_ring("in", sizeof(void*), kWireSize);
  for (rte_ring*& ring : wire_out_[iface]) ring = make_ring("out", sizeof(void*), kWireSize);
  entries[iface].ethdev_port = ipoib::test::start_ring_port(wire_name(iface), wire_in_[iface],
                                                            wire_out_[iface], pool, kWireSize);
}

void WorkerFixture::start() {
  const std::size_t n = configs.size();
  std::vector<std::vector<rte_ring*>> between(n, std::vector<rte_ring*>(n, nullptr));
  std::vector<rte_ring*> handoffs;
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b)
      if (a != b) handoffs.push_back(between[a][b] = make_ring("between", sizeof(void*), 64));
  for (std::size_t i = 0; i < n; ++i) {
    up.push_back(make_ring("up", sizeof(msg::Up), kUpSize));
    down.push_back(make_ring("down", sizeof(msg::Down), kDownSize));
    WorkerConfig& c = configs[i];
    c.number = static_cast<unsigned>(i);
    c.up = up[i];
    c.down = down[i];
    use_tables(c);
    for (std::size_t other = 0; other < n; ++other) {
      c.handoff_out.push_back(between[i][other]);
      c.handoff_in.push_back(between[other][i]);
    }
    c.handoffs = handoffs;
    auto worker = Worker::create(c);
    ASSERT_TRUE(worker) << worker.error().what;
    workers_.push_back(std::move(*worker));
  }
}

void WorkerFixture::connect(table::InterfaceId link, fabric::ReceiveQueue& messages) {
  entries[link].connected = true;
  messages_[link] = &messages;
}

void WorkerFixture::use_tables(WorkerConfig& c) {
  c.interfaces = entries;
  if (c.queues.empty()) {
    c.queues = queues_of_owner(entries, c.number);
    for (const auto& [link, messages] : messages_)
      if (entries[link].owner == c.number) c.queues[link].receive = messages;
  }
  c.settings = &settings;
  c.doorbell = &doorbell;
  c.next_hops = &hops;
  c.prefixes = prefixes.get();
  c.prefixes6 = prefixes6.get();
  c.own_addresses = &own_addresses;
  c.rcu = rcu;
  if (c.fragment_pool == nullptr) c.fragment_pool = pool;
  c.neighbour_capacity = neighbour_capacity;
  c.delivery_capacity = 64;
  if (c.epoch_tsc == 0) c.epoch_tsc = rte_rdtsc();
}

void WorkerFixture::loop() {
  for (auto& w : workers_) w->iterate();
}

void WorkerFixture::add_route(std::string_view prefix, const table::NextHop& hop) {
  hops.set(next_hop_, hop);
  const wire::IpPrefix parsed = *wire::parse_prefix(prefix);
  ASSERT_TRUE(parsed.addr.is_v4() ? prefixes->add(parsed, next_hop_)
                                  : prefixes6->add(parsed, next_hop_));
  if (table::is_own(hop.kind)) own_addresses.add(parsed.addr);
  if (hop.kind == table::NextHopKind::kConnected && parsed.addr.is_v4())
    connected_[hop.iface] = next_hop_;
  ++next_hop_;
}

void WorkerFixture::set_neighbour(table::NeighbourIndex index, const table::Neighbour& neighbour) {
  msg::Down message{};
  message.kind = msg::Down::Kind::kNeighbourSet;
  message.index = index;
  message.neighbour = neighbour;
  for (std::size_t i = 0; i < workers_.size(); ++i) send_down(message, i);
  if (const auto former = prefixes_of_.extract(index))
    prefixes->remove_neighbour(former.mapped().first, former.mapped().second);
  const auto via = connected_.find(neighbour.iface);
  if (!neighbours_have_prefixes || index >= neighbour_capacity || !neighbour.addr.is_v4() ||
      via == connected_.end() || wire::is_multicast(neighbour.addr) ||
      neighbour.state != table::NeighbourState::kValid)
    return;
  const std::uint32_t addr = neighbour.addr.v4_host();
  ASSERT_TRUE(table::add_neighbour(*prefixes, hops, addr, via->second, index));
  prefixes_of_.insert({index, {addr, via->second}});
}

table::Neighbour WorkerFixture::eth_neighbour(table::InterfaceId iface, std::string_view address,
                                              const wire::MacAddr& mac) {
  table::Neighbour n;
  n.addr = *wire::parse_ip(address);
  n.iface = iface;
  n.state = table::NeighbourState::kValid;
  n.mode = table::NeighbourMode::kEthernet;
  n.mtu = 1500;
  n.mac = mac;
  return n;
}

table::Neighbour WorkerFixture::ib_neighbour(table::InterfaceId iface, std::string_view address,
                                             fabric::AhIndex ah, std::uint32_t qpn) {
  table::Neighbour n;
  n.addr = *wire::parse_ip(address);
  n.iface = iface;
  n.state = table::NeighbourState::kValid;
  n.mode = table::NeighbourMode::kUd;
  n.mtu = 2044;
  n.ah = ah;
  n.qpn = qpn;
  return n;
}

rte_mbuf* WorkerFixture::mbuf(const Bytes& bytes, const std::vector<std::size_t>& segments) {
  if (segments.empty()) return ipoib::test::mbuf_of(pool, bytes);
  std::span<const std::byte> rest{bytes};
  rte_mbuf* head = nullptr;
  for (const std::size_t len : segments) {
    rte_mbuf* const m = ipoib::test::mbuf_of(pool, rest.first(len));
    rest = rest.subspan(len);
    if (head == nullptr)
      head = m;
    else
      EXPECT_EQ(rte_pktmbuf_chain(head, m), 0);
  }
  EXPECT_TRUE(rest.empty());
  return head;
}

void WorkerFixture::receive(table::InterfaceId iface, const Bytes& frame, bool multicast) {
  receive(iface, mbuf(frame), multicast);
}

void WorkerFixture::receive(table::InterfaceId iface, rte_mbuf* m, bool multicast) {
  if (iface < kIb0) return receive_on_queue(iface, 0, m);
  fabric::meta_of(m).rx = {.src_qpn = 0x77,
                           .slid = 9,
                           .iface = 0xeeee,
                           .sl = 1,
                           .grh_offset = 0,
                           .multicast = multicast,
                           .transport = fabric::Transport::kUd};
  links[iface - kIb0].incoming.push_back(m);
}

void WorkerFixture::receive_on_queue(table::InterfaceId port, unsigned queue, rte_mbuf* m) {
  // A device may leave any contents in this field of an Ethernet frame.
  std::memset(static_cast<void*>(&fabric::meta_of(m)), 0xee, sizeof(fabric::PacketMeta));
  ASSERT_EQ(rte_ring_sp_enqueue(wire_in_[port][queue], m), 0);
}

void WorkerFixture::receive_group(table::InterfaceId iface, const Bytes& frame,
                                  const wire::Gid& sgid, std::uint32_t src_qpn) {
  rte_mbuf* const m = mbuf(frame);
  wire::Grh grh{};
  grh.sgid = sgid;
  std::memcpy(rte_pktmbuf_mtod(m, std::byte*) - 60, &grh, sizeof(grh));
  receive(iface, m, true);
  fabric::meta_of(m).rx.grh_offset = 60;
  fabric::meta_of(m).rx.src_qpn = src_qpn;
}

std::vector<Bytes> WorkerFixture::sent_by_port(table::InterfaceId iface, unsigned queue) {
  std::vector<Bytes> out;
  max_tx_segments = 0;
  while (rte_mbuf* const m = ipoib::test::next_of(wire_out_[iface][queue])) {
    max_tx_segments = std::max<unsigned>(max_tx_segments, m->nb_segs);
    out.push_back(ipoib::test::take(m));
  }
  return out;
}

std::vector<SentOnLink> WorkerFixture::sent_by_link(table::InterfaceId iface) {
  std::vector<SentOnLink> out;
  for (rte_mbuf* m : links[iface - kIb0].sent) {
    const fabric::PacketMeta::Tx to = fabric::meta_of(m).tx;
    out.push_back({ipoib::test::take(m), to});
  }
  links[iface - kIb0].sent.clear();
  return out;
}

std::vector<Punted> WorkerFixture::punted(std::size_t worker) {
  std::vector<Punted> out;
  msg::Up message;
  while (rte_ring_sc_dequeue_elem(up[worker], &message, sizeof(message)) == 0) {
    if (message.mbuf == nullptr) {
      out.push_back({message, {}, {}, {}});
      continue;
    }
    out.push_back({message, ipoib::test::bytes_of(message.mbuf), fabric::meta_of(message.mbuf).rx,
                   fabric::meta_of(message.mbuf).held});
    rte_pktmbuf_free(message.mbuf);
  }
  return out;
}

Punted WorkerFixture::only_punted(std::string_view what) {
  const auto all = punted();
  EXPECT_EQ(all.size(), 1U) << what;
  return all.size() == 1 ? all[0] : Punted{};
}

SentOnLink WorkerFixture::only_sent_by_link(table::InterfaceId iface, std::string_view what) {
  const auto all = sent_by_link(iface);
  EXPECT_EQ(all.size(), 1U) << what;
  return all.size() == 1 ? all[0] : SentOnLink{};
}

void WorkerFixture::send_down(const msg::Down& message, std::size_t worker) {
  msg::Down copy = message;
  ASSERT_EQ(rte_ring_sp_enqueue_elem(down[worker], &copy, sizeof(copy)), 0);
}

void WorkerFixture::set_delivery(table::InterfaceId in, std::string_view address, bool local,
                                 std::uint64_t out, std::string_view source,
                                 std::uint64_t from_reverse_path, bool stands_by) {
  msg::Down message{};
  message.kind = msg::Down::Kind::kDeliverySet;
  message.delivery = {*wire::parse_ip(address), *wire::parse_ip(source), in, local};
  message.delivery.out = out;
  message.delivery.from_reverse_path = from_reverse_path;
  message.delivery.stands_by = stands_by;
  for (std::size_t i = 0; i < workers_.size(); ++i) send_down(message, i);
}

void WorkerFixture::send_on_interface(const Bytes& packet, table::InterfaceId iface) {
  msg::Down message{};
  message.kind = msg::Down::Kind::kSendOnInterface;
  message.iface = iface;
  message.mbuf = mbuf(packet);
  send_down(message);
}

void WorkerFixture::send_routed(const Bytes& packet, table::InterfaceId iface) {
  msg::Down message{};
  message.kind = msg::Down::Kind::kSendRouted;
  message.in = iface;
  message.mbuf = mbuf(packet);
  send_down(message);
}

std::uint64_t WorkerFixture::drops(table::InterfaceId iface, Drop reason) {
  std::uint64_t sum = 0;
  for (const auto& w : workers_)
    sum +=
        (iface == table::kNoInterface ? w->local_counters() : w->counters(iface)).drops.get(reason);
  return sum;
}

std::uint64_t WorkerFixture::all_drops() {
  std::uint64_t sum = 0;
  for (const auto& w : workers_) {
    for (std::size_t i = 0; i < entries.size(); ++i)
      sum += ipoib::test::sum_of(w->counters(static_cast<table::InterfaceId>(i)).drops);
    sum += ipoib::test::sum_of(w->local_counters().drops);
  }
  return sum;
}

void WorkerFixture::expect_drop(table::InterfaceId iface, Drop reason, std::string_view what) {
  EXPECT_EQ(drops(iface, reason), 1U) << what << ": " << drop_name(reason);
  EXPECT_EQ(all_drops(), 1U) << what;
}

}  // namespace ipoib::fwd::test
