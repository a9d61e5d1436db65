// SPDX-License-Identifier: BSD-3-Clause
// The management lcore's part of captures: taps, states, counts, and files that do not answer.
#include "lib/mgmt/capture/capture.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "tests/unit/lib/mgmt/capture_disk.h"

namespace ipoib::mgmt {
namespace {

using namespace std::chrono_literals;

/// A wire whose frames a test makes.
struct FakeWire final : fabric::WireCapture {
  void set_capture(const std::optional<fabric::CaptureTap>& to) override { tap = to; }
  std::uint64_t capture_lost() const override { return lost; }
  void frames(unsigned n) {
    for (unsigned i = 0; i < n && tap; ++i)
      if (!test::capture(*tap, 100)) ++lost;
  }

  std::optional<fabric::CaptureTap> tap;
  std::uint64_t lost = 1000;  ///< Earlier captures lost these.
};

struct CaptureTest : testing::Test {
  ~CaptureTest() override {
    disk->stand_still(false);
    std::filesystem::remove_all(folder);
  }
  Status start(CaptureRequest request) { return capture->start(request, {&wires[0], &wires[1]}); }
  /// Turns of the management lcore until the capture has a state, and the turn that follows it.
  void turns_until(CaptureState state) {
    while (capture->info().state != state) {
      std::this_thread::yield();
      capture->follow();
    }
    capture->follow();
  }
  /// Captures to files of the disk.
  void use_disk() {
    capture.emplace([this](const CaptureRequest&) { return test::FakeFile::open(disk); });
  }

