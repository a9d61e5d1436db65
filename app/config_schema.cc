// SPDX-License-Identifier: BSD-3-Clause
#include "app/config_schema.h"

#include "lib/fwd/worker_config.h"
#include "lib/route/route_table.h"

namespace ipoib::app {
namespace {

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
constexpr std::size_t kLongestUmadName = 19;  // UMAD_CA_NAME_LEN without the terminating zero.

/// An enumeration of one supported name, and of planned ones.
OneOf<int> only(std::string name, std::vector<std::string> later) {
  return {{{std::move(name), 0}}, std::move(later)};
}

IntegerOf ib_mtus() {
  return {{256, 512, 1024, 2048, 4096}};
}

OneOf<mgmt::LinkMode> link_modes() {
  OneOf<mgmt::LinkMode> modes;
  for (std::size_t i = 0; i < mgmt::kLinkModeNames.size(); ++i)
    modes.values.emplace_back(mgmt::kLinkModeNames[i], static_cast<mgmt::LinkMode>(i));
  return modes;
}

/// "auto" or a multicast scope of RFC 4291.
struct Scope : IntegerOf {
  Scope() : IntegerOf{{2, 5, 8, 14}} {}
  [[nodiscard]] std::string allowed() const { return "auto | " + IntegerOf::allowed(); }
  [[nodiscard]] std::optional<std::int64_t> read(const Field& field) const {
    if (field.node().value_exact<std::string>() == "auto") return link::kScopeAuto;
    const auto* value = field.node().as_integer();
    if (value != nullptr)
      for (const std::int64_t scope : {2, 5, 8, 14})
        if (value->get() == scope) return scope;
    field.reject(phrase(type(), allowed()));
    return std::nullopt;
  }
  [[nodiscard]] std::string write(std::int64_t value) const {
    return value == link::kScopeAuto ? "\"auto\"" : IntegerOf::write(value);
  }
};

OneOf<mgmt::HcaDriver> hca_drivers() {
  OneOf<mgmt::HcaDriver> drivers;
  for (std::size_t i = 0; i < mgmt::kHcaDriverNames.size(); ++i)
    drivers.values.emplace_back(mgmt::kHcaDriverNames[i], static_cast<mgmt::HcaDriver>(i));
  return drivers;
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
                            "because the subnet manager that mad leads to says what it is"});
  return row;
}

