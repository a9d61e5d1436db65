// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/worker/placement.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "lib/mgmt/device/hca_resources.h"

namespace ipoib::mgmt {
namespace {

/// Places in the rings between a worker and management.
constexpr unsigned kWorkerRings = 2 * 4096;
/// Packets on the management lcore, including those that wait for their neighbour.
constexpr unsigned kManagement = 4096;
/// Answers, queries and acknowledgements in flight.
constexpr unsigned kReserve = 2048;
constexpr unsigned kReserveCached = 64;  ///< A cache of 32 keeps up to 48 mbufs.

/// Counts by NUMA node, in the order of worker numbers.
class Needs {
 public:
  explicit Needs(const Topology& topology) : topology_{topology} {
    for (const int socket : topology.workers) at(socket);
  }
  void add(unsigned worker, unsigned mbufs) { at(topology_.workers[worker]).mbufs += mbufs; }
  void add_management(unsigned mbufs) {
    const auto pool = std::find_if(pools_.begin(), pools_.end(), [this](const PoolPlan& p) {
      return p.socket == topology_.management;
    });
    (pool != pools_.end() ? *pool : pools_.front()).mbufs += mbufs;
  }
  void add_shares(unsigned worker, unsigned mbufs) {
    at(topology_.workers[worker]).shares += mbufs;
  }
  [[nodiscard]] std::vector<PoolPlan>& pools() { return pools_; }

 private:
  PoolPlan& at(int socket) {
    const auto it = std::find_if(pools_.begin(), pools_.end(),
                                 [socket](const PoolPlan& p) { return p.socket == socket; });
    return it != pools_.end() ? *it : pools_.emplace_back(PoolPlan{socket, 0});
  }

