// SPDX-License-Identifier: BSD-3-Clause
#include "tests/flood/flood_node.h"

#include <rte_cycles.h>
#include <rte_mempool.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "lib/mgmt/node/node_builder.h"
#include "tests/support/sim_tsc.h"
#include "tests/support/soft_hcas.h"

namespace ipoib::flood {
namespace {

using namespace std::chrono_literals;
using test::sim_tsc;

DeviceWork device_work;

/// The clock of the node. While the management lcore makes a turn, it includes the time that the
/// device has taken in it.
std::uint64_t read_tsc() noexcept {
  return sim_tsc + device_work.cycles;
}

std::uint64_t cycles_of(Duration d) {
  return static_cast<std::uint64_t>(d.count()) * (rte_get_tsc_hz() / 1'000'000) / 1000;
}

Result<std::unique_ptr<fabric::Hca>> make_slow_soft(const mgmt::HcaConfig& config,
                                                    const mgmt::HcaResources& resources) {
  auto hca = mgmt::make_timed_soft(config, resources);
  if (!hca) return hca;
  return std::unique_ptr<fabric::Hca>{std::make_unique<SlowHca>(std::move(*hca), device_work)};
}

wire::IpPrefix prefix(const wire::IpAddr& addr, unsigned len) {
  return {addr, static_cast<std::uint8_t>(len)};
}

}  // namespace

wire::IpAddr FloodNode::ip6(Side side, unsigned link, std::uint64_t id) {
  const auto gid =
      wire::Gid::of(side == Side::kEthernet ? 0xfd00'000b'0000'0000
                                            : 0xfd00'000a'0000'0000 | std::uint64_t{link} << 16,
                    id);
  wire::IpAddr addr;
  addr.bytes = gid.bytes;
  return addr;
}

std::uint16_t FloodNode::pkey(unsigned link) {
  return link == 0 ? wire::kDefaultPkey : static_cast<std::uint16_t>(0x8000 + link);
}

mgmt::NodeConfig FloodNode::config(const FloodNodeConfig& wanted) const {
  mgmt::NodeConfig c;
  mgmt::HcaConfig hca;
  hca.name = "soft0";
  hca.wire = cable_.name;
  hca.guid = 0x0002'c903'000a'0b01;
  hca.lid = hca.sm_lid = kLid;
  hca.subnet_administrator = true;
  hca.icrc = false;  // The ICRC of a million frames a second would only take time.
  hca.pkeys.clear();
  for (unsigned j = 0; j < wanted.links; ++j) {
    hca.pkeys.push_back(pkey(j));
    mgmt::LinkConfigEntry link;
    link.name = "ib" + std::to_string(j);
    link.hca = "soft0";
    link.pkey = pkey(j);
    link.addresses = {prefix(wire::IpAddr::v4(ib_ip(j)), 16),
                      prefix(ip6(Side::kCable, j, kOwnId), 64)};
    if (wanted.connected) link.mode = mgmt::LinkMode::kConnected;
    link.connection.rnr_retry = wanted.rnr_retry;
    link.connection.max_connections = wanted.max_connections;
    link.ip.multicast_router = wanted.multicast_router;
    c.links.push_back(link);
  }
  c.hcas = {hca};
  mgmt::PortConfig eth0;
  eth0.name = "eth0";
  eth0.device = ethernet_.name;
  eth0.addresses = {prefix(wire::IpAddr::v4(kEthIp), 16),
                    prefix(ip6(Side::kEthernet, 0, kOwnId), 64)};
  eth0.ip.multicast_router = wanted.multicast_router;
  c.ports = {eth0};
  c.neighbour.reachable = wanted.reachable;
  c.auto_start = true;
  return c;
}

FloodNode::FloodNode(const FloodNodeConfig& wanted) {
  sim_tsc = 1000 * rte_get_tsc_hz();
  device_work = {.queue_pair_cycles = cycles_of(wanted.queue_pair_cost)};
  auto built = mgmt::build_node(config(wanted), {0, {1}}, make_slow_soft, &read_tsc, 0);
  if (!built) throw std::runtime_error(built.error().what);
  node_ = std::move(*built);
  pool_ = node_->parts->buffers.on(0);
  node_->runner.start();
  const auto all_up = [this] {
    const auto rows = node_->faces.view.links();
    return std::ranges::all_of(rows, [](const auto& l) { return l.state == "up"; }) &&
           node_->faces.view.ports()[0].state == "up";
  };
  for (const TimePoint end = now() + 60s; !all_up() && now() < end;) {
    for (int i = 0; i < 100; ++i) step();
    for (const Side side : {Side::kEthernet, Side::kCable})
      while (rte_mbuf* const m = take(side)) rte_pktmbuf_free(m);
  }
  if (!all_up()) throw std::runtime_error("the interfaces do not come up");
  // Duplicate address detection ends.
  for (const TimePoint end = now() + 4s; now() < end;) {
    step();
    for (const Side side : {Side::kEthernet, Side::kCable})
      while (rte_mbuf* const m = take(side)) rte_pktmbuf_free(m);
  }
  mac_ = node_->faces.view.ports()[0].mac;
  for (const auto& link : node_->faces.view.links()) {
    qpn_.push_back(link.qpn);
    qkey_ = link.parameters.qkey;
  }
  restart_figures();
}

FloodNode::~FloodNode() {
  for (const Side side : {Side::kEthernet, Side::kCable}) {
    test::empty(device(side).to_node);
    test::empty(device(side).from_node);
  }
  node_->runner.begin_to_leave();
  for (int i = 0; i < 20'000 && !node_->runner.has_left(); ++i) step();
}

void FloodNode::step() {
  sim_tsc += cycles_of(kStep);
  constexpr int kMaxLoops = 64;
  mgmt::WorkerHandle& worker = node_->parts->workers.all().front();
  for (int i = 0; i < kMaxLoops && worker.worker->iterate(sim_tsc) != 0; ++i) continue;
  if (now() >= turn_ends_ && (now() >= wakes_ || node_->runner.work_waiting())) turn();
  figures_.least_free = std::min(figures_.least_free, node_->parts->buffers.available());
  figures_.missed = missed_;
}

void FloodNode::turn() {
  rte_ring* const up = node_->parts->workers.all().front().channel->up();
  const unsigned waiting = rte_ring_count(up);
  const std::uint64_t mads = device_work.mads;
  const TimePoint begin = now();
  node_->runner.run_once();
  const std::uint64_t handled = device_work.mads - mads + waiting - rte_ring_count(up);
  const Duration took = now() - begin + handled * kMessageCost;
  device_work.cycles = 0;
  turn_ends_ = begin + took;
  wakes_ = node_->runner.next_wake(begin);
  figures_.longest_turn = std::max(figures_.longest_turn, took);
  figures_.most_messages = std::max(figures_.most_messages, handled);
  figures_.queue_pairs = device_work.queue_pairs;
}

void FloodNode::restart_figures() {
  figures_ = {};
  figures_.least_free = node_->parts->buffers.available();
  missed_ = 0;
  device_work.queue_pairs = 0;
}

std::size_t FloodNode::resident() {
  std::size_t size = 0, pages = 0;
  if (std::FILE* const f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%zu %zu", &size, &pages) != 2) pages = 0;
    std::fclose(f);
  }
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace ipoib::flood
