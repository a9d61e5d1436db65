// SPDX-License-Identifier: BSD-3-Clause
// The software HCA on a cable of rings, with packets of 64 octets of IP: it receives a burst and
// delivers it to its queue pair, or it sends a burst. cable_* measure the cost of the rings and of
// the benchmark itself, to be subtracted. passed_receive: one worker reads the frames, and passes them
// to another one, whose queue pair they are for; both run on this CPU. mixed_receive: each second
// frame is for another queue pair, of the same worker or of another one.
#include <array>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "drivers/soft/soft_hca.h"
#include "lib/fabric/packet_meta.h"
#include "lib/wire/frame.h"
#include "perf/bench.h"
#include "tests/support/ring_device.h"

namespace ipoib::perf {
namespace {

constexpr std::uint16_t kBurst = 64;
constexpr unsigned kHot = kBurst;       ///< So many packets in flight stay in the L1 cache.
constexpr unsigned kWarm = 1U << 12;    ///< So many stay in the L2 cache.
constexpr unsigned kCold = 1U << 15;    ///< So many do not stay in any cache.
constexpr std::uint16_t kPayload = 68;  ///< IPoIB header and 64 octets of IP.
constexpr std::uint32_t kQpn = 0x48;
constexpr std::uint32_t kQkey = 0xb1b;
constexpr std::uint16_t kLid = 3;
constexpr unsigned kNeighbours = 1024;

/// An ethdev of two rings: it receives from `in` and sends to `out`. A program has one, because
/// DPDK 22.11 does not release the name of a ring port.
struct Cable {
  rte_mempool* pool;
  rte_ring* in;
  rte_ring* out;
  rte_ring* out_of_other;  ///< Nothing is sent there.
  std::uint16_t port;

  static Cable& get() {
    static Cable cable = make();
    return cable;
  }

