// SPDX-License-Identifier: BSD-3-Clause
// Prints effective values and the reference from the tables that the parser uses.
#include <string>

#include "app/config/config.h"
#include "app/config/config_schema.h"
#include "app/config/markdown.h"

namespace ipoib::app {
namespace {

template <class Entry>
void print_entry(const Section<Entry>& section, const Entry& entry, std::string_view name,
                 std::string& out) {
  if (!out.empty()) out += '\n';
  out += section.heading(name) + '\n';
  for (const auto& row : section.rows) {
    if (!row.applies_to(entry)) continue;
    if (const auto value = row.get(entry); !value.empty())
      out += fmt::format("{} = {}\n", row.key, value);
  }
}

template <class Entry>
void print_entries(const Section<Entry>& section, const std::vector<Entry>& entries,
                   std::string& out) {
  for (const auto& entry : entries) {
    if constexpr (requires { entry.name; })
      print_entry(section, entry, entry.name, out);
    else
      print_entry(section, entry, {}, out);
  }
}

template <class Entry>
std::string default_cell(const Row<Entry>& row) {
  if (row.required) return "required";
  const auto value = row.fallback();
  return value.empty() ? "none" : "`" + value + "`";
}

}  // namespace

std::string print_config(const mgmt::NodeConfig& config) {
  const Schema& s = schema();
  std::string out;
  print_entries(s.hca, config.hcas, out);
  print_entries(s.link, config.links, out);
  print_entries(s.port, config.ports, out);
  print_entries(s.route, config.routes, out);
  print_entries(s.multicast_route, config.multicast_routes, out);
  print_entries(s.filter, config.filters, out);
  print_entries(s.neighbour, config.neighbours, out);
  print_entries(s.rarp, config.rarp, out);
  print_entry(s.subnet, config, {}, out);
  print_entry(s.worker, config, {}, out);
  print_entry(s.generator, config, {}, out);
  print_entry(s.neighbour_cache, config, {}, out);
  print_entry(s.route_table, config, {}, out);
  print_entry(s.linux_plane, config, {}, out);
  return out;
}

std::string config_reference() {
  std::string out;
  schema().for_each([&](const auto& section) {
    out += fmt::format("{}### `{}`\n\n{}\n\n", out.empty() ? "" : "\n", section.heading(),
                       section.help);
    out += "| key | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n";
    for (const auto& row : section.rows)
      out += fmt::format("| `{}` | {} | {} | {} | {} |\n", row.key, markdown_cell(row.type),
                         markdown_cell(default_cell(row)), markdown_cell(row.allowed),
                         markdown_cell(row.help));
  });
  return out;
}

}  // namespace ipoib::app