  std::string folder = testing::TempDir() + "capture_test." + std::to_string(getpid());
  std::string path = folder + "/x.pcap";
  bool made = std::filesystem::create_directory(folder);
  std::shared_ptr<test::Disk> disk = std::make_shared<test::Disk>();
  std::array<FakeWire, 2> wires;
  std::optional<Capture> capture{std::in_place};
};

TEST_F(CaptureTest, P16_TapsAreSetWhileItRuns) {
  use_disk();
  EXPECT_EQ(capture->info().state, CaptureState::kNone);
  ASSERT_TRUE(start({.file = "x"}));
  EXPECT_TRUE(capture->in_transition());
  turns_until(CaptureState::kRunning);
  EXPECT_FALSE(capture->in_transition());
  for (FakeWire& w : wires) w.frames(20);
  EXPECT_EQ(start({.file = "y"}).error().code, Errc::kExists);
  const auto stopped = capture->stop();
  ASSERT_TRUE(stopped);
  EXPECT_FALSE(wires[0].tap);
  turns_until(CaptureState::kDone);
  EXPECT_FALSE(capture->in_transition());
  const CaptureInfo info = capture->info();
  EXPECT_EQ(info.file, "x");
  EXPECT_EQ(info.frames, 40U);
  EXPECT_EQ(info.octets, 4000U);
  EXPECT_EQ(info.lost, 0U);
  EXPECT_EQ(info.reason, "");
  EXPECT_EQ(capture->stop().error().code, Errc::kUnavailable);
}

/// Every frame on the wire, from the first tap to the last, is in the file or counted as lost.
TEST_F(CaptureTest, P16_FramesThatAreNotCapturedAreCounted) {
  use_disk();
  ASSERT_TRUE(start({.file = "x", .max_frames = 100}));
  turns_until(CaptureState::kRunning);
  disk->stand_still(true);
  wires[0].frames(6000);
  wires[1].frames(6000);
  disk->stand_still(false);
  turns_until(CaptureState::kDone);
  EXPECT_FALSE(wires[1].tap);
  EXPECT_EQ(capture->info().frames, 100U);
  EXPECT_EQ(capture->info().lost, 11'900U);
  EXPECT_EQ(capture->info().reason, "the capture file has reached its limit of 100 frames");
}

/// This is like a server of files that does not answer.
TEST_F(CaptureTest, P16_AFileThatDoesNotOpenHoldsNothingUp) {
  use_disk();
  disk->stand_still(true);
  ASSERT_TRUE(start({.file = "x"}));
  for (unsigned i = 0; i < 100; ++i) capture->follow();
  EXPECT_EQ(capture->info().state, CaptureState::kStarting);
  EXPECT_FALSE(wires[0].tap);
  ASSERT_TRUE(capture->stop());
  EXPECT_EQ(capture->info().state, CaptureState::kEnding);
  EXPECT_EQ(start({.file = "y"}).error().code, Errc::kExists);
  disk->stand_still(false);
  turns_until(CaptureState::kDone);
  EXPECT_EQ(capture->info().frames, 0U);
}

/// A pipe that is opened and that nothing reads: the thread blocks in the system call itself.
TEST_F(CaptureTest, P16_APipeThatIsNotReadHoldsNothingUp) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  struct PipeFile final : FrameFile {
    explicit PipeFile(const std::string& name) : fd{open(name.c_str(), O_WRONLY)} {}
    ~PipeFile() override { close(); }
    Status append(std::span<const std::byte> frame, std::uint64_t) override {
      kept.insert(kept.end(), frame.begin(), frame.end());
      return {};
    }
    Status flush() override {
      const bool done = kept.empty() || ::write(fd, kept.data(), kept.size()) > 0;
      kept.clear();
      return done ? Status{} : fail(Errc::kNoResources, "cannot write");
    }
    Status close() override {
      if (fd >= 0) ::close(std::exchange(fd, -1));
      return {};
    }
    std::uint64_t size() const override { return kept.size(); }
    std::size_t unwritten() const override { return kept.size(); }
    int fd;
    std::vector<std::byte> kept;
  };
  capture.emplace([](const CaptureRequest& r) -> Result<FrameFilePtr> {
    return std::make_unique<PipeFile>(r.file);
  });
  std::signal(SIGPIPE, SIG_IGN);
  ASSERT_TRUE(start({.file = path}));
  turns_until(CaptureState::kRunning);
  for (unsigned i = 0; i < 8000; ++i) wires[0].frames(1);
  EXPECT_GT(wires[0].lost, 1000U) << "the pipe takes less than the rings";
  ASSERT_TRUE(capture->stop());
  EXPECT_EQ(capture->info().state, CaptureState::kEnding);
  capture->end(1ms);
  EXPECT_FALSE(capture->in_transition()) << "the node may end";
  close(reader);
}

TEST_F(CaptureTest, P16_TheEndOfTheNodeDoesNotWaitForTheFile) {
  use_disk();
  ASSERT_TRUE(start({.file = "x"}));
  turns_until(CaptureState::kRunning);
  disk->stand_still(true);
  wires[0].frames(100);
  disk->wait_for([this] { return disk->waits; });
  capture->end(1ms);
  EXPECT_FALSE(wires[0].tap);
  capture.reset();
  disk->stand_still(false);
  disk->wait_for([this] { return disk->gone; });
}

TEST_F(CaptureTest, P16_AFaultOfTheFileEndsIt) {
  use_disk();
  disk->room = 10;
  ASSERT_TRUE(start({.file = "x"}));
  turns_until(CaptureState::kRunning);
  wires[0].frames(11);
  turns_until(CaptureState::kFailed);
  EXPECT_EQ(capture->info().reason, "no room");
  EXPECT_EQ(capture->info().frames + capture->info().lost, 11U);
  EXPECT_FALSE(wires[0].tap);
  disk->room = SIZE_MAX;
  EXPECT_TRUE(start({.file = "y"})) << "the next one may start";
}

TEST_F(CaptureTest, P16_TakesANewRegularFileOnly) {
  std::ofstream{path} << "mine";
  // start() knows the answer of the file only if it comes soon.
  if (const Status started = start({.file = path}); !started) {
    EXPECT_EQ(started.error().code, Errc::kExists);
  }
  turns_until(CaptureState::kFailed);
  EXPECT_EQ(capture->info().reason, path + " exists already; add replace to replace it");
  ASSERT_TRUE(start({.file = path, .replace = true}));
  turns_until(CaptureState::kRunning);
  ASSERT_TRUE(capture->stop());
  turns_until(CaptureState::kDone);
  struct stat is {};
  ASSERT_EQ(stat(path.c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 0777, 0600U);
  EXPECT_EQ(is.st_size, 24);
}

}  // namespace
}  // namespace ipoib::mgmt
