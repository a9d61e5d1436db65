// SPDX-License-Identifier: BSD-3-Clause
// Behaviour of an lcore between loops that find no work.
#pragma once

#include <cstdint>

#include "lib/fwd/modes.h"

namespace ipoib::fwd {

class Idle {
 public:
  /// Call after each loop. `busy`: the loop found work.
  void after(IdlePolicy policy, bool busy) noexcept {
    if (busy || policy == IdlePolicy::kPoll)
      empty_loops_ = 0;
    else
      rest(policy);
  }

  /// Nanoseconds to sleep after this number of empty loops in a row; 0: no sleep.
  [[nodiscard]] static std::uint32_t sleep_ns(std::uint32_t empty_loops) noexcept;

 private:
  void rest(IdlePolicy policy) noexcept;

  std::uint32_t empty_loops_ = 0;
};

/// Makes short sleeps of the calling thread end in time: by default Linux adds up to 50 us.
void allow_short_sleeps() noexcept;

}  // namespace ipoib::fwd