  const Topology& topology_;
  std::vector<PoolPlan> pools_;
};

/// Adds the buffers of a cable: of its queues, and of frames that its readers have passed on. Workers
/// send little to the port itself.
void add_cable(Needs& needs, const NodeConfig& config, const std::vector<unsigned>& receivers,
               unsigned workers) {
  const unsigned others = std::min(workers, kMaxCableWorkers) - 1;
  for (const unsigned i : receivers) needs.add(i, config.rxd + others * cable_ring_depth(workers));
  for (unsigned i = 0; i < workers; ++i) needs.add(i, config.txd);
}
/// Adds the buffers of a real hca's queues: it has some for each link.
void add_queues(Needs& needs, const NodeConfig& config, const HcaConfig& hca, unsigned owner,
                unsigned workers) {
  for (const LinkConfigEntry& l : config.links) {
    if (l.hca != hca.name) continue;
    const unsigned n = queue_pairs_of(l, workers);
    // All receive buffers are of the owner's pool.
    needs.add(owner, n * config.rxd);
    std::vector<unsigned> senders = senders_of({owner}, workers);
    senders.resize(n);
    for (const unsigned i : senders) needs.add(i, config.txd);
  }
}

/// `all`: places of the rings of one worker together, if `least` allows it.
unsigned depth_of_rings(unsigned workers, unsigned deepest, unsigned least, unsigned all) {
  return workers < 2 ? deepest : std::clamp(std::bit_floor(all / (workers - 1)), least, deepest);
}

/// Scales the pools so that they have `total` mbufs together.
void scale(std::vector<PoolPlan>& pools, unsigned total) {
  std::uint64_t wanted = 0;
  for (const PoolPlan& p : pools) wanted += p.mbufs;
  unsigned left = total;
  for (PoolPlan& p : pools) {
    p.mbufs = static_cast<unsigned>(std::uint64_t{total} * p.mbufs / wanted);
    left -= p.mbufs;
  }
  pools.front().mbufs += left;
}

}  // namespace

bool is_connected_on(const LinkConfigEntry& l, const HcaConfig& hca) {
  return l.hca == hca.name && l.mode != LinkMode::kDatagram;
}

unsigned connection_workers(const NodeConfig& config, const HcaConfig& hca) {
  unsigned workers = 0;
  for (const LinkConfigEntry& l : config.links)
    if (is_connected_on(l, hca))
      workers = std::max(workers, queue_pairs_of(l, config.worker.count));
  return workers;
}

unsigned messages_under_way(const NodeConfig& config, const HcaConfig& hca) {
  const unsigned workers = connection_workers(config, hca);
  return workers == 0 ? 0 : std::max(kMessagesUnderWay, workers * kMessagesOfWorker);
}

std::vector<unsigned> receivers_of(const NodeConfig& config, const std::string& name,
                                   std::size_t nth) {
  const auto it = config.worker.assign.find(name);
  if (it != config.worker.assign.end()) return it->second;
  return {static_cast<unsigned>(nth % config.worker.count)};
}

std::vector<unsigned> receivers_for(const Topology& topology, int socket, unsigned queues,
                                    const std::vector<unsigned>& devices) {
  std::vector<unsigned> all, near;
  for (unsigned i = 0; i < topology.workers.size(); ++i) {
    all.push_back(i);
    if (socket >= 0 && topology.workers[i] == socket) near.push_back(i);
  }
  std::vector<unsigned>& found = near.empty() ? all : near;
  std::ranges::stable_sort(found, {}, [&](unsigned worker) { return devices[worker]; });
  found.resize(std::min<std::size_t>(queues, found.size()));
  return found;
}

unsigned queue_pairs_of(const LinkConfigEntry& link, unsigned workers) {
  if (link.dialect == LinkDialect::kIbarp2001) return 1;
  return link.queue_pairs == 0 ? workers : std::min(workers, link.queue_pairs);
}

std::vector<unsigned> senders_of(const std::vector<unsigned>& receivers, unsigned workers) {
  std::vector<unsigned> senders = receivers;
  for (unsigned i = 0; i < workers; ++i)
    if (std::find(receivers.begin(), receivers.end(), i) == receivers.end()) senders.push_back(i);
  return senders;
}

std::vector<fwd::InterfaceQueues> share_queues(const std::vector<unsigned>& receivers,
                                               unsigned workers, std::uint16_t rx,
                                               std::uint16_t tx) {
  const std::vector<unsigned> senders = senders_of(receivers, workers);
  std::vector<fwd::InterfaceQueues> queues(workers);
  for (std::uint16_t q = 0; q < rx; ++q)
    queues[receivers[q % receivers.size()]].eth_rx.push_back(q);
  for (std::uint16_t q = 0; q < std::min<std::size_t>(tx, workers); ++q)
    queues[senders[q]].eth_tx = q;
  return queues;
}

unsigned handoff_depth(unsigned workers) {
  constexpr unsigned kDeepest = 2048, kMin = 512, kAll = 8192;
  return depth_of_rings(workers, kDeepest, kMin, kAll);
}

unsigned cable_ring_depth(unsigned workers) {
  constexpr unsigned kDeepest = 1024, kMin = 256, kAll = 4096;
  return depth_of_rings(workers, kDeepest, kMin, kAll);
}

std::vector<PoolPlan> plan_pools(const NodeConfig& config, const Topology& topology) {
  Needs needs{topology};
  const auto workers = static_cast<unsigned>(topology.workers.size());
  std::size_t nth = 0;
  for (const PortConfig& p : config.ports) {
    for (const unsigned receiver : receivers_of(config, p.name, nth++))
      needs.add(receiver, config.rxd);
    for (unsigned i = 0; i < workers; ++i) needs.add(i, config.txd);
  }
  for (const HcaConfig& h : config.hcas) {
    const std::vector<unsigned> receivers = receivers_of(config, h.name, nth++);
    const unsigned owner = receivers.front();
    if (h.driver == HcaDriver::kSoft)
      add_cable(needs, config, receivers, workers);
    else
      add_queues(needs, config, h, owner, workers);
    needs.add(owner, messages_under_way(config, h));
    // Their frames are with the ethdev, or come back from it into the caches of the workers.
    if (h.driver == HcaDriver::kSoft)
      needs.add_shares(owner, connection_workers(config, h) * (2 * config.txd + 2 * kMbufCache));
  }
  for (unsigned i = 0; i < workers; ++i)
    needs.add(i, kWorkerRings + 2 * kMbufCache + (workers - 1) * handoff_depth(workers));
  needs.add_management(kManagement);
  if (config.total_num_mbufs != 0) scale(needs.pools(), config.total_num_mbufs);
  return std::move(needs.pools());
}

unsigned plan_reserve(const NodeConfig& config) {
  // Devices free sent mbufs only when they send more.
  const auto devices = static_cast<unsigned>(config.ports.size() + config.hcas.size());
  return kReserve + config.worker.count * devices * config.txd +
         (config.worker.count + 1) * kReserveCached;
}

}  // namespace ipoib::mgmt
