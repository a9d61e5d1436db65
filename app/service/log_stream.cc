// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // fopencookie
#endif
#include "app/service/log_stream.h"

#include <rte_log.h>

#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "app/service/journal.h"
#include "app/service/patient_write.h"

namespace ipoib::app {
namespace {

/// Longest wait for the log lines of a command before its output.
constexpr std::chrono::milliseconds kCommandPatience{20};

/// The log of the process: rte_log has one stream, and a handler of signals no argument.
std::atomic<LogWriter*> log_of_process{nullptr};

class StandardError final : public LogOutput {
 public:
  explicit StandardError(bool journal) : journal_{journal} {}
  bool write(unsigned priority, std::string_view text,
             std::chrono::milliseconds patience) override {
    if (journal_) return write_standard_error(marker_.mark(text, priority), patience);
    const bool written = write_standard_error(text, patience);
    syslog(static_cast<int>(priority), "%.*s", static_cast<int>(text.size()), text.data());
    return written;
  }

 private:
  bool journal_;
  PriorityMarker marker_;
};

/// The thread that logs calls this with the stream locked.
ssize_t put(void* log, const char* text, std::size_t size) {
  // Levels of rte_log are those of syslog plus one.
  const int priority = std::clamp(rte_log_cur_msg_loglevel() - 1, 0, 7);
  static_cast<LogWriter*>(log)->put(static_cast<unsigned>(priority), {text, size});
  return static_cast<ssize_t>(size);
}

constexpr std::array kFaults = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
std::array<struct sigaction, kFaults.size()> handlers_before;

/// Gives the log's thread time, and leaves the fault to the handler that was there before. The
/// faulty instruction raises the signal again; one that was sent is sent again.
void on_fault(int signal, siginfo_t* info, void*) {
  const LogWriter* const log = log_of_process.load(std::memory_order_relaxed);
  constexpr timespec kStep{0, 1'000'000};
  for (int ms = 0; ms < LogWriter::kPatience.count() && log != nullptr && !log->settled(); ++ms)
    nanosleep(&kStep, nullptr);
  const auto i =
      static_cast<std::size_t>(std::find(kFaults.begin(), kFaults.end(), signal) - kFaults.begin());
  if (i < kFaults.size()) sigaction(signal, &handlers_before[i], nullptr);
  if (info->si_code <= 0) raise(signal);
}

}  // namespace

std::unique_ptr<LogOutput> standard_log_output(bool journal) {
  return std::make_unique<StandardError>(journal);
}

bool write_standard_error(std::string_view text, std::chrono::milliseconds patience) {
  return write_patiently(STDERR_FILENO, text, patience).empty();
}

Status log_to(LogWriter& log) {
  std::FILE* stream = fopencookie(&log, "w", {nullptr, put, nullptr, nullptr});
  if (stream == nullptr) return fail(Errc::kNoResources, "fopencookie: {}", std::strerror(errno));
  if (rte_openlog_stream(stream) != 0)
    return fail(Errc::kUnavailable, "EAL rejects the log stream");
  log_of_process.store(&log, std::memory_order_relaxed);
  std::atexit([] { settle_log(LogWriter::kPatience); });
  for (std::size_t i = 0; i < kFaults.size(); ++i) {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(kFaults[i], &action, &handlers_before[i]);
  }
  return {};
}

void settle_log(std::chrono::milliseconds at_most) {
  if (LogWriter* const log = log_of_process.load(std::memory_order_relaxed); log != nullptr)
    static_cast<void>(log->wait(at_most));
}

void settle_log_of_command() {
  if (LogWriter* const log = log_of_process.load(std::memory_order_relaxed); log != nullptr)
    static_cast<void>(log->wait_unless_stuck(kCommandPatience));
}

}  // namespace ipoib::app
