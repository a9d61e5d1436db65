// SPDX-License-Identifier: BSD-3-Clause
// Checks that concern more than one option: names, references, values that must be unique. A faulty
// value was reported when it was read and is skipped here, so that one mistake is one line.
#include "app/config/config_check.h"

#include <net/if.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "app/config/config_codec.h"
#include "app/config/header_text.h"
#include "lib/fwd/generator.h"
#include "lib/mgmt/device/hca_resources.h"

namespace ipoib::app {
namespace {

constexpr std::size_t kMaxNameLen = 31;
/// Keywords that commands accept in place of a name.
constexpr std::array<std::string_view, 6> kReservedNames = {"all",   "info",    "json",
                                                            "stats", "summary", "xstats"};

/// HCAs, links and ports share one name space: that of counters, commands and worker.assign.
void check_names(const Draft& draft, Report& report) {
  Unique<std::string> unique{"name"};
  const auto check = [&](const auto& entries) {
    for (const auto& e : entries) {
      const std::string& name = e.value.name;
      if (!is_name(name))
        report.error(
            e.table->source(),
            fmt::format("{}: invalid name {}, allowed: 1-{} letters, digits, _ and -, except {}",
                        e.path, quote(name), kMaxNameLen, fmt::join(kReservedNames, ", ")));
      unique.add(name, quote(name), e.path, e.table->source());
    }
  };
  check(draft.hcas);
  check(draft.links);
  check(draft.ports);
  unique.check(report);
}

bool is_verbs(const Placed<mgmt::HcaConfig>& hca) {
  return hca.value.driver == mgmt::HcaDriver::kVerbs;
}

void check_devices(const Draft& draft, Report& report) {
  Unique<std::string> unique{"device"};
  for (const auto& h : draft.hcas)
    if (h.good("wire") && !is_verbs(h))
      unique.add(h.value.wire, quote(h.value.wire), h.path + ".wire", h.at("wire"));
  // A port of the driver verbs also sends its MADs through umad.
  Unique<std::string> managed{"mad"};
  Unique<std::string> driven{"device and port"};
  std::set<std::string> seen;
  for (const auto& h : draft.hcas) {
    if (is_verbs(h)) {
      if (!h.good("device") || !h.good("port")) continue;
      const std::string port = fmt::format("{}:{}", h.value.device, h.value.port);
      driven.add(port, quote(port), h.path + ".device", h.at("device"));
      if (seen.insert(port).second)
        managed.add("umad:" + port, quote("umad:" + port), h.path + ".device", h.at("device"));
    } else if (h.good("mad") && !h.value.mad.device.empty()) {
      managed.add(to_string(h.value.mad), quote(to_string(h.value.mad)), h.path + ".mad",
                  h.at("mad"));
    }
  }
  managed.check(report);
  driven.check(report);
  for (const auto& p : draft.ports)
    if (p.good("device"))
      unique.add(p.value.device, quote(p.value.device), p.path + ".device", p.at("device"));
  unique.check(report);
}

void check_pkey_table(const Placed<mgmt::HcaConfig>& hca, Report& report) {
  std::map<int, std::uint16_t> partitions;
  for (std::size_t i = 0; hca.good("pkeys") && i < hca.value.pkeys.size(); ++i) {
    const auto pkey = hca.value.pkeys[i];
    const auto [first, fresh] = partitions.emplace(pkey & 0x7fff, pkey);
    if (!fresh)
      report.error(hca.at("pkeys", i),
                   fmt::format("{}.pkeys: invalid value {:#06x}: {:#06x} in the same list is the "
                               "same partition, allowed: each partition once",
                               hca.path, pkey, first->second));
  }
}

/// Adds the port's LIDs to `lids`.
void check_lids(const Placed<mgmt::HcaConfig>& hca, Unique<std::uint16_t>& lids, Report& report) {
  const unsigned count = hca.good("lmc") ? 1U << hca.value.lmc : 1;
  if (hca.value.lid % count != 0)
    return report.error(hca.at("lid"),
                        fmt::format("{}.lid: invalid value {}, allowed: multiples of {}, because "
                                    "lmc is {}",
                                    hca.path, hca.value.lid, count, hca.value.lmc));
  for (unsigned i = 0; i < count; ++i) {
    const auto lid = static_cast<std::uint16_t>(hca.value.lid + i);
    lids.add(lid, std::to_string(lid), hca.path + ".lid", hca.at("lid"));
  }
}

void check_hcas(Draft& draft, Report& report) {
  Unique<std::uint64_t> guids{"guid"};
  Unique<std::uint16_t> lids{"lid"};
  for (auto& h : draft.hcas) {
    if (is_verbs(h) || !h.value.mad.device.empty()) continue;
    if (h.good("guid"))
      guids.add(h.value.guid, fmt::format("{:#018x}", h.value.guid), h.path + ".guid",
                h.at("guid"));
    if (h.good("lid")) check_lids(h, lids, report);
    check_pkey_table(h, report);
    if (!h.good("subnet-administrator") || !h.value.subnet_administrator || !h.good("lid"))
      continue;
    if (!h.given("sm-lid")) h.value.sm_lid = h.value.lid;
    if (h.good("sm-lid") && h.value.sm_lid != h.value.lid)
      report.error(h.at("sm-lid"),
                   fmt::format("{}.sm-lid: invalid value {}, allowed: {}, the port's own lid, "
                               "because it runs the subnet administrator",
                               h.path, h.value.sm_lid, h.value.lid));
  }
  guids.check(report);
  lids.check(report);
}

void check_subnet(const Draft& draft, Report& report) {
  const auto mtu = draft.node.subnet.mtu;
  bool administrator = false;
  for (const auto& h : draft.hcas) {
    if (!h.value.subnet_administrator) continue;
    administrator = true;
    if (draft.subnet.good("mtu") && h.good("mtu") && mtu > h.value.max_mtu())
      report.error(draft.subnet.given("mtu") ? draft.subnet.at("mtu") : h.at("mtu"),
                   fmt::format("subnet.mtu: invalid value {}, allowed: at most {}, the mtu of {}",
                               mtu, h.value.max_mtu(), h.path));
  }
  if (draft.subnet.table != nullptr && !administrator)
    report.warning(draft.subnet.table->source(),
                   "subnet: section ignored, because no hca has subnet-administrator = true");
}

/// ARP and RARP need the broadcast group of IPv4.
void check_all_nodes(const Placed<mgmt::LinkConfigEntry>& link, Report& report) {
  if (!link.good("all-nodes") || link.value.all_nodes != link::AllNodes::kInstead) return;
  std::string why;
  for (const auto& own : link.value.addresses)
    if (link.good("address") && own.addr.is_v4() && why.empty())
      why = "address contains " + wire::to_string(own);
  if (link.good("ask-rarp") && link.value.ip.ask_rarp) why = "ask-rarp requests an IPv4 address";
  if (!why.empty())
    report.error(link.at("all-nodes"),
                 fmt::format("{}.all-nodes: invalid value \"instead\": it disables IPv4 on the "
                             "link, and {}, allowed: \"auto\" | \"joined\"",
                             link.path, why));
}

/// The draft of 2001 has datagrams only.
void check_dialect(const Placed<mgmt::LinkConfigEntry>& link, Report& report) {
  const bool datagrams = link.value.mode == mgmt::LinkMode::kDatagram;
  if (link.value.dialect != mgmt::LinkDialect::kIbarp2001 || !link.good("mode") || datagrams)
    return;
  report.error(link.at("mode"),
               fmt::format("{}.mode: invalid value {}, allowed with dialect \"ibarp2001\": "
                           "\"datagram\"",
                           link.path,
                           quote(mgmt::kLinkModeNames[static_cast<std::size_t>(link.value.mode)])));
}

/// One link of an HCA answers SIDR for a service of a partition.
void check_sidr_servers(const Draft& draft, Report& report) {
  Unique<std::tuple<std::string, int, std::uint64_t>> services{"SIDR service"};
  for (const auto& link : draft.links) {
    const auto& l = link.value;
    if (l.dialect != mgmt::LinkDialect::kIbarp2001 || !l.ibarp.server) continue;
    if (!link.good("hca") || !link.good("pkey") || !link.good("sidr-service-id")) continue;
    services.add(
        {l.hca, l.pkey & 0x7fff, l.ibarp.service_id},
        fmt::format("{:#018x} of {} in partition {:#06x}", l.ibarp.service_id, l.hca, l.pkey),
        link.path + ".sidr-server", link.at("sidr-server"));
  }
  services.check(report);
}

/// Two queue pairs of an HCA never have the same QPN, and a device of verbs gives it to one at most.
void check_qpns(const Draft& draft, Report& report) {
  Unique<std::pair<std::string, std::uint32_t>> qpns{"QPN"};
  for (const auto& link : draft.links) {
    const auto& l = link.value;
    if (!l.qpn || !link.good("hca") || !link.good("qpn")) continue;
    qpns.add({l.hca, *l.qpn}, fmt::format("{:#x} of {}", *l.qpn, l.hca), link.path + ".qpn",
             link.at("qpn"));
  }
  qpns.check(report);
}

/// Links of both dialects in one partition would share its broadcast group: each would drop the
/// packets of the other, and take the port out of the group when it stops.
void check_partitions(const Draft& draft, Report& report) {
  std::map<std::pair<std::string, int>, const Placed<mgmt::LinkConfigEntry>*> first;
  for (const auto& link : draft.links) {
    if (!link.good("hca") || !link.good("pkey") || !link.good("dialect")) continue;
    const auto& l = link.value;
    const auto& other = *first.try_emplace({l.hca, l.pkey & 0x7fff}, &link).first->second;
    if (other.value.dialect == l.dialect) continue;
    const auto name = [](const auto& of) {
      return quote(mgmt::kLinkDialectNames[static_cast<std::size_t>(of.dialect)]);
    };
    report.error(link.at("dialect"),
                 fmt::format("{}.dialect: invalid value {}, allowed: {}, that of {} in partition "
                             "{:#06x} of {}",
                             link.path, name(l), name(other.value), other.path, l.pkey, l.hca));
  }
}

/// RFC 4391 §8: a LID is unique in one IB subnet only.
void check_interface_id(const Placed<mgmt::LinkConfigEntry>& link, Report& report) {
  if (link.value.ip.ip6.interface_id != wire::InterfaceIdRule::kLid || link.value.scope == 2)
    return;
  if (!link.good("interface-id") || !link.good("scope")) return;
  report.error(link.at("interface-id"),
               fmt::format("{}.interface-id: invalid value \"lid\", because LIDs are unique within "
                           "one InfiniBand subnet only: allowed with scope 2",
                           link.path));
}

/// RFC 3376 §8.3: answers come before the next query.
template <class E>
void check_query_times(const Placed<E>& entry, Report& report) {
  if (entry.value.ip.query_response_interval < entry.value.ip.query_interval) return;
  if (!entry.good("query-response-interval") || !entry.good("query-interval")) return;
  report.error(entry.at(entry.given("query-response-interval") ? "query-response-interval"
                                                               : "query-interval"),
               fmt::format("{}.query-response-interval: invalid value {}, allowed: less than "
                           "query-interval, which is {}",
                           entry.path, Seconds{}.write(entry.value.ip.query_response_interval),
                           Seconds{}.write(entry.value.ip.query_interval)));
}

/// Linux has names of 15 octets.
template <class E>
void check_mirror(const Placed<E>& entry, const Draft& draft, Report& report) {
  constexpr std::size_t kLongest = IFNAMSIZ - 1;
  if (!entry.value.ip.mirrored(draft.node.linux_plane)) return;
  if (entry.value.name.size() > kLongest)
    report.error(entry.table->source(),
                 fmt::format("{}: invalid name {}, allowed with mirror: 1-{} characters",
                             entry.path, quote(entry.value.name), kLongest));
  if (entry.value.ip.multicast_router &&
      entry.value.ip.linux_routes_multicast(draft.node.linux_plane))
    report.error(
        entry.at("multicast-router"),
        fmt::format("{}.multicast-router: value true is not allowed on a mirrored interface "
                    "with linux.multicast-routes",
                    entry.path));
}

void check_links(const Draft& draft, Report& report) {
  for (const auto& port : draft.ports) {
    check_query_times(port, report);
    check_mirror(port, draft, report);
  }
  check_sidr_servers(draft, report);
  check_qpns(draft, report);
  check_partitions(draft, report);
  for (const auto& link : draft.links) {
    check_all_nodes(link, report);
    check_dialect(link, report);
    check_interface_id(link, report);
    check_query_times(link, report);
    check_mirror(link, draft, report);
    if (!link.good("hca")) continue;
    const auto* hca = find(draft.hcas, link.value.hca);
    if (hca == nullptr) {
      report.error(link.at("hca"), fmt::format("{}.hca: invalid value {}, allowed: {}", link.path,
                                               quote(link.value.hca), names_of(draft.hcas)));
      continue;
    }
    if (link.value.create_broadcast && link.good("mtu") && hca->good("mtu") &&
        link.value.broadcast.mtu > hca->value.max_mtu())
      report.error(
          link.at("mtu"),
          fmt::format("{}.mtu: invalid value {}, allowed: at most {}, the mtu of {}", link.path,
                      link.value.broadcast.mtu, hca->value.max_mtu(), hca->path));
    // The subnet manager may change the table of P_Keys.
    if (is_verbs(*hca) || !hca->value.mad.device.empty()) continue;
    if (!link.good("pkey") || !hca->good("pkeys")) continue;
    const auto& pkeys = hca->value.pkeys;
    if (std::find(pkeys.begin(), pkeys.end(), link.value.pkey) == pkeys.end())
      report.error(link.at("pkey"),
                   fmt::format("{}.pkey: invalid value {:#06x}, allowed: the pkeys of {}: {:#06x}",
                               link.path, link.value.pkey, hca->path, fmt::join(pkeys, ", ")));
  }
}

void check_workers(const Draft& draft, Report& report) {
  if (!draft.worker.good("assign") || !draft.worker.given("assign")) return;
  const auto* table = draft.worker.table->get("assign")->as_table();
  const unsigned count = draft.node.worker.count;
  for (const auto& [name, numbers] : draft.node.worker.assign) {
    const auto* const hca = find(draft.hcas, name);
    if (hca == nullptr && find(draft.ports, name) == nullptr)
      report.error(table->find(name)->first.source(),
                   fmt::format("worker.assign: unknown name {}, allowed: hcas: {}; ports: {}",
                               quote(name), names_of(draft.hcas), names_of(draft.ports)));
    const toml::source_region& at = table->get(name)->source();
    const unsigned largest = *std::max_element(numbers.begin(), numbers.end());
    if (draft.worker.good("count") && largest >= count)
      report.error(at, fmt::format("worker.assign.{}: invalid value {}, allowed: 0-{}, because "
                                   "worker.count is {}",
                                   name, largest, count - 1, count));
    if (hca == nullptr) continue;
    if (is_verbs(*hca) && numbers.size() > 1)
      report.error(at, fmt::format("worker.assign.{}: {} workers, but only the cable of a soft hca "
                                   "has receive queues to share",
                                   name, numbers.size()));
    else if (numbers.size() > mgmt::kMaxCableWorkers)
      report.error(at, fmt::format("worker.assign.{}: {} workers, allowed: 1-{}", name,
                                   numbers.size(), mgmt::kMaxCableWorkers));
  }
}

/// Rejects values that are in the list of those that pass and in that of those that do not. `kind`
/// ends the keys of both.
template <class Value>
void check_apart(const Place& worker, std::string_view kind, const std::vector<Value>& passed,
                 const std::vector<Value>& dropped, const TextForm<Value>& form, Report& report) {
  const std::string pass = fmt::format("pass-{}", kind), drop = fmt::format("drop-{}", kind);
  if (!worker.good(pass) || !worker.good(drop)) return;
  for (std::size_t i = 0; i < dropped.size(); ++i)
    if (std::ranges::count(passed, dropped[i]) != 0)
      report.error(worker.at(drop, i),
                   fmt::format("worker.{}: invalid value {}, allowed: none of worker.{}", drop,
                               quote(form.format(dropped[i])), pass));
}

void check_headers(const Draft& draft, Report& report) {
  const fwd::HeaderChanges& h = draft.node.worker.headers;
  check_apart(draft.worker, "ip-options", h.pass_options, h.drop_options, ip_option_form(), report);
  check_apart(draft.worker, "ip6-extensions", h.pass_extensions, h.drop_extensions,
              ip6_extension_form(), report);
}

/// Rejects addresses, sizes and counts that are valid one by one, but not together.
void check_generator(const Draft& draft, Report& report) {
  if (!draft.generator.faulty.empty()) return;
  if (auto s = fwd::Generator::check(draft.node.generator); !s)
    report.error(draft.generator.at("tx-ip"), "generator: " + s.error().what);
}

}  // namespace

bool is_name(std::string_view name) {
  const auto is_name_char = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kMaxNameLen &&
         std::find(kReservedNames.begin(), kReservedNames.end(), name) == kReservedNames.end() &&
         std::all_of(name.begin(), name.end(), is_name_char);
}

void check_draft(Draft& draft, Report& report) {
  if (draft.hcas.empty() && draft.ports.empty() && draft.links.empty())
    report.error({}, "neither an hca nor a port is configured, allowed: at least one");
  check_names(draft, report);
  check_devices(draft, report);
  check_hcas(draft, report);
  check_subnet(draft, report);
  check_links(draft, report);
  check_ip(draft, report);
  check_workers(draft, report);
  check_headers(draft, report);
  check_generator(draft, report);
}

}  // namespace ipoib::app
