// SPDX-License-Identifier: BSD-3-Clause
// Options as read from the file, with their positions: the checks that concern several options need
// both.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/config_report.h"
#include "lib/mgmt/node_config.h"

namespace ipoib::app {

/// One table of the file.
struct Place {
  const toml::table* table = nullptr;         ///< Null if the section is absent.
  std::string path;                           ///< "hca.soft0", "route".
  std::set<std::string, std::less<>> faulty;  ///< Keys whose value was rejected or is missing.

  /// The option has the value of the file, or its default.
  [[nodiscard]] bool good(std::string_view key) const { return !faulty.contains(key); }
  [[nodiscard]] bool given(std::string_view key) const {
    return table != nullptr && table->contains(key);
  }
  /// Returns the position of the option, or of the i-th element of its list; that of the section if
  /// the option is absent.
  [[nodiscard]] const toml::source_region& at(std::string_view key, std::size_t i = 0) const {
    static const toml::source_region kNowhere{};
    if (table == nullptr) return kNowhere;
    const toml::node* node = table->get(key);
    if (node == nullptr) return table->source();
    const auto* array = node->as_array();
    return array != nullptr && i < array->size() ? array->get(i)->source() : node->source();
  }
};

template <class Entry>
struct Placed : Place {
  Entry value;
};

struct Draft {
  std::vector<Placed<mgmt::HcaConfig>> hcas;
  std::vector<Placed<mgmt::LinkConfigEntry>> links;
  std::vector<Placed<mgmt::PortConfig>> ports;
  std::vector<Placed<mgmt::RouteConfig>> routes;
  std::vector<Placed<mgmt::MulticastRouteConfig>> multicast_routes;
  std::vector<Placed<mgmt::FilterConfig>> filters;
  std::vector<Placed<mgmt::NeighbourEntryConfig>> neighbours;
  std::vector<Placed<mgmt::RarpEntryConfig>> rarp;
  mgmt::NodeConfig node;  ///< The single sections fill their parts of it.
  Place subnet, worker, generator, neighbour_cache, route_table, linux_plane;
};

/// Runs the checks that concern more than one option.
void check_draft(Draft& draft, Report& report);

}  // namespace ipoib::app
