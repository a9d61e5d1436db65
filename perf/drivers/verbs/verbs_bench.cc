// SPDX-License-Identifier: BSD-3-Clause
// The verbs driver on a device that touches no packet, beside the software HCA without ICRC on a
// ring: each receives a burst and sends it back. device_* measure the stand-in for libibverbs
// alone, cable_* the ring behind the software HCA, to be subtracted.
#include <infiniband/verbs.h>
#include <rte_cycles.h>
#include <rte_mempool.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "drivers/soft/soft_hca.h"
#include "drivers/verbs/verbs_hca.h"
#include "lib/fabric/packet_meta.h"
#include "lib/wire/ipoib.h"
#include "tests/support/fake_verbs/fabric.h"
#include "tests/support/ring_device.h"
#include "tests/support/silent_mad_port.h"

namespace ipoib::perf {
namespace {

constexpr std::uint16_t kMaxBurst = 64;
constexpr std::uint32_t kQkey = 0xb1b;
constexpr std::uint16_t kLid = 4;
constexpr unsigned kNeighbours = 1024;

/// A mempool like a worker's, with an lcore cache.
rte_mempool* pool() {
  static rte_mempool* const pool =
      rte_pktmbuf_pool_create("bench", 8191, 512, 0, 2304 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
  if (pool == nullptr) throw std::runtime_error("no mempool");
  return pool;
}

/// Measures one burst after another. The driver refills buffers and polls completions only once in
/// several bursts, so that each sample covers kTimed packets. The counters are of the median
/// sample, which ignores times during which the scheduler took the CPU away.
template <class Burst>
void measure(benchmark::State& state, Burst&& burst) {
  constexpr unsigned kTimed = 1024;
  const auto n = static_cast<std::uint16_t>(state.range(0));
  std::vector<std::uint64_t> times;
  unsigned packets = 0;
  std::uint64_t start = rte_rdtsc();
  for (auto _ : state) {
    if (!burst(n)) {
      state.SkipWithError("packets were lost");
      return;
    }
    packets += n;
    if (packets < kTimed) continue;
    packets = 0;
    const std::uint64_t now = rte_rdtsc();
    times.push_back(now - std::exchange(start, now));
  }
  state.SetItemsProcessed(state.iterations() * n);
  if (times.empty()) return;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  const double tsc_per_pkt = static_cast<double>(*middle) / kTimed;
  state.counters["tsc_per_pkt"] = tsc_per_pkt;
  state.counters["ns_per_pkt"] = tsc_per_pkt / static_cast<double>(rte_get_tsc_hz()) * 1e9;
}

/// The minimum of a datapath: sets the destination of each packet and sends.
bool send_back(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n,
               const std::vector<fabric::AhIndex>& ahs) {
  static std::size_t neighbour = 0;
  for (std::uint16_t i = 0; i < n; ++i)
    fabric::meta_of(pkts[i]).tx = {.ah = ahs[neighbour++ * 389 % kNeighbours],
                                   .qpn = queue.qpn(),
                                   .iface = 0,
                                   .connected = false};
  return queue.tx_burst(pkts, n) == n;
}

std::vector<fabric::AhIndex> make_ahs(fabric::Hca& hca) {
  std::vector<fabric::AhIndex> ahs;
  for (unsigned i = 0; i < kNeighbours; ++i) {
    fabric::AhAttr to;
    to.dlid = kLid;
    to.flow_label = i;
    to.global = i != 0;
    to.dgid = hca.attr().gid();
    ahs.push_back(hca.create_ah(to).value());
  }
  return ahs;
}

// --- verbs ---

/// Reports fixed attributes of the port and carries no MADs.
class Manager final : public fabric::PortManager {
 public:
  Manager() {
    attr_.guid = 1;
    attr_.lid = kLid;
  }
  [[nodiscard]] fabric::MadPort& mad_port() override { return mads_; }
  [[nodiscard]] const fabric::PortAttr& attr() const override { return attr_; }
  std::optional<fabric::PortEvent> next_event() override { return std::nullopt; }
  [[nodiscard]] std::string problem() const override { return {}; }

 private:
  test::SilentMadPort mads_;
  fabric::PortAttr attr_;
};

void add_device(bool extended, std::int64_t len) {
  auto setup = fake_verbs::make_setup("fast", kLid, 1);
  setup.fast = true;
  setup.fast_len = static_cast<std::uint32_t>(sizeof(wire::IpoibHdr) + len);
  setup.extended_qp = extended;
  fake_verbs::Fabric::get().reset();
  fake_verbs::Fabric::get().add_device(std::move(setup));
}

/// Its argument `wr` selects ibv_wr_* (1) or ibv_post_send (0).
void verbs_receive_send(benchmark::State& state) {
  add_device(state.range(2) != 0, state.range(1));
  verbs::VerbsHcaConfig config;
  config.name = "bench";
  config.device = "fast";
  config.pool = pool();
  config.manager = [] { return std::make_unique<Manager>(); };
  const auto hca = verbs::VerbsHca::create(std::move(config)).value();
  fabric::UdQueue& queue = *hca->create_ud_queue({}).value();
  if (!hca->set_qkey(queue, kQkey)) throw std::runtime_error("no Q_Key");
  const auto ahs = make_ahs(*hca);
  std::array<rte_mbuf*, kMaxBurst> pkts;
  measure(state, [&](std::uint16_t n) {
    return queue.rx_burst(pkts.data(), n) == n && send_back(queue, pkts.data(), n, ahs);
  });
}

/// Calls libibverbs like the driver, without it: polls, posts receives, posts sends, polls.
void device_receive_send(benchmark::State& state) {
  add_device(false, state.range(1));
  int devices = 0;
  ibv_device** list = ibv_get_device_list(&devices);
  ibv_context* context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* send_cq = ibv_create_cq(context, 512, nullptr, nullptr, 0);
  ibv_cq* receive_cq = ibv_create_cq(context, 512, nullptr, nullptr, 0);
  ibv_qp_init_attr attr{};
  attr.send_cq = send_cq;
  attr.recv_cq = receive_cq;
  attr.cap = {512, 512, 1, 1, 0};
  attr.qp_type = IBV_QPT_UD;
  ibv_qp* qp = ibv_create_qp(pd, &attr);

  std::array<ibv_recv_wr, kMaxBurst> receives{};
  std::array<ibv_send_wr, kMaxBurst> sends{};
  const auto last = static_cast<std::size_t>(state.range(0)) - 1;
  for (std::size_t i = 0; i < last; ++i) {
    receives[i].next = &receives[i + 1];
    sends[i].next = &sends[i + 1];
  }
  sends[last].send_flags = IBV_SEND_SIGNALED;
  ibv_recv_wr* bad_receive = nullptr;
  ibv_send_wr* bad_send = nullptr;
  ibv_post_recv(qp, receives.data(), &bad_receive);
  std::array<ibv_wc, kMaxBurst> done;
  measure(state, [&](std::uint16_t n) {
    const bool whole = ibv_poll_cq(receive_cq, n, done.data()) == n;
    ibv_post_recv(qp, receives.data(), &bad_receive);
    ibv_post_send(qp, sends.data(), &bad_send);
    return whole && ibv_poll_cq(send_cq, n, done.data()) == 1;
  });
  ibv_destroy_qp(qp);
  ibv_destroy_cq(receive_cq);
  ibv_destroy_cq(send_cq);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
}

// --- soft ---

/// An ethdev that receives its own frames. A program has one Loop.
struct Loop {
  rte_ring* ring;
  std::uint16_t port;

  static const Loop& get() {
    static const Loop loop = make();
    return loop;
  }
  void empty() const { test::empty(ring); }

 private:
  static Loop make() {
    Loop loop{rte_ring_create("loop", 1024, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ), 0};
    loop.port = test::start_ring_port("loop", loop.ring, loop.ring, pool(), 512);
    return loop;
  }
};

rte_mbuf* packet(std::int64_t len) {
  rte_mbuf* m = rte_pktmbuf_alloc(pool());
  const auto octets = static_cast<std::uint16_t>(sizeof(wire::IpoibHdr) + len);
  if (m == nullptr) throw std::runtime_error("no mbuf");
  std::memset(rte_pktmbuf_append(m, octets), 0, octets);
  return m;
}

void soft_receive_send(benchmark::State& state) {
  const Loop& loop = Loop::get();
  soft::SoftHcaConfig config;
  config.name = "bench";
  config.port_id = loop.port;
  config.pool = pool();
  config.attr.lid = kLid;
  config.attr.guid = 1;
  config.icrc = false;
  const auto hca = soft::SoftHca::create(config).value();
  fabric::UdQueue& queue = *hca->create_ud_queue({}).value();
  if (!hca->set_qkey(queue, kQkey)) throw std::runtime_error("no Q_Key");
  const auto poll = hca->poll_function();
  const auto ahs = make_ahs(*hca);
  // The receive queue of verbs has 512 buffers; so many packets load the caches equally.
  std::array<rte_mbuf*, kMaxBurst> pkts;
  for (int i = 0; i < 512; ++i) {
    pkts[0] = packet(state.range(1));
    if (!send_back(queue, pkts.data(), 1, ahs)) throw std::runtime_error("the cable is full");
  }
  measure(state, [&](std::uint16_t n) {
    std::uint16_t got = 0;
    while (got < n) {
      poll(*hca, 0, n);
      const std::uint16_t more = queue.rx_burst(&pkts[got], static_cast<std::uint16_t>(n - got));
      if (more == 0) return false;
      got = static_cast<std::uint16_t>(got + more);
    }
    return send_back(queue, pkts.data(), n, ahs);
  });
  loop.empty();
}

void cable_receive_send(benchmark::State& state) {
  const Loop& loop = Loop::get();
  for (int i = 0; i < 512; ++i) rte_ring_sp_enqueue(loop.ring, packet(state.range(1)));
  std::array<rte_mbuf*, kMaxBurst> pkts;
  measure(state, [&](std::uint16_t n) {
    return rte_eth_rx_burst(loop.port, 0, pkts.data(), n) == n &&
           rte_eth_tx_burst(loop.port, 0, pkts.data(), n) == n;
  });
  loop.empty();
}

const std::vector<std::int64_t> kBursts = {1, 8, 32, 64};
const std::vector<std::int64_t> kSizes = {64, 2044};

BENCHMARK(device_receive_send)->ArgNames({"burst", "octets"})->ArgsProduct({kBursts, kSizes});
BENCHMARK(verbs_receive_send)
    ->ArgNames({"burst", "octets", "wr"})
    ->ArgsProduct({kBursts, kSizes, {0, 1}});
BENCHMARK(cable_receive_send)->ArgNames({"burst", "octets"})->ArgsProduct({kBursts, kSizes});
BENCHMARK(soft_receive_send)->ArgNames({"burst", "octets"})->ArgsProduct({kBursts, kSizes});

}  // namespace
}  // namespace ipoib::perf
