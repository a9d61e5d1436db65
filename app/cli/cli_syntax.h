// SPDX-License-Identifier: BSD-3-Clause
// The grammar of commands. The syntax of a command is written for people, "neigh add IFACE ADDR
// lladdr LLADDR [lid LID]": lower-case words are literals, a|b is a choice, capitals are values,
// brackets enclose optional parts. It drives matching, the expected words in error texts, and
// completion.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace ipoib::app {

/// A type of value that a line may contain.
struct Parameter {
  std::string_view name;  ///< "ADDR".
  std::string_view what;  ///< "IPv4 address", for errors and help.
  bool (*fits)(std::string_view word);
};

struct Word {
  std::vector<std::string> literals;  ///< The alternatives; empty for a parameter.
  const Parameter* parameter = nullptr;

  [[nodiscard]] bool fits(std::string_view word) const;
};

/// The result of a match: the values of the command's words.
struct Match {
  std::size_t command = 0;  ///< Index of the command in the grammar.
  std::vector<std::pair<std::string, std::string>> values;

  [[nodiscard]] std::optional<std::string> get(std::string_view parameter) const;
  /// True if the line contains this word.
  [[nodiscard]] bool has(std::string_view literal) const;
};

/// The reason why a line matches no command.
struct Mismatch {
  std::size_t word = 0;             ///< From 1; one past the last word if the line is too short.
  std::optional<std::string> read;  ///< None at the end of the line.
  std::vector<std::string> expected;

  /// `at word 2 "lnik": expected one of link, neigh`.
  [[nodiscard]] std::string to_string() const;
};

class Grammar {
 public:
  /// `syntaxes` use the form described above and begin with literals. Every word in capitals must
  /// be one of `parameters`, which must outlive the grammar.
  Grammar(const std::vector<std::string_view>& syntaxes, const std::vector<Parameter>& parameters);
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  /// `words` must not be empty. Exactly one of the two results is set.
  [[nodiscard]] std::pair<std::optional<Match>, std::optional<Mismatch>> match(
      const std::vector<std::string>& words) const;

  /// Returns the words that may follow `words`; empty if no command starts with them.
  [[nodiscard]] std::vector<Word> next(const std::vector<std::string>& words) const;
  /// Returns the indices of the commands that start with `words`, ascending.
  [[nodiscard]] std::vector<std::size_t> commands(const std::vector<std::string>& words) const;
  /// True if `words` is a complete command.
  [[nodiscard]] bool complete(const std::vector<std::string>& words) const;

 private:
  /// One variant of a command, with each optional part included or left out.
  struct Sequence {
    std::size_t command;
    std::vector<Word> words;
  };
  [[nodiscard]] std::vector<const Sequence*> alive(const std::vector<std::string>& words,
                                                   std::size_t n) const;
  std::vector<Sequence> sequences_;
  std::map<std::string, std::vector<const Sequence*>> by_first_;  ///< Sequences by first word.
};

/// Splits a line at blanks, up to `#`. Quotation marks include blanks and # in a word; a backslash
/// inside them makes the next character literal. Errors: kInvalidArgument for an unclosed quotation
/// mark.
[[nodiscard]] Result<std::vector<std::string>> split_words(std::string_view line);

}  // namespace ipoib::app
