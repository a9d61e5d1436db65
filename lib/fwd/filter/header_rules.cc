// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/filter/header_rules.h"

namespace ipoib::fwd {
namespace {

/// RFC 7126 names the options that routers drop by default, obsolete ones and those for experiments
/// (RFC 4727 §3.1) among them; unknown ones pass (RFC 1812 §4.2.2.1).
constexpr std::uint8_t kDroppedOptions[] = {
    7,                                               // record route
    11, 12, 82,  136, 142, 145, 147, 149, 151, 152,  // obsolete
    68,                                              // timestamp
    30, 94, 158, 222,                                // experiments
};

/// Routing headers that leave their domain by mistake or as an attack: source routes (0), Nimrod (1)
/// and RPL (3). Mobility (2), segments (4) and experiments (253, 254) pass, as do unknown ones.
/// Source: RFC 9288 §3.4.2, RFC 7045 §2.1, RFC 5095 §4.
constexpr std::uint8_t kSourceRoute = 0;
constexpr std::uint8_t kDroppedRouting[] = {kSourceRoute, 1, 3};

}  // namespace

HeaderRules::HeaderRules(const HeaderChanges& changes) {
  options_.fill(Drop::kNone);
  extensions_.fill(Drop::kNone);
  routing_.fill(Drop::kNone);
  for (const std::uint8_t type : kDroppedOptions) options_[type] = Drop::kIpOption;
  extensions_[wire::kExperiment1] = extensions_[wire::kExperiment2] = Drop::kIp6Extension;
  for (const std::uint8_t type : kDroppedRouting) routing_[type] = Drop::kIp6Extension;

  for (const std::uint8_t type : changes.pass_options) options_[type] = Drop::kNone;
  for (const std::uint8_t type : changes.drop_options) options_[type] = Drop::kIpOption;
  for (unsigned type = 0; type < options_.size(); ++type)
    if (is_source_route(static_cast<std::uint8_t>(type))) options_[type] = Drop::kIpSourceRoute;

  const auto set_headers = [this](const std::vector<Ip6Extension>& list, Drop drop) {
    for (const Ip6Extension& e : list) {
      if (e.routing_type) continue;
      if (e.header == wire::kRoutingHeader)
        routing_.fill(drop);
      else
        extensions_[e.header] = drop;
    }
  };
  const auto set_types = [this](const std::vector<Ip6Extension>& list, Drop drop) {
    for (const Ip6Extension& e : list)
      if (e.routing_type) routing_[*e.routing_type] = drop;
  };
  set_headers(changes.pass_extensions, Drop::kNone);
  set_headers(changes.drop_extensions, Drop::kIp6Extension);
  set_types(changes.pass_extensions, Drop::kNone);
  set_types(changes.drop_extensions, Drop::kIp6Extension);
  routing_[kSourceRoute] = Drop::kIp6Extension;
}

const HeaderRules& HeaderRules::defaults() {
  static const HeaderRules kDefaults{{}};
  return kDefaults;
}

}  // namespace ipoib::fwd
