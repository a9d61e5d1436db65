// SPDX-License-Identifier: BSD-3-Clause
// Pipes that are full, and text that does not fit.
#include "app/service/patient_write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>

#include "tests/unit/app/full_pipe.h"

namespace ipoib::app {
namespace {

using namespace std::chrono_literals;

using PatientWrite = FullPipe;

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
