// SPDX-License-Identifier: BSD-3-Clause
// The command line of a node: one table of commands, executed for the terminal, for command files
// and for clients of the CLI socket alike. Management lcore only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/cli_output.h"
#include "app/cli_syntax.h"
#include "lib/base/result.h"
#include "lib/mgmt/node.h"

namespace ipoib::app {

inline constexpr const char* kPrompt = "ipoib> ";

struct Command {
  std::string_view syntax;  ///< As cli_syntax.h reads it.
  std::string_view help;
  /// What the command prints, or why it could not be done.
  Result<Output> (*run)(mgmt::Node& node, const Match& match);
};

/// Every command, in the order of `help`.
[[nodiscard]] const std::vector<Command>& commands();
[[nodiscard]] const std::vector<Parameter>& parameters();

class Cli {
 public:
  explicit Cli(mgmt::Node& node);

  /// What the line prints: nothing, or text that ends with a newline; blank lines and comments
  /// print nothing. Errors: which word is wrong and what is expected there, or what the command
  /// says.
  [[nodiscard]] Result<Output> run(std::string_view line);
  /// The same with errors as text, "error: ...".
  [[nodiscard]] Output answer(std::string_view line);
  /// All of the answer at once: for those who may wait for it.
  [[nodiscard]] std::string execute(std::string_view line) { return answer(line).all(); }

  /// Words that may follow these, names of this node's objects among them.
  [[nodiscard]] std::vector<std::string> complete(const std::vector<std::string>& words) const;
  /// Help of the command that starts with these words; where there are several, where to find it.
  [[nodiscard]] std::string help(const std::vector<std::string>& words) const;
  /// What else may follow: "ADDR (IPv4 address)", "end of line".
  [[nodiscard]] std::vector<std::string> hints(const std::vector<std::string>& words) const;

 private:
  mgmt::Node& node_;
  Grammar grammar_;
};

/// Executes a file's lines in order; `print` gets what they print. Errors: kNotFound when it cannot
/// be read; a line that fails prints its error, "FILE:LINE: error: ...", and the next one is
/// executed, as dpdk-testpmd does.
Status run_command_file(Cli& cli, const std::string& file,
                        const std::function<void(std::string_view)>& print);

/// The commands whose first word is `topic`, or all (no topic, "all"), with their help. kNotFound
/// for a topic no command has.
[[nodiscard]] Result<std::string> command_help(std::string_view topic);
/// All commands and the words in their syntax, as tables in Markdown.
[[nodiscard]] std::string command_reference();

}  // namespace ipoib::app
