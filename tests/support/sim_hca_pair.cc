// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/sim_hca_pair.h"

#include <cstring>
#include <stdexcept>

#include "lib/wire/frame.h"
#include "tests/support/ring_device.h"

namespace ipoib::soft {

namespace {

/// The mbufs freed last are the next ones in use, which finds them in the caches of the CPU.
constexpr unsigned kCache = 256;

/// Shared by all tests. sent[i] holds the frames that side i sent, towards[i] those that it will
/// read.
struct Cable {
  rte_mempool* pool;
  rte_mempool* share_pool;
  rte_ring* sent[2];
  rte_ring* towards[2];
  std::uint16_t port[2];

  static Cable& get() {
    static Cable cable = make();
    return cable;
  }

 private:
  static rte_ring* ring(const char* name) {
    return rte_ring_create(name, SimHcaPair::kCableLen, SOCKET_ID_ANY, RING_F_EXACT_SZ);
  }
  static Cable make() {
    Cable c{};
    c.pool = rte_pktmbuf_pool_create("connected", SimHcaPair::kMbufs, kCache, 0,
                                     2560 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
    c.share_pool = rte_pktmbuf_pool_create("shares", SimHcaPair::kShares, 0, 0, 0, SOCKET_ID_ANY);
    for (int side : {0, 1}) {
      c.sent[side] = ring(side == 0 ? "wire_sent0" : "wire_sent1");
      c.towards[side] = ring(side == 0 ? "wire_to0" : "wire_to1");
      // The transmit queues of all workers lead to the same wire.
      std::array<rte_ring*, SimHcaPair::kMaxWorkers> out;
      out.fill(c.sent[side]);
      c.port[side] = test::start_ring_port(side == 0 ? "wire0" : "wire1",
                                           test::Rings{&c.towards[side], 1}, out, c.pool);
    }
    return c;
  }
};

std::size_t bth_at(std::span<const std::byte> frame) {
  const auto lrh = *wire::read<wire::Lrh>(frame, sizeof(EthHdr));
  return lrh.lnh() == wire::Lnh::kGlobal ? kGlobalHeadLen : kLocalHeadLen;
}

std::uint16_t dlid_of(const rte_mbuf* frame) {
  return rte_pktmbuf_mtod_offset(frame, const wire::Lrh*, sizeof(EthHdr))->dlid.host();
}

bool is_ack(std::span<const std::byte> frame) {
  const auto lrh = wire::read<wire::Lrh>(frame, sizeof(EthHdr));
  const auto bth = lrh ? wire::read<wire::Bth>(frame, bth_at(frame)) : std::nullopt;
  return bth && bth->opcode == static_cast<std::uint8_t>(wire::Opcode::kRcAck);
}

}  // namespace

SimHcaPair::SimHcaPair(std::uint64_t seed) : random{seed} {
  sim_tsc = 1000 * kHz;
}

SimHcaPair::~SimHcaPair() {
  clear();
}

void SimHcaPair::clear() {
  for (int side : {0, 1}) peers[side] = Peer{};
  for (int side : {0, 1}) (void)cut(side);
}

rte_mempool* SimHcaPair::pool() {
  return Cable::get().pool;
}

rte_mempool* SimHcaPair::share_pool() {
  return Cable::get().share_pool;
}

SoftHcaConfig SimHcaPair::config(int side) {
  SoftHcaConfig config;
  config.name = side == 0 ? "soft0" : "soft1";
  config.port_id = Cable::get().port[side];
  config.pool = pool();
  config.share_pool = share_pool();
  config.attr.guid = kPeerGuid[side];
  config.attr.lid = kPeerLid[side];
  config.first_qpn = side == 0 ? 0x48 : 0x49;
  config.tsc = &ipoib::test::read_sim_tsc;
  config.tsc_hz = kHz;
  return config;
}

void SimHcaPair::make_hcas() {
  make_hcas(1);
}

void SimHcaPair::make_hcas(unsigned workers) {
  for (int side : {0, 1}) {
    if (peers[side].hca) continue;
    SoftHcaConfig one = config(side);
    one.workers = static_cast<std::uint16_t>(workers);
    peers[side].hca = SoftHca::create(one).value();
    peers[side].workers = workers;
  }
}

fabric::ConnectedQueue* SimHcaPair::make_queue(int side, const Connection& setup) {
  Peer& peer = peers[side];
  if (peer.rx == nullptr) peer.rx = peer.hca->create_receive_queue(setup.receive).value();
  return peer.hca
      ->create_connected_queue(
          {.transport = setup.transport, .receive_queue = peer.rx, .send_depth = setup.send_depth})
      .value();
}

fabric::ReadyToReceive SimHcaPair::receive_attr(int side, const Connection& setup) const {
  fabric::ReadyToReceive attr{.peer_qpn = peers[1 - side].queue->qpn(),
                              .path_mtu = setup.path_mtu,
                              .rx_psn = setup.first_psn[1 - side],
                              .min_rnr_timer = setup.min_rnr_timer};
  attr.path.dlid = kPeerLid[1 - side];
  attr.path.global = setup.global;
  attr.path.dgid = wire::Gid::of(wire::kDefaultGidPrefix, kPeerGuid[1 - side]);
  return attr;
}

void SimHcaPair::connect(const Connection& setup) {
  make_hcas();
  for (int side : {0, 1}) peers[side].queue = make_queue(side, setup);
  for (int side : {0, 1}) {
    fabric::ReadyToSend send = setup.send;
    send.tx_psn = setup.first_psn[side];
    SoftHca& hca = *peers[side].hca;
    if (!hca.set_ready_to_receive(*peers[side].queue, receive_attr(side, setup)) ||
        !hca.set_ready_to_send(*peers[side].queue, send))
      throw std::runtime_error("no connection");
  }
}

bool SimHcaPair::happens(double probability) {
  return probability != 0 && std::uniform_real_distribution<>{}(random) < probability;
}

void SimHcaPair::deliver(int to, rte_mbuf* frame) {
  const bool ack = is_ack({rte_pktmbuf_mtod(frame, const std::byte*), frame->data_len});
  if (rte_ring_enqueue(Cable::get().towards[to], frame) != 0) return rte_pktmbuf_free(frame);
  ++delivered[to];
  if (ack) ++delivered_acks[to];
}

void SimHcaPair::carry(int from) {
  const int to = 1 - from;
  for (std::size_t n = late_[to].size(); n-- > 0;) {
    const Late late = late_[to].front();
    late_[to].pop_front();
    if (late.steps == 0)
      deliver(to, late.frame);
    else
      late_[to].push_back({late.frame, late.steps - 1});
  }
  while (rte_mbuf* const frame = test::next_of(Cable::get().sent[from])) {
    if (seen != nullptr) seen->push_back(bytes_of(frame));
    if (!broken_lids.contains(dlid_of(frame)) && happens(faults.repetition))
      late_[to].push_back(
          {test::mbuf_of(pool(), bytes_of(frame)), static_cast<unsigned>(random() % 3)});
    if (broken_lids.contains(dlid_of(frame)) || happens(faults.loss))
      rte_pktmbuf_free(frame);
    else if (happens(faults.reordering))
      late_[to].push_back({frame, static_cast<unsigned>(random() % 3)});
    else
      deliver(to, frame);
  }
}

void SimHcaPair::step() {
  for (int side : {0, 1}) {
    peers[side].poll();
    carry(side);
  }
  sim_tsc += kStepTsc;
}

bool SimHcaPair::run(const std::function<bool()>& until, unsigned steps) {
  for (unsigned i = 0; i < steps; ++i) {
    if (until()) return true;
    step();
  }
  return until();
}

std::vector<Bytes> SimHcaPair::cut(int to) {
  std::vector<Bytes> frames = test::take_all(Cable::get().towards[to]);
  for (const Late& late : late_[to]) frames.push_back(test::take(late.frame));
  late_[to].clear();
  for (Bytes& frame : test::take_all(Cable::get().sent[1 - to])) frames.push_back(std::move(frame));
  return frames;
}

rte_mbuf* SimHcaPair::sent_frame(int from) {
  return test::next_of(Cable::get().sent[from]);
}

void SimHcaPair::put(int to, std::span<const std::byte> frame) {
  deliver(to, test::mbuf_of(pool(), frame));
}

bool SimHcaPair::send(int side, std::span<const std::byte> octets, std::size_t segment) {
  rte_mbuf* m = message(octets, segment);
  const bool taken = peers[side].queue->tx_burst(&m, 1) == 1;
  if (!taken) rte_pktmbuf_free(m);
  peers[side].poll();
  return taken;
}

std::vector<Bytes> SimHcaPair::receive(int side) {
  std::vector<Bytes> messages;
  rte_mbuf* m = nullptr;
  while (peers[side].rx->rx_burst(&m, 1) == 1) messages.push_back(test::take(m));
  return messages;
}

Bytes pattern(std::uint32_t number, std::size_t len) {
  Bytes bytes(len);
  std::uint32_t x = number * 2'654'435'761U + static_cast<std::uint32_t>(len);
  for (std::byte& b : bytes)
    b = static_cast<std::byte>((x = x * 1'664'525U + 1'013'904'223U) >> 24);
  if (len >= sizeof(number)) std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

wire::Bth bth_of(std::span<const std::byte> frame) {
  return *wire::read<wire::Bth>(frame, bth_at(frame));
}

wire::Aeth aeth_of(std::span<const std::byte> frame) {
  return *wire::read<wire::Aeth>(frame, bth_at(frame) + sizeof(wire::Bth));
}

void edit(Bytes& frame, const std::function<void(wire::Bth&)>& change) {
  wire::Bth bth = bth_of(frame);
  change(bth);
  std::memcpy(frame.data() + bth_at(frame), &bth, sizeof(bth));
  seal(frame);
}

}  // namespace ipoib::soft
