// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/capture/capture_writer.h"

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/base/contract.h"
#include "lib/fabric/capture_meta.h"
#include "lib/fabric/ring_ptr.h"
#include "lib/mgmt/node/node_clock.h"

namespace ipoib::mgmt {
namespace {

constexpr unsigned kFrames = 8191;  ///< Frames that wait to be written, over all HCAs.
constexpr unsigned kRingSize = 4096;
constexpr unsigned kDataRoom = RTE_PKTMBUF_HEADROOM + 4096 + 128;
/// Poll interval: no doorbell announces captured frames, and their rings must not overflow.
constexpr std::chrono::milliseconds kPoll{1};

std::uint64_t unix_now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

/// A slow capture may still have its rings when the next one starts.
std::string unique_name(std::string_view what) {
  static std::atomic<unsigned> made{0};
  return fmt::format("ipoib_{}_{}", what, made++);
}

}  // namespace

struct CaptureWriter::Shared {
  Shared() = default;
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    for (rte_ring* ring : rings) {
      fabric::free_mbufs_in(*ring);
      rte_ring_free(ring);
    }
    rte_mempool_free(pool);
  }
  std::size_t write_some();
  void write_one(rte_mbuf* m);
  void write_until_the_end();

  // Set before the thread starts. The times are those of the creation: no frame is older.
  rte_mempool* pool = nullptr;
  std::vector<rte_ring*> rings;  ///< One per HCA: each has one producer.
  std::uint64_t limit = 0;
  std::uint64_t tsc_at_start = 0;
  std::uint64_t unix_ns_at_start = 0;
  // Owned by the thread until `over`.
  std::unique_ptr<FrameFile> file;
  std::string reason;

  std::atomic<std::uint64_t> frames{0};
  std::atomic<bool> ending{false};
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;  ///< Guarded by `mutex`.
};

void CaptureWriter::Shared::write_one(rte_mbuf* m) {
  const std::span frame{rte_pktmbuf_mtod(m, const std::byte*),
                        std::size_t{rte_pktmbuf_data_len(m)}};
  const std::chrono::nanoseconds since_start =
      duration_of(fabric::capture_meta_of(m).tsc - tsc_at_start);
  const auto at = unix_ns_at_start + static_cast<std::uint64_t>(since_start.count());
  if (const auto written = file->write(frame, at); !written) {
    reason = written.error().what;
    return;
  }
  frames.store(frames.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  // The next record is not longer than an mbuf, whose headroom is longer than the record's header.
  if (limit != 0 && file->size() + kDataRoom > limit)
    reason = fmt::format("the capture file has reached its limit of {} octets", limit);
}

/// Takes a burst off each ring. Returns the number of frames taken.
std::size_t CaptureWriter::Shared::write_some() {
  std::array<void*, 64> burst;
  std::size_t taken = 0;
  for (rte_ring* ring : rings) {
    const unsigned n = rte_ring_sc_dequeue_burst(ring, burst.data(), burst.size(), nullptr);
    taken += n;
    for (unsigned i = 0; i < n; ++i) {
      auto* m = static_cast<rte_mbuf*>(burst[i]);
      if (reason.empty()) write_one(m);
      rte_pktmbuf_free(m);
    }
  }
  return taken;
}

void CaptureWriter::Shared::write_until_the_end() {
  while (reason.empty()) {
    // Acquire: pairs with end(), so that all frames enqueued before it are seen.
    const bool last = ending.load(std::memory_order_acquire);
    if (write_some() != 0) continue;
    if (last) break;
    std::this_thread::sleep_for(kPoll);
  }
  file.reset();
  const std::lock_guard lock{mutex};
  over = true;
  ended.notify_all();
}

Result<CaptureWriter> CaptureWriter::create() {
  expects_management();
  auto shared = std::make_shared<Shared>();
  // No mempool cache: the thread that frees the mbufs is not an lcore.
  shared->pool = rte_pktmbuf_pool_create(unique_name("capture").c_str(), kFrames, 0, 0, kDataRoom,
                                         SOCKET_ID_ANY);
  if (shared->pool == nullptr)
    return fail(Errc::kNoResources, "no memory for captured frames: {}", rte_strerror(rte_errno));
  shared->tsc_at_start = rte_rdtsc();
  shared->unix_ns_at_start = unix_now_ns();
  return CaptureWriter{std::move(shared)};
}

Result<fabric::CaptureTap> CaptureWriter::add_tap() {
  expects_management();
  rte_ring* ring =
      rte_ring_create(unique_name("tap").c_str(), kRingSize, SOCKET_ID_ANY, RING_F_SC_DEQ);
  if (ring == nullptr) return fail(Errc::kNoResources, "no memory for the capture ring");
  shared_->rings.push_back(ring);
  return fabric::CaptureTap{ring, shared_->pool};
}

Status CaptureWriter::start(std::unique_ptr<FrameFile> file, std::uint64_t limit) {
  expects_management();
  shared_->file = std::move(file);
  shared_->limit = limit;
  auto own = std::make_unique<std::shared_ptr<Shared>>(shared_);
  // A control thread runs on the CPUs that EAL does not use for lcores.
  pthread_t thread{};
  if (rte_ctrl_thread_create(&thread, "ipoib-capture", nullptr, &CaptureWriter::run, own.get()) !=
      0)
    return fail(Errc::kNoResources, "cannot create the thread that writes the capture");
  static_cast<void>(own.release());
  pthread_detach(thread);
  return {};
}

void* CaptureWriter::run(void* shared) {
  const std::unique_ptr<std::shared_ptr<Shared>> own{static_cast<std::shared_ptr<Shared>*>(shared)};
  (*own)->write_until_the_end();
  return nullptr;
}

void CaptureWriter::end() {
  expects_management();
  shared_->ending.store(true, std::memory_order_release);
}

bool CaptureWriter::wait(std::chrono::milliseconds at_most) const {
  std::unique_lock lock{shared_->mutex};
  return shared_->ended.wait_for(lock, at_most, [this] { return shared_->over; });
}

std::string CaptureWriter::reason() const {
  expects([this] { return is_over(); }, "the file is closed");
  return shared_->reason;
}

std::uint64_t CaptureWriter::frames() const {
  return shared_->frames.load(std::memory_order_relaxed);
}

}  // namespace ipoib::mgmt
