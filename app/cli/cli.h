// SPDX-License-Identifier: BSD-3-Clause
// The command line of a node: one table of commands that the terminal, command files and clients of
// the CLI socket share. Management lcore only.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/cli_output.h"
#include "app/cli/cli_syntax.h"
#include "lib/base/result.h"
#include "lib/mgmt/node_faces.h"

namespace ipoib::app {

inline constexpr const char* kPrompt = "ipoib> ";

struct Command {
  std::string_view syntax;  ///< In the grammar of cli_syntax.h.
  std::string_view help;
  /// Returns the output of the command, or the reason why it failed.
  Result<Output> (*run)(const mgmt::NodeFaces& node, const Match& match);
};

/// True if the command may change the node, its files or its log; false for `show` and `help`.
[[nodiscard]] bool changes_something(const Command& command);

/// Who sends a command, and with which rights.
struct Sender {
  std::string name = "the program";  ///< For the log, like "terminal" or "uid 0 pid 17".
  bool read_only = false;            ///< Commands that change something are refused.
};

/// Returns every command, in the order of `help`.
[[nodiscard]] const std::vector<Command>& commands();
[[nodiscard]] const std::vector<Parameter>& parameters();

class Cli {
 public:
  explicit Cli(const mgmt::NodeFaces& node);

  /// Executes a line. Returns its output: empty, or text that ends with a newline. Blank lines and
  /// comments print nothing. Logs commands that change something with their sender. Errors: the
  /// wrong word and the expected ones, kRefused if the sender may not change anything, or the error
  /// of the command.
  [[nodiscard]] Result<Output> run(std::string_view line, const Sender& sender = {});
  /// Like run(), with errors as text: "error: ...".
  [[nodiscard]] Output answer(std::string_view line, const Sender& sender = {});
  /// Returns the whole answer at once, for callers that may wait for it.
  [[nodiscard]] std::string execute(std::string_view line) { return answer(line).all(); }

  /// Returns the words that may follow `words`, including names of this node's objects.
  [[nodiscard]] std::vector<std::string> complete(const std::vector<std::string>& words) const;
  /// Returns the help of the only command that starts with `words`; "help WORD" if several commands
  /// do, nothing if none does.
  [[nodiscard]] std::string help(const std::vector<std::string>& words) const;
  /// Returns the values that may follow `words`: "ADDR (IPv4 address)", "end of line".
  [[nodiscard]] std::vector<std::string> hints(const std::vector<std::string>& words) const;

 private:
  const mgmt::NodeFaces& node_;
  Grammar grammar_;
};

/// Executes the lines of a file in order and passes their output to `print`. Errors:
/// kInvalidArgument if the file cannot be read. A line that fails prints "FILE:LINE: error: ...",
/// and execution continues with the next line, as in dpdk-testpmd.
Status run_command_file(Cli& cli, const std::string& file,
                        const std::function<void(std::string_view)>& print);

/// Returns the commands whose first word is `topic`, with their help; all commands if `topic` is
/// empty or "all". Errors: kNotFound if no command starts with `topic`.
[[nodiscard]] Result<std::string> command_help(std::string_view topic);
/// Returns all commands and the words in their syntax, as tables in Markdown.
[[nodiscard]] std::string command_reference();

}  // namespace ipoib::app
