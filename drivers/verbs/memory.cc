// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/contract.h"

namespace ipoib::verbs {
namespace {

using Range = MemoryMap::Range;

/// Returns the chunks of all mempools; adjacent chunks are merged.
std::vector<Range> mempool_memory() {
  std::vector<Range> chunks;
  rte_mempool_walk(
      [](rte_mempool* pool, void* to) {
        rte_mempool_mem_iter(
            pool,
            [](rte_mempool*, void* out, rte_mempool_memhdr* chunk, unsigned) {
              const auto begin = reinterpret_cast<std::uintptr_t>(chunk->addr);
              static_cast<std::vector<Range>*>(out)->push_back({begin, begin + chunk->len, 0});
            },
            to);
      },
      &chunks);
  std::sort(chunks.begin(), chunks.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> merged;
  for (const Range& chunk : chunks) {
    if (!merged.empty() && chunk.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, chunk.end);
    else
      merged.push_back(chunk);
  }
  return merged;
}

std::string memlock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return fmt::format("{} KiB", limit.rlim_cur / 1024);
}

}  // namespace

MemoryMap::MemoryMap(std::vector<Range> ranges) : ranges_{std::move(ranges)} {}

const MemoryMap::Range* MemoryMap::find(std::uintptr_t at) const noexcept {
  const auto above = std::upper_bound(ranges_.begin(), ranges_.end(), at,
                                      [](std::uintptr_t a, const Range& r) { return a < r.begin; });
  if (above == ranges_.begin()) return nullptr;
  const Range& below = *(above - 1);
  return below.holds(at) ? &below : nullptr;
}

Status Memory::register_pools(ibv_pd* pd) {
  expects_management();
  bool news = false;
  Status status;
  for (Range range : mempool_memory()) {
    const bool registered = std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& r) {
      return r.begin <= range.begin && range.end <= r.end;
    });
    if (registered) continue;
    auto* const address = reinterpret_cast<void*>(range.begin);
    const std::size_t octets = range.end - range.begin;
    const int access = IBV_ACCESS_LOCAL_WRITE;
    MrPtr region{ibv_reg_mr(pd, address, octets, access)};
    if (region == nullptr) {
      status =
          fail(Errc::kNoResources,
               "{}: cannot register {} MiB of packet buffers: {} (memlock limit: {}; raise it by "
               "`ulimit -l` or by LimitMEMLOCK= of the service, or lower --total-num-mbufs)",
               name_, (octets + (1U << 20) - 1) >> 20, std::strerror(errno), memlock_limit());
      continue;
    }
    range.lkey = region->lkey;
    // A new registration of a grown mempool replaces the older ranges within it.
    std::erase_if(ranges_,
                  [&](const Range& r) { return range.begin <= r.begin && r.end <= range.end; });
    ranges_.push_back(range);
    regions_.push_back(std::move(region));
    news = true;
  }
  if (news) publish();
  return status;
}

void Memory::clear() {
  expects_management();
  ranges_.clear();
  publish();
  regions_.clear();
}

void Memory::publish() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  auto fresh = std::make_unique<const MemoryMap>(ranges_);
  map_.store(fresh.get(), std::memory_order_release);
  old_.add(std::exchange(current_, std::move(fresh)), grace_);
  old_.reclaim(grace_, [](std::unique_ptr<const MemoryMap> old) { old.reset(); });
}

}  // namespace ipoib::verbs
