// SPDX-License-Identifier: BSD-3-Clause
#include "app/service/log_writer.h"

#include <fmt/format.h>
#include <syslog.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "app/service/patient_write.h"
#include "lib/base/control_thread.h"
#include "lib/base/log.h"

namespace ipoib::app {
namespace {

constexpr std::chrono::milliseconds kAnyTime{-1};
constexpr std::chrono::milliseconds kNoTime{0};

struct Piece {
  unsigned priority;
  std::string text;
};

/// Room that a piece takes.
std::size_t size_of(std::string_view text) {
  return sizeof(Piece) + text.size();
}

}  // namespace

void LogOutput::count_lost(std::uint64_t lines) {
  count_lost_log_lines(lines);
}

std::string LogOutput::loss(std::uint64_t lines) const {
  return fmt::format("ipoib.app: {} log lines were lost\n", lines);
}

struct LogWriter::Shared {
  enum class Mode : std::uint8_t { kAtOnce, kQueued, kLost };

  explicit Shared(std::unique_ptr<LogOutput> o) : output{std::move(o)} {}
  void lose(std::string_view text);
  bool wait(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds at_most);
  void live();
  void write(std::vector<Piece>& pieces, std::uint64_t missing);

  const std::unique_ptr<LogOutput> output;  ///< In kQueued for the thread only.
  bool at_begin_of_line = true;             ///< The thread's last piece ended a line.
  /// Pieces put, and pieces written or lost. Atomic for settled().
  std::atomic<std::uint64_t> put{0}, settled{0};
  std::mutex mutex;
  std::condition_variable wake, moved;
  // Guarded by `mutex`.
  Mode mode = Mode::kAtOnce;
  std::vector<Piece> queue;
  std::size_t room = kRoom;
  std::uint64_t missing = 0;  ///< Lines lost after those in the queue. While there are any, no line
                              ///< is queued, so that the place of the loss is known. In kAtOnce:
                              ///< lines lost before.
  bool stuck = false;         ///< In kAtOnce: the last piece was lost.
  bool stands = false;        ///< In kQueued: wait_unless_stuck() was in vain, and the thread has
                              ///< come no further since.
  bool ending = false;
  bool over = false;
};

void LogWriter::Shared::lose(std::string_view text) {
  output->count_lost(lines_in(text));
  settled.fetch_add(1, std::memory_order_relaxed);
}

void LogWriter::Shared::write(std::vector<Piece>& pieces, std::uint64_t lost) {
  for (const Piece& p : pieces) {
    if (!output->write(p.priority, p.text, kAnyTime)) output->count_lost(lines_in(p.text));
    at_begin_of_line = p.text.ends_with('\n');
    settled.fetch_add(1, std::memory_order_release);
  }
  pieces.clear();
  if (lost == 0) return;
  output->write(LOG_WARNING, fmt::format("{}{}", at_begin_of_line ? "" : "\n", output->loss(lost)),
                kAnyTime);
  at_begin_of_line = true;
}

void LogWriter::Shared::live() {
  std::vector<Piece> mine;
  std::unique_lock lock{mutex};
  while (true) {
    wake.wait(lock, [this] { return !queue.empty() || missing != 0 || ending; });
    if (queue.empty() && missing == 0) break;
    mine.swap(queue);
    room = kRoom;
    const std::uint64_t lost = std::exchange(missing, 0);
    lock.unlock();
    write(mine, lost);
    lock.lock();
    stands = false;
    moved.notify_all();
  }
  over = true;
  moved.notify_all();
}

LogWriter::LogWriter(std::unique_ptr<LogOutput> output)
    : shared_{std::make_shared<Shared>(std::move(output))} {}

LogWriter::~LogWriter() {
  static_cast<void>(end(std::chrono::milliseconds{0}));
}

Status LogWriter::start(const char* thread, const char* purpose) {
  if (auto started = run_on_control_thread(thread, purpose, [shared = shared_] { shared->live(); });
      !started)
    return started;
  const std::lock_guard lock{shared_->mutex};
  shared_->mode = Shared::Mode::kQueued;
  shared_->wake.notify_one();
  return {};
}

void LogWriter::put(unsigned priority, std::string_view text) {
  Shared& s = *shared_;
  const std::lock_guard lock{s.mutex};
  s.put.fetch_add(1, std::memory_order_relaxed);
  if (s.mode == Shared::Mode::kLost) return s.lose(text);
  if (s.mode == Shared::Mode::kAtOnce) {
    s.stuck = !s.output->write(priority, text, s.stuck ? kNoTime : kPatience);
    if (s.stuck) {
      s.missing += lines_in(text);
      return s.lose(text);
    }
    s.settled.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (s.missing != 0 || size_of(text) > s.room) {
    s.missing += lines_in(text);
    s.lose(text);
  } else {
    s.room -= size_of(text);
    s.queue.push_back({priority, std::string{text}});
  }
  s.wake.notify_one();
}

bool LogWriter::has_room(std::string_view text) const {
  const std::lock_guard lock{shared_->mutex};
  return shared_->mode != Shared::Mode::kQueued ||
         (shared_->missing == 0 && size_of(text) <= shared_->room);
}

bool LogWriter::settled() const noexcept {
  return shared_->settled.load(std::memory_order_acquire) >=
         shared_->put.load(std::memory_order_relaxed);
}

/// `lock` holds `mutex`.
bool LogWriter::Shared::wait(std::unique_lock<std::mutex>& lock,
                             std::chrono::milliseconds at_most) {
  if (mode == Mode::kLost) return false;
  const std::uint64_t wanted = put.load(std::memory_order_relaxed);
  return moved.wait_for(lock, at_most,
                        [&] { return settled.load(std::memory_order_relaxed) >= wanted; });
}

bool LogWriter::wait(std::chrono::milliseconds at_most) {
  std::unique_lock lock{shared_->mutex};
  return shared_->wait(lock, at_most);
}

bool LogWriter::wait_unless_stuck(std::chrono::milliseconds at_most) {
  std::unique_lock lock{shared_->mutex};
  if (shared_->stands) return false;
  shared_->stands = !shared_->wait(lock, at_most);
  return !shared_->stands;
}

bool LogWriter::end(std::chrono::milliseconds at_most) {
  std::unique_lock lock{shared_->mutex};
  if (shared_->mode != Shared::Mode::kQueued) return shared_->mode == Shared::Mode::kAtOnce;
  shared_->ending = true;
  shared_->wake.notify_one();
  const bool ended = shared_->moved.wait_for(lock, at_most, [this] { return shared_->over; });
  shared_->mode = ended ? Shared::Mode::kAtOnce : Shared::Mode::kLost;
  return ended;
}

}  // namespace ipoib::app
