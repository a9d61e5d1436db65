// SPDX-License-Identifier: BSD-3-Clause
// A network namespace that a test makes, and ip(8) in it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <thread>

#include "lib/linux/network_namespace.h"

namespace ipoib::mgmt {

class KernelNamespace {
 public:
  KernelNamespace() {
    std::thread{[this] {
      if (unshare(CLONE_NEWNET) == 0) fd_ = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    }}.join();
    path_ = "/proc/self/fd/" + std::to_string(fd_);
  }
  ~KernelNamespace() {
    if (fd_ >= 0) close(fd_);
  }
  KernelNamespace(const KernelNamespace&) = delete;
  KernelNamespace& operator=(const KernelNamespace&) = delete;

  /// False: this process may not make one.
  [[nodiscard]] bool exists() const { return fd_ >= 0; }
  [[nodiscard]] const std::string& path() const { return path_; }

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
    const Status done = kernel::in_network_namespace(path_, job);
    ASSERT_TRUE(done) << done.error().what;
  }

  int fd_ = -1;
  std::string path_;
};

}  // namespace ipoib::mgmt
