// SPDX-License-Identifier: BSD-3-Clause
// Text forms of values, for the configuration, arguments and commands.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace ipoib::app {

/// The text form of a type of value: allowed text, parser and formatter.
template <class T>
struct TextForm {
  std::string_view allowed;
  std::optional<T> (*parse)(std::string_view text);
  std::string (*format)(const T& value);
};

/// The decimal number that is the whole text; empty: it is none, or `T` does not have it.
template <class T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace ipoib::app
