// SPDX-License-Identifier: BSD-3-Clause
// Set-up and memory of connections. Two links in one process, with their policy, communication
// managers and software HCAs, exchange MADs over a cable of rings. `set_up` is the time until all
// connections are established on both sides; octets_per_connection is the memory that a side has
// allocated for an idle connection.
#include <rte_malloc.h>

#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <vector>

#include "drivers/soft/soft_hca.h"
#include "lib/link/ipoib/connected/connections.h"
#include "perf/bench.h"
#include "perf/drivers/soft/cable.h"

namespace ipoib::perf {
namespace {

using link::Connections;

/// Connections requested at a time: the rings of MADs hold no more.
constexpr std::size_t kAtOnce = 256;

/// One end: the connected mode of a link over its HCA.
class Side final : link::NeighbourPaths, link::ConnectionActions {
 public:
  explicit Side(int side) : side_{side} {
    soft::SoftHcaConfig config;
    config.name = "bench";
    config.port_id = Cable::get().port[side];
    config.pool = Cable::get().pool;
    config.attr.lid = Cable::kLid[side];
    config.attr.guid = guid();
    hca_ = soft::SoftHca::create(config).value();
    rx_ = hca_->create_receive_queue({}).value();
    const auto send = [this](const fabric::MadAddress& to,
                             std::span<const std::byte, wire::kMadLen> mad) {
      return hca_->mad_port().send(to, mad);
    };
    cm::ManagerConfig cm;
    cm.ca_guid = guid();
    // All peers are behind one port, and come as fast as they can.
    cm.limits.port_burst = cm.limits.burst = 1'000'000;
    cm.limits.port_max = 1'000'000;
    manager_ = std::make_unique<cm::Manager>(send, cm, guid());
    link::ConnectionConfig mode;
    mode.rc = true;
    mode.open = link::OpenPolicy::kAlways;
    mode.max_connections = 10'000;
    link::ConnectionSurroundings around;
    around.path_to = [this](const wire::Gid& gid) {
      return link::PathTable::ReadyPath{{.dlid = Cable::kLid[1 - side_], .dgid = gid}, 4};
    };
    around.is_answered = [](const wire::Gid&, TimePoint, TimePoint) { return true; };
    around.last_used = [](const wire::IpAddr&) { return TimePoint::min(); };
    around.queues = [] { return 1U; };
    around.changed = [](const wire::IpAddr&, TimePoint) {};
    connections_ = std::make_unique<Connections>(
        mode, wire::kDefaultPkey, static_cast<link::NeighbourPaths&>(*this),
        static_cast<link::ConnectionActions&>(*this), *manager_, around, guid());
    if (!connections_->start({address(guid())}, hca_->attr(), now_))
      throw std::runtime_error("the link does not start");
  }
  ~Side() override {
    connections_.reset();
    manager_.reset();
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  /// Connects to one more peer interface. All peers are behind the other end of the cable.
  void meet(std::uint32_t number) {
    connections_->acquire(wire::IpAddr::v4(number), address(kManyGuids + number), now_);
  }
  /// Runs one loop of management and worker.
  void loop() {
    connections_->tick(now_);
    manager_->tick(now_);
    hca_->poll_function()(*hca_, 0, soft::UdDatapath::kBurst);
    while (auto mad = hca_->mad_port().receive()) {
      pretend(*mad);
      manager_->on_mad(*mad, now_);
    }
    while (const auto event = hca_->next_queue_event()) connections_->on_queue_event(*event, now_);
  }
  [[nodiscard]] std::uint64_t established() const { return connections_->counters().established; }

 private:
  static constexpr std::uint64_t kManyGuids = 0x0002'c903'0000'0000;
  static constexpr std::uint32_t kUdQpn = 0x48;

  [[nodiscard]] std::uint64_t guid() const { return 1U + static_cast<unsigned>(side_); }
  static wire::LinkAddr address(std::uint64_t guid) {
    return {wire::LinkAddr::kFlagRc, wire::Be24{kUdQpn},
            wire::Gid::of(wire::kDefaultGidPrefix, guid)};
  }
  /// Rewrites a received REQ as if each came from a different interface.
  static void pretend(fabric::ReceivedMad& received) {
    auto mad = wire::read<wire::CmMad>(received.bytes).value();
    if (mad.attr() != wire::CmAttr::kReq) return;
    auto req = wire::cm_message<wire::CmReq>(mad);
    req.primary.local_gid = req.primary.remote_gid;
    mad = wire::make_cm_mad(mad.hdr.tid.host(), req);
    std::memcpy(received.bytes.data(), &mad, sizeof(mad));
  }

  Result<fabric::ConnectedQueue*> create_connected(fabric::Transport transport,
                                                   unsigned /*queue_pair*/) override {
    return hca_->create_connected_queue({.transport = transport, .receive_queue = rx_});
  }
  [[nodiscard]] std::uint8_t worker_of(unsigned /*queue_pair*/) const override { return 0; }
  [[nodiscard]] std::size_t connected_queues(unsigned /*queue_pair*/) const override { return 0; }
  void destroy_connected(fabric::ConnectedQueue& q, unsigned /*queue_pair*/) override {
    hca_->destroy_connected_queue(q);
  }
  Status set_ready_to_receive(fabric::ConnectedQueue& queue,
                              const fabric::ReadyToReceive& attr) override {
    return hca_->set_ready_to_receive(queue, attr);
  }
  Status set_ready_to_send(fabric::ConnectedQueue& queue,
                           const fabric::ReadyToSend& attr) override {
    return hca_->set_ready_to_send(queue, attr);
  }
  [[nodiscard]] bool takes_alternates() const override { return false; }
  [[nodiscard]] std::uint8_t ack_delay() const override { return hca_->capabilities().ack_delay; }
  Status load_alternate(fabric::ConnectedQueue& queue, const fabric::AlternatePath& path) override {
    return hca_->load_alternate(queue, path);
  }
  void set_error(fabric::ConnectedQueue& queue) override { hca_->set_error(queue); }
  [[nodiscard]] fabric::ConnectedQueueInfo info(const fabric::ConnectedQueue& q) const override {
    return hca_->info(q);
  }

  link::PathState acquire(const wire::IpAddr&, const wire::HwAddr&, TimePoint) override {
    return link::PathState::kReady;
  }
  void release(const wire::IpAddr&, const wire::HwAddr&) override {}
  void refresh(const wire::HwAddr&, TimePoint) override {}
  [[nodiscard]] link::PathState state(const wire::HwAddr&) const override {
    return link::PathState::kReady;
  }
  [[nodiscard]] table::NeighbourMode mode() const override { return table::NeighbourMode::kUd; }
  void describe(const wire::HwAddr&, table::Neighbour&) const override {}
  void describe(const wire::HwAddr&, link::NeighbourInfo&) const override {}

  int side_;
  TimePoint now_{std::chrono::seconds(1)};
  std::unique_ptr<soft::SoftHca> hca_;
  fabric::ReceiveQueue* rx_ = nullptr;
  std::unique_ptr<cm::Manager> manager_;
  std::unique_ptr<Connections> connections_;
};

/// CPU time of this thread in seconds.
double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

/// Octets that are allocated on the heaps of the C library and of DPDK.
std::size_t allocated() {
  const struct mallinfo2 heap = mallinfo2();
  rte_malloc_socket_stats socket{};
  if (rte_malloc_get_socket_stats(0, &socket) != 0) throw std::runtime_error("no statistics");
  return heap.uordblks + heap.hblkhd + socket.heap_allocsz_bytes;
}

void set_up(benchmark::State& state) {
  const auto connections = static_cast<std::size_t>(state.range(0));
  double octets = 0;
  for (auto _ : state) {
    Side asks{0};
    Side answers{1};
    const std::size_t before = allocated();
    const double begin = cpu_seconds();
    for (std::size_t met = 0; met < connections;) {
      for (const auto end = std::min(met + kAtOnce, connections); met < end; ++met)
        asks.meet(static_cast<std::uint32_t>(met));
      for (unsigned loops = 0; asks.established() < met || answers.established() < met; ++loops) {
        if (loops == 100'000) return state.SkipWithError("connections are missing");
        asks.loop();
        answers.loop();
      }
    }
    state.SetIterationTime(cpu_seconds() - begin);
    octets = static_cast<double>(allocated() - before);
  }
  Cable::get().empty();
  // Both sides ran on this lcore.
  state.SetItemsProcessed(state.iterations() * state.range(0) * 2);
  state.counters["octets_per_connection"] = octets / 2 / static_cast<double>(connections);
}
BENCHMARK(set_up)->ArgName("connections")->Arg(1)->Arg(100)->Arg(1000)->Arg(5000)->UseManualTime();

}  // namespace
}  // namespace ipoib::perf
