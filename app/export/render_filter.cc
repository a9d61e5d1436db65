// SPDX-License-Identifier: BSD-3-Clause
// Filter rules as JSON.
#include <string>

#include "app/config/filter_text.h"
#include "app/export/render.h"

namespace ipoib::app {
namespace {

/// Empty text if there is no value.
template <class T>
std::string value_text(const TextForm<T>& form, const std::optional<T>& value) {
  return value ? form.format(*value) : std::string{};
}

}  // namespace

Json to_json(const mgmt::FilterInfo& filter) {
  const fwd::FilterRule& rule = filter.config.rule;
  return {{"number", filter.number},
          {"state", filter.active ? "active" : "pending"},
          {"interface", filter.config.iface.empty() ? "all" : filter.config.iface},
          {"direction", fwd::kFilterDirectionNames[static_cast<std::size_t>(rule.direction)]},
          {"action", fwd::kFilterActionNames[static_cast<std::size_t>(rule.action)]},
          {"source", value_text(filter_prefix_form(), rule.source)},
          {"destination", value_text(filter_prefix_form(), rule.destination)},
          {"protocol", value_text(protocol_form(), rule.protocol)},
          {"source_ports", value_text(port_range_form(), rule.source_ports)},
          {"destination_ports", value_text(port_range_form(), rule.destination_ports)},
          {"packets", filter.packets}};
}

}  // namespace ipoib::app
