// SPDX-License-Identifier: BSD-3-Clause
// Captures with a file that is slow, full or limited in length.
#include "lib/mgmt/capture/capture_writer.h"

#include <rte_mempool.h>
#include <rte_ring.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "tests/unit/lib/mgmt/capture_disk.h"

namespace ipoib::mgmt {
namespace {

using namespace std::chrono_literals;

using test::Disk;
using test::FakeFile;
using Stage = CaptureWriter::Stage;

struct CaptureWriterTest : testing::Test {
  void start(std::uint64_t max_octets = 0, std::uint64_t max_frames = 0) {
    auto made = CaptureWriter::start(
        {.open = [this]() -> Result<FrameFilePtr> { return FakeFile::open(disk); },
         .taps = 2,
         .max_octets = max_octets,
         .max_frames = max_frames});
    ASSERT_TRUE(made) << made.error().what;
    writer.emplace(std::move(*made));
    ASSERT_TRUE(writer->wait(Stage::kWriting, 20s));
    ASSERT_EQ(writer->taps().size(), 2U);
    std::copy_n(writer->taps().begin(), 2, taps.begin());
  }
  [[nodiscard]] bool over() const { return writer->wait(Stage::kOver, 20s); }

  std::shared_ptr<Disk> disk = std::make_shared<Disk>();
  std::optional<CaptureWriter> writer;
  std::array<fabric::CaptureTap, 2> taps;
};

TEST_F(CaptureWriterTest, AllThatWaitsIsWrittenBeforeTheEnd) {
  start();
  for (std::uint16_t i = 0; i < 3000; ++i)
    ASSERT_TRUE(test::capture(taps[i % 2], static_cast<std::uint16_t>(100 + i % 7)));
  const std::string pool = taps[0].pool->name;
  writer->end();
  ASSERT_TRUE(over());
  EXPECT_EQ(writer->frames(), 3000U);
  EXPECT_EQ(writer->lost(), 0U);
  EXPECT_EQ(writer->octets(), disk->octets);
  EXPECT_EQ(writer->reason(), "");
  EXPECT_EQ(disk->frames.size(), 3000U);
  EXPECT_TRUE(disk->closed);
  EXPECT_EQ(rte_mempool_lookup(pool.c_str()), nullptr);
}

TEST_F(CaptureWriterTest, FramesHaveTheirTime) {
  const auto unix_s = [] {
    return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now())
        .time_since_epoch();
  };
  const auto before = unix_s();
  start();
  ASSERT_TRUE(test::capture(taps[0], 100));
  writer->end();
  ASSERT_TRUE(over());
  ASSERT_EQ(disk->times.size(), 1U);
  const auto time = std::chrono::floor<std::chrono::seconds>(
      std::chrono::nanoseconds{static_cast<std::int64_t>(disk->times[0])});
  EXPECT_GE(time, before - 1s);
  EXPECT_LE(time, unix_s() + 1s);
}

/// Frames reach the file while the capture runs, not only at its end.
TEST_F(CaptureWriterTest, P16_AFrameIsWrittenWhenNoOtherFollows) {
  start();
  ASSERT_TRUE(test::capture(taps[0], 100));
  disk->wait_for([this] { return disk->frames.size() == 1; });
  writer->end();
  ASSERT_TRUE(over());
}

/// The capturing worker and the caller of end() do not wait for the disk. Frames that do not fit
/// the queue are lost.
TEST_F(CaptureWriterTest, P16_ADiskThatStandsStillHoldsNothingUp) {
  start();
  disk->stand_still(true);
  unsigned taken = 0, lost = 0;
  for (unsigned i = 0; i < 20'000; ++i) ++(test::capture(taps[i % 2], 200) ? taken : lost);
  EXPECT_GT(taken, 4000U);
  EXPECT_GT(lost, 1000U);
  EXPECT_FALSE(writer->wait(Stage::kOver, 0ms));
  writer->end();
  EXPECT_FALSE(writer->wait(Stage::kOver, 10ms));
  EXPECT_FALSE(disk->closed);

  disk->stand_still(false);
  ASSERT_TRUE(over());
  EXPECT_EQ(disk->frames.size(), taken);
  EXPECT_EQ(writer->frames(), taken);
}

/// The writer's thread keeps the objects that it needs, and frees them when the disk continues.
TEST_F(CaptureWriterTest, TheThreadOutlivesItsWriter) {
  start();
  disk->stand_still(true);
  ASSERT_TRUE(test::capture(taps[0], 100));
  disk->wait_for([this] { return disk->waits; });
  const std::string ring = taps[0].ring->name;
  writer->end();
  EXPECT_FALSE(writer->wait(Stage::kOver, 1ms));
  writer.reset();
  EXPECT_NE(rte_ring_lookup(ring.c_str()), nullptr);
  disk->stand_still(false);
  disk->wait_for([this] { return disk->gone; });
  while (rte_ring_lookup(ring.c_str()) != nullptr) std::this_thread::yield();
}

/// At the end of the node EAL's memory is released although the thread still waits for its file.
/// The thread touches none of it afterwards: a sanitizer would say so.
TEST_F(CaptureWriterTest, P16_AnAbandonedThreadLeavesTheMemoryAlone) {
  start();
  disk->stand_still(true);
  for (unsigned i = 0; i < 1000; ++i) ASSERT_TRUE(test::capture(taps[0], 1000));
  disk->wait_for([this] { return disk->waits; });
  const std::string ring = taps[0].ring->name, pool = taps[0].pool->name;
  writer->end();
  EXPECT_TRUE(writer->abandon(20s));
  EXPECT_EQ(rte_ring_lookup(ring.c_str()), nullptr);
  EXPECT_EQ(rte_mempool_lookup(pool.c_str()), nullptr);
  writer.reset();
  EXPECT_FALSE(disk->gone);
  disk->stand_still(false);
  disk->wait_for([this] { return disk->gone; });
}

/// Frames that come after the fault, until the taps are off, are counted as lost, too.
TEST_F(CaptureWriterTest, P16_EndsByItselfWhenTheDiskIsFull) {
  disk->room = 5;
  start();
  for (unsigned i = 0; i < 20; ++i) ASSERT_TRUE(test::capture(taps[0], 100));
  ASSERT_TRUE(writer->wait(Stage::kClosed, 20s));
  EXPECT_FALSE(writer->wait(Stage::kOver, 0ms)) << "the taps may be in use";
  for (unsigned i = 0; i < 20; ++i) ASSERT_TRUE(test::capture(taps[1], 100));
  writer->end();
  ASSERT_TRUE(over());
  ASSERT_TRUE(writer->fault());
  EXPECT_EQ(writer->fault()->code, Errc::kNoResources);
  EXPECT_EQ(writer->reason(), "no room");
  EXPECT_LE(writer->frames(), 5U);
  EXPECT_EQ(writer->frames(), disk->frames.size());
  EXPECT_EQ(writer->frames() + writer->lost(), 40U);
  EXPECT_TRUE(disk->closed);
}

TEST_F(CaptureWriterTest, EndsByItselfAtTheLimit) {
  constexpr std::uint64_t kLimit = 100'000;
  start(kLimit);
  for (unsigned i = 0; i < 1000; ++i) ASSERT_TRUE(test::capture(taps[0], 1000));
  writer->end();
  ASSERT_TRUE(over());
  EXPECT_EQ(writer->reason(), "the capture file has reached its limit of 100000 octets");
  EXPECT_FALSE(writer->fault());
  EXPECT_GT(writer->frames(), 90U);
  EXPECT_LE(writer->frames(), 100U);
  EXPECT_EQ(writer->frames() + writer->lost(), 1000U);
}

TEST_F(CaptureWriterTest, P16_EndsByItselfAtTheLimitOfFrames) {
  start(0, 70);
  for (unsigned i = 0; i < 1000; ++i) ASSERT_TRUE(test::capture(taps[i % 2], 60));
  writer->end();
  ASSERT_TRUE(over());
  EXPECT_EQ(writer->reason(), "the capture file has reached its limit of 70 frames");
  EXPECT_EQ(disk->frames.size(), 70U);
  EXPECT_EQ(writer->frames(), 70U);
  EXPECT_EQ(writer->lost(), 930U);
}

TEST_F(CaptureWriterTest, P16_AFileThatIsNotCompleteIsAFault) {
  disk->closes = false;
  start();
  ASSERT_TRUE(test::capture(taps[0], 100));
  writer->end();
  ASSERT_TRUE(over());
  EXPECT_EQ(writer->reason(), "cannot complete");
}

}  // namespace
}  // namespace ipoib::mgmt
