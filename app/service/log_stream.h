// SPDX-License-Identifier: BSD-3-Clause
// The log of the program: all lines of rte_log, and so those of lib/base/log.h, EAL and drivers, go
// to standard error by a LogWriter, and to syslog if standard error is not the journal.
#pragma once

#include <chrono>
#include <memory>

#include "app/service/log_writer.h"
#include "lib/base/result.h"

namespace ipoib::app {

/// Standard error, as EAL writes it: with a copy in syslog, or with priorities for the journal.
[[nodiscard]] std::unique_ptr<LogOutput> standard_log_output(bool journal);

/// Calls write_patiently() with standard error. False: some of the text is not written.
bool write_standard_error(std::string_view text, std::chrono::milliseconds patience);

/// Redirects rte_log to `log`, which must live until the process ends. When exit(3) or a fault's
/// signal ends the process, the lines put before are written first, if that takes no longer than
/// LogWriter::kPatience. Call it once, before rte_eal_init().
Status log_to(LogWriter& log);

/// Waits until the lines logged so far are written; without log_to() it does not wait.
void settle_log(std::chrono::milliseconds at_most);

/// For the output of a command, which follows the lines that the command logged: waits for them, but
/// only briefly, and only once for a log that takes nothing.
void settle_log_of_command();

}  // namespace ipoib::app
