// SPDX-License-Identifier: BSD-3-Clause
// The output of a command. Long lists are produced piece by piece as they are taken, so that no
// command occupies the management lcore for long and nothing is produced for a client that does not
// read.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace ipoib::app {

class Output {
 public:
  /// Appends the next piece; returns false after the last one. Runs on the management lcore only,
  /// between turns of its loop: the listed objects may have changed in between.
  using Next = std::function<bool(std::string& out)>;

  Output(const char* text) : text_{text} {}             // NOLINT(google-explicit-constructor)
  Output(std::string text) : text_{std::move(text)} {}  // NOLINT(google-explicit-constructor)
  explicit Output(Next next) : next_{std::move(next)} {}

  /// Appends the next piece; returns false after the last one.
  bool append_piece(std::string& out) {
    if (next_) return next_(out);
    out += text_;
    return false;
  }
  [[nodiscard]] std::string all() && {
    std::string out;
    while (append_piece(out)) {
    }
    return out;
  }

 private:
  std::string text_;
  Next next_;
};

}  // namespace ipoib::app
