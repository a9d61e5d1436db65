// SPDX-License-Identifier: BSD-3-Clause
// Log lines for the journal of systemd, which takes the priority of a line from its beginning.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace ipoib::app {

/// Whether `fd` is the stream to the journal that systemd gave this process (JOURNAL_STREAM in
/// systemd.exec(5)).
[[nodiscard]] bool is_journal(int fd);

/// Puts "<N>" (sd-daemon(3)) before each line. A line may come in several pieces.
class PriorityMarker {
 public:
  /// `priority`: of syslog(3), 0 to 7.
  [[nodiscard]] std::string mark(std::string_view piece, unsigned priority);

 private:
  bool at_begin_of_line_ = true;
};

/// From here on what rte_log writes goes to standard error with priorities, and there only: EAL
/// would send it to syslog as well, and so to the same journal twice. Before rte_eal_init.
Status log_to_journal();

}  // namespace ipoib::app
