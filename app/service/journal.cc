// SPDX-License-Identifier: BSD-3-Clause
#include "app/service/journal.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>

namespace ipoib::app {

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

}  // namespace ipoib::app
