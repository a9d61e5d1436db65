// SPDX-License-Identifier: BSD-3-Clause
// The grammar of commands. A command is written as people read it, "neigh add IFACE ADDR lladdr
// LLADDR [lid LID]": lower-case words stand for themselves, a|b for either, capitals for a value,
// brackets for what may be left out. From that come matching, the words that are expected where a
// line goes wrong, and completion.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace ipoib::app {

/// A kind of value.
struct Parameter {
  std::string_view name;  ///< "ADDR".
  std::string_view what;  ///< "IPv4 address", for errors and help.
  bool (*fits)(std::string_view word);
};

struct Word {
  std::vector<std::string> literals;  ///< One or several; empty for a parameter.
  const Parameter* parameter = nullptr;

  [[nodiscard]] bool fits(std::string_view word) const;
};

/// A line that matched: which value stands for which word of the command.
struct Match {
  std::size_t command = 0;  ///< Its number in the grammar.
  std::vector<std::pair<std::string, std::string>> values;

  [[nodiscard]] std::optional<std::string> get(std::string_view parameter) const;
  /// The word was said.
  [[nodiscard]] bool has(std::string_view literal) const;
};

/// Why a line matched nothing.
struct Mismatch {
  std::size_t word = 0;  ///< From 1; one more than there are when the line ends too early.
  std::optional<std::string> read;  ///< None at the end of the line.
  std::vector<std::string> expected;

  /// `at word 2 "lnik": expected one of link, neigh`.
  [[nodiscard]] std::string to_string() const;
};

class Grammar {
 public:
  /// `syntaxes`: see above; every word in capitals must be one of `parameters`, which outlive the
  /// grammar.
  Grammar(const std::vector<std::string_view>& syntaxes, const std::vector<Parameter>& parameters);

  /// `words` is not empty. Exactly one of the two is set.
  [[nodiscard]] std::pair<std::optional<Match>, std::optional<Mismatch>> match(
      const std::vector<std::string>& words) const;

  /// What may follow these words; empty when they start no command.
  [[nodiscard]] std::vector<Word> next(const std::vector<std::string>& words) const;
  /// Numbers of the commands that start with these words, ascending.
  [[nodiscard]] std::vector<std::size_t> commands(const std::vector<std::string>& words) const;
  /// The words make a whole command.
  [[nodiscard]] bool complete(const std::vector<std::string>& words) const;

 private:
  /// A command with its brackets decided.
  struct Sequence {
    std::size_t command;
    std::vector<Word> words;
  };
  [[nodiscard]] std::vector<const Sequence*> alive(const std::vector<std::string>& words,
                                                   std::size_t n) const;
  std::vector<Sequence> sequences_;
};

/// Words of a line, blanks between, up to `#`. Quotation marks take blanks and # into a word, a
/// backslash within them takes the next character as it is. Errors: kInvalidArgument, the quotation
/// mark that is not closed.
[[nodiscard]] Result<std::vector<std::string>> split_words(std::string_view line);

}  // namespace ipoib::app
