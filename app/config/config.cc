// SPDX-License-Identifier: BSD-3-Clause
#include "app/config/config.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <optional>

#include "app/config/config_check.h"
#include "app/config/config_draft.h"
#include "app/config/config_schema.h"

namespace ipoib::app {
namespace {

/// Parses a TOML text. Reports a syntax error and returns nothing.
std::optional<toml::table> parse_tree(std::string_view text, const std::string& source,
                                      Report& report) {
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& e) {
    report.error(e.source(), fmt::format("syntax: {}", e.description()));
    return std::nullopt;
  }
}

bool is_path(std::string_view path) {
  const auto is_key_char = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.';
  };
  return !path.empty() && path.front() != '.' && path.back() != '.' &&
         path.find("..") == std::string_view::npos &&
         std::all_of(path.begin(), path.end(), is_key_char);
}

/// Parses "a.b.c" = VALUE. Returns nothing if VALUE is not one TOML value.
std::optional<toml::table> parse_assignment(const Override& o, const std::string& value) {
  Report unused{o.argument};
  auto tree = parse_tree(fmt::format("{} = {}", o.path, value), o.argument, unused);
  // A line break in the value could add a second option.
  const auto depth = static_cast<std::size_t>(std::count(o.path.begin(), o.path.end(), '.'));
  const toml::table* level = tree ? &*tree : nullptr;
  for (std::size_t i = 0; level != nullptr; ++i) {
    if (level->size() != 1) return std::nullopt;
    if (i == depth) return tree;
    level = level->begin()->second.as_table();
  }
  return std::nullopt;
}

/// Merges the tables of `from` into `into`; values of `from` replace those of `into`.
void merge(toml::table& into, toml::table&& from) {
  for (auto&& [key, node] : from) {
    toml::node* old = into.get(key.str());
    if (old != nullptr && old->is_table() && node.is_table())
      merge(*old->as_table(), std::move(*node.as_table()));
    else
      into.insert_or_assign(key, std::move(node));
  }
}

void apply(const Override& o, toml::table& tree, Report& report) {
  const auto source = std::make_shared<const std::string>(o.argument);
  if (!is_path(o.path)) {
    report.error({{}, {}, source},
                 fmt::format("invalid key {}, allowed: section.key=value, section.NAME.key=value",
                             quote(o.path)));
    return;
  }
  auto assignment = parse_assignment(o, o.value);
  if (!assignment) assignment = parse_assignment(o, quote(o.value));
  if (assignment)
    merge(tree, std::move(*assignment));
  else
    report.error({{}, {}, source}, "the value is neither a TOML value nor UTF-8 text");
}

template <class Entry>
std::string keys_of(const Section<Entry>& section) {
  std::string text;
  for (const auto& row : section.rows)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", row.key);
  return text;
}

/// Reads one table with the rows of its section.
template <class Entry>
void read_entry(const Section<Entry>& section, const toml::table& table, const std::string& path,
                Place& place, Entry& entry, Report& report) {
  place.table = &table;
  place.path = path;
  for (const auto& [key, node] : table) {
    const auto row = std::find_if(section.rows.begin(), section.rows.end(),
                                  [name = key.str()](const auto& r) { return r.key == name; });
    if (row == section.rows.end()) {
      report.error(key.source(), fmt::format("{}: unknown key {}, allowed: {}", path,
                                             quote(key.str()), keys_of(section)));
      continue;
    }
    if (!row->set(Field{node, fmt::format("{}.{}", path, row->key), report}, entry))
      place.faulty.insert(std::string{row->key});
  }
  for (const auto& row : section.rows) {
    const bool decidable = std::all_of(row.conditions.begin(), row.conditions.end(),
                                       [&place](const auto& c) { return place.good(c.key); });
    const auto* const obstacle = row.obstacle(entry);
    if (table.contains(row.key) && decidable && obstacle != nullptr)
      report.error(table.get(row.key)->source(),
                   fmt::format("{}.{}: value {} is not allowed, {}", path, row.key,
                               describe(*table.get(row.key)), obstacle->why_not));
    if (!row.required || !decidable || obstacle != nullptr || table.contains(row.key)) continue;
    report.error(table.source(), fmt::format("{}: missing key {}, allowed: {}", path, row.key,
                                             phrase(row.type, row.allowed)));
    place.faulty.insert(std::string{row.key});
  }
}

/// Reads every [section.NAME], in the order of the file.
template <class Entry>
void read_named(const Section<Entry>& section, const toml::node& node,
                std::vector<Placed<Entry>>& entries, Report& report) {
  const std::string name{section.name};
  const auto* tables = node.as_table();
  if (tables == nullptr) return Field{node, name, report}.reject(section.heading() + " tables");
  for (const auto& [key, entry] : *tables) {
    const std::string path = fmt::format("{}.{}", name, key.str());
    if (!entry.is_table()) {
      Field{entry, path, report}.reject("a table " + section.heading());
      continue;
    }
    auto& placed = entries.emplace_back();
    placed.value.name = key.str();
    read_entry(section, *entry.as_table(), path, placed, placed.value, report);
  }
  std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
    return order_of(a.table->source(), report) < order_of(b.table->source(), report);
  });
}

