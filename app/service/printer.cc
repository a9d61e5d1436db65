// SPDX-License-Identifier: BSD-3-Clause
#include "app/service/printer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "app/service/patient_write.h"

namespace ipoib::app {
namespace {

/// Longest part of a text that the queue of a file takes or loses as a whole.
constexpr std::size_t kPart = LogWriter::kRoom / 4;

/// Opens a pipe or terminal again, non-blocking: it may be full although poll(2) found room,
/// because other threads and processes write to it. A file would be overwritten. Returns -1 if it
/// is none of them or does not open.
int open_non_blocking(int fd) {
  struct stat is {};
  if (fstat(fd, &is) != 0 || !(S_ISFIFO(is.st_mode) || S_ISCHR(is.st_mode))) return -1;
  const auto path = fmt::format("/proc/self/fd/{}", fd);
  return open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

std::string loss_text(std::uint64_t lines) {
  return fmt::format("{} lines of output were lost\n", lines);
}

class FileOutput final : public LogOutput {
 public:
  explicit FileOutput(int fd) : text_{fd} {}
  bool write(unsigned /*priority*/, std::string_view text,
             std::chrono::milliseconds patience) override {
    return text_.write(text, patience, patience);
  }
  void count_lost(std::uint64_t /*lines*/) override {}
  [[nodiscard]] std::string loss(std::uint64_t lines) const override { return loss_text(lines); }

 private:
  TextWriter text_;
};

/// The first part of a text: whole lines if it has any.
std::string_view first_part(std::string_view text) {
  if (text.size() <= kPart) return text;
  const auto end = text.rfind('\n', kPart - 1);
  return text.substr(0, end == std::string_view::npos ? kPart : end + 1);
}

}  // namespace

bool TextWriter::write(std::string_view text, std::chrono::milliseconds patience_of_loss,
                       std::chrono::milliseconds patience) {
  if (lost_ != 0) {
    const std::string missing =
        fmt::format("{}{}", at_begin_of_line_ ? "" : "\n", loss_text(lost_));
    if (!write_patiently(fd_, missing, patience_of_loss).empty()) {
      lost_ += lines_in(text);
      return false;
    }
    lost_ = 0;
    at_begin_of_line_ = true;
  }
  const std::string_view rest = write_patiently(fd_, text, patience);
  if (!rest.empty()) lost_ = lines_in(rest);
  if (rest.size() != text.size()) at_begin_of_line_ = text[text.size() - rest.size() - 1] == '\n';
  return rest.empty();
}

Printer::Printer(int fd) : pipe_{open_non_blocking(fd)}, pipe_text_{pipe_} {
  if (pipe_ < 0) file_ = std::make_unique<LogWriter>(std::make_unique<FileOutput>(fd));
}

Printer::Printer(std::unique_ptr<LogOutput> file)
    : file_{std::make_unique<LogWriter>(std::move(file))} {}

Printer::~Printer() {
  if (pipe_ >= 0) close(pipe_);
  if (file_ != nullptr) static_cast<void>(file_->end(LogWriter::kPatience));
}

Status Printer::start() {
  return file_ != nullptr ? file_->start("ipoib-output", "writes standard output") : Status{};
}

void Printer::print(std::string_view text, std::chrono::milliseconds patience) {
  if (text.empty()) return;
  if (file_ != nullptr)
    print_to_file(text, patience);
  else
    static_cast<void>(pipe_text_.write(text, std::chrono::milliseconds{0}, patience));
}

bool Printer::wait(std::chrono::milliseconds at_most) {
  return file_ == nullptr || file_->wait(at_most);
}

/// A text that the queue has no room for waits for the thread, and so does each part of a longer one.
void Printer::print_to_file(std::string_view text, std::chrono::milliseconds patience) {
  using std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + patience;
  while (!text.empty()) {
    const std::string_view part = first_part(text);
    if (!file_->has_room(part)) {
      const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
      static_cast<void>(file_->wait_unless_stuck(std::max(left, milliseconds{0})));
    }
    file_->put(LOG_INFO, part);
    text.remove_prefix(part.size());
  }
}

}  // namespace ipoib::app
