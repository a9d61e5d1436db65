// SPDX-License-Identifier: BSD-3-Clause
// Captures with a file that is slow, full or limited in length.
#include "lib/mgmt/capture/capture_writer.h"

#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lib/fabric/capture_meta.h"

namespace ipoib::mgmt {
namespace {

using namespace std::chrono_literals;

/// The frames that a FakeFile wrote, and the faults of its disk. Outlives the FakeFile.
struct Disk {
  std::mutex mutex;
  std::condition_variable moved;
  bool stands_still = false;
  std::size_t room = SIZE_MAX;  ///< Frames that it can hold.
  std::vector<std::size_t> frames;
  std::vector<std::uint64_t> times;  ///< Nanoseconds since 1970, by frame.
  bool closed = false;

  void stand_still(bool on) {
    const std::lock_guard lock{mutex};
    stands_still = on;
    moved.notify_all();
  }
};

class FakeFile final : public FrameFile {
 public:
  explicit FakeFile(Disk& disk) : disk_{disk} {}
  ~FakeFile() override {
    const std::lock_guard lock{disk_.mutex};
    disk_.closed = true;
  }
  Status write(std::span<const std::byte> frame, std::uint64_t time) override {
    std::unique_lock lock{disk_.mutex};
    disk_.moved.wait(lock, [this] { return !disk_.stands_still; });
    if (disk_.frames.size() == disk_.room) return fail(Errc::kNoResources, "no room");
    disk_.frames.push_back(frame.size());
    disk_.times.push_back(time);
    size_ += frame.size();
    return {};
  }
  std::uint64_t size() const override { return size_; }

 private:
  Disk& disk_;
  std::uint64_t size_ = 0;
};

struct CaptureWriterTest : testing::Test {
  void SetUp() override {
    auto made = CaptureWriter::create();
    ASSERT_TRUE(made) << made.error().what;
    writer.emplace(std::move(*made));
    for (auto& tap : taps) tap = *writer->add_tap();
  }
  void start(std::uint64_t limit = 0) {
    ASSERT_TRUE(writer->start(std::make_unique<FakeFile>(disk), limit));
  }
  /// Captures a frame as a worker does. Returns false if the frame is lost.
  static bool capture(const fabric::CaptureTap& tap, std::uint16_t len) {
    rte_mbuf* m = rte_pktmbuf_alloc(tap.pool);
    if (m == nullptr) return false;
    std::memset(rte_pktmbuf_append(m, len), 0x42, len);
    fabric::capture_meta_of(m).tsc = rte_rdtsc();
    if (rte_ring_sp_enqueue(tap.ring, m) == 0) return true;
    rte_pktmbuf_free(m);
    return false;
  }

  Disk disk;
  std::optional<CaptureWriter> writer;
  std::array<fabric::CaptureTap, 2> taps;
};

TEST_F(CaptureWriterTest, AllThatWaitsIsWrittenBeforeTheEnd) {
  start();
  for (std::uint16_t i = 0; i < 3000; ++i)
    ASSERT_TRUE(capture(taps[i % 2], static_cast<std::uint16_t>(100 + i % 7)));
  writer->end();
  ASSERT_TRUE(writer->wait(20s));
  EXPECT_EQ(writer->frames(), 3000U);
  EXPECT_EQ(writer->reason(), "");
  EXPECT_EQ(disk.frames.size(), 3000U);
  EXPECT_TRUE(disk.closed);
  EXPECT_EQ(rte_mempool_avail_count(taps[0].pool), taps[0].pool->size) << "mbufs left over";
}

/// Workers capture from the moment that they have a tap, before the file is open.
TEST_F(CaptureWriterTest, FramesFromBeforeTheStartKeepTheirTime) {
  const auto unix_s = [] {
    return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now())
        .time_since_epoch();
  };
  const auto before = unix_s();
  ASSERT_TRUE(capture(taps[0], 100));
  start();
  writer->end();
  ASSERT_TRUE(writer->wait(20s));
  ASSERT_EQ(disk.times.size(), 1U);
  const auto time = std::chrono::floor<std::chrono::seconds>(
      std::chrono::nanoseconds{static_cast<std::int64_t>(disk.times[0])});
  EXPECT_GE(time, before - 1s);
  EXPECT_LE(time, unix_s() + 1s);
}

/// The capturing worker and the caller of end() do not wait for the disk. Frames that do not fit
/// the queue are lost.
TEST_F(CaptureWriterTest, ADiskThatStandsStillHoldsNobodyUp) {
  disk.stand_still(true);
  start();
  unsigned taken = 0, lost = 0;
  for (unsigned i = 0; i < 10'000; ++i) ++(capture(taps[i % 2], 200) ? taken : lost);
  EXPECT_GT(taken, 4000U);
  EXPECT_GT(lost, 1000U);
  EXPECT_FALSE(writer->is_over());
  writer->end();
  EXPECT_FALSE(writer->wait(10ms));
  EXPECT_FALSE(disk.closed);

  disk.stand_still(false);
  ASSERT_TRUE(writer->wait(20s));
  EXPECT_EQ(disk.frames.size(), taken);
  EXPECT_EQ(rte_mempool_avail_count(taps[0].pool), taps[0].pool->size);
}

/// The writer's thread keeps the objects that it needs, and frees them when the disk continues.
TEST_F(CaptureWriterTest, WhoeverGivesUpWaitingLeavesNothingBehind) {
  disk.stand_still(true);
  start();
  ASSERT_TRUE(capture(taps[0], 100));
  const std::string ring = taps[0].ring->name;
  writer->end();
  EXPECT_FALSE(writer->wait(1ms));
  writer.reset();
  EXPECT_NE(rte_ring_lookup(ring.c_str()), nullptr);
  disk.stand_still(false);
  const auto limit = std::chrono::steady_clock::now() + 20s;
  while (rte_ring_lookup(ring.c_str()) != nullptr && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_EQ(rte_ring_lookup(ring.c_str()), nullptr);
}

TEST_F(CaptureWriterTest, EndsByItselfWhenTheFileIsFull) {
  disk.room = 5;
  start();
  for (unsigned i = 0; i < 20; ++i) ASSERT_TRUE(capture(taps[0], 100));
  ASSERT_TRUE(writer->wait(20s));
  EXPECT_EQ(writer->reason(), "no room");
  EXPECT_EQ(writer->frames(), 5U);
  EXPECT_TRUE(disk.closed);
}

TEST_F(CaptureWriterTest, EndsByItselfAtTheLimit) {
  constexpr std::uint64_t kLimit = 100'000;
  start(kLimit);
  for (unsigned i = 0; i < 1000; ++i) ASSERT_TRUE(capture(taps[0], 1000));
  ASSERT_TRUE(writer->wait(20s));
  EXPECT_EQ(writer->reason(), "the capture file has reached its limit of 100000 octets");
  EXPECT_GT(writer->frames(), 90U);
  EXPECT_LE(writer->frames(), 100U);
}

}  // namespace
}  // namespace ipoib::mgmt
