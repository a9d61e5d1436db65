// SPDX-License-Identifier: BSD-3-Clause
// Captures the log of the program, for tests.
#pragma once

#include <rte_log.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace ipoib {

/// Returns the log output of `body`, from notices up.
inline std::string logged(const std::function<void()>& body) {
  char* text = nullptr;
  std::size_t len = 0;
  std::FILE* const stream = open_memstream(&text, &len);
  const std::uint32_t level = rte_log_get_global_level();
  rte_log_set_global_level(std::max<std::uint32_t>(level, RTE_LOG_NOTICE));
  rte_openlog_stream(stream);
  body();
  rte_openlog_stream(nullptr);
  rte_log_set_global_level(level);
  std::fclose(stream);
  std::string all{text, len};
  std::free(text);
  return all;
}

}  // namespace ipoib
