// SPDX-License-Identifier: BSD-3-Clause
#include "app/cli/cli.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "app/config/diagnostic.h"
#include "app/config/markdown.h"
#include "lib/base/log.h"
#include "lib/base/log_level.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_view.h"

namespace ipoib::app {
namespace {

std::vector<std::string_view> syntaxes() {
  std::vector<std::string_view> result;
  for (const Command& c : commands()) result.push_back(c.syntax);
  return result;
}

template <class Entries>
void add_names(const Entries& entries, std::vector<std::string>& names) {
  for (const auto& e : entries) names.push_back(e.name);
}

/// Returns the names that this node has for the parameter.
std::vector<std::string> names_for(const mgmt::NodeConfig& config, std::string_view parameter) {
  std::vector<std::string> names;
  const bool any = parameter == "WHERE", iface = any || parameter == "IFACE";
  if (iface || parameter == "LINK") add_names(config.links, names);
  if (iface || parameter == "PORT") add_names(config.ports, names);
  if (any || parameter == "HCA") add_names(config.hcas, names);
  if (parameter == "WORKER")
    for (unsigned i = 0; i < config.worker.count; ++i) names.push_back(std::to_string(i));
  if (parameter == "MODE")
    names.assign(fwd::kForwardModeNames.begin(), fwd::kForwardModeNames.end());
  if (parameter == "AREA") names.assign(kLogAreaNames.begin(), kLogAreaNames.end());
  if (parameter == "LEVEL") {
    names.assign(kLogLevelNames.begin(), kLogLevelNames.end());
    names.emplace_back("off");
  }
  if (parameter == "TOPIC") {
    for (const Command& c : commands()) names.emplace_back(c.syntax.substr(0, c.syntax.find(' ')));
    names.emplace_back("all");
  }
  return names;
}

}  // namespace

Cli::Cli(const mgmt::NodeFaces& node) : node_{node}, grammar_{syntaxes(), parameters()} {}

bool changes_something(const Command& command) {
  const auto first = command.syntax.substr(0, command.syntax.find(' '));
  return first != "show" && first != "help";
}

Result<Output> Cli::run(std::string_view line, const Sender& sender) {
  const auto words = split_words(line);
  if (!words) return tl::make_unexpected(words.error());
  if (words->empty()) return "";
  const auto [match, mismatch] = grammar_.match(*words);
  if (mismatch) return fail(Errc::kInvalidArgument, "{}", mismatch->to_string());
  const Command& command = commands()[match->command];
  if (changes_something(command)) {
    const std::string text = quote(fmt::format("{}", fmt::join(*words, " ")));
    if (sender.read_only)
      return fail(Errc::kRefused,
                  "{}: this client may only read; commands that change something need the full "
                  "CLI socket",
                  text);
    log(LogArea::kApp, LogLevel::kNotice, "command from {}: {}", sender.name, text);
  }
  return command.run(node_, *match);
}

Output Cli::answer(std::string_view line, const Sender& sender) {
  auto output = run(line, sender);
  return output ? std::move(*output) : fmt::format("error: {}\n", output.error().what);
}

std::vector<std::string> Cli::complete(const std::vector<std::string>& words) const {
  std::vector<std::string> result;
  for (const Word& word : grammar_.next(words)) {
    const auto names = word.parameter != nullptr
                           ? names_for(node_.view.config(), word.parameter->name)
                           : word.literals;
    for (const auto& name : names)
      if (std::find(result.begin(), result.end(), name) == result.end()) result.push_back(name);
  }
  return result;
}

std::string Cli::help(const std::vector<std::string>& words) const {
  const auto numbers = grammar_.commands(words);
  if (numbers.size() == 1) return std::string{commands()[numbers[0]].help};
  return numbers.empty() ? "" : "help " + words[0];
}

std::vector<std::string> Cli::hints(const std::vector<std::string>& words) const {
  std::vector<std::string> result;
  for (const Word& word : grammar_.next(words))
    if (word.parameter != nullptr)
      result.push_back(fmt::format("{} ({})", word.parameter->name, word.parameter->what));
  if (grammar_.complete(words)) result.emplace_back("end of line");
  return result;
}

Status run_command_file(Cli& cli, const std::string& file,
                        const std::function<void(std::string_view)>& print) {
  std::ifstream in{file};
  // A directory can be opened; only the first read fails.
  if (in.peek(); in.bad() || !in.is_open())
    return fail(Errc::kInvalidArgument, "cannot read command file {}", file);
  std::string line;
  for (unsigned number = 1; std::getline(in, line); ++number) {
    auto output = cli.run(line, {.name = fmt::format("{}:{}", file, number)});
    const auto text = output ? std::move(*output).all()
                             : fmt::format("{}:{}: error: {}\n", file, number, output.error().what);
    if (!text.empty()) print(text);
  }
  return {};
}

Result<std::string> command_help(std::string_view topic) {
  const bool whole = topic.empty() || topic == "all";
  std::vector<const Command*> matching;
  std::size_t width = 0;
  for (const Command& c : commands()) {
    if (!whole && c.syntax.substr(0, c.syntax.find(' ')) != topic) continue;
    matching.push_back(&c);
    width = std::max(width, c.syntax.size());
  }
  if (matching.empty())
    return fail(Errc::kNotFound, "no command starts with {}; enter help for a list of commands",
                quote(topic));
  std::string text;
  for (const Command* c : matching) text += fmt::format("{:<{}}  {}\n", c->syntax, width, c->help);
  if (whole) {
    text += '\n';
    for (const Parameter& p : parameters()) text += fmt::format("{:<8} {}\n", p.name, p.what);
  }
  return text;
}

std::string command_reference() {
  std::string out = "| command | meaning |\n| --- | --- |\n";
  for (const Command& c : commands())
    out += fmt::format("| `{}` | {} |\n", markdown_cell(c.syntax), markdown_cell(c.help));
  out += "\n| word | stands for |\n| --- | --- |\n";
  for (const Parameter& p : parameters())
    out += fmt::format("| `{}` | {} |\n", p.name, markdown_cell(p.what));
  return out;
}

}  // namespace ipoib::app
