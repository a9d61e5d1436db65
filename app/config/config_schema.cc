// SPDX-License-Identifier: BSD-3-Clause
#include "app/config/config_schema.h"

#include <limits>

#include "app/config/filter_text.h"
#include "app/config/header_text.h"
#include "lib/fwd/worker_config.h"
#include "lib/route/route_table.h"

namespace ipoib::app {
namespace {

using mgmt::FilterConfig;
using mgmt::HcaConfig;
using mgmt::LinkConfigEntry;
using mgmt::MulticastRouteConfig;
using mgmt::NeighbourEntryConfig;
using mgmt::NodeConfig;
using mgmt::PortConfig;
using mgmt::RarpEntryConfig;
using mgmt::RouteConfig;

constexpr std::int64_t kLastUnicastLid = 0xbfff;
constexpr std::int64_t kLastDevicePort = 254;
constexpr std::size_t kMaxUmadNameLen = 19;  // UMAD_CA_NAME_LEN without the terminating zero.

IntegerOf ib_mtus() {
  return {{256, 512, 1024, 2048, 4096}};
}

bool is_ibarp(const LinkConfigEntry& l) {
  return l.dialect == mgmt::LinkDialect::kIbarp2001;
}

/// Multicast scopes of RFC 4291.
AutoOr<IntegerOf> scopes() {
  return {.values = {{2, 5, 8, 14}}, .automatic = link::kScopeAuto};
}

AutoOr<Integer> ack_timeouts() {
  return {.values = {1, link::kLongestAckTimeout}, .automatic = link::kAckTimeoutAuto};
}

/// Restricts a row to ports of one driver.
Row<HcaConfig> of_soft(Row<HcaConfig> row) {
  row.conditions.push_back(
      {"driver", [](const HcaConfig& hca) { return hca.driver == mgmt::HcaDriver::kSoft; },
       "because driver is \"verbs\""});
  return row;
}
Row<HcaConfig> of_verbs(Row<HcaConfig> row) {
  row.conditions.push_back(
      {"driver", [](const HcaConfig& hca) { return hca.driver == mgmt::HcaDriver::kVerbs; },
       "because driver is \"soft\""});
  return row;
}

/// Restricts a row to ports that no subnet manager sets up.
Row<HcaConfig> unmanaged(Row<HcaConfig> row) {
  row.conditions.push_back({"mad", [](const HcaConfig& hca) { return hca.mad.device.empty(); },
                            "because the subnet manager behind mad assigns it"});
  return row;
}

Section<HcaConfig> hca_section() {
  using E = HcaConfig;
  return {
      "hca",
      Shape::kNamed,
      "An InfiniBand port. NAME can be chosen freely.",
      {
          row<E>("driver", &E::driver, OneOf<mgmt::HcaDriver>::named(mgmt::kHcaDriverNames),
                 "Driver of the port: soft is a software HCA over an Ethernet device, verbs an "
                 "RDMA device of rdma-core."),
          of_soft(row<E>("wire", &E::wire, Text{},
                         "With soft: name of the DPDK Ethernet device that serves as the cable.",
                         Required::kYes)),
          of_verbs(row<E>("device", &E::device, Text{kMaxUmadNameLen},
                          "With verbs: name of the RDMA device, as listed by ibv_devices.",
                          Required::kYes)),
          of_verbs(row<E>("port", &E::port, Integer{1, kLastDevicePort},
                          "With verbs: port number of the RDMA device.")),
          of_soft(row<E>(
              "mad", &E::mad, MadRoute{},
              "Transport of management datagrams: the cable, or libibumad for a real subnet "
              "manager, which then also configures the port. With umad, the options guid, lid, "
              "lmc, sm-lid, pkeys and subnet-administrator are not allowed. With verbs they always "
              "go through libibumad, and the device provides the attributes of the port.")),
          of_soft(unmanaged(row<E>(
              "guid", &E::guid, Guid{},
              "Port GUID, the worldwide name of the port; unique in the fabric.", Required::kYes))),
          of_soft(unmanaged(row<E>(
              "lid", &E::lid, Integer{1, kLastUnicastLid},
              "Local identifier, the address of the port in its subnet; unique in the subnet.",
              Required::kYes))),
          of_soft(unmanaged(
              row<E>("lmc", &E::lmc, Integer{0, 7},
                     "The port has 2^lmc consecutive LIDs from lid on, which is a multiple of "
                     "their number. All ports of a subnet have one lmc. Several LIDs give several "
                     "paths."))),
          of_soft(unmanaged(row<E>("sm-lid", &E::sm_lid, Integer{1, kLastUnicastLid},
                                   "LID of the port that runs the subnet administrator. With "
                                   "subnet-administrator it is the port's own LID."))),
          of_soft(unmanaged(row<E>("pkeys", &E::pkeys, ListOf<Pkey>{{}, 1, 128},
                                   "Partition keys of the port. The most significant bit is set "
                                   "for full membership and clear for limited membership."))),
          row<E>("mtu", &E::mtu, ib_mtus(),
                 "Largest InfiniBand MTU of the port, in octets. Default: 2048 with soft; with "
                 "verbs, the MTU of the port itself, if mbuf-size allows it."),
          unmanaged(row<E>("subnet-administrator", &E::subnet_administrator, Boolean{},
                           "Run the embedded subnet administrator on this port; one per fabric. "
                           "With verbs: for ports of Ethernet link layer (RoCE), which have no "
                           "subnet manager; every node then runs its own.")),
          row<E>("connections-per-port", &E::connections_per_port, Integer{1, 65'536},
                 "Largest number of connections that one port of a peer may have requested from "
                 "links of this port. Ports that share a LID count as one."),
          of_soft(row<E>("icrc", &E::icrc, Switch{},
                         "Generate and verify the invariant CRC of packets. off: as if hardware "
                         "did it, for measurements only.")),
          of_soft(row<E>("first-qpn", &E::first_qpn, Integer{2, 0xff'fffe},
                         "First queue pair number. Default: a random number.")),
      }};
}

/// Adds the options that links and ports share.
template <class E>
void add_ip_rows(std::vector<Row<E>>& rows) {
  using wire::InterfaceIdRule;
  const auto add = [&](Row<E> r) { rows.push_back(std::move(r)); };
  add(row<E>(
      "multicast-router", [](auto& c) -> auto& { return c.ip.multicast_router; }, Boolean{},
      "Route IP multicast between this and other such interfaces, to the interfaces where hosts "
      "join groups by IGMP or MLD. A link then receives all groups."));
  add(row<E>(
      "mirror", [](auto& c) -> auto& { return c.ip.mirror; }, Boolean{},
      "Mirror the interface in Linux. Default: linux.mirror."));
  add(row<E>(
      "proxy", [](auto& c) -> auto& { return c.ip.proxy; }, Text{31},
      "Name of a group of interfaces that share their subnets: the node answers ARP and neighbour "
      "discovery of hosts on one for those on the others, and routes between them. They have "
      "addresses of the same prefixes."));
  add(row<E>(
      "last-member-interval", [](auto& c) -> auto& { return c.ip.last_member_interval; },
      Seconds{0.1, 25.5},
      "With multicast-router: time between the two queries for other members that follow when a "
      "host leaves a group. Without an answer, the group is no longer forwarded."));
  add(row<E>(
      "query-interval", [](auto& c) -> auto& { return c.ip.query_interval; }, Seconds{1, 31'744},
      "With multicast-router: time between the general queries for members."));
  add(row<E>(
      "query-response-interval", [](auto& c) -> auto& { return c.ip.query_response_interval; },
      Seconds{0.1, 3'174.4},
      "With multicast-router: time within which hosts answer a general query; less than "
      "query-interval."));
  add(row<E>(
      "query-robustness", [](auto& c) -> auto& { return c.ip.query_robustness; }, Integer{1, 7},
      "With multicast-router: number of lost messages in a row that members survive, plus one. "
      "Another router takes over when the querier was silent for query-interval times this number, "
      "plus half of query-response-interval."));
  add(row<E>(
      "igmp-version", [](auto& c) -> auto& { return c.ip.igmp_version; }, Integer{1, 3},
      "With multicast-router: version of IGMP queries. All routers of a link must agree. With 1, "
      "hosts do not report that they leave, so last-member-interval has no effect; queries do not "
      "carry query-response-interval, and hosts answer within 10 s; and routers elect no "
      "querier."));
  add(row<E>(
      "mld-version", [](auto& c) -> auto& { return c.ip.mld_version; }, Integer{1, 2},
      "With multicast-router: version of MLD queries. All routers of a link must agree."));
  add(row<E>(
      "multicast-forwarder", [](auto& c) -> auto& { return c.ip.multicast_forwarder; },
      OneOf<route::ForwarderRule>{
          {{"querier", route::ForwarderRule::kQuerier}, {"always", route::ForwarderRule::kAlways}}},
      "With multicast-router: which of several routers forwards the groups that hosts request. "
      "querier: one of them, which is the querier of the hosts' link or, if packets show that it "
      "does not forward, another; always: this node too, from and to the interface."));
  add(row<E>(
      "max-groups", [](auto& c) -> auto& { return c.ip.max_groups; }, Integer{512, 16'384},
      "Multicast groups of each IP version that are taken from reports of hosts. On a link also "
      "the groups that this node listens to, and further ones that it sends to or routes."));
  add(row<E>(
      "groups", [](auto& c) -> auto& { return c.ip.groups; }, ListOf<Group>{},
      "Multicast groups that this node joins."));
  add(row<E>(
      "source-check", [](auto& c) -> auto& { return c.ip.source_check; },
      OneOf<fwd::SourceCheck>{{{"off", fwd::SourceCheck::kOff},
                               {"loose", fwd::SourceCheck::kLoose},
                               {"strict", fwd::SourceCheck::kStrict}}},
      "Drop unicast packets that arrive here if no route leads to their source (loose), or none by "
      "this interface (strict). A default route counts."));
  add(row<E>(
      "directed-broadcast", [](auto& c) -> auto& { return c.ip.directed_broadcast; },
      OneOf<fwd::DirectedBroadcast>{{{"off", fwd::DirectedBroadcast::kOff},
                                     {"subnet", fwd::DirectedBroadcast::kSubnet},
                                     {"all-subnets", fwd::DirectedBroadcast::kAllSubnets}}},
      "Forward packets from other interfaces to the broadcast addresses of the IPv4 prefixes here "
      "(subnet), and to those of their classful nets (all-subnets), to all hosts of the link "
      "(RFC 2644)."));
  add(row<E>(
      "ask-rarp", [](auto& c) -> auto& { return c.ip.ask_rarp; }, Boolean{},
      "Request an IPv4 address for this interface by RARP."));
  add(row<E>(
      "rarp-prefix-length", [](auto& c) -> auto& { return c.ip.rarp_prefix_len; }, Integer{1, 32},
      "Prefix length of the address obtained by RARP, which does not carry prefix lengths."));
  add(row<E>(
      "ipv6", [](auto& c) -> auto& { return c.ip.ip6.enabled; }, Boolean{},
      "Enable IPv6, with at least a link-local address."));
  add(row<E>(
      "router-advertisement", [](auto& c) -> auto& { return c.ip.ip6.router_advertisement; },
      Boolean{}, "Send router advertisements with the prefixes and the MTU."));
  add(row<E>(
      "accept-ra", [](auto& c) -> auto& { return c.ip.ip6.accept_ra; }, Boolean{},
      "Accept router advertisements: default routers, MTU, and redirects of these routers."));
}

/// Adds the options of connected mode.
void add_connection_rows(std::vector<Row<LinkConfigEntry>>& rows) {
  using E = LinkConfigEntry;
  using link::OpenPolicy;
  using link::PairPolicy;
  using wire::ServiceIdForm;
  const auto add = [&](Row<E> r) {
    r.conditions = {{"mode", [](const E& l) { return l.mode != mgmt::LinkMode::kDatagram; },
                     "because mode is \"datagram\""}};
    rows.push_back(std::move(r));
  };
  add(row<E>("connected-mtu", &E::connected_mtu, Integer{1280, 65'520},
             "Largest IP packet on a connection, in octets. For each neighbour the smaller value "
             "of both sides applies."));
  add(row<E>(
      "connect", [](auto& c) -> auto& { return c.connection.open; },
      OneOf<OpenPolicy>{{{"traffic", OpenPolicy::kTraffic},
                         {"always", OpenPolicy::kAlways},
                         {"accept", OpenPolicy::kAccept}}},
      "When to open a connection to a neighbour: traffic: while packets are sent to it; always: as "
      "soon as it is known; accept: never, only accept its requests."));
  add(row<E>(
      "connection-pairs", [](auto& c) -> auto& { return c.connection.pairs; },
      OneOf<PairPolicy>{{{"one", PairPolicy::kOne},
                         {"first", PairPolicy::kFirst},
                         {"per-direction", PairPolicy::kPerDirection}}},
      "Connections with a neighbour: one for both directions, or one per direction as in Linux. If "
      "the neighbour requests a further one, it replaces the earlier one (one), or is refused "
      "while the neighbour uses that (first): a request replaces it if nothing was received on it "
      "for 3 s after a refusal. With one and first, a neighbour that opens connections as Linux "
      "does still has one per direction."));
  add(row<E>(
      "service-id", [](auto& c) -> auto& { return c.connection.service_id; },
      OneOf<ServiceIdForm>{{{"ietf", ServiceIdForm::kIetf}, {"linux", ServiceIdForm::kLinux}}},
      "Service ID of the first request: its first octet is 0x01, or 0x10 as in Linux. If the "
      "neighbour does not know it, the other one follows. The node listens on both."));
  add(row<E>(
      "max-connections", [](auto& c) -> auto& { return c.connection.max_connections; },
      Integer{1, 65'536},
      "Maximum number of connections, opened or accepted; other neighbours are reached by UD."));
  add(row<E>(
      "connection-idle", [](auto& c) -> auto& { return c.connection.idle; }, Seconds{1, 86'400},
      "Idle time after which a connection is closed."));
  add(row<E>(
      "connection-backoff", [](auto& c) -> auto& { return c.connection.backoff_max; },
      Seconds{1, 86'400},
      "Maximum time before a new request to a neighbour that rejected a connection or did not "
      "answer. The first wait is 1 s and doubles with each failure."));
  add(row<E>(
      "cm-timeout", [](auto& c) -> auto& { return c.connection.cm_timeout; }, Integer{8, 23},
      "Time-out for the answer to a connection request: 4.096 us times 2 to the power of this "
      "value; 17 is 0.54 s."));
  add(row<E>(
      "cm-retries", [](auto& c) -> auto& { return c.connection.cm_retries; }, Integer{0, 15},
      "Number of retries of a connection request."));
  add(row<E>(
      "ack-timeout", [](auto& c) -> auto& { return c.connection.ack_timeout; }, ack_timeouts(),
      "Time-out for the acknowledgement of an RC packet before it is retransmitted, encoded as in "
      "cm-timeout; 12 is 17 ms. auto: twice the packet lifetime of the path plus the ACK delay of "
      "the neighbour, at least 1 ms, but so short that all retries of retry-count end within 200 "
      "ms, the minimum retransmission time-out of TCP. Hardware may wait up to four times as long "
      "for each. Over long distances, set a value above the round-trip time."));
  add(row<E>(
      "retry-count", [](auto& c) -> auto& { return c.connection.retry_count; }, Integer{0, 7},
      "Number of retransmissions of an RC packet before the connection fails and packets are sent "
      "as datagrams."));
  add(row<E>(
      "rnr-retry", [](auto& c) -> auto& { return c.connection.rnr_retry; }, Integer{0, 7},
      "Number of retries of an RC sender when the receiver has no buffers, before the connection "
      "fails: the value requested from the neighbour, and the maximum it may request; 7: "
      "unlimited."));
}

/// Adds the options of addresses that several nodes share.
void add_shared_rows(std::vector<Row<LinkConfigEntry>>& rows) {
  using E = LinkConfigEntry;
  Row<E> address = row<E>(
      "shared-address", [](auto& c) -> auto& { return c.shared.addresses; },
      ListOf<Address>{{}, 0, link::kMaxSharedAddresses * 2},
      "IP addresses that this link shares with links of other nodes, each within a prefix of "
      "address: hosts have them as gateways. All nodes are active, each answers the hosts that a "
      "hash of their GUIDs gives to it, and when one goes the others take over its hosts. All "
      "nodes have equal shared options.");
  address.conditions = {
      {"dialect", [](const E& l) { return !is_ibarp(l); }, "because dialect is \"ibarp2001\""}};
  rows.push_back(std::move(address));
  const auto add = [&](Row<E> r) {
    r.conditions = {{"shared-address", [](const E& l) { return !l.shared.addresses.empty(); },
                     "because there is no shared-address"}};
    rows.push_back(std::move(r));
  };
  add(row<E>(
      "shared-vrid", [](auto& c) -> auto& { return c.shared.vrid; }, Integer{1, 255},
      "With shared-address: virtual router ID of the nodes' advertisements (VRRPv3), which no "
      "other "
      "routers of the link may use."));
  add(row<E>(
      "shared-interval", [](auto& c) -> auto& { return c.shared.interval; }, Seconds{0.1, 40},
      "With shared-address: time between two advertisements. A node that was silent for three and "
      "a half times this is gone. A multiple of 0.01."));
  add(row<E>(
      "shared-members", [](auto& c) -> auto& { return c.shared.members; },
      ListOf<Guid>{{}, 0, link::kMaxSharedMembers},
      "With shared-address: port GUIDs of the nodes that may share it, this one included. Default: "
      "any node of the partition."));
}

/// Adds the options of the draft of 2001.
void add_ibarp_rows(std::vector<Row<LinkConfigEntry>>& rows) {
  using E = LinkConfigEntry;
  const auto add = [&](Row<E> r) {
    r.conditions = {{"dialect", is_ibarp, "because dialect is \"rfc4391\""}};
    rows.push_back(std::move(r));
  };
  add(row<E>(
      "sidr-service-id", [](auto& c) -> auto& { return c.ibarp.service_id; },
      Integer{1, std::numeric_limits<std::int64_t>::max(), true},
      "With dialect ibarp2001: service ID of IBARP, by which the parameters of the broadcast group "
      "are found (SIDR). The draft assigns none."));
  add(row<E>(
      "sidr-server", [](auto& c) -> auto& { return c.ibarp.server; }, Boolean{},
      "With dialect ibarp2001: this node answers SIDR for the link, from its broadcast group, and "
      "asks no other node."));
  add(row<E>(
      "sidr-lid", [](auto& c) -> auto& { return c.ibarp.server_lid; }, Integer{0, 0xbfff},
      "With dialect ibarp2001: LID of the node that answers SIDR; 0: that of the subnet manager."));
  add(row<E>(
      "arp-hardware-type", [](auto& c) -> auto& { return c.ibarp.arp_hardware; },
      Integer{0, 0x0fff},
      "With dialect ibarp2001: hardware type in IBARP packets, which the draft leaves open."));
  add(row<E>(
      "arp-ethertype", [](auto& c) -> auto& { return c.ibarp.arp_type; },
      OneOf<std::uint16_t>{{{"arp", 0x0806}, {"ipv4", 0x0800}}},
      "With dialect ibarp2001: Ethertype of IBARP packets that are sent: that of ARP, 0x0806, or "
      "that of IPv4, 0x0800, as in the draft's table. Both are received."));
  add(row<E>(
      "gid-word", [](auto& c) -> auto& { return c.ibarp.gid_word_twice; },
      OneOf<bool>{{{"once", false}, {"twice", true}}},
      "With dialect ibarp2001: the first word of the GID in link-layer addresses is there once, or "
      "twice as in the draft's figures."));
  add(row<E>(
      "arp-reply", [](auto& c) -> auto& { return c.ibarp.reply_keeps_order; },
      OneOf<bool>{{{"draft", true}, {"rfc826", false}}},
      "With dialect ibarp2001: an IBARP reply has the requester as sender, as in the draft's "
      "table, or the replying host, as in RFC 826."));
}

/// A link of the draft of 2001 has no group of the fabric but its broadcast group, makes that one
/// only if it serves it to others, and has one rule for its interface identifier.
void limit_to_dialects(std::vector<Row<LinkConfigEntry>>& rows) {
  using E = LinkConfigEntry;
  for (auto& r : rows) {
    for (const std::string_view key :
         {"all-nodes", "send-only", "flood-absent", "copy-to-routers", "interface-id"})
      if (r.key == key)
        r.conditions.push_back({"dialect", [](const E& l) { return !is_ibarp(l); },
                                "because dialect is \"ibarp2001\""});
    for (const std::string_view key : {"scope", "create-broadcast", "mtu", "qkey", "rate", "sl",
                                       "traffic-class", "flow-label", "hop-limit"})
      if (r.key == key)
        r.conditions.push_back({"sidr-server",
                                [](const E& l) { return !is_ibarp(l) || l.ibarp.server; },
                                "because dialect is \"ibarp2001\" without sidr-server"});
  }
}

Section<LinkConfigEntry> link_section() {
  using E = LinkConfigEntry;
  auto section = Section<LinkConfigEntry>{
      "link",
      Shape::kNamed,
      "An IP over InfiniBand interface.",
      {
          row<E>("hca", &E::hca, Text{}, "Name of the hca of the link.", Required::kYes),
          row<E>("pkey", &E::pkey, Pkey{}, "Partition of the link: one of the pkeys of the hca."),
          row<E>("dialect", &E::dialect, OneOf<mgmt::LinkDialect>::named(mgmt::kLinkDialectNames),
                 "Encapsulation and address resolution: RFC 4391, or the draft of 2001 before it "
                 "(draft-pelissier-ipoib-encaparp-00), with 32-octet addresses and SIDR."),
          row<E>("mode", &E::mode, OneOf<mgmt::LinkMode>::named(mgmt::kLinkModeNames),
                 "Transport of unicast packets: datagrams (UD) only, or also connections (RC, UC, "
                 "or both) with neighbours that support them. Without an established connection, "
                 "packets are sent as datagrams; multicast, ARP and ND always are."),
          row<E>("scope", &E::scope, scopes(),
                 "Scope of the link's multicast groups: 2 link, 5 site, 8 organisation, 14 global; "
                 "auto: the first of these with a broadcast group."),
          row<E>("create-broadcast", &E::create_broadcast, Boolean{},
                 "Create the broadcast group, with the attributes that follow, if the subnet "
                 "administrator has none."),
          row<E>(
              "mtu", [](auto& c) -> auto& { return c.broadcast.mtu; }, ib_mtus(),
              "With create-broadcast: InfiniBand MTU of the group, in octets. The IP MTU is 4 "
              "octets less."),
          row<E>(
              "qkey", [](auto& c) -> auto& { return c.broadcast.qkey; },
              Integer{0, 0xffff'ffff, true},
              "With create-broadcast: queue key of the group. A key whose most significant bit is "
              "set is controlled."),
          row<E>(
              "rate", [](auto& c) -> auto& { return c.broadcast.rate; }, Rate{},
              "With create-broadcast: rate of the group, in Gb/s."),
          row<E>(
              "sl", [](auto& c) -> auto& { return c.broadcast.sl; }, Integer{0, 15},
              "With create-broadcast: service level of the group."),
          row<E>(
              "traffic-class", [](auto& c) -> auto& { return c.broadcast.tclass; }, Integer{0, 255},
              "With create-broadcast: traffic class of the group, for its global routing header."),
          row<E>(
              "flow-label", [](auto& c) -> auto& { return c.broadcast.flow_label; },
              Integer{0, 0xf'ffff},
              "With create-broadcast: flow label of the group, for its global routing header."),
          row<E>(
              "hop-limit", [](auto& c) -> auto& { return c.broadcast.hop_limit; }, Integer{0, 255},
              "With create-broadcast: hop limit of the group. More than 1 lets its packets cross "
              "InfiniBand routers. Default: 0 with scope 2 or auto, else 64."),
          row<E>("all-nodes", &E::all_nodes,
                 OneOf<link::AllNodes>{{{"auto", link::AllNodes::kAuto},
                                        {"joined", link::AllNodes::kJoined},
                                        {"instead", link::AllNodes::kInstead}}},
                 "The IPv6 all-nodes group: auto: joined if IPv6 is enabled; joined: always "
                 "joined; instead: used as the link's broadcast group, without IPv4."),
          row<E>("shared-port", &E::shared_port,
                 OneOf<link::SharedPort>{{{"auto", link::SharedPort::kAuto},
                                          {"yes", link::SharedPort::kYes},
                                          {"no", link::SharedPort::kNo}}},
                 "Another user, such as ib_ipoib, has the same port and partition, and groups are "
                 "not left, because the subnet manager would end its memberships too: auto: while "
                 "the kernel has such an interface in this network namespace; yes: always, for "
                 "users that this process cannot see; no: never."),
          row<E>("send-only", &E::send_only,
                 OneOf<link::SendOnly>{{{"nonmember", link::SendOnly::kNonMember},
                                        {"fullmember", link::SendOnly::kFullMember}}},
                 "Join state for sending to a group: nonmember sends only to existing groups (RFC "
                 "4391); fullmember creates them, as Linux does."),
          row<E>("flood-absent", &E::flood_absent, Boolean{},
                 "Send packets for nonexistent groups to the broadcast group, except those with "
                 "link-local scope."),
          row<E>("address", &E::addresses, ListOf<InterfaceAddress>{},
                 "IP addresses of the interface with their prefix lengths. IPv6 has a link-local "
                 "address beside these."),
          row<E>(
              "queue-pairs", &E::queue_pairs, Integer{0, 127},
              "Limit of the link's UD queue pairs, each of another worker; 0: one for each worker, "
              "as far as the hca has them."),
          row<E>("qpn", &E::qpn, Integer{2, 0xff'fffe},
                 "QPN of the link's first queue pair, which is part of its link-layer address: for "
                 "hosts with static ARP entries, and for RARP servers. With soft, the link always "
                 "has it. With verbs, the device chooses QPNs: the node logs a warning when it has "
                 "another. Default: any."),
          row<E>("anonymous-requests", &E::anonymous_requests, Boolean{},
                 "With several queue pairs, ARP requests to all hosts have no sender, because all "
                 "hosts would send to its queue pair. false: they have one, and hosts move back to "
                 "their queue pairs with the next unicast message."),
          row<E>(
              "balance", &E::balance, Boolean{},
              "With several queue pairs, neighbours move from the queue pair of a busy worker to "
              "that of an idle one, and busy workers get no new connections."),
          row<E>(
              "paths", &E::paths, IntegerOf{{1, 2, 4}},
              "Largest number of paths to a neighbour whose port or whose subnet has several LIDs "
              "(LMC). Each flow of datagrams keeps to one of them; connections use the first."),
          row<E>("copy-to-routers", &E::copy_to_routers, Boolean{},
                 "Also send each multicast datagram to the all-routers group, for multicast "
                 "routers that do not join every group."),
          row<E>(
              "interface-id", [](auto& c) -> auto& { return c.ip.ip6.interface_id; },
              OneOf<wire::InterfaceIdRule>{
                  {{"auto", wire::InterfaceIdRule::kSetUniversal},
                   {"eui64", wire::InterfaceIdRule::kEui64},
                   {"modified-eui64", wire::InterfaceIdRule::kModifiedEui64},
                   {"lid", wire::InterfaceIdRule::kLid}}},
              "Source of the IPv6 interface identifier: the port GUID with its universal bit set "
              "(auto), inverted (eui64) or unchanged (modified-eui64), or the LID, for links "
              "within one InfiniBand subnet."),
      }};
  add_shared_rows(section.rows);
  limit_to_dialects(section.rows);
  add_connection_rows(section.rows);
  add_ibarp_rows(section.rows);
  add_ip_rows(section.rows);
  return section;
}

Section<PortConfig> port_section() {
  using E = PortConfig;
  auto section = Section<PortConfig>{
      "port",
      Shape::kNamed,
      "An Ethernet port.",
      {
          row<E>("device", &E::device, Text{}, "Name of the DPDK Ethernet device.", Required::kYes),
          row<E>("address", &E::addresses, ListOf<InterfaceAddress>{},
                 "IP addresses of the interface with their prefix lengths. IPv6 has a link-local "
                 "address beside these."),
          row<E>("mtu", &E::mtu, Integer{68, 9600}, "MTU: the largest IP packet, in octets."),
          row<E>("tcp-offload", &E::tcp_offload, Boolean{},
                 "Merge consecutive TCP segments of MTU size into larger packets for neighbours in "
                 "connected mode (GRO), and cut TCP packets larger than the MTU into segments "
                 "(GSO). Set it, with the same MTU, on every port of every node that such packets "
                 "can leave by."),
      }};
  add_ip_rows(section.rows);
  return section;
}

Section<RouteConfig> route_section() {
  using E = RouteConfig;
  return {"route",
          Shape::kList,
          "A static route.",
          {
              row<E>("to", &E::to, Prefix{}, "Destinations.", Required::kYes),
              row<E>("via", &E::via, ListOf<Gateway>{{}, 0, route::RouteTable::kMaxPaths},
                     "Next hops, each within a prefix of a link or port, or link-local. With "
                     "several, flows are distributed over the reachable ones. Not allowed with "
                     "blackhole."),
              row<E>("interface", &E::iface, Text{},
                     "Link or port of the next hops. Link-local ones (fe80::/10) require it."),
              row<E>("blackhole", &E::blackhole, Boolean{}, "Drop packets to this destination."),
          }};
}

Section<MulticastRouteConfig> multicast_route_section() {
  using E = MulticastRouteConfig;
  return {"multicast-route",
          Shape::kList,
          "A static multicast route.",
          {
              row<E>("groups", &E::groups, Groups{}, "Multicast group, or a prefix of groups.",
                     Required::kYes),
              row<E>("source", &E::source, Source{},
                     "Source address of the packets; any: all sources."),
              row<E>("in", &E::in, Text{},
                     "Incoming link or port. A link joins the groups while they have members.",
                     Required::kYes),
              row<E>("out", &E::out, ListOf<Text>{{}, 1, 64}, "Outgoing links and ports.",
                     Required::kYes),
          }};
}

/// The name of a link or port, or "all", which is stored as an empty name.
struct FilterInterface : Text {
  [[nodiscard]] std::optional<std::string> read(const Field& field) const {
    auto name = Text::read(field);
    if (name == "all") name->clear();
    return name;
  }
  [[nodiscard]] std::string write(const std::string& value) const {
    return quote(value.empty() ? "all" : value);
  }
};

Section<FilterConfig> filter_section() {
  using E = FilterConfig;
  return {
      "filter",
      Shape::kList,
      "A packet filter. The first one in the order of the file that fits a packet decides; packets "
      "that fit none are accepted. At most 4096.",
      {
          row<E>("interface", &E::iface, FilterInterface{},
                 "Link or port by which the packets arrive or leave; all: each."),
          row<E>(
              "direction", [](auto& c) -> auto& { return c.rule.direction; },
              OneOf<fwd::FilterDirection>::named(fwd::kFilterDirectionNames),
              "in: packets that arrive, also those for this node, except ARP; out: packets that "
              "are forwarded.",
              Required::kYes),
          row<E>(
              "action", [](auto& c) -> auto& { return c.rule.action; },
              OneOf<fwd::FilterAction>::named(fwd::kFilterActionNames), "Fate of the packets.",
              Required::kYes),
          row<E>(
              "source", [](auto& c) -> auto& { return c.rule.source; },
              Written<wire::IpPrefix>{filter_prefix_form()}, "Source addresses."),
          row<E>(
              "destination", [](auto& c) -> auto& { return c.rule.destination; },
              Written<wire::IpPrefix>{filter_prefix_form()},
              "Destination addresses, of the same IP version. Without addresses a filter is for "
              "both versions."),
          row<E>(
              "protocol", [](auto& c) -> auto& { return c.rule.protocol; },
              Written<std::uint8_t>{protocol_form()},
              "Protocol. Extension headers of IPv6 are looked through."),
          row<E>(
              "source-ports", [](auto& c) -> auto& { return c.rule.source_ports; },
              Written<fwd::PortRange>{port_range_form()},
              "Source ports; requires a protocol with ports. Fragments other than the first have "
              "none and do not fit."),
          row<E>(
              "destination-ports", [](auto& c) -> auto& { return c.rule.destination_ports; },
              Written<fwd::PortRange>{port_range_form()}, "Destination ports."),
      }};
}

Section<NeighbourEntryConfig> neighbour_section() {
  using E = NeighbourEntryConfig;
  return {
      "neighbour",
      Shape::kList,
      "A static neighbour.",
      {
          row<E>("link", &E::iface, Text{}, "Name of the link or port of the neighbour.",
                 Required::kYes),
          row<E>("address", &E::addr, Address{}, "IP address of the neighbour.", Required::kYes),
          row<E>("lladdr", &E::lladdr, LinkLayerAddress{},
                 "Link-layer address, in the format of ip neigh.", Required::kYes),
          row<E>("lid", &E::lid, Integer{0, kLastUnicastLid},
                 "LID of the neighbour; 0: queried from the subnet administrator."),
          row<E>("sl", &E::sl, Integer{0, 15},
                 "Service level of the path to the neighbour; requires lid."),
      }};
}

Section<RarpEntryConfig> rarp_section() {
  using E = RarpEntryConfig;
  return {"rarp",
          Shape::kList,
          "A host that obtains its address from this node by RARP.",
          {
              row<E>("link", &E::iface, Text{}, "Name of the link or port of the host.",
                     Required::kYes),
              row<E>("lladdr", &E::lladdr, LinkLayerAddress{},
                     "Link-layer address of the host, in the format of ip neigh.", Required::kYes),
              row<E>("address", &E::addr, Address{}, "IPv4 address of the host.", Required::kYes),
          }};
}

Section<NodeConfig> subnet_section() {
  using E = NodeConfig;
  return {
      "subnet",
      Shape::kSingle,
      "Parameters of the embedded subnet administrator, the same for each partition of the fabric.",
      {
          row<E>(
              "mtu", [](auto& c) -> auto& { return c.subnet.mtu; }, ib_mtus(),
              "InfiniBand MTU of the broadcast groups, in octets. The IP MTU is 4 octets less."),
          row<E>(
              "qkey", [](auto& c) -> auto& { return c.subnet.qkey; }, Integer{0, 0xffff'ffff, true},
              "Queue key of the broadcast groups."),
          row<E>(
              "rate", [](auto& c) -> auto& { return c.subnet.rate; }, Rate{},
              "Rate of the broadcast groups and paths, in Gb/s."),
          row<E>(
              "sl", [](auto& c) -> auto& { return c.subnet.sl; }, Integer{0, 15},
              "Service level of the broadcast groups and paths."),
          row<E>(
              "sm-key", [](auto& c) -> auto& { return c.subnet.sm_key; },
              Integer{0, std::numeric_limits<std::int64_t>::max(), true},
              "SM_Key. A request with this key may read the members of all groups and end "
              "memberships of other ports; 0: no request may. `show config` shows it."),
      }};
}

ListOf<Written<std::uint8_t>> ip_options() {
  return {.element = {ip_option_form()}};
}
ListOf<Written<fwd::Ip6Extension>> ip6_extensions() {
  return {.element = {ip6_extension_form()}};
}

Section<NodeConfig> worker_section() {
  using E = NodeConfig;
  using mgmt::ForwardMode;
  using mgmt::IdlePolicy;
  return {
      "worker",
      Shape::kSingle,
      "The worker lcores, which forward packets.",
      {
          row<E>(
              "count", [](auto& c) -> auto& { return c.worker.count; }, Integer{1, 127},
              "Number of worker lcores (--nb-cores)."),
          row<E>(
              "burst", [](auto& c) -> auto& { return c.worker.burst; }, Integer{1, fwd::kMaxBurst},
              "Maximum number of packets per receive burst (--burst), at least 8, because vector "
              "receive functions return no packets for smaller bursts. Also the burst size of "
              "generated packets."),
          row<E>(
              "idle-policy", [](auto& c) -> auto& { return c.worker.idle; },
              OneOf<IdlePolicy>{{{"poll", IdlePolicy::kPoll},
                                 {"pause", IdlePolicy::kPause},
                                 {"sleep", IdlePolicy::kSleep}}},
              "Behaviour of an idle worker (--idle-policy): keep polling, pause the processor "
              "briefly, or sleep, for machines with fewer processors than lcores."),
          row<E>(
              "balance", [](auto& c) -> auto& { return c.worker.balance; }, Boolean{},
              "While a worker is short of time, because one neighbour or queue alone fills it, it "
              "spreads its packets by flow over up to three idle workers, if each packet then "
              "takes it clearly less time."),
          row<E>(
              "assign", [](auto& c) -> auto& { return c.worker.assign; }, Assignment{},
              "Assignment of ports and hcas to workers. The workers of a list share a port or the "
              "cable of a soft hca: each has a receive queue of it. The device of a port spreads "
              "the flows over the queues (RSS); a frame from a cable is passed to the worker of "
              "its queue pair. "
              "Devices without an assignment go to the workers with the fewest devices, ports and "
              "cables to those on their NUMA nodes: one worker each, or as many workers as a "
              "port's device has queues for its flows, unless total-num-mbufs is set."),
          row<E>(
              "forward-mode", [](auto& c) -> auto& { return c.mode; },
              OneOf<ForwardMode>::named(fwd::kForwardModeNames),
              "Forward mode (--forward-mode): route: by destination; io: from each port to its "
              "partner, unmodified; rxonly: count and free; icmpecho: answer every ping; addrswap: "
              "send back to the sender; txonly, flowgen: generate packets; latency: generate "
              "packets with time stamps and measure those that return."),
          row<E>("redirects", &E::redirects, Boolean{},
                 "Send ICMP and ICMPv6 redirects to hosts that have a better first hop on their "
                 "link."),
          row<E>(
              "pass-ip-options", [](auto& c) -> auto& { return c.worker.headers.pass_options; },
              ip_options(),
              "IPv4 options to pass although RFC 7126 recommends to drop packets with them, for "
              "packets through the node and to it."),
          row<E>(
              "drop-ip-options", [](auto& c) -> auto& { return c.worker.headers.drop_options; },
              ip_options(),
              "IPv4 options to drop packets for (ip_option), besides those of RFC 7126. IGMP keeps "
              "its router alert (rtralt)."),
          row<E>(
              "pass-ip6-extensions",
              [](auto& c) -> auto& { return c.worker.headers.pass_extensions; }, ip6_extensions(),
              "IPv6 extension headers to pass although RFC 9288 recommends to drop packets with "
              "them, for packets through the node and to it. ipv6-route-N is a type of routing "
              "header, ipv6-route all types that neither list names."),
          row<E>(
              "drop-ip6-extensions",
              [](auto& c) -> auto& { return c.worker.headers.drop_extensions; }, ip6_extensions(),
              "IPv6 extension headers to drop packets for (ip6_extension), besides those of RFC "
              "9288. MLD keeps its hop-by-hop options (hopopt)."),
          row<E>("rxd", &E::rxd, Integer{32, 32768},
                 "Number of descriptors of a receive queue (--rxd)."),
          row<E>("txd", &E::txd, Integer{32, 32768},
                 "Number of descriptors of a transmit queue (--txd)."),
          row<E>(
              "total-num-mbufs", &E::total_num_mbufs, Integer{0, 16'777'216},
              "Total number of packet buffers (--total-num-mbufs); 0: calculated from the queues."),
          row<E>("mbuf-size", &E::mbuf_size, Integer{0, 65535},
                 "Size of a packet buffer with its headroom, in octets (--mbuf-size); 0: "
                 "calculated from the largest MTU."),
      }};
}

Section<NodeConfig> generator_section() {
  using E = NodeConfig;
  using fwd::GeneratorConfig;
  constexpr Integer kFlows{1, GeneratorConfig::kMaxFlows};
  return {
      "generator",
      Shape::kSingle,
      "UDP test packets, which the forward modes txonly, flowgen and latency generate and route.",
      {
          row<E>(
              "tx-ip", [](auto& c) -> auto& { return c.generator.ip; },
              Written<GeneratorConfig::Addresses>{tx_ip_form()},
              "Source and first destination address (--tx-ip)."),
          row<E>(
              "tx-udp", [](auto& c) -> auto& { return c.generator.udp; },
              Written<GeneratorConfig::Ports>{tx_udp_form()},
              "First source port and destination port (--tx-udp)."),
          row<E>(
              "txpkts", [](auto& c) -> auto& { return c.generator.sizes; },
              Written<std::vector<std::uint16_t>>{packet_sizes_form()},
              "Packet sizes, used in turn (--txpkts)."),
          row<E>(
              "txonly-multi-flow", [](auto& c) -> auto& { return c.generator.multi_flow; },
              Boolean{},
              "Send as many flows in txonly and latency as in flowgen (--txonly-multi-flow)."),
          row<E>(
              "flows", [](auto& c) -> auto& { return c.generator.flows; }, kFlows,
              "Number of flowgen flows, distinguished by source port; at least one per neighbour "
              "(--flowgen-flows)."),
          row<E>(
              "neighbours", [](auto& c) -> auto& { return c.generator.neighbours; }, kFlows,
              "Number of destinations, with consecutive addresses from the first."),
          row<E>(
              "rate", [](auto& c) -> auto& { return c.generator.rate; },
              Written<fwd::PacketRate>{packet_rate_form()},
              "Rate of all workers together. gbps counts octets of IP packets; percent relates to "
              "the speed of the interface towards the first destination; 0: as fast as possible."),
          row<E>("tx-first", &E::tx_first, Integer{0, 1'000'000},
                 "Number of bursts that each worker sends at start, in any mode (--tx-first: 1)."),
      }};
}

Section<NodeConfig> neighbour_cache_section() {
  using E = NodeConfig;
  constexpr std::int64_t kMax = 1 << 20;
  return {
      "neighbour-cache",
      Shape::kSingle,
      "Timers and limits of address resolution.",
      {
          row<E>(
              "retransmit", [](auto& c) -> auto& { return c.neighbour.retransmit; }, Seconds{},
              "Time between two requests."),
          row<E>(
              "max-requests", [](auto& c) -> auto& { return c.neighbour.max_requests; },
              Integer{1, 100},
              "Number of broadcast requests before an address is considered unreachable."),
          row<E>(
              "max-probes", [](auto& c) -> auto& { return c.neighbour.max_probes; },
              Integer{0, 100},
              "Number of unicast probes of a known neighbour before broadcast requests."),
          row<E>(
              "reachable", [](auto& c) -> auto& { return c.neighbour.reachable; }, Seconds{},
              "Time for which a confirmed neighbour is reachable, randomised by half of it."),
          row<E>(
              "probe-delay", [](auto& c) -> auto& { return c.neighbour.probe_delay; }, Seconds{},
              "Time from the first use of a stale entry to its probe."),
          row<E>(
              "negative", [](auto& c) -> auto& { return c.neighbour.negative; }, Seconds{},
              "Time before an unreachable address is requested again."),
          row<E>(
              "idle", [](auto& c) -> auto& { return c.neighbour.idle; }, Seconds{},
              "Idle time after which an entry is removed."),
          row<E>(
              "max-held-per-neighbour",
              [](auto& c) -> auto& { return c.neighbour.max_held_per_neighbour; }, Integer{0, 1024},
              "Maximum number of packets held for one unresolved neighbour."),
          row<E>(
              "max-held", [](auto& c) -> auto& { return c.neighbour.max_held; }, Integer{0, kMax},
              "Maximum number of held packets per interface. Senders with many unresolved "
              "neighbours have three quarters of it. All interfaces together hold at most an "
              "eighth of the packet buffers."),
          row<E>(
              "max-held-age", [](auto& c) -> auto& { return c.neighbour.max_held_age; }, Seconds{},
              "Maximum time for which a packet is held."),
          row<E>(
              "max-entries", [](auto& c) -> auto& { return c.neighbour.max_entries; },
              Integer{1, kMax},
              "Maximum number of neighbours per interface. Those to which nothing is sent take up "
              "to half. All interfaces together have room for four million."),
      }};
}

Section<NodeConfig> route_table_section() {
  using E = NodeConfig;
  constexpr std::int64_t kMax = 1 << 21;
  return {"route-table",
          Shape::kSingle,
          "Limits of the tables of prefixes, which have the routes, and the networks and addresses "
          "of the node.",
          {
              row<E>(
                  "max-prefixes", [](auto& c) -> auto& { return c.route_table.max_prefixes; },
                  Integer{64, kMax}, "Maximum number of IPv4 prefixes."),
              row<E>(
                  "max-prefixes6", [](auto& c) -> auto& { return c.route_table.max_prefixes6; },
                  Integer{64, kMax}, "Maximum number of IPv6 prefixes; 168 octets of memory each."),
              row<E>(
                  "max-networks", [](auto& c) -> auto& { return c.route_table.max_networks; },
                  Integer{64, 1 << 17},
                  "Maximum number of IPv4 networks of 24 bits that contain longer prefixes or "
                  "neighbours; 1 KiB of memory each. A quarter is left to routes. Neighbours in "
                  "further networks are found more slowly."),
          }};
}

Section<NodeConfig> linux_section() {
  using E = NodeConfig;
  return {
      "linux",
      Shape::kSingle,
      "Linux as the control plane: routing daemons, keepalived and ip(8) work on a mirror of each "
      "interface.",
      {
          row<E>(
              "mirror", [](auto& c) -> auto& { return c.linux_plane.mirror; }, Boolean{},
              "Mirror all links and ports that do not say otherwise: each is a network interface "
              "of Linux of the same name, with its addresses, MTU and state."),
          row<E>(
              "namespace", [](auto& c) -> auto& { return c.linux_plane.network_namespace; }, Text{},
              "Network namespace of the mirrors, as ip netns lists it, or the path of its file. "
              "Default: that of the process."),
          row<E>(
              "routes", [](auto& c) -> auto& { return c.linux_plane.routes; }, Boolean{},
              "Use the routes of Linux through mirrors, and its blackhole, unreachable and "
              "prohibit routes. Configured routes are preferred."),
          row<E>(
              "table", [](auto& c) -> auto& { return c.linux_plane.table; },
              Integer{1, std::numeric_limits<std::uint32_t>::max()},
              "Routing table of Linux with these routes; 254 is the main table."),
          row<E>(
              "multicast-routes", [](auto& c) -> auto& { return c.linux_plane.multicast_routes; },
              Boolean{},
              "Linux is the multicast router on mirrored interfaces: a daemon there, such as pimd "
              "of "
              "FRR, speaks PIM, IGMP and MLD, and the node forwards by the entries that it gives "
              "to "
              "Linux. Configured multicast routes are preferred. multicast-router is for other "
              "interfaces."),
          row<E>(
              "echo-reply", [](auto& c) -> auto& { return c.linux_plane.echo; },
              OneOf<bool>{{{"node", false}, {"linux", true}}},
              "Who answers pings to addresses of the node on mirrored interfaces."),
          row<E>(
              "drain-time", [](auto& c) -> auto& { return c.linux_plane.drain_time; },
              Seconds{0, 600},
              "Time for which the node drains before it ends, on SIGTERM or quit. A second request "
              "ends it at once."),
          row<E>(
              "drain-hold", [](auto& c) -> auto& { return c.linux_plane.drain_hold; },
              Seconds{0, 600},
              "Time after set node undrain for which routes of Linux stay as they were before the "
              "drain, while routing daemons find them again."),
      }};
}

}  // namespace

const Schema& schema() {
  static const Schema kSchema{hca_section(),
                              link_section(),
                              port_section(),
                              route_section(),
                              multicast_route_section(),
                              filter_section(),
                              neighbour_section(),
                              rarp_section(),
                              subnet_section(),
                              worker_section(),
                              generator_section(),
                              neighbour_cache_section(),
                              route_table_section(),
                              linux_section()};
  return kSchema;
}

std::string help_of(std::string_view section, std::string_view key) {
  std::string text;
  schema().for_each([&](const auto& s) {
    if (s.name != section) return;
    for (const auto& r : s.rows)
      if (r.key == key) text = fmt::format("{}: {}", phrase(r.type, r.allowed), r.help);
  });
  return text;
}

}  // namespace ipoib::app
