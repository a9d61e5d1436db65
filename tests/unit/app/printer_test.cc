// SPDX-License-Identifier: BSD-3-Clause
// Output to pipes that are full, and to a file whose disk hangs.
#include "app/service/printer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "lib/base/log.h"
#include "tests/unit/app/app_eal.h"
#include "tests/unit/app/full_pipe.h"

namespace ipoib::app {
namespace {

using namespace std::chrono_literals;

using PrinterTest = FullPipe;

/// A node whose standard output is not read goes on, and says later how much is missing.
TEST_F(PrinterTest, P16_APipeThatIsNotReadHoldsNothingUp) {
  Printer printer{ends[1]};
  ASSERT_TRUE(printer.start());
  for (int i = 0; i < 3; ++i) printer.print(lines, 0ms);
  const std::string seen = read_all();
  EXPECT_GT(seen.size(), 30'000U);
  EXPECT_TRUE(lines.starts_with(seen));
  const auto whole = std::count(seen.begin(), seen.end(), '\n');
  const std::string_view begin = seen.ends_with('\n') ? "" : "\n";
  printer.print("again\n", 0ms);
  printer.print("and again\n", 0ms);
  EXPECT_EQ(read_all(), fmt::format("{}{} lines of output were lost\nagain\nand again\n", begin,
                                    3 * 20'000 - whole));
  EXPECT_EQ(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0) << "others may rely on it";
}

/// After a loss there is no second wait, even if it might be a long one.
TEST_F(PrinterTest, P16_ItWaitsOnceForAPipeThatIsNotRead) {
  Printer printer{ends[1]};
  ASSERT_TRUE(printer.start());
  printer.print(lines, 1ms);
  printer.print("lost\n", 24h);
  const std::string seen = read_all();
  printer.print("again\n", 24h);
  EXPECT_TRUE(
      read_all().ends_with(fmt::format("{} lines of output were lost\nagain\n",
                                       20'001 - std::count(seen.begin(), seen.end(), '\n'))));
}

/// A file. While its disk hangs, write(2) does not return.
struct HangingFile {
  void hang(bool on) {
    const std::lock_guard lock{mutex};
    hangs = on;
    moved.notify_all();
  }
  void wait_until_written_to() {
    std::unique_lock lock{mutex};
    moved.wait(lock, [this] { return writing; });
  }
  void wait_until_loss_is_named() {
    std::unique_lock lock{mutex};
    moved.wait(lock, [this] { return text.find("were lost") != std::string::npos; });
  }

  std::mutex mutex;
  std::condition_variable moved;
  bool hangs = false, writing = false;
  std::string text;
  std::uint64_t lost = 0;  ///< Lines. Written by the thread that prints.
};

class HangingOutput final : public LogOutput {
 public:
  explicit HangingOutput(std::shared_ptr<HangingFile> file) : file_{std::move(file)} {}
  bool write(unsigned /*priority*/, std::string_view text,
             std::chrono::milliseconds /*patience*/) override {
    std::unique_lock lock{file_->mutex};
    file_->writing = true;
    file_->moved.notify_all();
    file_->moved.wait(lock, [this] { return !file_->hangs; });
    file_->text += text;
    file_->moved.notify_all();
    return true;
  }
  void count_lost(std::uint64_t lines) override { file_->lost += lines; }
  [[nodiscard]] std::string loss(std::uint64_t lines) const override {
    return fmt::format("{} lines of output were lost\n", lines);
  }

 private:
  std::shared_ptr<HangingFile> file_;
};

/// This thread is the management lcore, which prints statistics to a file of a dead server.
TEST(PrinterOfFile, P16_AFileSystemThatHangsHoldsNothingUp) {
  ASSERT_TRUE(Eal::start());
  const auto file = std::make_shared<HangingFile>();
  const std::string row = std::string(99, 'x') + '\n';
  std::string block;  // 100 kB
  for (int i = 0; i < 1000; ++i) block += row;
  {
    Printer printer{std::make_unique<HangingOutput>(file)};
    ASSERT_TRUE(printer.start());
    file->hang(true);
    printer.print("first\n", 1ms);
    file->wait_until_written_to();
    for (int i = 0; i < 10; ++i) printer.print(block, 1ms);
    EXPECT_GT(file->lost, 8000U);
    EXPECT_LT(file->lost, 9500U) << "a hundred kilobytes wait for the file";
    file->hang(false);
    file->wait_until_loss_is_named();
    printer.print("last\n", 1ms);
  }
  std::string wanted = "first\n";
  for (std::uint64_t i = 0; i < 10'000 - file->lost; ++i) wanted += row;
  EXPECT_EQ(file->text, wanted + fmt::format("{} lines of output were lost\nlast\n", file->lost));
}

/// The output of a command file may be longer than the queue.
TEST(PrinterOfFile, P16_AFileGetsAllOfALongText) {
  ASSERT_TRUE(Eal::start());
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += fmt::format("line {}\n", i);
  {
    Printer printer{fileno(file)};
    ASSERT_TRUE(printer.start());
    printer.print(text, 20s);
    printer.print("end\n", 20s);
  }
  std::string seen(2 * text.size(), '\0');
  const ssize_t size = pread(fileno(file), seen.data(), seen.size(), 0);
  ASSERT_GT(size, 0);
  seen.resize(static_cast<std::size_t>(size));
  EXPECT_EQ(seen, text + "end\n");
  std::fclose(file);
}

/// A command file may have many commands, whose texts together are longer than the queue.
TEST(PrinterOfFile, P16_AFileGetsAllOfManyTexts) {
  ASSERT_TRUE(Eal::start());
  const auto file = std::make_shared<HangingFile>();
  const std::string text(30'000, 'x');
  {
    Printer printer{std::make_unique<HangingOutput>(file)};
    ASSERT_TRUE(printer.start());
    for (int i = 0; i < 100; ++i) printer.print(text + '\n', 24h);
  }
  EXPECT_EQ(file->text.find("lost"), std::string::npos);
  EXPECT_EQ(file->text.size(), 100 * (text.size() + 1));
}

/// The terminal writes to the same file.
TEST(PrinterOfFile, P16_TheTextThatIsWaitedForIsInTheFile) {
  ASSERT_TRUE(Eal::start());
  const auto file = std::make_shared<HangingFile>();
  Printer printer{std::make_unique<HangingOutput>(file)};
  ASSERT_TRUE(printer.start());
  file->hang(true);
  printer.print("text\n", 0ms);
  EXPECT_FALSE(printer.wait(1ms));
  file->hang(false);
  EXPECT_TRUE(printer.wait(24h));
  EXPECT_EQ(file->text, "text\n");
}

std::atomic<bool> file_is_full{false};

/// A disk that was full has room again.
TEST(PrinterOfFile, P16_ALineNamesOutputThatADiskDidNotTake) {
  ASSERT_TRUE(Eal::start());
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  // The kernel sends the signal when it refuses the write.
  const auto before = std::signal(SIGXFSZ, [](int) { file_is_full = true; });
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  {
    Printer printer{fileno(file)};
    ASSERT_TRUE(printer.start());
    const rlimit low{10, limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
    printer.print("first\n2\n3\n4\n5\n6\n", 0ms);
    while (!file_is_full) std::this_thread::yield();
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    printer.print("again\n", 0ms);
  }
  std::signal(SIGXFSZ, before);
  std::string seen(100, '\0');
  const ssize_t size = pread(fileno(file), seen.data(), seen.size(), 0);
  ASSERT_GT(size, 0);
  seen.resize(static_cast<std::size_t>(size));
  EXPECT_EQ(seen, "first\n2\n3\n3 lines of output were lost\nagain\n");
  std::fclose(file);
}

}  // namespace
}  // namespace ipoib::app
