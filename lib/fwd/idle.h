// SPDX-License-Identifier: BSD-3-Clause
// What an lcore does between loops that find nothing.
#pragma once

#include <cstdint>

#include "lib/fwd/modes.h"

namespace ipoib::fwd {

class Idle {
 public:
  /// After each loop. `busy`: it found something to do.
  void after(IdlePolicy policy, bool busy) noexcept {
    if (busy || policy == IdlePolicy::kPoll)
      empty_loops_ = 0;
    else
      rest(policy);
  }

  /// Nanoseconds to sleep after so many empty loops in a row; 0: do not.
  [[nodiscard]] static std::uint32_t sleep_ns(std::uint32_t empty_loops) noexcept;

 private:
  void rest(IdlePolicy policy) noexcept;

  std::uint32_t empty_loops_ = 0;
};

/// Makes short sleeps of the calling thread as short as they are asked to be: by default Linux adds
/// up to 50 us.
void allow_short_sleeps() noexcept;

}  // namespace ipoib::fwd
