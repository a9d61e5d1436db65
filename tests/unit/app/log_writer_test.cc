// SPDX-License-Identifier: BSD-3-Clause
// The log with a destination that takes its time, or nothing.
#include "app/service/log_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/log.h"
#include "tests/unit/app/app_eal.h"

namespace ipoib::app {
namespace {

using namespace std::chrono_literals;

/// A destination, such as a pipe that another process reads or does not.
struct Place {
  void block(bool on) {
    const std::lock_guard lock{mutex};
    blocked = on;
    moved.notify_all();
  }
  void wait_until_entered() {
    std::unique_lock lock{mutex};
    moved.wait(lock, [this] { return entered; });
  }

  std::mutex mutex;
  std::condition_variable moved;
  bool blocked = false;
  bool entered = false;  ///< A writer waits, or has waited.
  std::string text;
  bool full = false;  ///< It takes nothing in the time that it has.
  std::vector<std::thread::id> writers;
  std::vector<std::chrono::milliseconds> patience;
};

class PlaceOutput final : public LogOutput {
 public:
  explicit PlaceOutput(std::shared_ptr<Place> place) : place_{std::move(place)} {}
  bool write(unsigned priority, std::string_view text,
             std::chrono::milliseconds patience) override {
    std::unique_lock lock{place_->mutex};
    place_->entered = place_->entered || place_->blocked;
    place_->moved.notify_all();
    place_->moved.wait(lock, [this] { return !place_->blocked; });
    place_->text += fmt::format("<{}>{}", priority, text);
    place_->writers.push_back(std::this_thread::get_id());
    place_->patience.push_back(patience);
    return !place_->full;
  }

 private:
  std::shared_ptr<Place> place_;
};

struct LogWriterTest : testing::Test {
  void SetUp() override { ASSERT_TRUE(Eal::start()); }
  ~LogWriterTest() override { place->block(false); }

