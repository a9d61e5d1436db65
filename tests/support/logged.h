// SPDX-License-Identifier: BSD-3-Clause
// Captures the log of the program, for tests.
#pragma once

#include <rte_log.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace ipoib {

/// Returns the log output of `body`.
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
