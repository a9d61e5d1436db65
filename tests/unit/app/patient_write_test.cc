// SPDX-License-Identifier: BSD-3-Clause
// Pipes that are full, and text that does not fit.
#include "app/service/patient_write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <thread>

namespace ipoib::app {
namespace {

using namespace std::chrono_literals;

struct PatientWrite : testing::Test {
  PatientWrite() {
    EXPECT_EQ(pipe(ends.data()), 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 20'000; ++i) lines += fmt::format("line {}\n", i);
  }
  ~PatientWrite() override {
    close(ends[0]);
    close(ends[1]);
  }
  /// Reads all that is in the pipe.
  std::string read_all() const {
    std::string text;
    std::array<char, 4096> some;
    for (ssize_t n = 0; (n = read(ends[0], some.data(), some.size())) > 0;)
      text.append(some.data(), static_cast<std::size_t>(n));
    EXPECT_EQ(errno, EAGAIN);
    return text;
  }

  std::array<int, 2> ends{};
  std::string lines;  ///< More than a pipe takes.
};

/// A parent made the description of standard error non-blocking. The log waits nevertheless.
TEST_F(PatientWrite, P16_AnyTimeIsAnyTimeOnANonBlockingPipe) {
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  std::string seen;
  std::thread reader{[&] {
    while (seen.size() < lines.size()) {
      seen += read_all();
      std::this_thread::yield();
    }
  }};
  const std::string_view rest = write_patiently(ends[1], lines, -1ms);
  EXPECT_EQ(rest, "");
  if (!rest.empty()) seen.resize(lines.size());
  reader.join();
  EXPECT_EQ(seen, lines);
}

TEST_F(PatientWrite, AFaultLeavesTheRest) {
  EXPECT_EQ(write_patiently(-1, "text", -1ms), "text");
  EXPECT_EQ(write_patiently(-1, "text", 0ms), "text");
  EXPECT_EQ(lines_in("a\nb\n"), 2U);
  EXPECT_EQ(lines_in("a"), 1U);
}

}  // namespace
}  // namespace ipoib::app
