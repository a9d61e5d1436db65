// SPDX-License-Identifier: BSD-3-Clause
// Shared by the checks that look at more than one option.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "app/config_draft.h"

namespace ipoib::app {

/// Addresses, routes and neighbours: what concerns IP.
void check_ip(const Draft& draft, Report& report);

/// A name for an hca, link or port: no word that stands where a name can stand in a command.
[[nodiscard]] bool is_name(std::string_view name);

[[nodiscard]] inline std::string line_of(const toml::source_region& at, const Report& report) {
  if (at.path && *at.path != report.file()) return *at.path;
  return fmt::format("line {}", at.begin.line);
}

/// Places in this order are in the order of the file, and those of arguments after it.
[[nodiscard]] inline std::tuple<bool, unsigned, unsigned> order_of(const toml::source_region& at,
                                                                   const Report& report) {
  const bool by_argument = at.path && *at.path != report.file();
  return {by_argument, at.begin.line, at.begin.column};
}

/// Values that may stand in the file once. `what` goes into the error: "lid", "device".
template <class Value>
class Unique {
 public:
  explicit Unique(std::string what) : what_{std::move(what)} {}

  void add(const Value& value, std::string shown, std::string path, const toml::source_region& at) {
    uses_.push_back({value, std::move(shown), std::move(path), &at});
  }
  /// One error for each use but the first of the file.
  void check(Report& report) {
    std::stable_sort(uses_.begin(), uses_.end(), [&](const Use& a, const Use& b) {
      return order_of(*a.at, report) < order_of(*b.at, report);
    });
    std::map<Value, const Use*> seen;
    for (const Use& use : uses_) {
      const auto [first, fresh] = seen.emplace(use.value, &use);
      if (fresh) continue;
      report.error(*use.at,
                   fmt::format("{}: read {} {}, which {} has already ({}), allowed: each {} once",
                               use.path, what_, use.shown, first->second->path,
                               line_of(*first->second->at, report), what_));
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
  return text.empty() ? "none is configured" : text;
}

}  // namespace ipoib::app
