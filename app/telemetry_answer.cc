// What telemetry answers, as JSON.
#include <algorithm>
#include <charconv>

#include "app/render.h"
#include "app/telemetry.h"

namespace ipoib::app {
namespace {

/// Telemetry cuts an answer at 16 KiB; entries that go beyond this come in the next piece.
constexpr std::size_t kPieceOctets = 12 * 1024;
/// It holds 256 entries an object at most.
constexpr std::size_t kPieceEntries = 200;

/// The part of a list from `first` on that fits one answer.
Json piece(const Json& rows, std::size_t first) {
  Json entries = Json::object();
  std::size_t octets = 0;
  for (std::size_t i = first; i < rows.size() && entries.size() < kPieceEntries; ++i) {
    octets += dump(rows[i]).size() + 8;
    if (octets > kPieceOctets) break;
    entries[std::to_string(i)] = rows[i];
  }
  return {{"total", rows.size()}, {"first", first}, {"entries", std::move(entries)}};
}

/// Splits "ib0,100"; the number is 0 when it is not given or is none.
std::pair<std::string_view, std::size_t> split(std::string_view parameters) {
  const auto comma = parameters.find(',');
  std::size_t first = 0;
  if (comma != std::string_view::npos) {
    const auto number = parameters.substr(comma + 1);
    std::from_chars(number.data(), number.data() + number.size(), first);
  }
  return {parameters.substr(0, comma), first};
}

Json links(const mgmt::Node& node) {
  Json names = Json::array();
  for (const auto& l : node.links()) names.push_back(l.name);
  return names;
}

Json link(const mgmt::Node& node, std::string_view name) {
  for (const auto& l : node.links())
    if (l.name == name) return to_json(l);
  return nullptr;
}

/// A link, a port, or no name for all.
bool is_interface(const mgmt::Node& node, std::string_view name) {
  const auto& config = node.config();
  const auto named = [name](const auto& entry) { return entry.name == name; };
  return name.empty() || std::any_of(config.links.begin(), config.links.end(), named) ||
         std::any_of(config.ports.begin(), config.ports.end(), named);
}

Json neighbours(const mgmt::Node& node, std::string_view parameters) {
  const auto [name, first] = split(parameters);
  if (!is_interface(node, name)) return nullptr;
  return piece(to_json(node.neighbours(name)), first);
}

Json groups(const mgmt::Node& node, std::string_view parameters) {
  const auto [name, first] = split(parameters);
  if (!is_interface(node, name)) return nullptr;
  return piece(to_json(node.groups(name)), first);
}

/// Rows under the names they have.
Json by_name(const Json& rows, const char* key) {
  Json object = Json::object();
  for (const Json& row : rows) object[row.at(key).get<std::string>()] = row;
  return object;
}

/// Without what an administrator keeps, which may be longer than an answer.
Json sa_of(const mgmt::Node& node) {
  Json rows = to_json(node.subnet_administration());
  for (Json& row : rows) {
    row.erase("groups");
    row.erase("ports");
  }
  return rows;
}

/// Interface or hca -> reason -> packets.
Json drops(const mgmt::Node& node) {
  Json object = Json::object();
  for (const auto& d : node.drops()) object[d.where][std::string{drop_name(d.reason)}] = d.packets;
  return object;
}

}  // namespace

Json telemetry_answer(const mgmt::Node& node, std::string_view command,
                      std::string_view parameters) {
  if (command == "/ipoib/links") return links(node);
  if (command == "/ipoib/link") return link(node, parameters);
  if (command == "/ipoib/neighbours") return neighbours(node, parameters);
  if (command == "/ipoib/groups") return groups(node, parameters);
  if (command == "/ipoib/routes") {
    std::size_t first = 0;
    std::from_chars(parameters.data(), parameters.data() + parameters.size(), first);
    return piece(to_json(node.routes()), first);
  }
  if (command == "/ipoib/hcas") return by_name(to_json(node.hcas()), "name");
  if (command == "/ipoib/sa") return by_name(sa_of(node), "hca");
  if (command == "/ipoib/workers") return to_json(node.workers());
  if (command == "/ipoib/drops") return drops(node);
  return nullptr;
}

}  // namespace ipoib::app
