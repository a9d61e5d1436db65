#include "app/config_schema.h"

#include "lib/fwd/worker_config.h"
#include "lib/route/route_table.h"

namespace ipoib::app {
namespace {

using mgmt::HcaConfig;
using mgmt::LinkConfigEntry;
using mgmt::NeighbourEntryConfig;
using mgmt::NodeConfig;
using mgmt::PortConfig;
using mgmt::RouteConfig;

constexpr std::int64_t kLastUnicastLid = 0xbfff;

/// An enumeration of one name: what this version has, and what it will have.
OneOf<int> only(std::string name, std::vector<std::string> later) {
  return {{{std::move(name), 0}}, std::move(later)};
}

IntegerOf ib_mtus() {
  return {{256, 512, 1024, 2048, 4096}};
}

/// "auto" and the scopes of RFC 4291; the search that "auto" means is still to come.
struct Scope : IntegerOf {
  Scope() : IntegerOf{{2, 5, 8, 14}} {}
  [[nodiscard]] std::optional<std::int64_t> read(const Field& field) const {
    if (field.node().value_exact<std::string>() != "auto") return IntegerOf::read(field);
    field.reject_unsupported(phrase(type(), allowed()));
    return std::nullopt;
  }
};

Section<HcaConfig> hca_section() {
  using E = HcaConfig;
  return {
      "hca",
      Shape::kNamed,
      "An InfiniBand port. NAME is yours to choose.",
      {
          fixed_row<E>("driver", only("soft", {"verbs"}), 0,
                       "What drives the port: soft is a software HCA over an Ethernet device."),
          row<E>("wire", &E::wire, Text{}, "Name of the DPDK Ethernet device that is its cable.",
                 Required::kYes),
          row<E>("guid", &E::guid, Guid{},
                 "Port GUID, worldwide name of the port: no two of a fabric may be the same.",
                 Required::kYes),
          row<E>("lid", &E::lid, Integer{1, kLastUnicastLid},
                 "Local identifier, address of the port in its subnet: no two may be the same.",
                 Required::kYes),
          row<E>(
              "sm-lid", &E::sm_lid, Integer{1, kLastUnicastLid},
              "LID of the port that runs the subnet administrator. With subnet-administrator it is "
              "the port's own."),
          fixed_row<E>("mad", only("wire", {"umad"}), 0,
                       "Where management datagrams go: wire sends them over the cable."),
          row<E>(
              "pkeys", &E::pkeys, ListOf<Pkey>{{}, 1, 128},
              "Partition keys of the port. The highest bit set is full membership, clear limited."),
          row<E>("mtu", &E::mtu, ib_mtus(), "Largest InfiniBand MTU the port carries, octets."),
          row<E>("subnet-administrator", &E::subnet_administrator, Boolean{},
                 "This port also runs the embedded subnet administrator; one per fabric."),
          row<E>("icrc", &E::icrc, Switch{},
                 "Make and verify the invariant CRC of packets. off: as if hardware did it, for "
                 "measurements only."),
          row<E>("first-qpn", &E::first_qpn, Integer{2, 0xff'fffe},
                 "Queue pairs are numbered from here on. Not given: from a random number."),
      }};
}

Section<LinkConfigEntry> link_section() {
  using E = LinkConfigEntry;
  return {
      "link",
      Shape::kNamed,
      "An IP over InfiniBand interface.",
      {
          row<E>("hca", &E::hca, Text{}, "Name of the hca it runs on.", Required::kYes),
          row<E>("pkey", &E::pkey, Pkey{}, "Partition of the link: an entry of the hca's pkeys."),
          fixed_row<E>("dialect", only("rfc4391", {"ibarp2001"}), 0,
                       "Encapsulation and address resolution."),
          fixed_row<E>("mode", only("datagram", {"connected-rc", "connected-uc", "connected"}), 0,
                       "Transport of unicast packets."),
          row<E>(
              "scope", &E::scope, Scope{},
              "Scope of the link's multicast groups: 2 link, 5 site, 8 organisation, 14 global."),
          fixed_row<E>("create-broadcast", Boolean{}, false,
                       "Create the broadcast group when the subnet administrator has none."),
          row<E>("address", &E::addresses, ListOf<InterfaceAddress>{},
                 "Own addresses with the length of their prefix."),
          fixed_row<E>("multicast-router", Boolean{}, false,
                       "Receive all IP multicast groups of the link."),
      }};
}

Section<PortConfig> port_section() {
  using E = PortConfig;
  return {
      "port",
      Shape::kNamed,
      "An Ethernet port.",
      {
          row<E>("device", &E::device, Text{}, "Name of the DPDK Ethernet device.", Required::kYes),
          row<E>("address", &E::addresses, ListOf<InterfaceAddress>{},
                 "Own addresses with the length of their prefix."),
          row<E>("mtu", &E::mtu, Integer{68, 9600}, "Largest IP packet, octets."),
      }};
}

Section<RouteConfig> route_section() {
  using E = RouteConfig;
  return {"route",
          Shape::kList,
          "A static route.",
          {
              row<E>("to", &E::to, Prefix{}, "Destinations.", Required::kYes),
              row<E>("via", &E::via, ListOf<Address>{{}, 0, route::RouteTable::kMaxPaths},
                     "Next hops, each in a prefix of a link or port. Left out with blackhole."),
              row<E>("blackhole", &E::blackhole, Boolean{}, "Drop what goes there."),
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
              "Packets taken from a queue at a time (--burst)."),
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
              OneOf<ForwardMode>{{{"route", ForwardMode::kRoute}, {"io", ForwardMode::kIo}}},
              "route packets by their destination, or pass them on unread from each interface to "
              "its partner (--forward-mode)."),
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

Section<NodeConfig> neighbour_cache_section() {
  using E = NodeConfig;
  constexpr std::int64_t kMost = 1 << 20;
  return {"neighbour-cache",
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
                  "probe-delay", [](auto& c) -> auto& { return c.neighbour.probe_delay; },
                  Seconds{}, "From the first use of a stale entry to its probe."),
              row<E>(
                  "negative", [](auto& c) -> auto& { return c.neighbour.negative; }, Seconds{},
                  "How long an unreachable address is not asked for again."),
              row<E>(
                  "idle", [](auto& c) -> auto& { return c.neighbour.idle; }, Seconds{},
                  "An entry unused this long is forgotten."),
              row<E>(
                  "max-held-per-neighbour",
                  [](auto& c) -> auto& { return c.neighbour.max_held_per_neighbour; },
                  Integer{0, 1024}, "Packets that wait for one neighbour to be resolved."),
              row<E>(
                  "max-held", [](auto& c) -> auto& { return c.neighbour.max_held; },
                  Integer{0, kMost}, "Packets that wait in all, per interface."),
              row<E>(
                  "max-held-age", [](auto& c) -> auto& { return c.neighbour.max_held_age; },
                  Seconds{}, "How long a packet waits at most."),
              row<E>(
                  "max-entries", [](auto& c) -> auto& { return c.neighbour.max_entries; },
                  Integer{1, kMost}, "Neighbours per interface."),
          }};
}

}  // namespace

const Schema& schema() {
  static const Schema kSchema{hca_section(),    link_section(),           port_section(),
                              route_section(),  neighbour_section(),      subnet_section(),
                              worker_section(), neighbour_cache_section()};
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
