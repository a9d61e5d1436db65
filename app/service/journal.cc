// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // fopencookie
#endif
#include "app/service/journal.h"

#include <rte_log.h>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ipoib::app {
namespace {

/// Writes all of `text` to standard error; gives up on an error.
void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// The thread that logs calls this with the stream locked.
ssize_t write_marked(void* marker, const char* text, std::size_t size) {
  // Levels of rte_log are those of syslog plus one.
  const int priority = std::clamp(rte_log_cur_msg_loglevel() - 1, 0, 7);
  write_all(
      static_cast<PriorityMarker*>(marker)->mark({text, size}, static_cast<unsigned>(priority)));
  return static_cast<ssize_t>(size);
}

}  // namespace

bool is_journal(int fd) {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat file {};
  if (stream == nullptr || fstat(fd, &file) != 0) return false;
  return stream == fmt::format("{}:{}", file.st_dev, file.st_ino);
}

std::string PriorityMarker::mark(std::string_view piece, unsigned priority) {
  std::string marked;
  while (!piece.empty()) {
    if (at_begin_of_line_) marked += fmt::format("<{}>", priority);
    const auto end = piece.find('\n');
    at_begin_of_line_ = end != std::string_view::npos;
    const auto line = piece.substr(0, at_begin_of_line_ ? end + 1 : end);
    marked += line;
    piece.remove_prefix(line.size());
  }
  return marked;
}

Status log_to_journal() {
  static PriorityMarker marker;  // EAL uses the stream until the process ends.
  std::FILE* stream = fopencookie(&marker, "w", {nullptr, write_marked, nullptr, nullptr});
  if (stream == nullptr) return fail(Errc::kNoResources, "fopencookie: {}", std::strerror(errno));
  if (rte_openlog_stream(stream) != 0)
    return fail(Errc::kUnavailable, "EAL rejects the log stream");
  return {};
}

}  // namespace ipoib::app
