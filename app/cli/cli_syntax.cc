// SPDX-License-Identifier: BSD-3-Clause
#include "app/cli/cli_syntax.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/config/diagnostic.h"

namespace ipoib::app {
namespace {

bool is_parameter(std::string_view token) {
  return token[0] >= 'A' && token[0] <= 'Z';
}

Word make_word(std::string_view token, const std::vector<Parameter>& parameters) {
  Word word;
  if (is_parameter(token)) {
    const auto it = std::find_if(parameters.begin(), parameters.end(),
                                 [&](const Parameter& p) { return p.name == token; });
    word.parameter = &*it;
    return word;
  }
  while (true) {
    const auto bar = token.find('|');
    word.literals.emplace_back(token.substr(0, bar));
    if (bar == std::string_view::npos) return word;
    token.remove_prefix(bar + 1);
  }
}

/// Returns the variants of a syntax: "a [b [c]] d" becomes "a d", "a b d", "a b c d".
std::vector<std::string> decide_brackets(const std::string& text) {
  const auto open = text.rfind('[');
  if (open == std::string::npos) return {text};
  const auto close = text.find(']', open);
  const std::string before = text.substr(0, open), after = text.substr(close + 1);
  const std::string inside = text.substr(open + 1, close - open - 1);
  auto variants = decide_brackets(before + after);
  for (auto& v : decide_brackets(before + inside + after)) variants.push_back(std::move(v));
  return variants;
}

/// Truncates a long word.
std::string shortened(std::string_view word) {
  constexpr std::size_t kMaxLen = 80;
  return word.size() <= kMaxLen ? std::string{word} : fmt::format("{}...", word.substr(0, kMaxLen));
}

/// Adds the literals or the parameter of a word to `names`, without duplicates.
void add_names(const Word& word, std::vector<std::string>& names) {
  auto more = word.literals;
  if (word.parameter != nullptr)
    more.push_back(fmt::format("{} ({})", word.parameter->name, word.parameter->what));
  for (auto& name : more)
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
}

}  // namespace

bool Word::fits(std::string_view word) const {
  if (parameter != nullptr) return parameter->fits(word);
  return std::find(literals.begin(), literals.end(), word) != literals.end();
}

std::optional<std::string> Match::get(std::string_view parameter) const {
  for (const auto& [name, value] : values)
    if (name == parameter) return value;
  return std::nullopt;
}

bool Match::has(std::string_view literal) const {
  return get(literal).has_value();
}

std::string Mismatch::to_string() const {
  const std::string where = read ? fmt::format("at word {} {}", word, quote(shortened(*read)))
                                 : fmt::format("at word {}, end of line", word);
  return fmt::format("{}: expected {}{}", where, expected.size() > 1 ? "one of " : "",
                     fmt::join(expected, ", "));
}

Grammar::Grammar(const std::vector<std::string_view>& syntaxes,
                 const std::vector<Parameter>& parameters) {
  for (std::size_t i = 0; i < syntaxes.size(); ++i) {
    auto variants = decide_brackets(std::string{syntaxes[i]});
    for (auto& v : variants) {
      Sequence sequence{i, {}};
      const auto tokens = split_words(v);
      for (const auto& token : *tokens) sequence.words.push_back(make_word(token, parameters));
      sequences_.push_back(std::move(sequence));
    }
  }
  for (const Sequence& s : sequences_)
    for (const std::string& first : s.words.front().literals) by_first_[first].push_back(&s);
}

std::vector<const Grammar::Sequence*> Grammar::alive(const std::vector<std::string>& words,
                                                     std::size_t n) const {
  std::vector<const Sequence*> result;
  if (n == 0) {
    for (const Sequence& s : sequences_) result.push_back(&s);
    return result;
  }
  const auto begun = by_first_.find(words[0]);
  if (begun == by_first_.end()) return result;
  for (const Sequence* s : begun->second) {
    bool fits = s->words.size() >= n;
    for (std::size_t i = 1; fits && i < n; ++i) fits = s->words[i].fits(words[i]);
    if (fits) result.push_back(s);
  }
  return result;
}

std::pair<std::optional<Match>, std::optional<Mismatch>> Grammar::match(
    const std::vector<std::string>& words) const {
  std::size_t n = words.size();  // Number of leading words that start some command.
  while (alive(words, n).empty()) --n;
  const auto candidates = alive(words, n);
  if (n == words.size())
    for (const Sequence* s : candidates) {
      if (s->words.size() != n) continue;
      Match match{s->command, {}};
      for (std::size_t i = 0; i < n; ++i) {
        const auto* parameter = s->words[i].parameter;
        match.values.emplace_back(parameter ? std::string{parameter->name} : words[i], words[i]);
      }
      return {std::move(match), std::nullopt};
    }
  Mismatch mismatch{n + 1, std::nullopt, {}};
  if (n < words.size()) mismatch.read = words[n];
  for (const Sequence* s : candidates)
    if (s->words.size() > n) add_names(s->words[n], mismatch.expected);
  if (std::any_of(candidates.begin(), candidates.end(),
                  [&](const Sequence* s) { return s->words.size() == n; }))
    mismatch.expected.emplace_back("end of line");
  return {std::nullopt, std::move(mismatch)};
}

std::vector<Word> Grammar::next(const std::vector<std::string>& words) const {
  std::vector<Word> result;
  for (const Sequence* s : alive(words, words.size())) {
    if (s->words.size() == words.size()) continue;
    const Word& word = s->words[words.size()];
    const bool listed = std::any_of(result.begin(), result.end(), [&](const Word& w) {
      return w.parameter == word.parameter && w.literals == word.literals;
    });
    if (!listed) result.push_back(word);
  }
  return result;
}

std::vector<std::size_t> Grammar::commands(const std::vector<std::string>& words) const {
  std::vector<std::size_t> numbers;
  for (const Sequence* s : alive(words, words.size()))
    if (numbers.empty() || numbers.back() != s->command) numbers.push_back(s->command);
  return numbers;
}

bool Grammar::complete(const std::vector<std::string>& words) const {
  const auto candidates = alive(words, words.size());
  return std::any_of(candidates.begin(), candidates.end(),
                     [&](const Sequence* s) { return s->words.size() == words.size(); });
}

namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/// Appends the quoted text to `word`. Returns the position after the closing quotation mark,
/// nothing if there is none; `at` is after the opening one.
std::optional<std::size_t> take_quoted(std::string_view line, std::size_t at, std::string& word) {
  for (; at < line.size(); ++at) {
    if (line[at] == '"') return at + 1;
    if (line[at] == '\\' && at + 1 < line.size()) ++at;
    word += line[at];
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<std::string>> split_words(std::string_view line) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while (true) {
    while (at < line.size() && is_blank(line[at])) ++at;
    if (at == line.size() || line[at] == '#') return words;
    std::string& word = words.emplace_back();
    while (at < line.size() && !is_blank(line[at]) && line[at] != '#') {
      if (line[at] != '"') {
        word += line[at++];
        continue;
      }
      const auto end = take_quoted(line, at + 1, word);
      if (!end)
        return fail(Errc::kInvalidArgument, "at word {}: missing closing quotation mark",
                    words.size());
      at = *end;
    }
  }
}

}  // namespace ipoib::app
