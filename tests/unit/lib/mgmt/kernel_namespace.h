// SPDX-License-Identifier: BSD-3-Clause
// A network namespace that a test makes, and ip(8) in it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include "lib/linux/network_namespace.h"
#include "tests/support/test_namespace.h"

namespace ipoib::mgmt {

class KernelNamespace : public ipoib::test::NetworkNamespace {
 public:
  /// Runs commands of `ip`, one a line, and goes on after a refused one.
  void ip(const std::string& commands) const {
    in_it([&commands] {
      std::FILE* const batch = popen("ip -force -batch - >/dev/null 2>&1", "w");
      ASSERT_NE(batch, nullptr);
      std::fputs((commands + '\n').c_str(), batch);
      EXPECT_GE(pclose(batch), 0);
    });
  }
  /// Runs a command that must succeed, and returns its output.
  [[nodiscard]] std::string output(const std::string& command) const {
    std::string text;
    in_it([&command, &text] {
      std::FILE* const out = popen(command.c_str(), "r");
      ASSERT_NE(out, nullptr);
      std::array<char, 4'096> part;
      for (std::size_t n; (n = fread(part.data(), 1, part.size(), out)) > 0;)
        text.append(part.data(), n);
      EXPECT_EQ(pclose(out), 0) << command;
    });
    return text;
  }

 private:
  template <class Job>
  void in_it(Job&& job) const {
    const Status done = kernel::in_network_namespace(path(), job);
    ASSERT_TRUE(done) << done.error().what;
  }
};

}  // namespace ipoib::mgmt