Section<HcaConfig> hca_section() {
  using E = HcaConfig;
  return {
      "hca",
      Shape::kNamed,
      "An InfiniBand port. NAME is yours to choose.",
      {
          row<E>("driver", &E::driver, hca_drivers(),
                 "What drives the port: soft is a software HCA over an Ethernet device, verbs a "
                 "device of rdma-core."),
          of_soft(row<E>("wire", &E::wire, Text{},
                         "With soft: name of the DPDK Ethernet device that is its cable.",
                         Required::kYes)),
          of_verbs(row<E>("device", &E::device, Text{kLongestUmadName},
                          "With verbs: name of the device, as ibv_devices lists it.",
                          Required::kYes)),
          of_verbs(row<E>("port", &E::port, Integer{1, kLastDevicePort},
                          "With verbs: port of the device.")),
          of_soft(row<E>(
              "mad", &E::mad, MadRoute{},
              "Where management datagrams go: over the cable, or through libibumad to a real "
              "subnet manager, which then also says what the port is. Next to umad, guid, lid, "
              "sm-lid, pkeys and subnet-administrator have no place. With verbs they go through "
              "libibumad, and the device says what the port is.")),
          of_soft(unmanaged(
              row<E>("guid", &E::guid, Guid{},
                     "Port GUID, worldwide name of the port: no two of a fabric may be the same.",
                     Required::kYes))),
          of_soft(unmanaged(
              row<E>("lid", &E::lid, Integer{1, kLastUnicastLid},
                     "Local identifier, address of the port in its subnet: no two may be the same.",
                     Required::kYes))),
          of_soft(unmanaged(row<E>(
              "sm-lid", &E::sm_lid, Integer{1, kLastUnicastLid},
              "LID of the port that runs the subnet administrator. With subnet-administrator it is "
              "the port's own."))),
          of_soft(unmanaged(row<E>("pkeys", &E::pkeys, ListOf<Pkey>{{}, 1, 128},
                                   "Partition keys of the port. The highest bit set is full "
                                   "membership, clear limited."))),
          row<E>("mtu", &E::mtu, ib_mtus(), "Largest InfiniBand MTU the port carries, octets."),
          unmanaged(
              row<E>("subnet-administrator", &E::subnet_administrator, Boolean{},
                     "This port also runs the embedded subnet administrator; one per fabric. With "
                     "verbs: the port's link layer is Ethernet (RoCE), where there is no subnet "
                     "manager; then every node runs its own.")),
          of_soft(row<E>("icrc", &E::icrc, Switch{},
                         "Make and verify the invariant CRC of packets. off: as if hardware did "
                         "it, for measurements only.")),
          of_soft(row<E>("first-qpn", &E::first_qpn, Integer{2, 0xff'fffe},
                         "Queue pairs are numbered from here on. Not given: from a random "
                         "number.")),
      }};
}

/// Adds the options that links and ports share.
template <class E>
void add_ip_rows(std::vector<Row<E>>& rows) {
  using wire::InterfaceIdRule;
  const auto add = [&](Row<E> r) { rows.push_back(std::move(r)); };
  add(row<E>(
      "multicast-router", [](auto& c) -> auto& { return c.ip.multicast_router; }, Boolean{},
      "Route IP multicast between this and other such interfaces, to where hosts ask for it by "
      "IGMP or MLD. On a link all groups are received."));
  add(row<E>(
      "last-member-interval", [](auto& c) -> auto& { return c.ip.last_member_interval; },
      Seconds{0.1, 25.5},
      "With multicast-router: a host that leaves a group is followed by two questions for other "
      "members, this long apart, then the group's packets end."));
  add(row<E>(
      "groups", [](auto& c) -> auto& { return c.ip.groups; }, ListOf<Group>{},
      "Multicast groups this node listens to."));
  add(row<E>(
      "ask-rarp", [](auto& c) -> auto& { return c.ip.ask_rarp; }, Boolean{},
      "Ask for an own IPv4 address by RARP."));
  add(row<E>(
      "rarp-prefix-length", [](auto& c) -> auto& { return c.ip.rarp_prefix_len; }, Integer{1, 32},
      "Prefix length of that address, which RARP does not tell."));
  add(row<E>(
      "ipv6", [](auto& c) -> auto& { return c.ip.ip6.enabled; }, Boolean{},
      "Speak IPv6, from a link-local address at least."));
  add(row<E>(
      "router-advertisement", [](auto& c) -> auto& { return c.ip.ip6.router_advertisement; },
      Boolean{}, "Tell hosts of this router, the prefixes and the MTU."));
  add(row<E>(
      "accept-ra", [](auto& c) -> auto& { return c.ip.ip6.accept_ra; }, Boolean{},
      "Take default routers, MTU and redirects from other routers' advertisements."));
}

/// Adds the options of connected mode.
void add_connection_rows(std::vector<Row<LinkConfigEntry>>& rows) {
  using E = LinkConfigEntry;
  using link::OpenPolicy;
  using link::PairPolicy;
  using wire::ServiceIdForm;
  const auto add = [&](Row<E> r) {
    r.conditions = {{"mode", [](const E& l) { return l.mode != mgmt::LinkMode::kDatagram; },
                     "because the mode is datagram"}};
    rows.push_back(std::move(r));
  };
  add(row<E>("connected-mtu", &E::connected_mtu, Integer{1280, 65'520},
             "Largest IP packet taken by a connection, octets. With each neighbour the smaller of "
             "both sides' holds."));
  add(row<E>(
      "connect", [](auto& c) -> auto& { return c.connection.open; },
      OneOf<OpenPolicy>{{{"traffic", OpenPolicy::kTraffic},
                         {"always", OpenPolicy::kAlways},
                         {"accept", OpenPolicy::kAccept}}},
      "When to ask a neighbour for a connection: while packets go there, as soon as it is known, "
      "or never, taking those that it asks for."));
  add(row<E>(
      "connection-pairs", [](auto& c) -> auto& { return c.connection.pairs; },
      OneOf<PairPolicy>{{{"one", PairPolicy::kOne}, {"per-direction", PairPolicy::kPerDirection}}},
      "Connections with a neighbour: one for both directions, or one for each, as Linux has it. "
      "With one, neighbours that ask as Linux does still have one for each."));
  add(row<E>(
      "service-id", [](auto& c) -> auto& { return c.connection.service_id; },
      OneOf<ServiceIdForm>{{{"ietf", ServiceIdForm::kIetf}, {"linux", ServiceIdForm::kLinux}}},
      "Service ID that is asked first: its first octet is 0x01, or 0x10 as Linux has it. The other "
      "one follows where a neighbour does not know it; both are listened on."));
  add(row<E>(
      "max-connections", [](auto& c) -> auto& { return c.connection.max_connections; },
      Integer{1, 65'536}, "Connections that this side asks for or takes; the rest stay with UD."));
  add(row<E>(
      "connection-idle", [](auto& c) -> auto& { return c.connection.idle; }, Seconds{1, 86'400},
      "A connection unused for so long is closed."));
  add(row<E>(
      "connection-backoff", [](auto& c) -> auto& { return c.connection.backoff_max; },
      Seconds{1, 86'400},
      "Longest pause before a neighbour is asked again that refused or did not answer; the first "
      "is 1 s, and each is twice the one before."));
  add(row<E>(
      "cm-timeout", [](auto& c) -> auto& { return c.connection.cm_timeout; }, Integer{8, 23},
      "Time a neighbour has to answer a request for a connection: 4.096 us times 2 to the power of "
      "this; 17 is 0.54 s."));
  add(row<E>(
      "cm-retries", [](auto& c) -> auto& { return c.connection.cm_retries; }, Integer{0, 15},
      "How often such a request is repeated."));
  add(row<E>(
      "ack-timeout", [](auto& c) -> auto& { return c.connection.ack_timeout; }, Integer{1, 20},
      "Time an RC packet waits for its acknowledgement before it is sent again, written as "
      "cm-timeout is; 12 is 17 ms. With retry-count it is to stay below 200 ms, TCP's shortest "
      "retransmission time-out."));
  add(row<E>(
      "retry-count", [](auto& c) -> auto& { return c.connection.retry_count; }, Integer{0, 7},
      "How often that is done, until the connection has failed and packets go as datagrams."));
  add(row<E>(
      "rnr-retry", [](auto& c) -> auto& { return c.connection.rnr_retry; }, Integer{0, 7},
      "How often an RC sender repeats to a receiver without buffers before the connection has "
      "failed: what the neighbour is asked for, and the most it may ask for; 7: for ever."));
}

Section<LinkConfigEntry> link_section() {
  using E = LinkConfigEntry;
  auto section = Section<LinkConfigEntry>{
      "link",
      Shape::kNamed,
      "An IP over InfiniBand interface.",
      {
          row<E>("hca", &E::hca, Text{}, "Name of the hca it runs on.", Required::kYes),
          row<E>("pkey", &E::pkey, Pkey{}, "Partition of the link: an entry of the hca's pkeys."),
          fixed_row<E>("dialect", only("rfc4391", {"ibarp2001"}), 0,
                       "Encapsulation and address resolution."),
          row<E>("mode", &E::mode, link_modes(),
                 "Transport of unicast packets: datagrams (UD) alone, or also connections (RC, UC, "
                 "either) with neighbours that have them. Until a connection stands, and where "
                 "there is none, packets go as datagrams; multicast, ARP and ND always do."),
          row<E>("scope", &E::scope, Scope{},
                 "Scope of the link's multicast groups: 2 link, 5 site, 8 organisation, 14 global; "
                 "auto: the first of them that has a broadcast group."),
          row<E>("create-broadcast", &E::create_broadcast, Boolean{},
                 "Create the broadcast group when the subnet administrator has none, with mtu, "
                 "qkey, rate and sl."),
          row<E>(
              "mtu", [](auto& c) -> auto& { return c.broadcast.mtu; }, ib_mtus(),
              "With create-broadcast: InfiniBand MTU, octets. IP packets may be 4 less."),
          row<E>(
              "qkey", [](auto& c) -> auto& { return c.broadcast.qkey; },
              Integer{0, 0xffff'ffff, true},
              "With create-broadcast: queue key, controlled where the highest bit is set."),
          row<E>(
              "rate", [](auto& c) -> auto& { return c.broadcast.rate; }, Rate{},
              "With create-broadcast: Gb/s."),
          row<E>(
              "sl", [](auto& c) -> auto& { return c.broadcast.sl; }, Integer{0, 15},
              "With create-broadcast: service level."),
          row<E>("all-nodes", &E::all_nodes,
                 OneOf<link::AllNodes>{{{"auto", link::AllNodes::kAuto},
                                        {"joined", link::AllNodes::kJoined},
                                        {"instead", link::AllNodes::kInstead}}},
                 "The IPv6 all-nodes group: joined where IPv6 runs, joined in any case, or the "
                 "link's group instead of the IPv4 broadcast group."),
          row<E>("send-only", &E::send_only,
                 OneOf<link::SendOnly>{{{"nonmember", link::SendOnly::kNonMember},
                                        {"fullmember", link::SendOnly::kFullMember}}},
                 "How a sender joins a group: nonmember sends to groups that exist (RFC 4391), "
                 "fullmember creates them, as Linux does."),
          row<E>("flood-absent", &E::flood_absent, Boolean{},
                 "Send packets for groups that do not exist to the broadcast group."),
          row<E>("address", &E::addresses, ListOf<InterfaceAddress>{},
                 "Own addresses with the length of their prefix."),
          row<E>("copy-to-routers", &E::copy_to_routers, Boolean{},
                 "Send each multicast datagram to the all-routers group too: help for multicast "
                 "routers that do not join every group."),
          row<E>(
              "interface-id", [](auto& c) -> auto& { return c.ip.ip6.interface_id; },
              OneOf<wire::InterfaceIdRule>{
                  {{"auto", wire::InterfaceIdRule::kSetUniversal},
                   {"eui64", wire::InterfaceIdRule::kEui64},
                   {"modified-eui64", wire::InterfaceIdRule::kModifiedEui64},
                   {"lid", wire::InterfaceIdRule::kLid}}},
              "Where the IPv6 interface identifier comes from: the port GUID with its universal "
              "bit set (auto), inverted (eui64) or as it is (modified-eui64), or the LID, for "
              "links "
              "that are one InfiniBand subnet."),
      }};
  add_connection_rows(section.rows);
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
                 "Own addresses with the length of their prefix."),
          row<E>("mtu", &E::mtu, Integer{68, 9600}, "Largest IP packet, octets."),
          row<E>(
              "tcp-offload", &E::tcp_offload, Boolean{},
              "TCP segments received in a row that fill the MTU go as one packet to neighbours in "
              "connected mode, as large as these take; TCP packets larger than the MTU are sent "
              "in segments that fit. All ports that such packets can leave by, on whichever node, "
              "need this and the same MTU."),
      }};
  add_ip_rows(section.rows);
  return section;
}

Section<RouteConfig> route_section() {
  using E = RouteConfig;
  return {
      "route",
      Shape::kList,
      "A static route.",
      {
          row<E>("to", &E::to, Prefix{}, "Destinations.", Required::kYes),
          row<E>("via", &E::via, ListOf<Address>{{}, 0, route::RouteTable::kMaxPaths},
                 "Next hops, each in a prefix of a link or port. Of several, flows are spread over "
                 "those that answer. Left out with blackhole."),
          row<E>("blackhole", &E::blackhole, Boolean{}, "Drop what goes there."),
      }};
}

Section<MulticastRouteConfig> multicast_route_section() {
  using E = MulticastRouteConfig;
  return {"multicast-route",
          Shape::kList,
          "A static multicast route.",
          {
              row<E>("groups", &E::groups, Groups{}, "The group, or a prefix of groups.",
                     Required::kYes),
              row<E>("source", &E::source, Source{}, "Packets from this host only; any: from all."),
              row<E>("in", &E::in, Text{}, "Link or port the packets come by.", Required::kYes),
              row<E>("out", &E::out, ListOf<Text>{{}, 1, 64}, "Links and ports they are sent to.",
                     Required::kYes),
          }};
}

Section<NeighbourEntryConfig> neighbour_section() {
  using E = NeighbourEntryConfig;
  return {
      "neighbour",
      Shape::kList,
      "A neighbour that is not resolved but known.",
      {
          row<E>("link", &E::iface, Text{}, "Name of the link or port it is on.", Required::kYes),
          row<E>("address", &E::addr, Address{}, "Its IP address.", Required::kYes),
          row<E>("lladdr", &E::lladdr, LinkLayerAddress{},
                 "Its link-layer address, as ip neigh writes it.", Required::kYes),
          row<E>("lid", &E::lid, Integer{0, kLastUnicastLid},
                 "Its LID; 0: asked of the subnet administrator."),
          row<E>("sl", &E::sl, Integer{0, 15}, "Service level towards it; needs lid."),
      }};
}

Section<RarpEntryConfig> rarp_section() {
  using E = RarpEntryConfig;
  return {
      "rarp",
      Shape::kList,
      "A host that is told its address when it asks by RARP.",
      {
          row<E>("link", &E::iface, Text{}, "Name of the link or port it is on.", Required::kYes),
          row<E>("lladdr", &E::lladdr, LinkLayerAddress{},
                 "Its link-layer address, as ip neigh writes it.", Required::kYes),
          row<E>("address", &E::addr, Address{}, "Its IPv4 address.", Required::kYes),
      }};
}

Section<NodeConfig> subnet_section() {
  using E = NodeConfig;
  return {"subnet",
          Shape::kSingle,
          "What the embedded subnet administrator serves, for each partition of the fabric.",
          {
              row<E>(
                  "mtu", [](auto& c) -> auto& { return c.subnet.mtu; }, ib_mtus(),
                  "InfiniBand MTU of the broadcast groups, octets. IP packets may be 4 less."),
              row<E>(
                  "qkey", [](auto& c) -> auto& { return c.subnet.qkey; },
                  Integer{0, 0xffff'ffff, true}, "Queue key of the broadcast groups."),
              row<E>(
                  "rate", [](auto& c) -> auto& { return c.subnet.rate; }, Rate{},
                  "Rate of the broadcast groups and paths, Gb/s."),
              row<E>(
                  "sl", [](auto& c) -> auto& { return c.subnet.sl; }, Integer{0, 15},
                  "Service level of the broadcast groups and paths."),
          }};
}

std::vector<std::pair<std::string, mgmt::ForwardMode>> forward_modes() {
  std::vector<std::pair<std::string, mgmt::ForwardMode>> modes;
  for (const auto name : fwd::kForwardModeNames)
    modes.emplace_back(std::string{name}, *fwd::mode_named(name));
  return modes;
}

Section<NodeConfig> worker_section() {
  using E = NodeConfig;
  using mgmt::ForwardMode;
  using mgmt::IdlePolicy;
  return {
      "worker",
      Shape::kSingle,
      "The lcores that forward packets.",
      {
          row<E>(
              "count", [](auto& c) -> auto& { return c.worker.count; }, Integer{1, 127},
              "How many lcores forward (--nb-cores)."),
          row<E>(
              "burst", [](auto& c) -> auto& { return c.worker.burst; }, Integer{1, fwd::kMaxBurst},
              "Packets taken from a queue at a time (--burst), 8 at least: asked for fewer, vector "
              "receive functions return none. Generated packets come in bursts of this size too."),
          row<E>(
              "idle-policy", [](auto& c) -> auto& { return c.worker.idle; },
              OneOf<IdlePolicy>{{{"poll", IdlePolicy::kPoll},
                                 {"pause", IdlePolicy::kPause},
                                 {"sleep", IdlePolicy::kSleep}}},
              "What a worker does when there is nothing to do (--idle-policy): poll on, pause the "
              "processor for a moment, or sleep, for machines with fewer processors than lcores."),
          row<E>(
              "assign", [](auto& c) -> auto& { return c.worker.assign; }, Assignment{},
              "Which worker serves which interface or hca; auto spreads them evenly."),
          row<E>(
              "forward-mode", [](auto& c) -> auto& { return c.mode; },
              OneOf<ForwardMode>{forward_modes()},
              "What is done with packets (--forward-mode): route by destination; io: from each "
              "port "
              "to its partner, unread; rxonly: count and free; icmpecho: answer every ping; "
              "addrswap: send back to the sender; txonly, flowgen: make packets; latency: with "
              "time "
              "stamps, read where they come back."),
          row<E>("redirects", &E::redirects, Boolean{},
                 "Tell hosts of a better first hop on their own link (ICMP and ICMPv6 redirects)."),
          row<E>("rxd", &E::rxd, Integer{32, 32768}, "Descriptors of a receive queue (--rxd)."),
          row<E>("txd", &E::txd, Integer{32, 32768}, "Descriptors of a transmit queue (--txd)."),
          row<E>("total-num-mbufs", &E::total_num_mbufs, Integer{0, 16'777'216},
                 "Packet buffers in all (--total-num-mbufs); 0: worked out from the queues."),
          row<E>(
              "mbuf-size", &E::mbuf_size, Integer{0, 65535},
              "Octets of a packet buffer with its headroom (--mbuf-size); 0: worked out from the "
              "largest MTU."),
      }};
}

Section<NodeConfig> generator_section() {
  using E = NodeConfig;
  using fwd::GeneratorConfig;
  constexpr Integer kFlows{1, GeneratorConfig::kMaxFlows};
  return {
      "generator",
      Shape::kSingle,
      "UDP packets that the forward modes txonly, flowgen and latency make and route.",
      {
          row<E>(
              "tx-ip", [](auto& c) -> auto& { return c.generator.ip; },
              Written<GeneratorConfig::Addresses>{tx_ip_form()},
              "Source and first destination (--tx-ip)."),
          row<E>(
              "tx-udp", [](auto& c) -> auto& { return c.generator.udp; },
              Written<GeneratorConfig::Ports>{tx_udp_form()},
              "First source port, and destination port (--tx-udp)."),
          row<E>(
              "txpkts", [](auto& c) -> auto& { return c.generator.sizes; },
              Written<std::vector<std::uint16_t>>{packet_sizes_form()},
              "Sizes of packets, used in turn (--txpkts)."),
          row<E>(
              "txonly-multi-flow", [](auto& c) -> auto& { return c.generator.multi_flow; },
              Boolean{}, "txonly and latency send as many flows as flowgen (--txonly-multi-flow)."),
          row<E>(
              "flows", [](auto& c) -> auto& { return c.generator.flows; }, kFlows,
              "Flows of flowgen, told apart by source port; at least one a neighbour "
              "(--flowgen-flows)."),
          row<E>(
              "neighbours", [](auto& c) -> auto& { return c.generator.neighbours; }, kFlows,
              "Destinations, counted up from the first."),
          row<E>(
              "rate", [](auto& c) -> auto& { return c.generator.rate; },
              Written<fwd::PacketRate>{packet_rate_form()},
              "Of all workers together, octets of IP packets counted, per cent of the link that "
              "leads to the first destination; 0: as fast as possible."),
          row<E>("tx-first", &E::tx_first, Integer{0, 1'000'000},
                 "Bursts that each worker sends first, in any mode (--tx-first: 1)."),
      }};
}

Section<NodeConfig> neighbour_cache_section() {
  using E = NodeConfig;
  constexpr std::int64_t kMost = 1 << 20;
  return {
      "neighbour-cache",
      Shape::kSingle,
      "Timers and limits of address resolution.",
      {
          row<E>(
              "retransmit", [](auto& c) -> auto& { return c.neighbour.retransmit; }, Seconds{},
              "Between two requests."),
          row<E>(
              "max-requests", [](auto& c) -> auto& { return c.neighbour.max_requests; },
              Integer{1, 100}, "Broadcast requests before an address counts as unreachable."),
          row<E>(
              "max-probes", [](auto& c) -> auto& { return c.neighbour.max_probes; },
              Integer{0, 100}, "Unicast probes of a known neighbour before asking everybody."),
          row<E>(
              "reachable", [](auto& c) -> auto& { return c.neighbour.reachable; }, Seconds{},
              "How long a confirmation holds, give or take half."),
          row<E>(
              "probe-delay", [](auto& c) -> auto& { return c.neighbour.probe_delay; }, Seconds{},
              "From the first use of a stale entry to its probe."),
          row<E>(
              "negative", [](auto& c) -> auto& { return c.neighbour.negative; }, Seconds{},
              "How long an unreachable address is not asked for again."),
          row<E>(
              "idle", [](auto& c) -> auto& { return c.neighbour.idle; }, Seconds{},
              "An entry unused this long is forgotten."),
          row<E>(
              "max-held-per-neighbour",
              [](auto& c) -> auto& { return c.neighbour.max_held_per_neighbour; }, Integer{0, 1024},
              "Packets that wait for one neighbour to be resolved."),
          row<E>(
              "max-held", [](auto& c) -> auto& { return c.neighbour.max_held; }, Integer{0, kMost},
              "Packets that wait in all, per interface. Those of all interfaces together hold "
              "an eighth of the packet buffers at most."),
          row<E>(
              "max-held-age", [](auto& c) -> auto& { return c.neighbour.max_held_age; }, Seconds{},
              "How long a packet waits at most."),
          row<E>(
              "max-entries", [](auto& c) -> auto& { return c.neighbour.max_entries; },
              Integer{1, kMost}, "Neighbours per interface."),
      }};
}

}  // namespace

const Schema& schema() {
  static const Schema kSchema{hca_section(),
                              link_section(),
                              port_section(),
                              route_section(),
                              multicast_route_section(),
                              neighbour_section(),
                              rarp_section(),
                              subnet_section(),
                              worker_section(),
                              generator_section(),
                              neighbour_cache_section()};
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
