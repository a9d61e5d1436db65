// SPDX-License-Identifier: BSD-3-Clause
#include "app/service/patient_write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
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

/// Opens a pipe or terminal again, non-blocking: it may be full although poll(2) found room,
/// because other threads and processes write to it. A file would be overwritten. Returns -1 if it
/// is none of them or does not open.
int open_non_blocking(int fd) {
  struct stat is {};
  if (fstat(fd, &is) != 0 || !(S_ISFIFO(is.st_mode) || S_ISCHR(is.st_mode))) return -1;
  const auto path = fmt::format("/proc/self/fd/{}", fd);
  return open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
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

Printer::Printer(int fd) : fd_{fd}, own_{open_non_blocking(fd)} {}

Printer::~Printer() {
  if (own_ >= 0) close(own_);
}

void Printer::print(std::string_view text, std::chrono::milliseconds patience) {
  if (text.empty()) return;
  const int to = own_ >= 0 ? own_ : fd_;
  if (lost_ != 0) {
    const std::string missing =
        fmt::format("{}{} lines of output were lost\n", at_begin_of_line_ ? "" : "\n", lost_);
    if (!write_patiently(to, missing, std::chrono::milliseconds{0}).empty()) {
      lost_ += lines_in(text);
      return;
    }
    lost_ = 0;
    at_begin_of_line_ = true;
  }
  const std::string_view rest = write_patiently(to, text, patience);
  if (!rest.empty()) lost_ = lines_in(rest);
  if (rest.size() == text.size()) return;
  at_begin_of_line_ = text[text.size() - rest.size() - 1] == '\n';
}

}  // namespace ipoib::app
