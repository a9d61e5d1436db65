// SPDX-License-Identifier: BSD-3-Clause
#include "app/cli/cli_syntax.h"

#include <gtest/gtest.h>

namespace ipoib::app {
namespace {

bool is_digit(std::string_view w) {
  return w.size() == 1 && w[0] >= '0' && w[0] <= '9';
}
bool is_text(std::string_view w) {
  return w != "json";
}

const std::vector<Parameter> kParameters = {{"N", "a digit", is_digit},
                                            {"NAME", "a name", is_text}};

Grammar make_grammar() {
  return Grammar{{"stop", "show link|neigh [NAME] [json]", "set a N [b N [c]]"}, kParameters};
}

std::string error_of(const char* line) {
  const auto words = split_words(line);
  if (!words) return words.error().what;
  const auto [match, mismatch] = make_grammar().match(*words);
  EXPECT_NE(match.has_value(), mismatch.has_value()) << line;
  return mismatch ? mismatch->to_string() : "";
}

TEST(CliSyntax, SplitsWords) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(split_words("  a\tb  c\r\n"), (Words{"a", "b", "c"}));
  EXPECT_EQ(split_words("a b#c d"), (Words{"a", "b"}));
  EXPECT_EQ(split_words("# a"), Words{});
  EXPECT_EQ(split_words(" \t\r\n"), Words{});
  EXPECT_EQ(split_words(""), Words{});
}

TEST(CliSyntax, QuotesKeepBlanksInAWord) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(split_words("a \"b c\" d"), (Words{"a", "b c", "d"}));
  EXPECT_EQ(split_words("x\"#y z\"w # v"), (Words{"x#y zw"}));
  EXPECT_EQ(split_words("a \"\" \"\\\"\\\\\""), (Words{"a", "", "\"\\"}));
  EXPECT_EQ(split_words("'a b'"), (Words{"'a", "b'"}));
  for (const char* open : {"a \"b c", "a \"", "a x\"\\\"", "a \"\\"}) {
    const auto words = split_words(open);
    ASSERT_FALSE(words) << open;
    EXPECT_EQ(words.error().what, "at word 2: missing closing quotation mark");
  }
}

TEST(CliSyntax, MatchesWithAndWithoutOptionalWords) {
  for (const char* line : {"stop", "show link", "show neigh", "show link x", "show link json",
                           "show neigh x json", "set a 1", "set a 1 b 2", "set a 1 b 2 c"})
    EXPECT_EQ(error_of(line), "") << line;
}

TEST(CliSyntax, ValuesAreNamed) {
  const auto [match, mismatch] = make_grammar().match({"show", "neigh", "eth0", "json"});
  ASSERT_TRUE(match);
  EXPECT_EQ(match->command, 1U);
  EXPECT_EQ(match->get("NAME"), "eth0");
  EXPECT_TRUE(match->has("neigh") && match->has("json"));
  EXPECT_FALSE(match->has("link"));
  EXPECT_FALSE(match->get("N"));
}

// The error names the first word that fits no command, and all words that would fit.
TEST(CliSyntax, ErrorsSayWhatWasExpectedWhere) {
  EXPECT_EQ(error_of("sotp"), "at word 1 \"sotp\": expected one of stop, show, set");
  EXPECT_EQ(error_of("show lnik"), "at word 2 \"lnik\": expected one of link, neigh");
  EXPECT_EQ(error_of("show"), "at word 2, end of line: expected one of link, neigh");
  EXPECT_EQ(error_of("show link x y"), "at word 4 \"y\": expected one of json, end of line");
  EXPECT_EQ(error_of("show link json x"), "at word 4 \"x\": expected end of line");
  EXPECT_EQ(error_of("stop now"), "at word 2 \"now\": expected end of line");
  EXPECT_EQ(error_of("set a x"), "at word 3 \"x\": expected N (a digit)");
  EXPECT_EQ(error_of("set a \"\""), "at word 3 \"\": expected N (a digit)");
  EXPECT_EQ(error_of("show \"my link\""), "at word 2 \"my link\": expected one of link, neigh");
  EXPECT_EQ(error_of(("stop " + std::string(5000, 'x')).c_str()),
            "at word 2 \"" + std::string(80, 'x') + "...\": expected end of line");
  EXPECT_EQ(error_of("set a 1 b"), "at word 5, end of line: expected N (a digit)");
  EXPECT_EQ(error_of("\"\x01\\\"\xff\""),
            "at word 1 \"\\u0001\\\"\xff\": expected one of stop, show, set");
}

TEST(CliSyntax, NextWordsForCompletion) {
  const auto g = make_grammar();
  EXPECT_EQ(g.next({}).size(), 3U);
  ASSERT_EQ(g.next({"show"}).size(), 1U);
  EXPECT_EQ(g.next({"show"})[0].literals, (std::vector<std::string>{"link", "neigh"}));
  EXPECT_EQ(g.next({"show", "link"}).size(), 2U);  // NAME and json, once each.
  EXPECT_TRUE(g.next({"nonsense"}).empty());
  EXPECT_TRUE(g.complete({"show", "link"}));
  EXPECT_FALSE(g.complete({"show"}));
  EXPECT_FALSE(g.complete({"show", "link", "json", "x"}));
}

}  // namespace
}  // namespace ipoib::app
