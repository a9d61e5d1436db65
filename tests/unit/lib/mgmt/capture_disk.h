// SPDX-License-Identifier: BSD-3-Clause
// A capture file on a disk that tests slow down, fill and break.
#pragma once

#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "lib/fabric/capture_meta.h"
#include "lib/mgmt/capture/capture_writer.h"

namespace ipoib::test {

/// The frames that a FakeFile wrote, and the faults of its disk.
struct Disk {
  std::mutex mutex;
  std::condition_variable moved;
  bool stands_still = false;
  bool waits = false;           ///< A file waits for the disk.
  std::size_t room = SIZE_MAX;  ///< Frames that it can hold.
  bool closes = true;
  std::vector<std::size_t> frames;
  std::vector<std::uint64_t> times;  ///< Nanoseconds since 1970, by frame.
  std::uint64_t octets = 0;
  bool closed = false;
  bool gone = false;  ///< The FakeFile is destroyed.

  void stand_still(bool on) {
    const std::lock_guard lock{mutex};
    stands_still = on;
    moved.notify_all();
  }
  template <class Condition>
  void wait_for(const Condition& condition) {
    std::unique_lock lock{mutex};
    moved.wait(lock, condition);
  }
  /// Waits while the disk stands still.
  [[nodiscard]] std::unique_lock<std::mutex> turn() {
    std::unique_lock lock{mutex};
    waits = stands_still;
    moved.notify_all();
    moved.wait(lock, [this] { return !stands_still; });
    waits = false;
    return lock;
  }
};

class FakeFile final : public mgmt::FrameFile {
 public:
  explicit FakeFile(std::shared_ptr<Disk> disk) : disk_{std::move(disk)} {}
  static Result<mgmt::FrameFilePtr> open(const std::shared_ptr<Disk>& disk) {
    static_cast<void>(disk->turn());
    return std::make_unique<FakeFile>(disk);
  }
  ~FakeFile() override {
    const std::lock_guard lock{disk_->mutex};
    disk_->closed = disk_->gone = true;
    disk_->moved.notify_all();
  }
  Status append(std::span<const std::byte> frame, std::uint64_t time) override {
    kept_.push_back({frame.size(), time});
    unwritten_ += frame.size();
    return {};
  }
  Status flush() override {
    const auto lock = disk_->turn();
    unwritten_ = 0;
    const auto kept = std::exchange(kept_, {});
    if (disk_->frames.size() + kept.size() > disk_->room)
      return fail(Errc::kNoResources, "no room");
    for (const auto& [size, time] : kept) {
      disk_->frames.push_back(size);
      disk_->times.push_back(time);
      disk_->octets += size;
    }
    written_ = disk_->octets;
    disk_->moved.notify_all();
    return {};
  }
  Status close() override {
    if (auto s = flush(); !s) return s;
    return disk_->closes ? Status{} : fail(Errc::kNoResources, "cannot complete");
  }
  [[nodiscard]] std::uint64_t size() const override { return written_ + unwritten_; }
  [[nodiscard]] std::size_t unwritten() const override { return unwritten_; }

 private:
  std::shared_ptr<Disk> disk_;
  std::vector<std::pair<std::size_t, std::uint64_t>> kept_;
  std::uint64_t written_ = 0;
  std::size_t unwritten_ = 0;
};

/// Captures a frame as a worker does. Returns false if the frame is lost.
inline bool capture(const fabric::CaptureTap& tap, std::uint16_t len) {
  rte_mbuf* m = rte_pktmbuf_alloc(tap.pool);
  if (m == nullptr) return false;
  std::memset(rte_pktmbuf_append(m, len), 0x42, len);
  fabric::capture_meta_of(m).tsc = rte_rdtsc();
  if (rte_ring_sp_enqueue(tap.ring, m) == 0) return true;
  rte_pktmbuf_free(m);
  return false;
}

}  // namespace ipoib::test
