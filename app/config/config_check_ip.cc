// SPDX-License-Identifier: BSD-3-Clause
// Checks addresses, routes and neighbours against each other.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/config/config_check.h"
#include "lib/wire/ip_prefix.h"
#include "lib/wire/ipoib.h"

namespace ipoib::app {
namespace {

/// An address of an interface, with its position in the file.
struct OwnAddress {
  wire::IpPrefix prefix;
  const std::string* name;
  std::string path;
  const toml::source_region* at;
  bool all_subnets;                         ///< Its interface lets broadcasts to all subnets out.
  const std::optional<std::string>* proxy;  ///< Group of its interface.
};

template <class Entry>
void collect_addresses(const std::vector<Placed<Entry>>& entries, std::vector<OwnAddress>& own) {
  for (const auto& e : entries) {
    if (!e.good("address")) continue;
    const bool all_subnets = e.value.ip.directed_broadcast == fwd::DirectedBroadcast::kAllSubnets;
    for (std::size_t i = 0; i < e.value.addresses.size(); ++i)
      own.push_back({e.value.addresses[i], &e.value.name, e.path + ".address", &e.at("address", i),
                     all_subnets, &e.value.ip.proxy});
  }
}

/// Shared addresses are alone in their prefixes.
void collect_shared(const Draft& draft, std::vector<OwnAddress>& own) {
  for (const auto& l : draft.links) {
    if (!l.good("shared-address")) continue;
    for (std::size_t i = 0; i < l.value.shared.addresses.size(); ++i)
      own.push_back({wire::host_prefix(l.value.shared.addresses[i]), &l.value.name,
                     l.path + ".shared-address", &l.at("shared-address", i), false,
                     &l.value.ip.proxy});
  }
}

std::vector<OwnAddress> own_addresses(const Draft& draft, const Report& report) {
  std::vector<OwnAddress> own;
  collect_addresses(draft.links, own);
  collect_addresses(draft.ports, own);
  collect_shared(draft, own);
  std::stable_sort(own.begin(), own.end(), [&](const OwnAddress& a, const OwnAddress& b) {
    return order_of(*a.at, report) < order_of(*b.at, report);
  });
  return own;
}

/// An address must be unique, and a prefix must be on one interface only: otherwise its neighbours
/// could be on either. Link-local ones are those of each interface.
void check_addresses(const std::vector<OwnAddress>& own, Report& report) {
  Unique<wire::IpAddr> unique{"address"};
  Unique<std::pair<std::string, wire::IpAddr>> local{"address"};
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto& a = own[i];
    if (wire::is_link_local6(a.prefix.addr)) {
      local.add({*a.name, a.prefix.addr}, quote(wire::to_string(a.prefix)), a.path, *a.at);
      continue;
    }
    unique.add(a.prefix.addr, quote(wire::to_string(a.prefix)), a.path, *a.at);
    for (std::size_t k = 0; k < i; ++k) {
      const auto& b = own[k];
      if (*a.name == *b.name || a.prefix.addr == b.prefix.addr || a.prefix.len != b.prefix.len ||
          wire::network(a.prefix) != wire::network(b.prefix) || (*a.proxy && *a.proxy == *b.proxy))
        continue;
      report.error(
          *a.at,
          fmt::format("{}: invalid value {}: {} has the same prefix ({}), allowed: "
                      "each prefix on one interface, or on those of one proxy group",
                      a.path, quote(wire::to_string(a.prefix)), b.path, line_of(*b.at, report)));
      break;
    }
  }
  unique.check(report);
  local.check(report);
}

/// An interface of a proxy group.
struct Sharer {
  const std::string* name;
  std::string path;
  const toml::source_region* at;  ///< Position of the option.
  const std::vector<wire::IpPrefix>* addresses;
  bool known;  ///< The addresses could be read.
};

template <class Entry>
void collect_sharers(const std::vector<Placed<Entry>>& entries,
                     std::map<std::string, std::vector<Sharer>>& groups) {
  for (const auto& e : entries)
    if (e.good("proxy") && e.value.ip.proxy)
      groups[*e.value.ip.proxy].push_back({&e.value.name, e.path + ".proxy", &e.at("proxy"),
                                           &e.value.addresses, e.good("address")});
}

/// The first prefix of `a` that `b` has not; null: it has all.
const wire::IpPrefix* missing_in(const Sharer& b, const Sharer& a) {
  for (const wire::IpPrefix& p : *a.addresses)
    if (!wire::is_link_local6(p.addr) &&
        std::none_of(b.addresses->begin(), b.addresses->end(), [&](const wire::IpPrefix& other) {
          return other.len == p.len && wire::network(other) == wire::network(p);
        }))
      return &p;
  return nullptr;
}

/// The interfaces of a group have the same prefixes: a host with an address of one side only would be
/// found on that side only.
void check_proxies(const Draft& draft, Report& report) {
  std::map<std::string, std::vector<Sharer>> groups;
  collect_sharers(draft.links, groups);
  collect_sharers(draft.ports, groups);
  for (auto& [group, sharers] : groups) {
    std::stable_sort(sharers.begin(), sharers.end(), [&](const Sharer& a, const Sharer& b) {
      return order_of(*a.at, report) < order_of(*b.at, report);
    });
    if (sharers.size() == 1) {
      report.error(*sharers.front().at,
                   fmt::format("{}: group {} has one interface, allowed: two or more",
                               sharers.front().path, quote(group)));
      continue;
    }
    for (const Sharer& s : sharers)
      if (s.known && s.addresses->empty())
        report.error(*s.at, fmt::format("{}: {} has no address, allowed: interfaces with addresses",
                                        s.path, *s.name));
    for (const Sharer& s : sharers) {
      const Sharer& first = sharers.front();
      if (&s == &first || !s.known || !first.known) continue;
      if (s.addresses->empty() || first.addresses->empty()) continue;
      const auto* missing = missing_in(s, first);
      const auto* more = missing == nullptr ? missing_in(first, s) : nullptr;
      if (missing == nullptr && more == nullptr) continue;
      const wire::IpPrefix& p = missing != nullptr ? *missing : *more;
      report.error(
          *s.at,
          fmt::format("{}: {} has no address in the prefix of {} of {}, allowed: the "
                      "same prefixes on all interfaces of group {}",
                      s.path, missing != nullptr ? *s.name : *first.name, quote(wire::to_string(p)),
                      missing != nullptr ? *first.name : *s.name, quote(group)));
    }
  }
}

/// The condition that a shared address misses; null: none.
const char* missed_by_shared(const wire::IpAddr& addr, const mgmt::LinkConfigEntry& link) {
  if (!addr.is_v4() && !link.ip.ip6.enabled) return "IPv4 addresses, because ipv6 is false";
  for (const wire::IpPrefix& own : link.addresses)
    if (!wire::is_host(own) && wire::contains(own, addr) &&
        wire::is_interface_address({addr, own.len}))
      return nullptr;
  return "addresses of hosts within a prefix of address";
}

void check_shared(const Draft& draft, Report& report) {
  for (const auto& l : draft.links) {
    const link::SharedConfig& shared = l.value.shared;
    if (shared.addresses.empty() || !l.good("shared-address") || !l.good("address")) continue;
    if (l.value.ip.proxy)
      report.error(
          l.at("shared-address"),
          fmt::format("{}.shared-address: allowed: links without proxy, because hosts on the "
                      "other side would not learn of another node",
                      l.path));
    for (std::size_t i = 0; i < shared.addresses.size(); ++i)
      if (const char* const allowed = missed_by_shared(shared.addresses[i], l.value))
        report.error(l.at("shared-address", i),
                     fmt::format("{}.shared-address: invalid value {}, allowed: {}", l.path,
                                 quote(wire::to_string(shared.addresses[i])), allowed));
    for (const bool v4 : {true, false})
      if (std::ranges::count_if(shared.addresses, [v4](const wire::IpAddr& addr) {
            return addr.is_v4() == v4;
          }) > std::ptrdiff_t{link::kMaxSharedAddresses})
        report.error(l.at("shared-address"),
                     fmt::format("{}.shared-address: too many IPv{} addresses, allowed: 0-{}",
                                 l.path, v4 ? 4 : 6, link::kMaxSharedAddresses));
    if (l.good("shared-interval") &&
        shared.interval % std::chrono::milliseconds(10) != Duration::zero())
      report.error(l.at("shared-interval"),
                   fmt::format("{}.shared-interval: invalid value {}, allowed: multiples of 0.01",
                               l.path, Seconds{}.write(shared.interval)));
    const auto* const hca = find(draft.hcas, l.value.hca);
    const bool known = hca != nullptr && hca->good("guid") && hca->value.guid != 0;
    if (known && l.good("shared-members") && !shared.members.empty() &&
        std::ranges::count(shared.members, hca->value.guid) == 0)
      report.error(l.at("shared-members"),
                   fmt::format("{}.shared-members: {:#018x} is missing, the guid of {}", l.path,
                               hca->value.guid, hca->path));
  }
}

/// `iface`: empty: any.
bool on_any(const std::vector<OwnAddress>& own, const wire::IpAddr& addr,
            const std::optional<std::string>& iface) {
  return std::any_of(own.begin(), own.end(), [&](const OwnAddress& o) {
    return wire::contains(o.prefix, addr) && (!iface || *o.name == *iface);
  });
}

bool is_own(const std::vector<OwnAddress>& own, const wire::IpAddr& addr) {
  return std::any_of(own.begin(), own.end(),
                     [&](const OwnAddress& o) { return o.prefix.addr == addr; });
}

bool is_interface(const Draft& draft, const std::string& name) {
  return find(draft.links, name) != nullptr || find(draft.ports, name) != nullptr;
}

/// The condition that the next hop misses; null: none.
const char* missed_by(const wire::IpAddr& via, const mgmt::RouteConfig& route,
                      const std::vector<OwnAddress>& own) {
  if (wire::is_link_local6(via))
    return route.iface ? nullptr : "with link-local next hops, route.interface names their link";
  if (on_any(own, via, route.iface)) return nullptr;
  return route.iface ? "an address within a prefix of route.interface"
                     : "an address within a prefix of a link or port";
}

/// Returns false if the next hops cannot be checked.
bool check_route_interface(const Placed<mgmt::RouteConfig>& route, const Draft& draft,
                           Report& report) {
  if (!route.good("interface")) return false;
  const auto& iface = route.value.iface;
  if (!iface) return true;
  if (route.value.blackhole)
    report.error(route.at("interface"),
                 "route: both interface and blackhole, allowed: interface with via");
  if (is_interface(draft, *iface)) return true;
  report.error(route.at("interface"),
               fmt::format("route.interface: unknown interface {}, allowed: links: {}; ports: {}",
                           quote(*iface), names_of(draft.links), names_of(draft.ports)));
  return false;
}

void check_next_hops(const Placed<mgmt::RouteConfig>& route, const std::vector<OwnAddress>& own,
                     Report& report) {
  std::vector<wire::IpAddr> seen;
  for (std::size_t i = 0; i < route.value.via.size(); ++i) {
    const auto& via = route.value.via[i];
    const char* allowed = missed_by(via, route.value, own);
    if (via.is_v4() != route.value.to.addr.is_v4() && route.good("to"))
      allowed = "an address of the IP version of route.to";
    if (!wire::is_link_local6(via) && is_own(own, via)) allowed = "an address of another node";
    if (std::find(seen.begin(), seen.end(), via) != seen.end()) allowed = "each next hop once";
    seen.push_back(via);
    if (allowed != nullptr)
      report.error(route.at("via", i), fmt::format("route.via: invalid value {}, allowed: {}",
                                                   quote(wire::to_string(via)), allowed));
  }
}

void check_not_connected(const Placed<mgmt::RouteConfig>& route, const std::vector<OwnAddress>& own,
                         Report& report) {
  const auto same = std::find_if(own.begin(), own.end(), [&](const OwnAddress& o) {
    return o.prefix.len == route.value.to.len && wire::network(o.prefix) == route.value.to.addr;
  });
  if (same != own.end())
    report.error(route.at("to"),
                 fmt::format("route.to: invalid value {}: it is the connected prefix of {} ({}), "
                             "allowed: prefixes that are not connected",
                             quote(wire::to_string(route.value.to)), same->path,
                             line_of(*same->at, report)));
}

void check_routes(const Draft& draft, const std::vector<OwnAddress>& own, Report& report) {
  Unique<wire::IpPrefix> unique{"destination"};
  for (const auto& r : draft.routes) {
    if (r.good("to")) {
      const auto shown = quote(wire::to_string(r.value.to));
      unique.add(r.value.to, shown, "route.to", r.at("to"));
      check_not_connected(r, own, report);
    }
    if (!r.good("via") || !r.good("blackhole")) continue;
    if (r.value.via.empty() != r.value.blackhole)
      report.error(
          r.table->source(),
          fmt::format("route: {}, allowed: either via or blackhole = true",
                      r.value.blackhole ? "both via and blackhole" : "neither via nor blackhole"));
    if (check_route_interface(r, draft, report)) check_next_hops(r, own, report);
  }
  unique.check(report);
}

/// The prefixes that the tables have for the node's addresses.
std::set<wire::IpPrefix> prefixes_of(const std::vector<OwnAddress>& own) {
  std::set<wire::IpPrefix> prefixes;
  for (const OwnAddress& a : own) {
    if (wire::is_link_local6(a.prefix.addr)) continue;
    prefixes.insert(wire::host_prefix(a.prefix.addr));
    if (a.prefix.len >= wire::host_len(a.prefix.addr)) continue;
    const wire::IpAddr network = wire::network(a.prefix);
    prefixes.insert({network, a.prefix.len});
    // A network of two addresses has neither a broadcast address nor one of all its routers.
    if (a.prefix.len + 1 < wire::host_len(a.prefix.addr))
      prefixes.insert(wire::host_prefix(network));
    if (const auto broadcast = wire::directed_broadcast(a.prefix))
      prefixes.insert(wire::host_prefix(*broadcast));
    const auto net_broadcast = a.all_subnets ? wire::net_broadcast(a.prefix) : std::nullopt;
    const auto has_it = [&](const OwnAddress& other) {
      return wire::contains(other.prefix, *net_broadcast);
    };
    if (net_broadcast && std::ranges::none_of(own, has_it))
      prefixes.insert(wire::host_prefix(*net_broadcast));
  }
  return prefixes;
}

/// Rejects the first route of a family that the tables of prefixes have no room for.
void check_room(const Draft& draft, const std::vector<OwnAddress>& own, Report& report) {
  const mgmt::RouteTableConfig& limits = draft.node.route_table;
  const std::set<wire::IpPrefix> prefixes = prefixes_of(own);
  const auto check = [&](bool v4, std::string_view key, std::size_t max) {
    if (!draft.route_table.good(key)) return;
    const auto is_of_family = [v4](const wire::IpPrefix& prefix) {
      return prefix.addr.is_v4() == v4;
    };
    const auto needed = static_cast<std::size_t>(std::ranges::count_if(prefixes, is_of_family));
    const std::size_t allowed = max - std::min(max, needed);
    std::size_t routes = 0;
    for (const auto& r : draft.routes)
      if (r.good("to") && is_of_family(r.value.to) && ++routes == allowed + 1)
        report.error(
            r.at("to"),
            fmt::format("route.to: no room for this prefix, allowed: {} IPv{} routes, "
                        "because route-table.{} is {} and the addresses of the node need {}",
                        allowed, v4 ? 4 : 6, key, max, needed));
  };
  check(true, "max-prefixes", limits.max_prefixes);
  check(false, "max-prefixes6", limits.max_prefixes6);
}

using LinkDraft = Placed<mgmt::LinkConfigEntry>;

/// Returns true if the text is an address of the link's dialect with a queue pair and a unicast
/// GID.
bool is_address_on(const LinkDraft& link, std::string_view lladdr) {
  const auto unicast = [](const auto& addr) {
    return addr && addr->qpn.host() != 0 && !addr->gid.is_multicast();
  };
  return link.value.dialect == mgmt::LinkDialect::kIbarp2001
             ? unicast(wire::parse_ibarp_addr(lladdr))
             : unicast(wire::parse_link_addr(lladdr));
}

std::string_view addresses_on(const LinkDraft* link) {
  if (link == nullptr) return "6 octets";
  return link->value.dialect == mgmt::LinkDialect::kIbarp2001
             ? "32 octets with a queue pair and a unicast GID"
             : "20 octets with a queue pair and a unicast GID";
}

/// Checks that the link-layer address fits the type of the entry's interface. `on_link`: null if it
/// is a port.
template <class Entry>
void check_lladdr(const Placed<Entry>& n, std::string_view section, const LinkDraft* on_link,
                  Report& report) {
  if (!n.good("lladdr")) return;
  const bool usable = on_link != nullptr ? is_address_on(*on_link, n.value.lladdr)
                                         : wire::parse_mac(n.value.lladdr).has_value();
  if (!usable)
    report.error(n.at("lladdr"),
                 fmt::format("{}.lladdr: invalid value {}, allowed on {} {}: {}", section,
                             quote(n.value.lladdr), on_link != nullptr ? "link" : "port",
                             n.value.iface, addresses_on(on_link)));
}

/// Returns true if the `link` of an entry names a link or port; reports it otherwise.
template <class Entry>
bool check_interface(const Placed<Entry>& n, std::string_view section, const Draft& draft,
                     Report& report) {
  if (is_interface(draft, n.value.iface)) return true;
  report.error(n.at("link"),
               fmt::format("{}.link: unknown interface {}, allowed: links: {}; ports: {}", section,
                           quote(n.value.iface), names_of(draft.links), names_of(draft.ports)));
  return false;
}

/// Checks the entry against the type of its interface.
void check_neighbour_kind(const Placed<mgmt::NeighbourEntryConfig>& n, const LinkDraft* on_link,
                          Report& report) {
  check_lladdr(n, "neighbour", on_link, report);
  if (on_link == nullptr && n.good("lid") && n.value.lid != 0)
    report.error(n.at("lid"),
                 fmt::format("neighbour.lid: value {} is not allowed, because {} is a port",
                             n.value.lid, n.value.iface));
}

void check_multicast_routes(const Draft& draft, Report& report) {
  for (const auto& r : draft.multicast_routes) {
    const auto check = [&](const std::string& name, std::string_view key, std::size_t i) {
      if (!is_interface(draft, name))
        report.error(
            r.at(key, i),
            fmt::format("multicast-route.{}: unknown interface {}, allowed: links: {}; ports: {}",
                        key, quote(name), names_of(draft.links), names_of(draft.ports)));
    };
    if (r.good("in")) check(r.value.in, "in", 0);
    for (std::size_t i = 0; r.good("out") && i < r.value.out.size(); ++i) {
      check(r.value.out[i], "out", i);
      if (r.good("in") && r.value.out[i] == r.value.in)
        report.error(
            r.at("out", i),
            fmt::format("multicast-route.out: invalid value {}, allowed: interfaces other than in",
                        quote(r.value.in)));
    }
  }
}

void check_filters(const Draft& draft, Report& report) {
  for (std::size_t i = 0; i < draft.filters.size(); ++i) {
    const auto& f = draft.filters[i];
    if (i == fwd::kMaxFilterRules)
      report.error(f.table->source(), fmt::format("filter: {} filters, allowed: up to {}",
                                                  draft.filters.size(), fwd::kMaxFilterRules));
    if (f.good("interface") && !f.value.iface.empty() && !is_interface(draft, f.value.iface))
      report.error(
          f.at("interface"),
          fmt::format("filter.interface: unknown interface {}, allowed: all; links: {}; ports: {}",
                      quote(f.value.iface), names_of(draft.links), names_of(draft.ports)));
    if (f.faulty.empty())
      if (const auto fault = fwd::fault_of(f.value.rule); !fault.empty())
        report.error(f.table->source(), fmt::format("filter: {}", fault));
  }
}

void check_rarp(const Draft& draft, Report& report) {
  for (const auto& r : draft.rarp) {
    if (r.good("link") && check_interface(r, "rarp", draft, report))
      check_lladdr(r, "rarp", find(draft.links, r.value.iface), report);
    if (r.good("address") && !r.value.addr.is_v4())
      report.error(r.at("address"),
                   fmt::format("rarp.address: invalid value {}, allowed: IPv4 addresses",
                               quote(wire::to_string(r.value.addr))));
  }
}

void check_neighbours(const Draft& draft, const std::vector<OwnAddress>& own, Report& report) {
  Unique<std::pair<std::string, wire::IpAddr>> unique{"address"};
  for (const auto& n : draft.neighbours) {
    if (!n.good("link") || !check_interface(n, "neighbour", draft, report)) continue;
    check_neighbour_kind(n, find(draft.links, n.value.iface), report);
    if (!n.good("address")) continue;
    const auto shown = quote(wire::to_string(n.value.addr));
    unique.add({n.value.iface, n.value.addr}, shown, "neighbour.address", n.at("address"));
    if (is_own(own, n.value.addr))
      report.error(
          n.at("address"),
          fmt::format("neighbour.address: invalid value {}, allowed: an address of another node",
                      shown));
    else if (std::none_of(own.begin(), own.end(), [&](const OwnAddress& o) {
               return *o.name == n.value.iface && wire::contains(o.prefix, n.value.addr);
             }))
      report.warning(
          n.at("address"),
          fmt::format(
              "neighbour.address: {} is outside the prefixes of {}: no packets will be sent to it",
              shown, n.value.iface));
  }
  unique.check(report);
}

}  // namespace

void check_ip(const Draft& draft, Report& report) {
  const auto own = own_addresses(draft, report);
  check_addresses(own, report);
  check_proxies(draft, report);
  check_shared(draft, report);
  check_routes(draft, own, report);
  check_room(draft, own, report);
  check_multicast_routes(draft, report);
  check_filters(draft, report);
  check_rarp(draft, report);
  check_neighbours(draft, own, report);
}

}  // namespace ipoib::app
