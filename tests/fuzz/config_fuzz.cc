// SPDX-License-Identifier: BSD-3-Clause
// The configuration file: any text, followed by the path and value of an override after a zero
// octet each. An accepted file prints as a file that is accepted and prints the same. The errors of
// a refused one are whole lines.
#include <string>
#include <string_view>
#include <vector>

#include "app/config/config.h"
#include "tests/fuzz/fuzz.h"

namespace {

/// Removes and returns the octets before the next zero octet, which is removed too.
std::string_view next_part(std::string_view& rest) {
  const auto zero = rest.find('\0');
  const auto part = rest.substr(0, zero);
  rest.remove_prefix(zero == std::string_view::npos ? rest.size() : zero + 1);
  return part;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ipoib::app;
  using ipoib::test::require;
  const auto octets = ipoib::test::input(data, size);
  std::string_view rest{reinterpret_cast<const char*>(octets.data()), octets.size()};
  const auto text = next_part(rest);
  std::vector<Override> overrides;
  while (!rest.empty()) {
    const std::string path{next_part(rest)}, value{next_part(rest)};
    overrides.push_back({"--set " + path + "=" + value, path, value});
  }

  const auto result = parse_config(text, "fuzz.toml", overrides);
  for (const auto& d : result.diagnostics) {
    require(!d.text.empty() && (d.line == 0) == (d.column == 0));
    require(d.to_string().find('\n') == std::string::npos);
  }
  if (!result.ok()) return 0;
  const auto printed = print_config(result.config);
  const auto again = parse_config(printed, "printed.toml", {});
  require(again.ok());
  require(print_config(again.config) == printed);
  return 0;
}
