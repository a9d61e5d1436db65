// SPDX-License-Identifier: BSD-3-Clause
// What the program logs, for tests.
#pragma once

#include <rte_log.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace ipoib {

/// What is logged while `body` runs.
inline std::string logged(const std::function<void()>& body) {
  char* text = nullptr;
  std::size_t len = 0;
  std::FILE* const stream = open_memstream(&text, &len);
  rte_openlog_stream(stream);
  body();
  rte_openlog_stream(nullptr);
  std::fclose(stream);
  std::string all{text, len};
  std::free(text);
  return all;
}

}  // namespace ipoib
