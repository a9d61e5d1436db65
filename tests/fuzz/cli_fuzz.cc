// SPDX-License-Identifier: BSD-3-Clause
// Any octets from a client of the CLI socket, in pieces of any size. Every line is answered in
// order, as it would be alone, with text of bounded length that ends with a newline, or with an
// error.
// Output in JSON is valid JSON. Completion and help for the same words end too.
//
// Input: one octet with the size of the pieces, then the octets of the client. An octet 0xff stands
// for 1,000 copies of the octet before it.
#include <algorithm>
#include <string>
#include <string_view>

#include "app/cli/cli.h"
#include "app/cli/cli_server.h"
#include "app/export/json.h"
#include "lib/base/log_level.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/fake_node.h"

namespace ipoib::app {
namespace {

using test::require;

/// Upper limit of an answer. That to `help` is the longest.
constexpr std::size_t kMaxAnswer = 128 * 1024;
/// This many lines fill the buffer that a session has for a client that does not read.
constexpr std::size_t kMaxLines = 12;
constexpr std::size_t kMaxInputLen = 8192;

class Harness {
 public:
  static Harness& instance() {
    static auto* const harness = new Harness;
    return *harness;
  }

  void run(std::string_view input) {
    if (input.empty()) return;
    const std::size_t piece = 1U + static_cast<unsigned char>(input.front());
    const std::string sent = stretched(input.substr(1));
    reset();
    const std::string heard = converse(sent, piece);
    reset();
    require(heard == expected(sent));
  }

 private:
  Harness() { fill(node_.rows); }

  static std::string stretched(std::string_view input) {
    std::string sent;
    std::size_t lines = 0;
    for (const char c : input) {
      if (c != '\xff')
        sent += c;
      else if (!sent.empty() && sent.back() != '\n')
        sent.append(1000, sent.back());
      if (sent.size() > kMaxInputLen || (c == '\n' && ++lines == kMaxLines)) break;
    }
    return sent;
  }

  /// Puts the node back into its state before any command.
  void reset() {
    node_.rows.forward.forwarding = false;
    node_.traffic.set_forward_mode(mgmt::ForwardMode::kRoute);
    node_.traffic.set_burst(32);
    require(node_.traffic.set_generator({}).has_value());
    node_.requests.lines.clear();
    for (std::size_t i = 0; i < kLogAreaNames.size(); ++i)
      set_log_level(static_cast<LogArea>(i), LogLevel::kWarning);  // Commands are notices.
  }

  /// Plays a client that sends `piece` octets at a time, and reads as slowly. Returns all that it
  /// has read.
  std::string converse(std::string_view sent, std::size_t piece) {
    Session session{cli_, {}};
    std::string heard;
    const auto read = [&] {
      const std::string_view pending = session.pending();
      require(pending.size() <= Session::kEnough + kMaxAnswer + 16);
      const std::string_view part = pending.substr(0, std::max<std::size_t>(piece, 4096));
      heard += part;
      session.consume(part.size());
    };
    for (std::size_t at = 0; at < sent.size(); at += piece) {
      session.receive(sent.substr(at, piece));
      session.work();
      require(!session.overflowed());
      read();
    }
    session.end_of_input();
    while (!session.finished()) {
      session.work();
      read();
    }
    return heard;
  }

  /// Returns the answers to the lines when they are executed one by one.
  std::string expected(std::string_view sent) {
    std::string all = kPrompt;
    while (!sent.empty()) {
      const auto end = sent.find('\n');
      all += answer(sent.substr(0, end)) + kPrompt;
      sent.remove_prefix(end == std::string_view::npos ? sent.size() : end + 1);
    }
    return all;
  }
  std::string answer(std::string_view line) {
    if (line.size() > Session::kMaxLine)
      return fmt::format("error: line longer than {} octets\n", Session::kMaxLine);
    std::string text = cli_.execute(line);
    require(text.size() <= kMaxAnswer && (text.empty() || text.back() == '\n'));
    const bool failed = text.starts_with("error: ");
    const auto words = split_words(line);
    require(words.has_value() || failed);
    if (!words || words->empty()) return text;
    if (!failed && words->front() == "show" && words->back() == "json")
      require(Json::accept(text) && text.find('\n') == text.size() - 1);
    (void)cli_.complete(*words);
    (void)cli_.hints(*words);
    (void)cli_.help(*words);
    return text;
  }

  FakeNode node_;
  Cli cli_{node_.faces};
};

}  // namespace
}  // namespace ipoib::app

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ipoib::app::Harness::instance().run({reinterpret_cast<const char*>(data), size});
  return 0;
}