/// Reads every [[section]].
template <class Entry>
void read_list(const Section<Entry>& section, const toml::node& node,
               std::vector<Placed<Entry>>& entries, Report& report) {
  const std::string name{section.name};
  const auto* tables = node.as_array();
  if (tables == nullptr) return Field{node, name, report}.reject(section.heading() + " tables");
  entries.reserve(tables->size());
  for (const auto& entry : *tables) {
    if (!entry.is_table()) {
      Field{entry, name, report}.reject("a table " + section.heading());
      continue;
    }
    auto& placed = entries.emplace_back();
    read_entry(section, *entry.as_table(), name, placed, placed.value, report);
  }
}

void read_single(const Section<mgmt::NodeConfig>& section, const toml::node& node, Place& place,
                 mgmt::NodeConfig& config, Report& report) {
  const std::string name{section.name};
  if (!node.is_table()) return Field{node, name, report}.reject("a table " + section.heading());
  read_entry(section, *node.as_table(), name, place, config, report);
}

void read_section(const std::string& name, const toml::key& key, const toml::node& node,
                  Draft& draft, Report& report) {
  const Schema& s = schema();
  if (name == s.hca.name) return read_named(s.hca, node, draft.hcas, report);
  if (name == s.link.name) return read_named(s.link, node, draft.links, report);
  if (name == s.port.name) return read_named(s.port, node, draft.ports, report);
  if (name == s.route.name) return read_list(s.route, node, draft.routes, report);
  if (name == s.multicast_route.name)
    return read_list(s.multicast_route, node, draft.multicast_routes, report);
  if (name == s.filter.name) return read_list(s.filter, node, draft.filters, report);
  if (name == s.neighbour.name) return read_list(s.neighbour, node, draft.neighbours, report);
  if (name == s.rarp.name) return read_list(s.rarp, node, draft.rarp, report);
  if (name == s.subnet.name) return read_single(s.subnet, node, draft.subnet, draft.node, report);
  if (name == s.worker.name) return read_single(s.worker, node, draft.worker, draft.node, report);
  if (name == s.generator.name)
    return read_single(s.generator, node, draft.generator, draft.node, report);
  if (name == s.neighbour_cache.name)
    return read_single(s.neighbour_cache, node, draft.neighbour_cache, draft.node, report);
  if (name == s.route_table.name)
    return read_single(s.route_table, node, draft.route_table, draft.node, report);
  if (name == s.linux_plane.name)
    return read_single(s.linux_plane, node, draft.linux_plane, draft.node, report);
  std::string allowed;
  s.for_each([&](const auto& section) {
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", section.heading());
  });
  report.error(key.source(), fmt::format("unknown section {}, allowed: {}", quote(name), allowed));
}

template <class Entry>
void move_values(std::vector<Placed<Entry>>& from, std::vector<Entry>& to) {
  for (auto& placed : from) to.push_back(std::move(placed.value));
}

mgmt::NodeConfig assemble(Draft&& draft) {
  mgmt::NodeConfig config = std::move(draft.node);
  move_values(draft.hcas, config.hcas);
  move_values(draft.links, config.links);
  move_values(draft.ports, config.ports);
  move_values(draft.routes, config.routes);
  move_values(draft.multicast_routes, config.multicast_routes);
  move_values(draft.filters, config.filters);
  move_values(draft.neighbours, config.neighbours);
  move_values(draft.rarp, config.rarp);
  return config;
}

}  // namespace

bool ConfigResult::ok() const {
  return std::all_of(diagnostics.begin(), diagnostics.end(),
                     [](const Diagnostic& d) { return d.warning; });
}

ConfigResult parse_config(std::string_view text, const std::string& file,
                          const std::vector<Override>& overrides) {
  Report report{file};
  auto tree = parse_tree(text, file, report);
  // Without the file's values every further error would be a consequence.
  if (!tree) return {{}, report.take()};
  for (const auto& o : overrides) apply(o, *tree, report);
  Draft draft;
  for (const auto& [key, node] : *tree)
    read_section(std::string{key.str()}, key, node, draft, report);
  check_draft(draft, report);
  return {assemble(std::move(draft)), report.take()};
}

Result<ConfigResult> load_config(const std::string& file, const std::vector<Override>& overrides) {
  if (file.empty()) return parse_config("", "(no configuration file)", overrides);
  std::ifstream in{file, std::ios::binary};
  std::string text;
  std::array<char, 4096> block{};
  while (in.read(block.data(), block.size()) || in.gcount() > 0)
    text.append(block.data(), static_cast<std::size_t>(in.gcount()));
  if (in.bad() || !in.is_open())
    return fail(Errc::kNotFound, "cannot read configuration file {}", file);
  return parse_config(text, file, overrides);
}

}  // namespace ipoib::app
