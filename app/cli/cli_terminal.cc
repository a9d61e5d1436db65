// SPDX-License-Identifier: BSD-3-Clause
#include "app/cli/cli_terminal.h"

#include <cmdline.h>
#include <cmdline_parse.h>
#include <cmdline_rdline.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
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
/// Octets that a terminal takes without blocking once it is writable.
constexpr std::size_t kPrintedAtOnce = 512;
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
/// an effect on other users of the old one. Returns -1 on failure.
int open_again(int fd) {
  const auto path = fmt::format("/proc/self/fd/{}", fd);
  return open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
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
  // librte_cmdline gets no input descriptor, so that it does not close `in`. It closes its output
  // descriptor, so `out` is duplicated.
  const int own_out = dup(out);
  if (t->bindings_->instructions[0] != nullptr && own_out >= 0)
    t->cmdline_ = cmdline_new(t->bindings_->instructions.data(), kPrompt, -1, own_out);
  if (t->cmdline_ == nullptr) {
    if (own_out >= 0) close(own_out);
    return fail(Errc::kNoResources, "cannot create the command line: no memory or file descriptor");
  }
  t->out_ = open_again(own_out);
  auto* terminal = t.get();
  const auto watched = events.watch(in, EPOLLIN, [terminal](std::uint32_t) {
    if (!terminal->feed()) terminal->end_input();
  });
  if (!watched) {  // A file: all input is available.
    t->waits_ = false;
    while (t->feed()) {
    }
    t->end_input();
  }
  return t;
}

Terminal::~Terminal() {
  events_.unwatch(in_);
  if (out_ >= 0) {
    events_.unwatch(out_);
    close(out_);
  }
  if (cmdline_ != nullptr) cmdline_free(cmdline_);
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
    keys.remove_prefix(stop + 1);
  }
  typed_ahead_ += keys.substr(0, kMaxTypedAhead - std::min(kMaxTypedAhead, typed_ahead_.size()));
  return true;
}

bool Terminal::type(std::string_view keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    // Commands are ASCII. librte_cmdline would drop the octet silently.
    if ((static_cast<unsigned char>(keys[i]) & 0x80U) != 0) {
      cmdline_printf(cmdline_, "\a");
      continue;
    }
    if (cmdline_in(cmdline_, &keys[i], 1) < 0) return false;
    if (!printing_) continue;
    typed_ahead_ = keys.substr(i + 1);
    return true;
  }
  return true;
}

void Terminal::execute(std::string_view line) {
  Output answer = line.size() < kMaxLine
                      ? cli_.answer(line, {.name = "terminal"})
                      : fmt::format("error: line longer than {} octets\n", kMaxLine - 1);
  std::string first;
  bool more = true;
  while (more && first.size() < kPrintedAtOnce) more = answer.append_piece(first);
  settle_log_();
  if (more && waits_ && events_.watch(out_, EPOLLOUT, [this](std::uint32_t) { print(); })) {
    answer_ = std::move(answer);
    unprinted_ = std::move(first);
    printing_ = true;
    cmdline_set_prompt(cmdline_, "");
    return;
  }
  if (more) first += std::move(answer).all();
  cmdline_printf(cmdline_, "%s", first.c_str());
}

/// Never waits for the terminal: one that is not read does not block the node.
void Terminal::print() {
  for (unsigned i = 0; i < kPrintsInATurn; ++i) {
    pollfd ready{out_, POLLOUT, 0};
    if (poll(&ready, 1, 0) != 1) return;
    if (unprinted_.empty() && answer_ && !answer_->append_piece(unprinted_)) answer_.reset();
    if (unprinted_.empty()) return end_printing();
    const auto n = write(out_, unprinted_.data(), std::min(kPrintedAtOnce, unprinted_.size()));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) return end_printing();  // the reader is gone
    unprinted_.erase(0, static_cast<std::size_t>(n));
  }
}

void Terminal::end_printing() {
  events_.unwatch(out_);
  printing_ = false;
  answer_.reset();
  unprinted_.clear();
  cmdline_set_prompt(cmdline_, kPrompt);
  rdline_newline(cmdline_get_rdline(cmdline_), kPrompt);
  const bool keep_open = type(std::exchange(typed_ahead_, {}));
  if (!keep_open || (ended_ && !printing_)) end_input();
}

void Terminal::end_input() {
  events_.unwatch(in_);
  ended_ = true;
  if (!printing_) on_end_();
}

}  // namespace ipoib::app
