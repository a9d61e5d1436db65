// SPDX-License-Identifier: BSD-3-Clause
// Every option of the configuration file, one row each. The parser, error texts, `--check`,
// `--help-config` and the tests use these tables.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "app/config/config_codec.h"
#include "lib/mgmt/node_config.h"

namespace ipoib::app {

/// Makes an option depend on another one: the option applies, and is required if so marked, only if
/// the condition holds.
template <class Entry>
struct Condition {
  std::string_view key;  ///< Key of the other option.
  std::function<bool(const Entry&)> holds;
  std::string_view why_not;  ///< Reason if it does not hold: "because …".
};

template <class Entry>
struct Row {
  std::string_view key;
  std::string type;
  std::string allowed;  ///< Range or values.
  bool required = false;
  std::string_view help;
  /// Sets the option. Reports a value that is not allowed and returns false.
  std::function<bool(const Field&, Entry&)> set;
  /// Returns the value in the form of the file; empty if the option has no value. The default is
  /// the value of a new Entry.
  std::function<std::string(const Entry&)> get;
  std::vector<Condition<Entry>> conditions{};

  /// Returns the first condition that does not hold; null if the option applies.
  [[nodiscard]] const Condition<Entry>* obstacle(const Entry& entry) const {
    const auto found = std::find_if(conditions.begin(), conditions.end(),
                                    [&entry](const auto& c) { return !c.holds(entry); });
    return found == conditions.end() ? nullptr : &*found;
  }
  [[nodiscard]] bool applies_to(const Entry& entry) const { return obstacle(entry) == nullptr; }
  [[nodiscard]] std::string fallback() const { return required ? "" : get(Entry{}); }
};

enum class Shape {
  kNamed,   ///< [hca.NAME], any number.
  kSingle,  ///< [subnet], at most one.
  kList,    ///< [[route]], any number.
};

template <class Entry>
struct Section {
  std::string_view name;
  Shape shape;
  std::string_view help;
  std::vector<Row<Entry>> rows;

  /// "[hca.NAME]".
  [[nodiscard]] std::string heading(std::string_view entry = "NAME") const {
    if (shape == Shape::kNamed) return fmt::format("[{}.{}]", name, entry);
    return shape == Shape::kList ? fmt::format("[[{}]]", name) : fmt::format("[{}]", name);
  }
};

struct Schema {
  Section<mgmt::HcaConfig> hca;
  Section<mgmt::LinkConfigEntry> link;
  Section<mgmt::PortConfig> port;
  Section<mgmt::RouteConfig> route;
  Section<mgmt::MulticastRouteConfig> multicast_route;
  Section<mgmt::FilterConfig> filter;
  Section<mgmt::NeighbourEntryConfig> neighbour;
  Section<mgmt::RarpEntryConfig> rarp;
  Section<mgmt::NodeConfig> subnet;
  Section<mgmt::NodeConfig> worker;
  Section<mgmt::NodeConfig> generator;
  Section<mgmt::NodeConfig> neighbour_cache;
  Section<mgmt::NodeConfig> route_table;
  Section<mgmt::NodeConfig> linux_plane;

  /// Calls `visit(section)` for each section, in the order of the reference.
  template <class Visit>
  void for_each(Visit&& visit) const {
    visit(hca), visit(link), visit(port), visit(route), visit(multicast_route), visit(filter),
        visit(neighbour), visit(rarp), visit(subnet), visit(worker), visit(generator),
        visit(neighbour_cache), visit(route_table), visit(linux_plane);
  }
};

[[nodiscard]] const Schema& schema();

/// Returns the row of "section.key" for humans: "integer 1-64: help". Empty if there is none.
[[nodiscard]] std::string help_of(std::string_view section, std::string_view key);

enum class Required : bool { kNo, kYes };

/// Makes a row whose value is found by `access`: a pointer to member, or a callable on Entry.
template <class Entry, class Access, class Codec>
[[nodiscard]] Row<Entry> row(std::string_view key, Access access, Codec codec,
                             std::string_view help, Required required = Required::kNo) {
  using Value = std::remove_cvref_t<std::invoke_result_t<Access, Entry&>>;
  return {key,
          codec.type(),
          codec.allowed(),
          required == Required::kYes,
          help,
          [access, codec](const Field& field, Entry& entry) {
            auto value = codec.read(field);
            if (!value) return false;
            std::invoke(access, entry) = static_cast<Value>(*std::move(value));
            return true;
          },
          [access, codec](const Entry& entry) -> std::string {
            if constexpr (requires(const Value& v) { v.has_value(); }) {
              const auto& value = std::invoke(access, entry);
              return value ? codec.write(*value) : std::string{};
            } else if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>) {
              using Written = typename decltype(codec.read(std::declval<Field>()))::value_type;
              return codec.write(static_cast<Written>(std::invoke(access, entry)));
            } else {
              return codec.write(std::invoke(access, entry));
            }
          }};
}

}  // namespace ipoib::app