 private:
  static rte_ring* ring(const char* name) {
    return rte_ring_create(name, 2 * kCold, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
  }
  static Cable make() {
    Cable cable{.pool = rte_pktmbuf_pool_create("bench", kCold + kBurst, 0, 0, 512, SOCKET_ID_ANY),
                .in = ring("bench_in"),
                .out = ring("bench_out"),
                .out_of_other = ring("bench_other"),
                .port = 0};
    cable.port = test::start_ring_port("cable", std::array{cable.in},
                                       std::array{cable.out, cable.out_of_other}, cable.pool, 512);
    return cable;
  }
};

/// One HCA on the cable, with an address handle for each neighbour.
class Bench {
 public:
  /// `worker`: the one with the queue pair.
  explicit Bench(bool icrc, unsigned worker = 0) {
    soft::SoftHcaConfig config;
    config.workers = static_cast<std::uint16_t>(worker + 1);
    config.name = "bench";
    config.port_id = cable_.port;
    config.pool = cable_.pool;
    config.attr.lid = kLid;
    config.attr.guid = 1;
    config.first_qpn = kQpn;
    config.icrc = icrc;
    hca_ = soft::SoftHca::create(config).value();
    queue_ = hca_->create_ud_queue({.worker = worker}).value();
    if (!hca_->set_qkey(*queue_, kQkey)) throw std::runtime_error("no Q_Key");
    for (unsigned i = 0; i < kNeighbours; ++i) {
      fabric::AhAttr to;
      to.dlid = static_cast<std::uint16_t>(100 + i);
      ahs_.push_back(hca_->create_ah(to).value());
    }
  }
  ~Bench() {
    for (rte_ring* ring : {cable_.in, cable_.out}) test::empty(ring);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  [[nodiscard]] rte_mbuf* packet(std::span<const std::byte> octets) {
    return test::mbuf_of(cable_.pool, octets);
  }

  Cable& cable_ = Cable::get();
  std::unique_ptr<soft::SoftHca> hca_;
  fabric::UdQueue* queue_ = nullptr;
  std::vector<fabric::AhIndex> ahs_;
};

std::vector<std::byte> soft_frame(bool global, std::uint32_t qpn = kQpn) {
  wire::UdSpec spec{.dlid = kLid, .slid = 9, .dest_qp = qpn, .src_qp = 0x49, .qkey = kQkey};
  if (global) {
    const auto prefix = wire::kDefaultGidPrefix;
    spec.grh = wire::GrhSpec{wire::Gid::of(prefix, 2), wire::Gid::of(prefix, 1)};
  }
  const std::array<std::byte, kPayload> payload{};
  std::vector<std::byte> frame(sizeof(soft::EthHdr) + wire::ud_packet_len(global, kPayload));
  wire::build_ud_packet(spec, payload, std::span{frame}.subspan(sizeof(soft::EthHdr)));
  frame[12] = std::byte{0x88};
  frame[13] = std::byte{0xb5};
  return frame;
}

/// Restores offset and length of the mbufs, which receiving and sending change.
void reset(std::span<rte_mbuf*> pkts, std::size_t data_off, std::size_t len) {
  for (rte_mbuf* m : pkts) {
    m->data_off = static_cast<std::uint16_t>(data_off);
    m->data_len = static_cast<std::uint16_t>(len);
    m->pkt_len = static_cast<std::uint32_t>(len);
  }
}

template <class TakeBurst>
void receive(benchmark::State& state, Bench& bench, bool global, TakeBurst&& take) {
  const auto frame = soft_frame(global);
  for (auto n = state.range(0); n-- > 0;) rte_ring_sp_enqueue(bench.cable_.in, bench.packet(frame));
  std::array<rte_mbuf*, kBurst> pkts;
  const PerPacket counters{state, kBurst};
  for (auto _ : state) {
    if (take(pkts.data()) != kBurst) {
      state.SkipWithError("packets were lost");
      break;
    }
    reset(pkts, RTE_PKTMBUF_HEADROOM, frame.size());
    rte_ring_sp_enqueue_bulk(bench.cable_.in, reinterpret_cast<void**>(pkts.data()), kBurst,
                             nullptr);
  }
}

void cable_receive(benchmark::State& state) {
  Bench bench{false};
  receive(state, bench, false,
          [&](rte_mbuf** pkts) { return rte_eth_rx_burst(bench.cable_.port, 0, pkts, kBurst); });
}

void soft_receive(benchmark::State& state) {
  Bench bench{state.range(2) != 0};
  const auto poll = bench.hca_->poll_function();
  receive(state, bench, state.range(1) != 0, [&](rte_mbuf** pkts) {
    poll(*bench.hca_, 0, kBurst);
    return bench.queue_->rx_burst(pkts, kBurst);
  });
}

void passed_receive(benchmark::State& state) {
  Bench bench{state.range(1) != 0, 1};
  const auto poll = bench.hca_->poll_function();
  receive(state, bench, false, [&](rte_mbuf** pkts) {
    for (const unsigned worker : {0U, 1U}) poll(*bench.hca_, worker, kBurst);
    return bench.queue_->rx_burst(pkts, kBurst);
  });
}

void mixed_receive(benchmark::State& state) {
  const auto worker = static_cast<unsigned>(state.range(0));
  Bench bench{state.range(1) != 0, worker};
  fabric::UdQueue* const own = bench.hca_->create_ud_queue({.worker = 0}).value();
  if (!bench.hca_->set_qkey(*own, kQkey)) throw std::runtime_error("no Q_Key");
  const std::array frames{soft_frame(false), soft_frame(false, own->qpn())};
  for (std::size_t n = 0; n < kBurst; ++n)
    rte_ring_sp_enqueue(bench.cable_.in, bench.packet(frames[n % 2]));
  const auto poll = bench.hca_->poll_function();
  std::array<rte_mbuf*, kBurst> pkts;
  std::array<rte_mbuf*, kBurst> mixed;
  const PerPacket counters{state, kBurst};
  for (auto _ : state) {
    for (unsigned i = 0; i <= worker; ++i) poll(*bench.hca_, i, kBurst);
    const std::uint16_t half = bench.queue_->rx_burst(pkts.data(), kBurst);
    if (half != kBurst / 2 || own->rx_burst(&pkts[half], kBurst / 2) != half) {
      state.SkipWithError("packets were lost");
      break;
    }
    reset(pkts, RTE_PKTMBUF_HEADROOM, frames[0].size());
    for (std::size_t n = 0; n < kBurst; ++n) mixed[n] = pkts[n / 2 + n % 2 * half];
    rte_ring_sp_enqueue_bulk(bench.cable_.in, reinterpret_cast<void**>(mixed.data()), kBurst,
                             nullptr);
  }
}

template <class SendBurst>
void send(benchmark::State& state, Bench& bench, SendBurst&& put) {
  const std::array<std::byte, kPayload> payload{};
  for (auto n = state.range(0); n-- > 0;) {
    rte_mbuf* m = bench.packet(payload);
    const auto neighbour = static_cast<std::size_t>(n) * 389 % kNeighbours;
    fabric::meta_of(m).tx = {
        .ah = bench.ahs_[neighbour], .qpn = 0x49, .iface = 0, .connected = false};
    rte_ring_sp_enqueue(bench.cable_.out, m);
  }
  std::array<rte_mbuf*, kBurst> pkts;
  const PerPacket counters{state, kBurst};
  for (auto _ : state) {
    rte_ring_sc_dequeue_bulk(bench.cable_.out, reinterpret_cast<void**>(pkts.data()), kBurst,
                             nullptr);
    reset(pkts, RTE_PKTMBUF_HEADROOM, kPayload);
    if (put(pkts.data()) != kBurst) {
      state.SkipWithError("packets were not sent");
      break;
    }
  }
}

void cable_send(benchmark::State& state) {
  Bench bench{false};
  send(state, bench,
       [&](rte_mbuf** pkts) { return rte_eth_tx_burst(bench.cable_.port, 0, pkts, kBurst); });
}

void soft_send(benchmark::State& state) {
  Bench bench{state.range(1) != 0};
  send(state, bench, [&](rte_mbuf** pkts) { return bench.queue_->tx_burst(pkts, kBurst); });
}

BENCHMARK(cable_receive)->ArgName("packets")->Arg(kHot)->Arg(kWarm)->Arg(kCold);
BENCHMARK(soft_receive)
    ->ArgNames({"packets", "grh", "icrc"})
    ->ArgsProduct({{kHot, kWarm, kCold}, {0, 1}, {0, 1}});
BENCHMARK(passed_receive)
    ->ArgNames({"packets", "icrc"})
    ->ArgsProduct({{kHot, kWarm, kCold}, {0, 1}});
BENCHMARK(mixed_receive)->ArgNames({"worker", "icrc"})->ArgsProduct({{0, 1}, {0, 1}});
BENCHMARK(cable_send)->ArgName("packets")->Arg(kHot)->Arg(kWarm)->Arg(kCold);
BENCHMARK(soft_send)->ArgNames({"packets", "icrc"})->ArgsProduct({{kHot, kWarm, kCold}, {0, 1}});

}  // namespace
}  // namespace ipoib::perf
