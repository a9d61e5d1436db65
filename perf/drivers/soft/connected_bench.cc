// SPDX-License-Identifier: BSD-3-Clause
// Messages of 64, 2,044 and 65,520 octets of IP from one software HCA to another over a cable of
// rings, by RC and UC; sizes that fit into one packet also by UD. The time of each side is taken
// separately, as if it had an lcore of its own: `send` is tx_burst, the freeing of sent frames and,
// for RC, the handling of ACKs; `receive` is all work that turns frames into messages and, for RC,
// the making of ACKs.
// `many` sends each message over the next of several connections.
#include <rte_cycles.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "drivers/soft/soft_hca.h"
#include "lib/fabric/packet_meta.h"
#include "perf/bench.h"
#include "perf/drivers/soft/cable.h"

namespace ipoib::perf {
namespace {

using fabric::Transport;

constexpr std::uint16_t kBurst = 32;
constexpr std::uint32_t kQkey = 0xb1b;

struct End {
  std::unique_ptr<soft::SoftHca> hca;
  fabric::UdQueue* ud = nullptr;
  fabric::AhIndex ah = fabric::kNoAh;
  fabric::ReceiveQueue* rx = nullptr;
  std::vector<fabric::ConnectedQueue*> queues;

  void poll() const { hca->poll_function()(*hca, 0, soft::UdDatapath::kBurst); }
};

class Pair {
 public:
  Pair(Transport transport, std::uint8_t mtu, bool icrc, std::size_t connections = 1)
      : transport_{transport} {
    for (int side : {0, 1}) {
      soft::SoftHcaConfig config;
      config.name = "bench";
      config.port_id = Cable::get().port[side];
      config.pool = Cable::get().pool;
      config.share_pool = Cable::get().share_pool;
      config.attr.lid = Cable::kLid[side];
      config.attr.guid = Cable::kLid[side];
      config.attr.mtu = mtu;
      config.icrc = icrc;
      ends_[side].hca = soft::SoftHca::create(config).value();
    }
    for (int side : {0, 1}) {
      End& end = ends_[side];
      fabric::AhAttr path;
      path.dlid = Cable::kLid[1 - side];
      end.ah = end.hca->create_ah(path).value();
      end.ud = end.hca->create_ud_queue({}).value();
      if (!end.hca->set_qkey(*end.ud, kQkey)) throw std::runtime_error("no Q_Key");
      end.rx = end.hca->create_receive_queue({}).value();
    }
    if (transport == Transport::kUd) return;
    for (std::size_t i = 0; i < connections; ++i) connect(mtu);
  }
  ~Pair() {
    rte_mbuf* m = nullptr;
    while (receive(&m, 1) == 1) rte_pktmbuf_free(m);
    for (End& end : ends_) end.hca.reset();
    Cable::get().empty();
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  std::uint16_t send(rte_mbuf** pkts, std::uint16_t n) {
    End& from = ends_[0];
    if (transport_ != Transport::kUd) return from.queues[0]->tx_burst(pkts, n);
    for (std::uint16_t i = 0; i < n; ++i)
      fabric::meta_of(pkts[i]).tx = {
          .ah = from.ah, .qpn = ends_[1].ud->qpn(), .iface = 0, .connected = false};
    return from.ud->tx_burst(pkts, n);
  }
  /// Sends each message over the next connection.
  std::uint16_t send_round_robin(rte_mbuf** pkts, std::uint16_t n) {
    const auto& queues = ends_[0].queues;
    std::uint16_t sent = 0;
    for (std::uint16_t i = 0; i < n; ++i) {
      sent = static_cast<std::uint16_t>(sent + queues[next_]->tx_burst(&pkts[i], 1));
      next_ = next_ + 1 == queues.size() ? 0 : next_ + 1;
    }
    return sent;
  }
  std::uint16_t receive(rte_mbuf** pkts, std::uint16_t n) {
    End& to = ends_[1];
    return transport_ == Transport::kUd ? to.ud->rx_burst(pkts, n) : to.rx->rx_burst(pkts, n);
  }
  void poll(int side) const { ends_[side].poll(); }

 private:
  void connect(std::uint8_t mtu) {
    for (End& end : ends_)
      end.queues.push_back(
          end.hca->create_connected_queue({.transport = transport_, .receive_queue = end.rx})
              .value());
    for (int side : {0, 1}) {
      const End& end = ends_[side];
      fabric::ReadyToReceive attr{.peer_qpn = ends_[1 - side].queues.back()->qpn(),
                                  .path_mtu = mtu};
      attr.path.dlid = Cable::kLid[1 - side];
      if (!end.hca->set_ready_to_receive(*end.queues.back(), attr) ||
          !end.hca->set_ready_to_send(*end.queues.back(), {}))
        throw std::runtime_error("no connection");
    }
  }

  Transport transport_;
  std::array<End, 2> ends_;
  std::size_t next_ = 0;
};

/// A message in segments of `segment` octets, as it would have been received with that path MTU.
rte_mbuf* message(std::size_t len, std::size_t segment) {
  rte_mbuf* first = nullptr;
  do {
    const std::size_t n = std::min(len, segment);
    rte_mbuf* m = rte_pktmbuf_alloc(Cable::get().pool);
    if (m == nullptr) throw std::runtime_error("no mbuf");
    std::memset(rte_pktmbuf_append(m, static_cast<std::uint16_t>(n)), 0x5a, n);
    len -= n;
    if (first == nullptr)
      first = m;
    else if (rte_pktmbuf_chain(first, m) != 0)
      throw std::runtime_error("too many segments");
  } while (len != 0);
  return first;
}

/// Carries the frames on their way to `side` as two devices do: the receiver gets copies, and the
/// sender frees its frames, in `timed`.
template <class Timed>
void carry(int side, Timed&& timed) {
  rte_ring* const ring = Cable::get().towards[side];
  std::array<rte_mbuf*, 64> frames{};
  for (unsigned left = rte_ring_count(ring); left != 0;) {
    const unsigned n = rte_ring_dequeue_burst(ring, reinterpret_cast<void**>(frames.data()),
                                              std::min<unsigned>(left, frames.size()), nullptr);
    left -= n;
    for (unsigned i = 0; i < n; ++i) {
      rte_mbuf* const copy = rte_pktmbuf_copy(frames[i], Cable::get().pool, 0, UINT32_MAX);
      if (copy == nullptr || rte_ring_enqueue(ring, copy) != 0)
        throw std::runtime_error("no mbuf for a frame on the cable");
    }
    timed([&] { rte_pktmbuf_free_bulk(frames.data(), n); });
  }
}

/// Sends bursts of messages with `send` and receives all of them at the other end. The result is
/// the time of the sending side if `sender`, else that of the receiving side.
template <class Send>
void measure(benchmark::State& state, Pair& pair, bool sender, Send&& send) {
  const auto len = static_cast<std::size_t>(state.range(0));
  const std::uint16_t burst = len > 4096 ? 4 : kBurst;
  const double hz = static_cast<double>(rte_get_tsc_hz());
  std::vector<std::uint64_t> bursts;  // cycles of each
  for (auto _ : state) {
    std::array<rte_mbuf*, kBurst> pkts{};
    for (std::uint16_t i = 0; i < burst; ++i)
      pkts[i] = message(len + sizeof(std::uint32_t), static_cast<std::size_t>(state.range(1)));
    std::uint64_t tsc[2] = {0, 0};
    const auto timed = [&](int side, const auto& work) {
      const std::uint64_t begin = rte_rdtsc();
      work();
      tsc[side] += rte_rdtsc() - begin;
    };
    std::uint16_t sent = 0;
    timed(0, [&] { sent = send(pkts.data(), burst); });
    std::array<rte_mbuf*, kBurst> got{};
    std::uint16_t nb_got = 0;
    for (unsigned loops = 0; nb_got < sent && loops < 1000; ++loops) {
      carry(1, [&](const auto& work) { timed(0, work); });
      timed(1, [&] {
        pair.poll(1);
        nb_got = static_cast<std::uint16_t>(
            nb_got + pair.receive(got.data() + nb_got, static_cast<std::uint16_t>(sent - nb_got)));
      });
      carry(0, [&](const auto& work) { timed(1, work); });
      timed(0, [&] { pair.poll(0); });
    }
    rte_pktmbuf_free_bulk(got.data(), nb_got);
    if (nb_got != burst) {
      state.SkipWithError("messages were lost");
      break;
    }
    bursts.push_back(tsc[sender ? 0 : 1]);
    state.SetIterationTime(static_cast<double>(tsc[sender ? 0 : 1]) / hz);
  }
  state.SetItemsProcessed(state.iterations() * burst);
  state.SetBytesProcessed(state.iterations() * burst * state.range(0));
  if (bursts.empty()) return;
  // The median ignores bursts during which the scheduler took the CPU away.
  const auto middle = bursts.begin() + static_cast<std::ptrdiff_t>(bursts.size() / 2);
  std::nth_element(bursts.begin(), middle, bursts.end());
  const double tsc_per_pkt = static_cast<double>(*middle) / burst;
  state.counters["tsc_per_pkt"] = tsc_per_pkt;
  state.counters["ns_per_pkt"] = tsc_per_pkt / hz * 1e9;
  state.counters["Gbps"] = static_cast<double>(state.range(0)) * 8 * hz / tsc_per_pkt / 1e9;
}

void exchange(benchmark::State& state, Transport transport, bool sender) {
  const auto mtu = wire::mtu_code(static_cast<unsigned>(state.range(1)));
  Pair pair{transport, mtu, state.range(2) != 0};
  measure(state, pair, sender,
          [&](rte_mbuf** pkts, std::uint16_t n) { return pair.send(pkts, n); });
}

void many(benchmark::State& state, Transport transport, bool sender) {
  const auto mtu = wire::mtu_code(static_cast<unsigned>(state.range(1)));
  Pair pair{transport, mtu, false, static_cast<std::size_t>(state.range(2))};
  measure(state, pair, sender,
          [&](rte_mbuf** pkts, std::uint16_t n) { return pair.send_round_robin(pkts, n); });
}

void sizes(benchmark::internal::Benchmark* b, bool datagram) {
  b->ArgNames({"octets", "mtu", "icrc"})->UseManualTime();
  for (const int mtu : {2048, 4096})
    for (const int icrc : {0, 1})
      for (const int octets : {64, 2040, 2044, 65'520}) {
        const bool one_packet = octets + 4 <= mtu;
        if (datagram ? one_packet : octets != 2040) b->Args({octets, mtu, icrc});
      }
}
void datagram_sizes(benchmark::internal::Benchmark* b) {
  sizes(b, true);
}
void message_sizes(benchmark::internal::Benchmark* b) {
  sizes(b, false);
}

void connection_counts(benchmark::internal::Benchmark* b) {
  b->ArgNames({"octets", "mtu", "connections"})->UseManualTime();
  for (const int connections : {1, 100, 1000, 5000}) b->Args({64, 2048, connections});
}

BENCHMARK_CAPTURE(exchange, ud_send, Transport::kUd, true)->Apply(datagram_sizes);
BENCHMARK_CAPTURE(exchange, ud_receive, Transport::kUd, false)->Apply(datagram_sizes);
BENCHMARK_CAPTURE(exchange, rc_send, Transport::kRc, true)->Apply(message_sizes);
BENCHMARK_CAPTURE(exchange, rc_receive, Transport::kRc, false)->Apply(message_sizes);
BENCHMARK_CAPTURE(exchange, uc_send, Transport::kUc, true)->Apply(message_sizes);
BENCHMARK_CAPTURE(exchange, uc_receive, Transport::kUc, false)->Apply(message_sizes);
BENCHMARK_CAPTURE(many, rc_send, Transport::kRc, true)->Apply(connection_counts);
BENCHMARK_CAPTURE(many, rc_receive, Transport::kRc, false)->Apply(connection_counts);
BENCHMARK_CAPTURE(many, uc_send, Transport::kUc, true)->Apply(connection_counts);
BENCHMARK_CAPTURE(many, uc_receive, Transport::kUc, false)->Apply(connection_counts);

}  // namespace
}  // namespace ipoib::perf
