#include "app/cli_terminal.h"

#include <cmdline.h>
#include <cmdline_parse.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ipoib::app {
namespace {

constexpr std::size_t kMaxWords = 16;
constexpr std::size_t kMaxLine = 1024;  // More than librte_cmdline's buffer holds.

/// librte_cmdline asks each token of an instruction for its match in order, giving each the rest
/// of the line: with a place for the result when a line is executed, without one when it is
/// completed. So there are two instructions: one whose only token takes whole lines to execute,
/// and one for completion, whose n-th token remembers the words before it.
struct Context {
  const Cli* cli = nullptr;
  std::vector<std::string> words;
  std::vector<std::string> choices;
  std::string choice;  ///< The one asked for last.
  std::string help;
  cmdline_parse_inst_t* instruction = nullptr;  ///< Whose help_str is `help`.
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

/// One choice that there is not: neither a completion nor a "[RETURN]".
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
  const bool known = !cli.complete(words).empty() || !cli.hints(words).empty();
  return known ? static_cast<int>(len) : -1;
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

/// Shown as "[word]: ..." behind each of several choices, as "[next]: ..." where there are none.
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
/// An instruction ends in an array without a size.
using Instruction = std::unique_ptr<cmdline_parse_inst_t, Free>;

Instruction make_instruction(std::span<Token> tokens) {
  const auto size = sizeof(cmdline_parse_inst_t) + (tokens.size() + 1) * sizeof(void*);
  Instruction inst{static_cast<cmdline_parse_inst_t*>(std::calloc(1, size))};
  for (std::size_t i = 0; inst && i < tokens.size(); ++i) inst->tokens[i] = &tokens[i].hdr;
  return inst;
}

void execute(void* line, cmdline* cl, void* data) {
  const auto text = static_cast<Cli*>(data)->execute(static_cast<const char*>(line));
  cmdline_printf(cl, "%s", text.c_str());
}

}  // namespace

struct Terminal::Bindings {
  Context context;
  std::array<Token, 1> line{};
  std::array<Token, kMaxWords> words{};
  Instruction run, complete;
  std::array<cmdline_parse_ctx_t, 3> instructions{};
};

Terminal::Terminal(Cli& cli, mgmt::EventLoop& events, int in, std::function<void()> on_end)
    : events_{events}, in_{in}, on_end_{std::move(on_end)}, bindings_{new Bindings} {
  Bindings& b = *bindings_;
  b.context.cli = &cli;
  b.line[0] = {{&line_ops, 0}, &b.context, 0};
  for (std::size_t i = 0; i < kMaxWords; ++i) b.words[i] = {{&word_ops, 0}, &b.context, i};
  b.run = make_instruction(b.line);
  b.complete = make_instruction(b.words);
  if (!b.run || !b.complete) return;
  b.run->f = execute;
  b.run->data = &cli;
  b.complete->f =
      execute;  // Never matches a line to execute; an instruction without one is dynamic.
  b.context.instruction = b.complete.get();
  b.instructions = {b.run.get(), b.complete.get(), nullptr};
}

Result<std::unique_ptr<Terminal>> Terminal::create(Cli& cli, mgmt::EventLoop& events, int in,
                                                   int out, std::function<void()> on_end) {
  std::unique_ptr<Terminal> t{new Terminal{cli, events, in, std::move(on_end)}};
  termios mode{};
  if (tcgetattr(in, &mode) == 0) {
    t->saved_ = mode;
    mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    tcsetattr(in, TCSANOW, &mode);
  }
  // Never asked to read, so that it does not close `in`; `out` is duplicated, since it does close
  // that.
  const int own_out = dup(out);
  if (t->bindings_->instructions[0] != nullptr && own_out >= 0)
    t->cmdline_ = cmdline_new(t->bindings_->instructions.data(), kPrompt, -1, own_out);
  if (t->cmdline_ == nullptr) {
    if (own_out >= 0) close(own_out);
    return fail(Errc::kNoResources, "no memory or descriptor for the command line");
  }
  auto* terminal = t.get();
  const auto watched = events.watch(in, EPOLLIN, [terminal](std::uint32_t) {
    if (!terminal->feed()) terminal->finish();
  });
  if (!watched) {  // A file: everything is there already.
    while (t->feed()) {
    }
    t->finish();
  }
  return t;
}

Terminal::~Terminal() {
  events_.unwatch(in_);
  if (cmdline_ != nullptr) cmdline_free(cmdline_);
  if (saved_) tcsetattr(in_, TCSANOW, &*saved_);
}

bool Terminal::feed() {
  std::array<char, kMaxLine> bytes;
  const auto n = read(in_, bytes.data(), bytes.size());
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  return n > 0 && cmdline_in(cmdline_, bytes.data(), static_cast<int>(n)) >= 0;
}

void Terminal::finish() {
  events_.unwatch(in_);
  on_end_();
}

}  // namespace ipoib::app
