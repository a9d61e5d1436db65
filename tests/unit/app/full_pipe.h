// SPDX-License-Identifier: BSD-3-Clause
// A pipe, and text that it does not take whole.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>

namespace ipoib::app {

struct FullPipe : testing::Test {
  FullPipe() {
    EXPECT_EQ(pipe(ends.data()), 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 20'000; ++i) lines += fmt::format("line {}\n", i);
  }
  ~FullPipe() override {
    close(ends[0]);
    close(ends[1]);
  }
  /// Reads all that is in the pipe.
  [[nodiscard]] std::string read_all() const {
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

}  // namespace ipoib::app