  std::shared_ptr<Place> place = std::make_shared<Place>();
  LogWriter log{std::make_unique<PlaceOutput>(place)};
};

TEST_F(LogWriterTest, P16_LinesKeepTheirOrder) {
  log.put(6, "before\n");
  EXPECT_EQ(place->text, "<6>before\n") << "written at once";
  ASSERT_TRUE(log.start());
  for (int i = 0; i < 100; ++i) log.put(5, fmt::format("{}\n", i));
  ASSERT_TRUE(log.wait(20s));
  EXPECT_TRUE(log.settled());
  ASSERT_TRUE(log.end(20s));
  log.put(4, "after\n");
  std::string wanted = "<6>before\n";
  for (int i = 0; i < 100; ++i) wanted += fmt::format("<5>{}\n", i);
  EXPECT_EQ(place->text, wanted + "<4>after\n");
  EXPECT_EQ(place->writers.front(), std::this_thread::get_id());
  EXPECT_NE(place->writers[50], std::this_thread::get_id());
  EXPECT_EQ(place->writers.back(), std::this_thread::get_id());
}

/// This thread is the management lcore: it logs more than the queue holds, and does not wait.
TEST_F(LogWriterTest, P16_ADestinationThatBlocksHoldsNothingUp) {
  const std::uint64_t lost_before = log_lines_lost();
  ASSERT_TRUE(log.start());
  place->block(true);
  log.put(5, "first\n");
  place->wait_until_entered();
  const std::string line = std::string(199, 'x') + '\n';
  constexpr unsigned kLines = 2000;  // 400 kB
  for (unsigned i = 0; i < kLines; ++i) log.put(5, line);
  log.put(5, "y\n");  // There would be room for it, but it would be out of order.
  EXPECT_FALSE(log.settled());
  EXPECT_FALSE(log.wait(1ms));
  const std::uint64_t lost = log_lines_lost() - lost_before;
  EXPECT_GT(lost, 1000U);
  EXPECT_LT(lost, kLines - 300U);

  place->block(false);
  ASSERT_TRUE(log.wait(20s));
  log.put(6, "last\n");
  ASSERT_TRUE(log.end(20s));
  std::string wanted = "<5>first\n";
  for (std::uint64_t i = 0; i < kLines + 1 - lost; ++i) wanted += "<5>" + line;
  wanted += fmt::format("<4>ipoib.app: {} log lines were lost\n", lost);
  EXPECT_EQ(place->text, wanted + "<6>last\n");
  EXPECT_EQ(log_lines_lost() - lost_before, lost);
}

TEST_F(LogWriterTest, P16_TheLineOnTheLossBeginsALine) {
  ASSERT_TRUE(log.start());
  place->block(true);
  log.put(5, "EAL: begin");
  place->wait_until_entered();
  log.put(5, std::string(LogWriter::kRoom, 'x') + '\n');
  place->block(false);
  ASSERT_TRUE(log.end(20s));
  EXPECT_EQ(place->text, "<5>EAL: begin<4>\nipoib.app: 1 log lines were lost\n");
}

/// A node whose log takes nothing starts nevertheless.
TEST_F(LogWriterTest, P16_OnlyTheFirstOfManyLinesWaitsAtTheStart) {
  const std::uint64_t lost_before = log_lines_lost();
  place->full = true;
  for (int i = 0; i < 3; ++i) log.put(5, "line\n");
  EXPECT_EQ(log_lines_lost() - lost_before, 3U);
  EXPECT_TRUE(log.settled());
  place->full = false;
  for (int i = 0; i < 2; ++i) log.put(5, "line\n");
  EXPECT_EQ(log_lines_lost() - lost_before, 3U);
  EXPECT_EQ(place->patience,
            (std::vector<std::chrono::milliseconds>{1000ms, 0ms, 0ms, 0ms, 1000ms}));
  ASSERT_TRUE(log.start());
  ASSERT_TRUE(log.end(20s));
  EXPECT_TRUE(place->text.ends_with("<4>ipoib.app: 3 log lines were lost\n")) << place->text;
}

/// The first of many commands waits for a log that takes nothing. The others would wait for hours.
TEST_F(LogWriterTest, P16_OnlyOneOfManyCommandsWaitsForAStuckLog) {
  ASSERT_TRUE(log.start());
  EXPECT_TRUE(log.wait_unless_stuck(24h)) << "there is nothing to wait for";
  place->block(true);
  log.put(5, "first\n");
  EXPECT_FALSE(log.wait_unless_stuck(1ms));
  for (int i = 0; i < 100; ++i) {
    log.put(5, "line\n");
    EXPECT_FALSE(log.wait_unless_stuck(24h));
  }
  place->block(false);
  ASSERT_TRUE(log.wait(20s));
  log.put(5, "last\n");
  EXPECT_TRUE(log.wait_unless_stuck(24h)) << "it takes lines again";
}

/// Standard error was closed, or its disk is full.
TEST_F(LogWriterTest, P16_LinesThatTheDestinationRefusesAreCounted) {
  const std::uint64_t lost_before = log_lines_lost();
  ASSERT_TRUE(log.start());
  place->full = true;
  log.put(5, "first\nsecond\n");
  log.put(5, "third\n");
  ASSERT_TRUE(log.end(20s));
  EXPECT_EQ(log_lines_lost() - lost_before, 3U);
}

TEST_F(LogWriterTest, P16_TheEndDoesNotWaitForADestinationThatBlocks) {
  ASSERT_TRUE(log.start());
  place->block(true);
  log.put(5, "first\n");
  place->wait_until_entered();
  EXPECT_FALSE(log.end(1ms));
  const std::uint64_t lost_before = log_lines_lost();
  log.put(5, "second\nthird\n");
  EXPECT_EQ(log_lines_lost() - lost_before, 2U);
  EXPECT_FALSE(log.wait(20s)) << "there is nothing to wait for";
}

}  // namespace
}  // namespace ipoib::app
