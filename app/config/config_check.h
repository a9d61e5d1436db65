// SPDX-License-Identifier: BSD-3-Clause
// Helpers of the checks that concern more than one option.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "app/config/config_draft.h"

namespace ipoib::app {

/// Checks the options of IP: addresses, routes, multicast routes, filters, RARP entries and
/// neighbours.
void check_ip(const Draft& draft, Report& report);

/// True if an hca, link or port may have this name: 1-31 letters, digits, _ and -, and no keyword
/// that a command accepts in place of a name.
[[nodiscard]] bool is_name(std::string_view name);

[[nodiscard]] inline std::string line_of(const toml::source_region& at, const Report& report) {
  if (at.path && *at.path != report.file()) return *at.path;
  return fmt::format("line {}", at.begin.line);
}

/// Sort key of positions: the order of the file, followed by positions in arguments.
[[nodiscard]] inline std::tuple<bool, unsigned, unsigned> order_of(const toml::source_region& at,
                                                                   const Report& report) {
  const bool by_argument = at.path && *at.path != report.file();
  return {by_argument, at.begin.line, at.begin.column};
}

/// Values that must be unique in the file. `what` names them in errors: "lid", "device".
template <class Value>
class Unique {
 public:
  explicit Unique(std::string what) : what_{std::move(what)} {}

  void add(const Value& value, std::string shown, std::string path, const toml::source_region& at) {
    uses_.push_back({value, std::move(shown), std::move(path), &at});
  }
  /// Reports each use except the first in the file.
  void check(Report& report) {
    std::stable_sort(uses_.begin(), uses_.end(), [&](const Use& a, const Use& b) {
      return order_of(*a.at, report) < order_of(*b.at, report);
    });
    std::map<Value, const Use*> seen;
    for (const Use& use : uses_) {
      const auto [first, fresh] = seen.emplace(use.value, &use);
      if (fresh) continue;
      report.error(*use.at, fmt::format("{}: duplicate {} {}, first used by {} ({})", use.path,
                                        what_, use.shown, first->second->path,
                                        line_of(*first->second->at, report)));
    }
  }

 private:
  struct Use {
    Value value;
    std::string shown;
    std::string path;
    const toml::source_region* at;
  };
  std::string what_;
  std::vector<Use> uses_;
};

template <class Entry>
[[nodiscard]] const Placed<Entry>* find(const std::vector<Placed<Entry>>& entries,
                                        std::string_view name) {
  const auto it = std::find_if(entries.begin(), entries.end(),
                               [&](const auto& e) { return e.value.name == name; });
  return it == entries.end() ? nullptr : &*it;
}

/// "soft0, soft1", or "none is configured".
template <class Entry>
[[nodiscard]] std::string names_of(const std::vector<Placed<Entry>>& entries) {
  std::string text;
  for (const auto& e : entries) text += (text.empty() ? "" : ", ") + e.value.name;
  return text.empty() ? "none configured" : text;
}

}  // namespace ipoib::app
