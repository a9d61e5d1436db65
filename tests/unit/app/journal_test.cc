// SPDX-License-Identifier: BSD-3-Clause
#include "app/service/journal.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace ipoib::app {
namespace {

TEST(Journal, IsTheStreamThatTheEnvironmentNames) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  struct stat file {};
  ASSERT_EQ(fstat(pipe_ends[1], &file), 0);
  const std::string name = fmt::format("{}:{}", file.st_dev, file.st_ino);

  unsetenv("JOURNAL_STREAM");
  EXPECT_FALSE(is_journal(pipe_ends[1]));
  setenv("JOURNAL_STREAM", name.c_str(), 1);
  EXPECT_TRUE(is_journal(pipe_ends[1]));
  // This is another file, as after a redirection.
  EXPECT_FALSE(is_journal(STDERR_FILENO));
  EXPECT_FALSE(is_journal(-1));
  for (const char* other : {"", ":", "1", "x:y"}) {
    setenv("JOURNAL_STREAM", other, 1);
    EXPECT_FALSE(is_journal(pipe_ends[1])) << other;
  }
  unsetenv("JOURNAL_STREAM");
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(PriorityMarker, EveryLineHasItsPriorityOnce) {
  PriorityMarker marker;
  EXPECT_EQ(marker.mark("ipoib.link: ib0 is up\n", 5), "<5>ipoib.link: ib0 is up\n");
  EXPECT_EQ(marker.mark("one\ntwo\n", 3), "<3>one\n<3>two\n");
  // Pieces of a line: the first one sets the priority of the line.
  EXPECT_EQ(marker.mark("EAL: ", 4), "<4>EAL: ");
  EXPECT_EQ(marker.mark("no", 6), "no");
  EXPECT_EQ(marker.mark(" memory\nnext", 6), " memory\n<6>next");
  EXPECT_EQ(marker.mark("\n\n", 7), "\n<7>\n");
  EXPECT_EQ(marker.mark("", 7), "");
}

}  // namespace
}  // namespace ipoib::app
