// SPDX-License-Identifier: BSD-3-Clause
#include "app/cli/cli_terminal.h"

#include <cmdline.h>
#include <cmdline_parse.h>
#include <cmdline_rdline.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

namespace ipoib::app {
namespace {

constexpr std::size_t kMaxWords = 16;
constexpr std::size_t kMaxRead = 1024;
/// librte_cmdline silently truncates longer lines; RDLINE_BUF_SIZE of DPDK 22.11.
constexpr std::size_t kMaxLine = 512;
constexpr std::size_t kMaxTypedAhead = 4096;
constexpr unsigned kPrintsInATurn = 16;
constexpr char kCtrlC = '\x03';

/// librte_cmdline calls each token of an instruction in order, with the rest of the line: with a
/// buffer for the result when a line is executed, without one when it is completed. So there are
/// two instructions: one whose only token takes whole lines to execute, and one for completion,
/// whose n-th token remembers the words before it.
struct Context {
  const Cli* cli = nullptr;
  std::vector<std::string> words;
  std::vector<std::string> choices;
  std::string choice;  ///< The choice returned last.
  std::string help;
  cmdline_parse_inst_t* instruction = nullptr;  ///< The instruction whose help_str is `help`.
};

struct Token {
  cmdline_token_hdr hdr{};
  Context* context = nullptr;
  std::size_t index = 0;
};

const Token& token_of(cmdline_parse_token_hdr_t* hdr) {
  // hdr is the first member, as for every token of librte_cmdline.
  return *static_cast<const Token*>(static_cast<const void*>(hdr));
}

int copy(std::string_view text, char* dst, unsigned size) {
  std::snprintf(dst, size, "%.*s", static_cast<int>(text.size()), text.data());
  return 0;
}

// --- the token that takes whole lines ---

int line_parse(cmdline_parse_token_hdr_t*, const char* buf, void* result, unsigned size) {
  if (result == nullptr) return -1;
  const std::size_t len = std::strcspn(buf, "\r\n");
  if (len >= size) return -1;
  std::memcpy(result, buf, len);
  static_cast<char*>(result)[len] = '\0';
  return static_cast<int>(len);
}

/// Reports one choice, which line_choice() does not return: this suppresses both a completion and a
/// "[RETURN]".
int line_choices(cmdline_parse_token_hdr_t*) {
  return 1;
}
int line_choice(cmdline_parse_token_hdr_t*, int, char*, unsigned) {
  return -1;
}

// --- the tokens that complete ---

int word_parse(cmdline_parse_token_hdr_t* hdr, const char* buf, void* result, unsigned) {
  if (result != nullptr) return -1;
  const Token& token = token_of(hdr);
  std::size_t len = 0;
  while (cmdline_isendoftoken(buf[len]) == 0) ++len;
  auto& words = token.context->words;
  words.resize(token.index);
  words.emplace_back(buf, len);
  const auto& cli = *token.context->cli;
  const bool valid = !cli.complete(words).empty() || !cli.hints(words).empty();
  return valid ? static_cast<int>(len) : -1;
}

int word_choices(cmdline_parse_token_hdr_t* hdr) {
  const Token& token = token_of(hdr);
  token.context->words.resize(token.index);
  token.context->choices = token.context->cli->complete(token.context->words);
  return static_cast<int>(token.context->choices.size());
}

int word_choice(cmdline_parse_token_hdr_t* hdr, int i, char* dst, unsigned size) {
  auto& context = *token_of(hdr).context;
  context.choice = context.choices[static_cast<std::size_t>(i)];
  return copy(context.choice, dst, size);
}

/// librte_cmdline prints the help as "[word]: ..." after each of several choices, as "[next]: ..."
/// if there are none.
int word_help(cmdline_parse_token_hdr_t* hdr, char* dst, unsigned size) {
  const Token& token = token_of(hdr);
  auto& context = *token.context;
  context.words.resize(token.index);
  if (context.choices.empty()) {
    context.help = fmt::format("{}", fmt::join(context.cli->hints(context.words), ", "));
  } else {
    auto words = context.words;
    words.push_back(context.choice);
    context.help = context.cli->help(words);
  }
  context.instruction->help_str = context.help.c_str();
  return copy(context.choices.empty() ? "next" : "word", dst, size);
}

cmdline_token_ops line_ops = {line_parse, line_choices, line_choice, nullptr};
cmdline_token_ops word_ops = {word_parse, word_choices, word_choice, word_help};

struct Free {
  void operator()(cmdline_parse_inst_t* inst) const { std::free(inst); }
};
/// An instruction ends in a flexible array, hence calloc().
using Instruction = std::unique_ptr<cmdline_parse_inst_t, Free>;

Instruction make_instruction(std::span<Token> tokens) {
  const auto size = sizeof(cmdline_parse_inst_t) + (tokens.size() + 1) * sizeof(void*);
  Instruction inst{static_cast<cmdline_parse_inst_t*>(std::calloc(1, size))};
  for (std::size_t i = 0; inst && i < tokens.size(); ++i) inst->tokens[i] = &tokens[i].hdr;
  return inst;
}

/// Opens the terminal or pipe of `fd` again: the new file description can be non-blocking without
/// an effect on other users of the old one. Returns -1 on failure, such as for the terminal of
/// another user.
int open_again(int fd) {
  const auto path = fmt::format("/proc/self/fd/{}", fd);
  return open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

bool is_pipe_or_terminal(int fd) {
  struct stat is {};
  return fstat(fd, &is) == 0 && (S_ISFIFO(is.st_mode) || S_ISCHR(is.st_mode));
}

bool has_room(int fd) {
  pollfd ready{fd, POLLOUT, 0};
  return poll(&ready, 1, 0) == 1;
}

}  // namespace

struct Terminal::Bindings {
  Context context;
  std::array<Token, 1> line{};
  std::array<Token, kMaxWords> words{};
  Instruction run, complete;
  std::array<cmdline_parse_ctx_t, 3> instructions{};
};

Terminal::Terminal(Cli& cli, mgmt::EventLoop& events, int in, std::function<void()> on_end,
                   std::function<void()> settle_log)
    : cli_{cli},
      events_{events},
      in_{in},
      on_end_{std::move(on_end)},
      settle_log_{std::move(settle_log)},
      bindings_{new Bindings} {
  Bindings& b = *bindings_;
  b.context.cli = &cli;
  b.line[0] = {{&line_ops, 0}, &b.context, 0};
  for (std::size_t i = 0; i < kMaxWords; ++i) b.words[i] = {{&word_ops, 0}, &b.context, i};
  b.run = make_instruction(b.line);
  b.complete = make_instruction(b.words);
  if (!b.run || !b.complete) return;
  b.run->f = [](void* line, cmdline*, void* terminal) {
    static_cast<Terminal*>(terminal)->execute(static_cast<const char*>(line));
  };
  b.run->data = this;
  // This instruction never matches a line to execute. It has a function because librte_cmdline
  // takes one without for a dynamic instruction.
  b.complete->f = b.run->f;
  b.context.instruction = b.complete.get();
  b.instructions = {b.run.get(), b.complete.get(), nullptr};
}

Result<std::unique_ptr<Terminal>> Terminal::create(Cli& cli, mgmt::EventLoop& events, int in,
                                                   int out, std::function<void()> on_end,
                                                   std::function<void()> settle_log) {
  std::unique_ptr<Terminal> t{
      new Terminal{cli, events, in, std::move(on_end), std::move(settle_log)}};
  termios mode{};
  if (tcgetattr(in, &mode) == 0) {
    t->saved_ = mode;
    mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    mode.c_iflag &= ~static_cast<tcflag_t>(IXON);  // Ctrl-S would block the writer: the node
    tcsetattr(in, TCSANOW, &mode);
  }
  // librte_cmdline gets no input descriptor, so that it does not close `in`. It waits for its output
  // descriptor, so it gets a pipe that always has room; cmdline_free() closes that end.
  std::array<int, 2> editor{-1, -1};
  if (is_pipe_or_terminal(out)) t->out_ = open_again(out);
  if (t->out_ < 0) {
    t->out_ = fcntl(out, F_DUPFD_CLOEXEC, 0);
    // A terminal may block: writable, it has room for an octet.
    if (is_pipe_or_terminal(out)) t->printed_at_once_ = 1;
  }
  if (t->bindings_->instructions[0] != nullptr && t->out_ >= 0 &&
      pipe2(editor.data(), O_NONBLOCK | O_CLOEXEC) == 0) {
    t->editor_out_ = editor[0];
    t->cmdline_ = cmdline_new(t->bindings_->instructions.data(), kPrompt, -1, editor[1]);
  }
  if (t->cmdline_ == nullptr) {
    if (editor[1] >= 0) close(editor[1]);
    return fail(Errc::kNoResources, "cannot create the command line: no memory or file descriptor");
  }
  t->take_output_of_editor();
  t->flush();
  auto* terminal = t.get();
  const auto watched = events.watch(in, EPOLLIN, [terminal](std::uint32_t) {
    if (!terminal->feed()) terminal->end_input();
  });
  t->watches_ = watched.has_value();
  if (!watched) t->read_file();
  return t;
}

Terminal::~Terminal() {
  events_.unwatch(in_);
  if (out_ >= 0) {
    events_.unwatch(out_);
    close(out_);
  }
  if (cmdline_ != nullptr) cmdline_free(cmdline_);
  if (editor_out_ >= 0) close(editor_out_);
  if (saved_) tcsetattr(in_, TCSANOW, &*saved_);
}

bool Terminal::feed() {
  std::array<char, kMaxRead> bytes;
  const auto n = read(in_, bytes.data(), bytes.size());
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  std::string_view keys{bytes.data(), static_cast<std::size_t>(n)};
  if (!printing_) return type(keys);
  if (const auto stop = keys.rfind(kCtrlC); stop != std::string_view::npos) {
    answer_.reset();
    unprinted_ = "^C\n";
    typed_ahead_.clear();
    begin_line();
    keys.remove_prefix(stop + 1);
  }
  typed_ahead_ += keys.substr(0, kMaxTypedAhead - std::min(kMaxTypedAhead, typed_ahead_.size()));
  return true;
}

/// All of a file's input is available, and output that waits is printed before more is read.
void Terminal::read_file() {
  while (!printing_) {
    if (feed()) continue;
    return end_input();
  }
}

bool Terminal::type(std::string_view keys) {
  for (; !keys.empty() && !printing_; keys.remove_prefix(1)) {
    // Commands are ASCII. librte_cmdline would drop the octet silently.
    if ((static_cast<unsigned char>(keys.front()) & 0x80U) != 0)
      unprinted_ += '\a';
    else if (cmdline_in(cmdline_, keys.data(), 1) < 0)
      return false;
    take_output_of_editor();
    flush();
  }
  typed_ahead_ = keys;
  return true;
}

/// The line editor calls this, and prints the prompt afterwards.
void Terminal::execute(std::string_view line) {
  take_output_of_editor();
  Output answer = line.size() < kMaxLine
                      ? cli_.answer(line, {.name = "terminal"})
                      : fmt::format("error: line longer than {} octets\n", kMaxLine - 1);
  const std::size_t before = unprinted_.size();
  bool more = true;
  while (more && unprinted_.size() - before < kPrintedAtOnce)
    more = answer.append_piece(unprinted_);
  settle_log_();
  if (!more) return;
  answer_ = std::move(answer);
  cmdline_set_prompt(cmdline_, "");
}

void Terminal::begin_line() {
  cmdline_set_prompt(cmdline_, kPrompt);
  rdline_newline(cmdline_get_rdline(cmdline_), kPrompt);
  take_output_of_editor();
}

void Terminal::take_output_of_editor() {
  std::array<char, kMaxRead> bytes;
  for (ssize_t n = 0; (n = read(editor_out_, bytes.data(), bytes.size())) > 0;)
    unprinted_.append(bytes.data(), static_cast<std::size_t>(n));
}

void Terminal::flush() {
  if (printing_ || print()) return;
  printing_ = events_.watch(out_, EPOLLOUT, [this](std::uint32_t) { go_on(); }).has_value();
  if (printing_) return;
  // A file cannot be watched, and has always room.
  while (has_room(out_) && !print()) {
  }
}

bool Terminal::print() {
  for (unsigned i = 0; i < kPrintsInATurn; ++i) {
    if (unprinted_.empty() && answer_ && !answer_->append_piece(unprinted_)) {
      answer_.reset();
      begin_line();
    }
    if (unprinted_.empty()) return !answer_;
    if (!has_room(out_)) return false;
    const auto n = write(out_, unprinted_.data(), std::min(printed_at_once_, unprinted_.size()));
    if (n >= 0) {
      unprinted_.erase(0, static_cast<std::size_t>(n));
    } else if (errno == EAGAIN || errno == EINTR) {
      return false;
    } else {  // The reader is gone.
      if (answer_) {
        answer_.reset();
        begin_line();
      }
      unprinted_.clear();
      return true;
    }
  }
  return unprinted_.empty() && !answer_;
}

void Terminal::go_on() {
  if (!print()) return;
  events_.unwatch(out_);
  printing_ = false;
  if (!type(std::exchange(typed_ahead_, {}))) return end_input();
  if (printing_) return;
  if (ended_)
    end_input();
  else if (!watches_)
    read_file();
}

void Terminal::end_input() {
  events_.unwatch(in_);
  ended_ = true;
  if (!printing_) on_end_();
}

}  // namespace ipoib::app
