// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/worker/buffers.h"

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lib/base/log.h"

namespace ipoib::mgmt {
namespace {

constexpr unsigned kReserveCache = 32;

Mempool make(const std::string& name, unsigned n, unsigned cache, unsigned size, int socket) {
  const auto on = [&](int node) {
    return Mempool{
        rte_pktmbuf_pool_create(name.c_str(), n, cache, 0, static_cast<std::uint16_t>(size), node)};
  };
  Mempool pool = on(socket);
  if (pool || socket == SOCKET_ID_ANY) return pool;
  pool = on(SOCKET_ID_ANY);
  if (pool)
    log(LogArea::kMgmt, LogLevel::kWarning,
        "NUMA node {} has no memory for {} mbufs of {} octets: using another node, which slows its "
        "workers down (EAL option --socket-mem sets the memory of each node)",
        socket, n, size);
  return pool;
}

}  // namespace

void MempoolDeleter::operator()(rte_mempool* pool) const {
  rte_mempool_free(pool);
}

Result<Buffers> Buffers::create(std::span<const PoolPlan> plan, unsigned mbuf_size,
                                unsigned reserve, int management_socket, std::string_view prefix) {
  Buffers buffers;
  for (const PoolPlan& p : plan) {
    Mempool pool = make(fmt::format("{}mbufs_{}", prefix, buffers.pools_.size()), p.mbufs,
                        kMbufCache, mbuf_size, p.socket);
    if (!pool)
      return fail(Errc::kNoResources,
                  "no memory for {} mbufs of {} octets: raise the memory of EAL (-m) or lower "
                  "--total-num-mbufs",
                  p.mbufs, mbuf_size);
    Mempool shares;
    if (p.shares != 0) {
      shares = make(fmt::format("{}shares_{}", prefix, buffers.pools_.size()), p.shares, kMbufCache,
                    0, p.socket);
      if (!shares)
        return fail(Errc::kNoResources,
                    "no memory for {} mbufs without buffers: raise the memory of EAL (-m)",
                    p.shares);
    }
    buffers.pools_.push_back({p.socket, std::move(pool), std::move(shares)});
  }
  buffers.reserve_ = make(fmt::format("{}control", prefix), reserve, kReserveCache,
                          RTE_MBUF_DEFAULT_BUF_SIZE, management_socket);
  if (!buffers.reserve_)
    return fail(Errc::kNoResources,
                "no memory for a reserve of {} mbufs: raise the memory of EAL (-m)", reserve);
  return buffers;
}

const Buffers::Pool& Buffers::at(int socket) const {
  const auto it = std::find_if(pools_.begin(), pools_.end(),
                               [socket](const Pool& p) { return p.socket == socket; });
  return it != pools_.end() ? *it : pools_.front();
}

rte_mempool* Buffers::on(int socket) const {
  return at(socket).pool.get();
}

rte_mempool* Buffers::shares(int socket) const {
  return at(socket).shares.get();
}

unsigned Buffers::size() const {
  unsigned sum = 0;
  for (const Pool& p : pools_) sum += p.pool->size;
  return sum;
}

unsigned Buffers::available() const {
  unsigned sum = 0;
  for (const Pool& p : pools_) sum += rte_mempool_avail_count(p.pool.get());
  return sum;
}

unsigned Buffers::data_room() const {
  return rte_pktmbuf_data_room_size(pools_.front().pool.get());
}

}  // namespace ipoib::mgmt
