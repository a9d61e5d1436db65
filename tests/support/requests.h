// SPDX-License-Identifier: BSD-3-Clause
// Records requests to a fake node as lines of words.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/fabric/fabric_types.h"
#include "lib/mgmt/node_config.h"
#include "lib/wire/ip.h"
#include "tests/support/node_rows.h"

namespace ipoib::app {

/// A name that may be empty.
struct Name {
  std::string_view text;
};

template <class T>
std::string words_of(const T& value) {
  if constexpr (requires { wire::to_string(value); })
    return wire::to_string(value);
  else
    return fmt::format("{}", value);
}
inline std::string words_of(const Name& name) {
  return fmt::format("[{}]", name.text);
}
inline std::string words_of(const mgmt::NeighbourEntryConfig& e) {
  return fmt::format("{} {} {} {} {}", e.iface, wire::to_string(e.addr), e.lladdr, e.lid, e.sl);
}
inline std::string words_of(const mgmt::RouteConfig& route) {
  std::string text = wire::to_string(route.to);
  for (const auto& via : route.via) text += " " + wire::to_string(via);
  if (route.iface) text += " dev " + *route.iface;
  return route.blackhole ? text + " blackhole" : text;
}
inline std::string words_of(const mgmt::MulticastRouteConfig& r) {
  const std::string text =
      fmt::format("{} from {} {}", wire::to_string(r.groups), wire::to_string(r.source), r.in);
  return r.out.empty() ? text : fmt::format("{} -> {}", text, fmt::join(r.out, " "));
}
/// A member without a value is a star.
inline std::string words_of(const mgmt::FilterConfig& f) {
  const auto prefix = [](const auto& p) { return p ? wire::to_string(*p) : "*"; };
  const auto ports = [](const auto& p) {
    return p ? fmt::format("{}-{}", p->first, p->last) : "*";
  };
  const fwd::FilterRule& r = f.rule;
  return fmt::format("[{}] {} {} {} {} {} {} {}", f.iface,
                     fwd::kFilterDirectionNames[static_cast<std::size_t>(r.direction)],
                     fwd::kFilterActionNames[static_cast<std::size_t>(r.action)], prefix(r.source),
                     prefix(r.destination), r.protocol ? fmt::format("{}", *r.protocol) : "*",
                     ports(r.source_ports), ports(r.destination_ports));
}
inline std::string words_of(const fabric::PortChange& c) {
  std::string text;
  if (c.lid) text += fmt::format(" lid {}", *c.lid);
  if (c.sm_lid) text += fmt::format(" sm-lid {}", *c.sm_lid);
  if (c.gid_prefix) text += fmt::format(" gid-prefix {:#018x}", *c.gid_prefix);
  if (c.pkeys)
    for (const auto pkey : *c.pkeys) text += fmt::format(" pkey {:#06x}", pkey);
  if (c.up) text += *c.up ? " up" : " down";
  if (c.reregister) text += " reregister";
  return text.empty() ? text : text.substr(1);
}

struct Requests {
  std::vector<std::string> lines;
  bool refuse = false;  ///< Requests fail.
};

/// Base of the fakes of one node.
struct Fake {
  using Text = std::string_view;
  using Addr = wire::IpAddr;

  Fake(NodeRows& node_rows, Requests& node_requests) : rows{node_rows}, requests{node_requests} {}

  template <class... Words>
  Status note(const Words&... words) {
    std::string line;
    ((line += (line.empty() ? "" : " ") + words_of(words)), ...);
    requests.lines.push_back(std::move(line));
    if (requests.refuse) return fail(Errc::kRefused, "refused by the test");
    return {};
  }

  NodeRows& rows;
  Requests& requests;
};

}  // namespace ipoib::app
