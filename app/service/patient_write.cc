// SPDX-License-Identifier: BSD-3-Clause
#include "app/service/patient_write.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace ipoib::app {
namespace {

/// Octets that a pipe or terminal takes without blocking once it is writable.
constexpr std::size_t kRoomOfPoll = 512;

/// True if the descriptor is writable, or has a fault that write(2) names.
bool wait_for_room(int fd, int at_most_ms) {
  pollfd ready{fd, POLLOUT, 0};
  return poll(&ready, 1, at_most_ms) == 1;
}

}  // namespace

std::string_view write_patiently(int fd, std::string_view text,
                                 std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  const bool any_time = patience.count() < 0;
  const auto end = Clock::now() + patience;
  while (!text.empty()) {
    if (!any_time) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      if (!wait_for_room(fd, static_cast<int>(std::max<decltype(left)>(left, 0)))) break;
    }
    const std::size_t size = any_time ? text.size() : std::min(kRoomOfPoll, text.size());
    const ssize_t n = write(fd, text.data(), size);
    if (n >= 0)
      text.remove_prefix(static_cast<std::size_t>(n));
    else if (errno == EAGAIN && any_time)
      wait_for_room(fd, -1);  // Another process made it non-blocking.
    else if (errno != EINTR)
      break;
  }
  return text;
}

std::uint64_t lines_in(std::string_view text) {
  const auto n = std::count(text.begin(), text.end(), '\n');
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(n), 1);
}

}  // namespace ipoib::app
