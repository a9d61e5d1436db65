// SPDX-License-Identifier: BSD-3-Clause
// EAL for the tests of this folder that need one. The first of them starts it, and it ends after
// the last.
#pragma once

#include <rte_eal.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "lib/fabric/eal_end.h"

namespace ipoib::app {

class Eal : public testing::Environment {
 public:
  /// Returns true if EAL runs.
  static bool start() {
    static const bool started = [] {
      std::vector<std::string> arguments = {"unit_app",
                                            "--no-huge",
                                            "-m",
                                            "64",
                                            "--no-pci",
                                            "-l",
                                            "0",
                                            fmt::format("--file-prefix=unit-app-{}", getpid()),
                                            "--log-level=lib.eal:error"};
      std::vector<char*> argv;
      for (auto& a : arguments) argv.push_back(a.data());
      return rte_eal_init(static_cast<int>(argv.size()), argv.data()) >= 0;
    }();
    running_ = started;
    return started;
  }
  void TearDown() override {
    if (!running_) return;
    const std::filesystem::path runtime_dir = rte_eal_get_runtime_dir();
    fabric::end_eal();
    std::filesystem::remove_all(runtime_dir);  // EAL does not remove it.
  }

 private:
  static inline bool running_ = false;
  static testing::Environment* const registered_;
};
inline testing::Environment* const Eal::registered_ = testing::AddGlobalTestEnvironment(new Eal);

}  // namespace ipoib::app
