// SPDX-License-Identifier: BSD-3-Clause
#include "app/export/metrics.h"

#include <rte_version.h>

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "app/export/metric_table.h"
#include "app/export/render.h"
#include "lib/wire/iba.h"

namespace ipoib::app {
namespace {

using mgmt::HcaTotals;
using mgmt::InterfaceTotals;
using mgmt::QueueTotals;

constexpr std::array kInterfaceColumns = {
    MetricColumn<InterfaceTotals>{
        kGauge, "ipoib_interface_up", "1: the interface is up.",
        [](const auto& i) { return i.state == link::State::kUp ? 1. : 0.; }},
    MetricColumn<InterfaceTotals>{kGauge, "ipoib_interface_mtu_bytes",
                                  "MTU: the largest IP packet; 0 if unknown.",
                                  [](const auto& i) { return static_cast<double>(i.mtu); }},
    MetricColumn<InterfaceTotals>{
        kGauge, "ipoib_interface_speed_bytes_per_second",
        "Speed of the port, or rate of the link's broadcast group; 0 if unknown.",
        [](const auto& i) { return static_cast<double>(i.speed_bps) / 8; }},
    MetricColumn<InterfaceTotals>{
        kCounter, "ipoib_interface_receive_packets_total",
        "Packets received, including dropped ones.",
        [](const auto& i) { return static_cast<double>(i.traffic.rx_packets); }},
    MetricColumn<InterfaceTotals>{
        kCounter, "ipoib_interface_transmit_packets_total", "Packets sent.",
        [](const auto& i) { return static_cast<double>(i.traffic.tx_packets); }},
    MetricColumn<InterfaceTotals>{
        kCounter, "ipoib_interface_receive_bytes_total",
        "Octets received, from the IP or ARP header.",
        [](const auto& i) { return static_cast<double>(i.traffic.rx_bytes); }},
    MetricColumn<InterfaceTotals>{
        kCounter, "ipoib_interface_transmit_bytes_total", "Octets sent, from the IP or ARP header.",
        [](const auto& i) { return static_cast<double>(i.traffic.tx_bytes); }},
};

constexpr std::array kDeviceColumns = {
    MetricColumn<InterfaceTotals>{
        kCounter, "ipoib_interface_receive_missed_total",
        "Frames lost because the receive queue of the device was full.",
        [](const auto& i) { return static_cast<double>(i.errors.rx_missed); }},
    MetricColumn<InterfaceTotals>{
        kCounter, "ipoib_interface_receive_errors_total", "Erroneous frames dropped by the device.",
        [](const auto& i) { return static_cast<double>(i.errors.rx_errors); }},
    MetricColumn<InterfaceTotals>{
        kCounter, "ipoib_interface_receive_nombuf_total",
        "Frames dropped by the device because no packet buffer was free.",
        [](const auto& i) { return static_cast<double>(i.errors.rx_nombuf); }},
};

constexpr std::array kQueueColumns = {
    MetricColumn<QueueTotals>{
        kCounter, "ipoib_queue_receive_packets_total",
        "Packets that a worker received from its queues; the label has its first.",
        [](const auto& q) { return static_cast<double>(q.rx_packets); }},
    MetricColumn<QueueTotals>{
        kCounter, "ipoib_queue_receive_bytes_total",
        "Octets that a worker received from its queues; the label has its first.",
        [](const auto& q) { return static_cast<double>(q.rx_bytes); }},
    MetricColumn<QueueTotals>{kCounter, "ipoib_queue_transmit_packets_total",
                              "Packets that a worker sent by its queue.",
                              [](const auto& q) { return static_cast<double>(q.tx_packets); }},
    MetricColumn<QueueTotals>{kCounter, "ipoib_queue_transmit_bytes_total",
                              "Octets that a worker sent by its queue.",
                              [](const auto& q) { return static_cast<double>(q.tx_bytes); }},
};

constexpr std::array kHcaColumns = {
    MetricColumn<HcaTotals>{kGauge, "ipoib_sa_administrator",
                            "1: the port runs the subnet administrator.",
                            [](const auto& h) { return h.administrator ? 1. : 0.; }},
    MetricColumn<HcaTotals>{kGauge, "ipoib_sa_administrator_groups",
                            "Multicast groups of the subnet administrator.",
                            [](const auto& h) { return static_cast<double>(h.groups); }},
    MetricColumn<HcaTotals>{kGauge, "ipoib_sa_administrator_ports",
                            "Ports of the subnet that the subnet administrator knows.",
                            [](const auto& h) { return static_cast<double>(h.ports); }},
};

const char* direction(Drop reason) {
  return mgmt::is_transmit(reason) ? "transmit" : "receive";
}

void add_drops(prometheus::MetricFamily& family, const Labels& owner, mgmt::Place place,
               const std::array<std::uint64_t, kDropCount>& drops) {
  for (const auto& [reason, packets] : mgmt::drops_at(place, drops)) {
    Labels labels = owner;
    labels.push_back({"direction", direction(reason)});
    labels.push_back({"reason", std::string{drop_name(reason)}});
    add_series(family, std::move(labels), packets);
  }
}

/// Adds the numbers of a JSON object, labelled `event`. Those of a nested object have its key as a
/// prefix.
void add_events(prometheus::MetricFamily& family, const Labels& owner, const Json& counters,
                const std::string& prefix = {}) {
  for (const auto& [key, value] : counters.items()) {
    if (value.is_object()) {
      add_events(family, owner, value, prefix + key + "_");
      continue;
    }
    Labels labels = owner;
    labels.push_back({"event", prefix + key});
    add_series(family, std::move(labels), value.get<std::uint64_t>());
  }
}

/// Adds one series per possible value: 1 for the current one, 0 for the others.
template <class Names>
void add_choice(prometheus::MetricFamily& family, const Labels& owner, const char* label,
                const Names& names, std::string_view current) {
  for (const std::string_view name : names) {
    Labels labels = owner;
    labels.push_back({label, std::string{name}});
    add_series(family, std::move(labels), name == current ? 1 : 0);
  }
}

constexpr std::array<std::string_view, 4> kPortStates = {"down", "init", "armed", "active"};

std::array<std::string_view, 6> link_states() {
  std::array<std::string_view, 6> names;
  for (std::size_t i = 0; i < names.size(); ++i)
    names[i] = link::to_string(static_cast<link::State>(i));
  return names;
}

void add_node(Metrics& metrics, const MetricsSample& s, std::string_view version) {
  const auto add = [&](auto type, const char* name, const char* help, double value) {
    add_series(add_family(metrics, type, name, help), {}, value);
  };
  add(kGauge, "ipoib_up",
      "1: the management lcore answers. 0: it does not, and all other metrics are missing.", 1);
  add_series(add_family(metrics, kGauge, "ipoib_build_info", "1, with the versions as labels."),
             {{"version", std::string{version}}, {"dpdk", rte_version()}}, 1);
  add(kGauge, "ipoib_uptime_seconds", "Seconds since the start of the process.",
      std::chrono::duration<double>(s.totals.uptime).count());
  add(kGauge, "ipoib_tsc_frequency_hertz", "Frequency of the time-stamp counter.",
      static_cast<double>(s.totals.tsc_hz));
  add(kGauge, "ipoib_forwarding", "1: IP packets are forwarded. 0: IP packets are dropped.",
      s.forward.forwarding ? 1 : 0);
  add_choice(add_family(metrics, kGauge, "ipoib_forward_mode", "1 for the active forward mode."),
             {}, "mode", fwd::kForwardModeNames, fwd::mode_name(s.forward.mode));
  add(kGauge, "ipoib_burst_size_packets", "Maximum number of packets per receive burst.",
      s.forward.burst);
  add(kGauge, "ipoib_mbufs", "Total number of packet buffers.",
      static_cast<double>(s.totals.mbufs));
  add(kGauge, "ipoib_mbufs_free", "Free packet buffers.", static_cast<double>(s.totals.mbufs_free));
  add(kGauge, "ipoib_reserve_mbufs", "Packet buffers reserved for ARP, MADs and acknowledgements.",
      static_cast<double>(s.totals.reserve_mbufs));
  add(kGauge, "ipoib_reserve_mbufs_free", "Free packet buffers of the reserve.",
      static_cast<double>(s.totals.reserve_mbufs_free));
  add(kCounter, "ipoib_icmp_errors_sent_total", "ICMP errors, and redirects of IPv4, sent.",
      static_cast<double>(s.totals.icmp_errors.sent));
  add(kCounter, "ipoib_icmp_errors_suppressed_total",
      "ICMP errors and redirects not sent: beyond the rate limit, forbidden, to this node, or "
      "without an own address as the source.",
      static_cast<double>(s.totals.icmp_errors.suppressed));
  auto& routes = add_family(metrics, kGauge, "ipoib_routes", "Routes in effect, by kind.");
  for (const auto& [kind, n] : s.totals.routes)
    add_series(routes, {{"kind", std::string{kind}}}, n);
  add(kGauge, "ipoib_multicast_routes", "Multicast routes.",
      static_cast<double>(s.totals.multicast_routes));
  auto& refused = add_family(metrics, kCounter, "ipoib_membership_refused_total",
                             "Beyond a limit of IGMP and MLD: groups of an interface, groups of a "
                             "host, sources of a group, messages over the budget of records, "
                             "groups without room for their entries, and groups without room for "
                             "an election of their forwarder.");
  for (const auto& [reason, n] : s.totals.membership_refused)
    add_series(refused, {{"reason", std::string{reason}}}, n);
  auto& changes =
      add_family(metrics, kCounter, "ipoib_multicast_forwarder_changes_total",
                 "Times that the node began to forward a group to a link where no other "
                 "router did, and that it stopped because another router does.");
  for (const auto& [change, n] : s.totals.forwarder_changes)
    add_series(changes, {{"change", std::string{change}}}, n);
  add_drops(
      add_family(
          metrics, kCounter, "ipoib_node_drops_total",
          "Packets of the node itself dropped without an ingress or egress interface, by reason."),
      {}, mgmt::Place::kNode, s.totals.drops);
}

void add_interfaces(Metrics& metrics, const MetricsSample& s) {
  const auto& rows = s.totals.interfaces;
  const auto label = [](const InterfaceTotals& i) { return Labels{{"interface", i.name}}; };
  add_table(metrics, rows, kInterfaceColumns, label);

  auto& states = add_family(metrics, kGauge, "ipoib_interface_state",
                            "1 for the current state of the interface.");
  for (const auto& i : rows)
    add_choice(states, label(i), "state", link_states(), link::to_string(i.state));
  auto& drops = add_family(metrics, kCounter, "ipoib_interface_drops_total",
                           "Dropped packets by reason, counted on the ingress interface until the "
                           "egress interface is known, then on the egress interface.");
  for (const auto& i : rows) add_drops(drops, label(i), i.place, i.traffic.drops);

  std::vector<InterfaceTotals> ports;
  for (const auto& i : rows)
    if (i.place == mgmt::Place::kPort) ports.push_back(i);
  add_table(metrics, ports, kDeviceColumns, label);
  add_table(metrics, s.totals.queues, kQueueColumns, [](const QueueTotals& q) {
    return Labels{{"interface", q.interface},
                  {"queue", std::to_string(q.queue)},
                  {"worker", std::to_string(q.worker)}};
  });

  auto& neighbours = add_family(metrics, kGauge, "ipoib_neighbours", "Neighbours by state.");
  for (const auto& i : rows)
    for (std::size_t phase = 0; phase < i.neighbours.size(); ++phase)
      add_series(
          neighbours,
          {{"interface", i.name},
           {"state", std::string{link::to_string(static_cast<link::NeighbourPhase>(phase))}}},
          i.neighbours[phase]);
  auto& groups = add_family(metrics, kGauge, "ipoib_groups",
                            "Multicast groups that the node listens or sends to, by state.");
  for (const auto& i : rows)
    for (const auto& [state, n] : i.groups)
      add_series(groups, {{"interface", i.name}, {"state", std::string{state}}}, n);
  auto& messages = add_family(metrics, kCounter, "ipoib_membership_messages_total",
                              "Messages of IGMP and MLD by kind: reports and leaves for groups of "
                              "this node, messages from sources that are not on the link (foreign) "
                              "and, of a multicast router, queries and reports of hosts.");
  for (const auto& i : rows)
    for (const auto& [kind, n] : i.membership)
      add_series(messages, {{"interface", i.name}, {"kind", std::string{kind}}}, n);
}

void add_links_and_ports(Metrics& metrics, const MetricsSample& s) {
  auto& links = add_family(metrics, kGauge, "ipoib_link_info",
                           "1, with the properties of the link as labels.");
  for (const auto& l : s.links)
    add_series(links,
               {{"interface", l.name},
                {"hca", l.hca},
                {"pkey", fmt::format("{:#06x}", l.pkey)},
                {"mode", l.mode},
                {"dialect", l.dialect}},
               1);
  auto& ports = add_family(metrics, kGauge, "ipoib_port_info",
                           "1, with the properties of the port as labels.");
  for (const auto& p : s.ports)
    add_series(ports, {{"interface", p.name}, {"device", p.device}, {"driver", p.driver}}, 1);
  auto& connections = add_family(metrics, kGauge, "ipoib_link_connections",
                                 "Connections of connected mode, in any state.");
  for (const auto& l : s.links)
    add_series(connections, {{"interface", l.name}}, l.connected ? l.connected->connections : 0);
  auto& events = add_family(metrics, kCounter, "ipoib_interface_events_total",
                            "Events of the control plane of an interface.");
  for (const auto& l : s.links) add_events(events, {{"interface", l.name}}, counters_json(l));
  for (const auto& p : s.ports) add_events(events, {{"interface", p.name}}, counters_json(p));
}

void add_hcas(Metrics& metrics, const MetricsSample& s) {
  auto& info = add_family(metrics, kGauge, "ipoib_hca_info",
                          "1, with the properties of the port as labels.");
  for (const auto& h : s.hcas)
    add_series(info,
               {{"hca", h.name},
                {"driver", h.driver},
                {"wire", h.wire},
                {"guid", fmt::format("{:#018x}", h.attr.guid)}},
               1);
  auto& states = add_family(metrics, kGauge, "ipoib_hca_state",
                            "1 for the current state of the InfiniBand port.");
  for (const auto& h : s.hcas)
    add_choice(states, {{"hca", h.name}}, "state", kPortStates, state_name(h.attr.state));
  auto& lids =
      add_family(metrics, kGauge, "ipoib_hca_lid", "Local identifier of the port; 0: none.");
  for (const auto& h : s.hcas) add_series(lids, {{"hca", h.name}}, h.attr.lid);
  auto& sm_lids =
      add_family(metrics, kGauge, "ipoib_hca_sm_lid", "LID of the subnet manager; 0: none.");
  for (const auto& h : s.hcas) add_series(sm_lids, {{"hca", h.name}}, h.attr.sm_lid);

  const auto& rows = s.totals.hcas;
  const auto label = [](const HcaTotals& h) { return Labels{{"hca", h.name}}; };
  auto& drops = add_family(metrics, kCounter, "ipoib_hca_drops_total",
                           "Packets dropped by the InfiniBand port, by reason.");
  for (const auto& h : rows) add_drops(drops, label(h), mgmt::Place::kHca, h.drops);
  auto& client = add_family(metrics, kCounter, "ipoib_sa_client_events_total",
                            "Requests to the subnet administrator and their results.");
  for (const auto& h : rows) add_events(client, label(h), to_json(h.client));
  auto& smps = add_family(metrics, kCounter, "ipoib_sa_administrator_smps_total",
                          "SMPs of the embedded administrator to other ports, and their results.");
  for (const auto& h : rows)
    if (h.administrator) add_events(smps, label(h), to_json(h.smps));
  auto& cm = add_family(metrics, kCounter, "ipoib_cm_events_total",
                        "Messages and events of the communication manager.");
  for (const auto& h : s.hcas) add_events(cm, {{"hca", h.name}}, to_json(h.cm));
  auto& mads = add_family(metrics, kCounter, "ipoib_mad_events_total",
                          "Management datagrams sent, received and lost by the device.");
  for (const auto& h : rows)
    for (const auto& [name, n] : h.mads)
      add_series(mads, {{"hca", h.name}, {"event", std::string{name}}}, n);
  add_table(metrics, rows, kHcaColumns, label);
}

/// Labels with the members of a rule, because its number changes with the rules before it.
void add_filters(Metrics& metrics, const MetricsSample& s) {
  auto& packets = add_family(metrics, kCounter, "ipoib_filter_packets_total",
                             "Packets that fitted the filter rule before any other.");
  for (const auto& filter : s.filters) {
    const Json row = to_json(filter);
    Labels labels{{"rule", std::to_string(filter.number)}};
    for (const char* key : {"interface", "direction", "action", "source", "destination", "protocol",
                            "source_ports", "destination_ports"})
      labels.push_back({key, row.at(key).get<std::string>()});
    add_series(packets, std::move(labels), filter.packets);
  }
}

}  // namespace

MetricsSample metrics_sample(const mgmt::NodeView& view, const mgmt::NodeStats& stats) {
  return {stats.totals(), view.forward_info(), view.links(),
          view.ports(),   view.hcas(),         view.filters()};
}

Metrics metrics_of(const MetricsSample& sample, std::string_view version) {
  Metrics metrics;
  add_node(metrics, sample, version);
  add_interfaces(metrics, sample);
  add_links_and_ports(metrics, sample);
  add_hcas(metrics, sample);
  add_filters(metrics, sample);
  add_work(metrics, sample.totals);
  // The text format has no family without series.
  std::erase_if(metrics, [](const auto& family) { return family.metric.empty(); });
  return metrics;
}

Metrics metrics_of_silence() {
  Metrics metrics;
  add_series(
      add_family(
          metrics, kGauge, "ipoib_up",
          "1: the management lcore answers. 0: it does not, and all other metrics are missing."),
      {}, 0);
  return metrics;
}

}  // namespace ipoib::app
