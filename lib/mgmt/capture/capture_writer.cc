// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/capture/capture_writer.h"

#include <rte_cycles.h>
#include <rte_errno.h>
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
#include "lib/base/control_thread.h"
#include "lib/fabric/capture_meta.h"
#include "lib/fabric/ring_ptr.h"
#include "lib/mgmt/node/node_clock.h"

namespace ipoib::mgmt {
namespace {

constexpr unsigned kFrames = 8191;  ///< Frames that wait to be written, over all HCAs.
constexpr unsigned kRingSize = 4096;
constexpr unsigned kDataRoom = RTE_PKTMBUF_HEADROOM + 4096 + 128;
/// Octets that are written at one time while frames follow each other.
constexpr std::size_t kBlock = std::size_t{64} * 1024;
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
  /// The place of the thread. It must touch EAL's memory in kInMemory only, and the file in kAtFile.
  enum class Place : std::uint8_t { kInMemory, kAtFile, kAbandoned };

  explicit Shared(Order o) : order{std::move(o)} {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { free_memory(); }

  void live();
  bool open();
  bool prepare();
  void write_until_the_end();
  std::size_t take_some();
  void take_one(rte_mbuf* m);
  bool flush();
  bool close();
  void reach(Stage next);
  void give_up(Error why);
  void reach_limit(std::string which);
  void free_memory();

  /// Does something at the file that may block. False: the writer was abandoned meanwhile.
  template <class Do>
  [[nodiscard]] bool at_file(const Do& work) {
    // Release and acquire: pair with those of abandon(), which frees the memory instead of the
    // thread.
    place.store(Place::kAtFile, std::memory_order_release);
    work();
    auto here = Place::kAtFile;
    return place.compare_exchange_strong(here, Place::kInMemory, std::memory_order_acq_rel);
  }

  const Order order;
  // Owned by the thread; after abandon(), by its caller.
  rte_mempool* pool = nullptr;
  std::vector<rte_ring*> rings;  ///< One per HCA: each has one producer.
  // Owned by the thread.
  FrameFilePtr file;
  std::uint64_t tsc_at_start = 0;  ///< No frame is older.
  std::uint64_t unix_ns_at_start = 0;
  std::uint64_t unwritten = 0;  ///< Frames.
  bool gave_up = false;
  // Written by the thread before kWriting.
  std::vector<fabric::CaptureTap> taps;

  std::atomic<std::uint64_t> frames{0}, octets{0}, lost{0};
  std::atomic<bool> ending{false};
  std::atomic<Place> place{Place::kInMemory};
  std::mutex mutex;
  std::condition_variable moved;
  // Guarded by `mutex`.
  Stage stage = Stage::kOpening;
  std::string limit;  ///< The limit that was reached.
  std::optional<Error> fault;
};

void CaptureWriter::Shared::reach(Stage next) {
  const std::lock_guard lock{mutex};
  stage = next;
  moved.notify_all();
}

/// Only the first fault counts: it explains the others.
void CaptureWriter::Shared::give_up(Error why) {
  gave_up = true;
  const std::lock_guard lock{mutex};
  if (!fault) fault = std::move(why);
}

void CaptureWriter::Shared::reach_limit(std::string which) {
  gave_up = true;
  const std::lock_guard lock{mutex};
  limit = fmt::format("the capture file has reached its limit of {}", which);
}

void CaptureWriter::Shared::free_memory() {
  for (rte_ring* ring : rings) {
    fabric::free_mbufs_in(*ring);
    rte_ring_free(ring);
  }
  rings.clear();
  rte_mempool_free(pool);
  pool = nullptr;
}

bool CaptureWriter::Shared::open() {
  Result<FrameFilePtr> opened;
  if (!at_file([&] { opened = order.open(); })) return false;
  if (opened)
    file = std::move(*opened);
  else
    give_up(opened.error());
  return true;
}

bool CaptureWriter::Shared::prepare() {
  // No mempool cache: the thread that frees the mbufs is not an lcore.
  pool = rte_pktmbuf_pool_create(unique_name("capture").c_str(), kFrames, 0, 0, kDataRoom,
                                 SOCKET_ID_ANY);
  if (pool == nullptr) {
    give_up({Errc::kNoResources,
             fmt::format("no memory for captured frames: {}", rte_strerror(rte_errno))});
    return false;
  }
  for (std::size_t i = 0; i < order.taps; ++i) {
    rte_ring* ring =
        rte_ring_create(unique_name("tap").c_str(), kRingSize, SOCKET_ID_ANY, RING_F_SC_DEQ);
    if (ring == nullptr) {
      give_up({Errc::kNoResources, "no memory for the capture ring"});
      return false;
    }
    rings.push_back(ring);
    taps.push_back({ring, pool});
  }
  tsc_at_start = rte_rdtsc();
  unix_ns_at_start = unix_now_ns();
  return true;
}

void CaptureWriter::Shared::take_one(rte_mbuf* m) {
  const std::span frame{rte_pktmbuf_mtod(m, const std::byte*),
                        std::size_t{rte_pktmbuf_data_len(m)}};
  const std::chrono::nanoseconds since_start =
      duration_of(fabric::capture_meta_of(m).tsc - tsc_at_start);
  const auto at = unix_ns_at_start + static_cast<std::uint64_t>(since_start.count());
  if (!file->append(frame, at)) {
    lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ++unwritten;
  // The next record is not longer than an mbuf, whose headroom is longer than the record's header.
  if (order.max_octets != 0 && file->size() + kDataRoom > order.max_octets)
    reach_limit(fmt::format("{} octets", order.max_octets));
  else if (order.max_frames != 0 &&
           frames.load(std::memory_order_relaxed) + unwritten == order.max_frames)
    reach_limit(fmt::format("{} frames", order.max_frames));
}

/// Takes a burst off each ring. Returns the number of frames taken.
std::size_t CaptureWriter::Shared::take_some() {
  std::array<void*, 64> burst;
  std::size_t taken = 0;
  for (rte_ring* ring : rings) {
    const unsigned n = rte_ring_sc_dequeue_burst(ring, burst.data(), burst.size(), nullptr);
    taken += n;
    for (unsigned i = 0; i < n; ++i) {
      auto* m = static_cast<rte_mbuf*>(burst[i]);
      if (gave_up)
        lost.fetch_add(1, std::memory_order_relaxed);
      else
        take_one(m);
      rte_pktmbuf_free(m);
    }
  }
  return taken;
}

/// Returns false if the writer was abandoned, as does close().
bool CaptureWriter::Shared::flush() {
  Status status;
  if (!at_file([&] { status = file->flush(); })) return false;
  const std::uint64_t n = std::exchange(unwritten, 0);
  if (!status) {
    lost.fetch_add(n, std::memory_order_relaxed);
    give_up(status.error());
    return true;
  }
  frames.fetch_add(n, std::memory_order_relaxed);
  octets.store(file->size(), std::memory_order_relaxed);
  return true;
}

bool CaptureWriter::Shared::close() {
  if (!flush()) return false;
  Status status;
  if (!at_file([&] {
        status = file->close();
        file.reset();
      }))
    return false;
  if (!status) give_up(status.error());
  return true;
}

void CaptureWriter::Shared::write_until_the_end() {
  while (true) {
    // Acquire: pairs with end(), so that all frames enqueued before it are seen.
    const bool last = ending.load(std::memory_order_acquire);
    const std::size_t taken = take_some();
    if (file && !gave_up && (file->unwritten() >= kBlock || taken == 0) && unwritten != 0)
      if (!flush()) return;
    if (file && gave_up) {
      reach(Stage::kClosed);  // So the taps are taken off before the file answers.
      if (!close()) return;
    }
    if (taken != 0) continue;
    if (last) break;
    std::this_thread::sleep_for(kPoll);
  }
  if (file && !close()) return;
  free_memory();
  reach(Stage::kOver);
}

void CaptureWriter::Shared::live() {
  if (!open()) return;
  if (!gave_up) {
    octets.store(file->size(), std::memory_order_relaxed);
    reach(Stage::kPreparing);
    if (!ending.load(std::memory_order_relaxed) && prepare()) {
      reach(Stage::kWriting);
      return write_until_the_end();
    }
    if (!close()) return;
  }
  free_memory();
  reach(Stage::kOver);
}

Result<CaptureWriter> CaptureWriter::start(Order order) {
  expects_management();
  auto shared = std::make_shared<Shared>(std::move(order));
  if (auto started = run_on_control_thread("ipoib-capture", "writes the capture",
                                           [shared] { shared->live(); });
      !started)
    return tl::make_unexpected(started.error());
  return CaptureWriter{std::move(shared)};
}

CaptureWriter::Stage CaptureWriter::stage() const {
  const std::lock_guard lock{shared_->mutex};
  return shared_->stage;
}

bool CaptureWriter::wait(Stage stage, std::chrono::milliseconds at_most) const {
  std::unique_lock lock{shared_->mutex};
  return shared_->moved.wait_for(lock, at_most, [&] { return shared_->stage >= stage; });
}

std::span<const fabric::CaptureTap> CaptureWriter::taps() const {
  return shared_->taps;
}

void CaptureWriter::end() {
  expects_management();
  shared_->ending.store(true, std::memory_order_release);
}

bool CaptureWriter::abandon(std::chrono::milliseconds at_most) {
  expects_management();
  const auto limit = std::chrono::steady_clock::now() + at_most;
  while (stage() != Stage::kOver) {
    auto there = Shared::Place::kAtFile;
    if (shared_->place.compare_exchange_strong(there, Shared::Place::kAbandoned,
                                               std::memory_order_acq_rel)) {
      shared_->free_memory();
      shared_->reach(Stage::kOver);
      return true;
    }
    if (there == Shared::Place::kAbandoned) return true;
    if (std::chrono::steady_clock::now() >= limit) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

std::string CaptureWriter::reason() const {
  const std::lock_guard lock{shared_->mutex};
  return shared_->fault ? shared_->fault->what : shared_->limit;
}

std::optional<Error> CaptureWriter::fault() const {
  const std::lock_guard lock{shared_->mutex};
  return shared_->fault;
}

std::uint64_t CaptureWriter::frames() const {
  return shared_->frames.load(std::memory_order_relaxed);
}

std::uint64_t CaptureWriter::octets() const {
  return shared_->octets.load(std::memory_order_relaxed);
}

std::uint64_t CaptureWriter::lost() const {
  return shared_->lost.load(std::memory_order_relaxed);
}

}  // namespace ipoib::mgmt
