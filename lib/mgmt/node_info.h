// SPDX-License-Identifier: BSD-3-Clause
// Information about a node: the rows of every `show` command, telemetry answer and test. Filled on
// the management lcore; plain values, safe to hand to another thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/drop.h"
#include "lib/cm/cm_info.h"
#include "lib/fabric/capabilities.h"
#include "lib/fabric/fabric_types.h"
#include "lib/fwd/modes.h"
#include "lib/link/link_info.h"
#include "lib/mgmt/mad_config.h"
#include "lib/sa/sa_info.h"
#include "lib/table/neighbour.h"
#include "lib/wire/gid.h"
#include "lib/wire/ip.h"

namespace ipoib::mgmt {

struct TrafficInfo {
  std::uint64_t rx_packets = 0, tx_packets = 0, rx_bytes = 0, tx_bytes = 0;
  std::array<std::uint64_t, kDropCount> drops{};
};

/// IPv6 state of an interface.
struct Ip6Info {
  std::vector<link::AddressInfo> addresses;  ///< Includes the link-local one.
  std::uint16_t mtu = 0;                     ///< 0: IPv6 does not run.
  std::string reason;                        ///< Reason why IPv6 does not run.
};

struct LinkInfo {
  std::string name;
  std::string state;
  std::string reason;
  std::string hca;
  std::uint16_t lid = 0;
  wire::Gid gid;
  std::uint32_t qpn = 0;
  unsigned queues = 1;  ///< Number of queue pairs that neighbours and groups are spread over.
  std::uint16_t pkey = 0;
  std::uint16_t mtu = 0;
  std::string mode;     ///< Name in kLinkModeNames.
  std::string dialect;  ///< "rfc4391", "ibarp2001"
  link::LinkParameters parameters;
  link::LinkCounters counters;
  bool port_shared = false;             ///< Leaves of groups are withheld.
  std::vector<std::string> port_users;  ///< Interfaces of the kernel on the port and partition.
  /// None: no connected mode.
  struct Connected {
    unsigned mtu = 0;  ///< Largest IP packet.
    std::size_t connections = 0;
    link::ConnectionCounters counters;
  };
  std::optional<Connected> connected;
  std::vector<wire::IpPrefix> addresses;
  Ip6Info ip6;
  TrafficInfo traffic;
};

struct EthernetPortInfo {
  std::string name;
  std::string device;
  std::string driver;
  std::string state;
  bool started = true;  ///< The device is started.
  wire::MacAddr mac{};
  std::uint16_t mtu = 0;
  std::uint32_t link_speed_mbps = 0;
  unsigned rx_queues = 1, tx_queues = 1;
  std::vector<unsigned> workers;  ///< Workers that receive.
  int socket = -1;                ///< NUMA node; -1: none in particular.
  bool promiscuous = false;
  fabric::Capabilities capabilities;
  std::string problem;  ///< Reason why the device does not work; empty: none.
  link::IpCounters counters;
  std::vector<wire::IpPrefix> addresses;
  Ip6Info ip6;
  TrafficInfo traffic;
};

struct HcaInfo {
  std::string name;
  std::string driver;  ///< Name in kHcaDriverNames.
  std::string wire;    ///< The ethdev; verbs: device and port, "mlx5_0:1".
  MadConfig mad{};
  fabric::PortAttr attr;
  fabric::Capabilities capabilities;
  std::string problem;  ///< Reason why the port does not work; empty: none.
  bool subnet_administrator = false;
  std::array<std::uint64_t, kDropCount> drops{};
  cm::ManagerCounters cm;
};

struct NeighbourKey {
  table::InterfaceId iface = table::kNoInterface;
  wire::IpAddr addr;
};

struct RouteInfo {
  wire::IpPrefix to;
  std::string kind;  ///< Source: "connected", "local", "broadcast", "static", "kernel",
                     ///< "redirect", "advertised"
  std::string iface;
  std::vector<wire::IpAddr> via;     ///< An unspecified address: hosts are on the link.
  std::vector<wire::IpAddr> dead{};  ///< Gateways of `via` that do not answer, or whose interface
                                     ///< is down. They are used only if all are dead.
  std::vector<std::uint32_t> weights{};  ///< One for each of `via`; empty: all are alike.
  std::string_view action = "forward";   ///< Or "blackhole", "unreachable", "prohibit".
  std::uint32_t metric = 0;              ///< Routes of "kernel" have one.
  bool active = true;                    ///< False: a better route to the prefix is in effect.
};

/// A row of `show querier`: the election of one IP version on the interface of a multicast router.
struct QuerierInfo {
  std::string iface;
  bool v4 = false;
  std::optional<wire::IpAddr> querier;  ///< None: the node has no address and hears no querier.
  std::string_view role;                ///< "self", "other", "none"; static storage.
  std::string_view forwarder;           ///< "self", "other", "listening"; static storage.
  Duration age{};                       ///< Since the latest query of the querier.
};

/// A row of `show mroute`: forwarding of packets to a group that arrive on an interface.
struct MulticastRouteInfo {
  wire::IpAddr group;
  std::optional<wire::IpAddr> source;  ///< None: any.
  std::string in;
  std::vector<std::string> out;
  /// Interfaces with members to which this node leaves it to another router to forward.
  std::vector<std::string> left_to_other{};
  bool local = false;  ///< This node listens.
  std::string origin;  ///< "static", "learned", "static, learned"; empty: local only.
  Duration age{};
};

struct WorkerInfo {
  unsigned number = 0;
  unsigned lcore = 0;
  std::vector<std::string> interfaces;
  std::uint64_t loops = 0, busy_loops = 0, rx_packets = 0, punts = 0;
  std::uint64_t answers = 0;  ///< ARP requests and solicitations answered by the worker itself.
  std::uint64_t busy_cycles = 0, cycles = 0;  ///< Cycles in busy loops, and in all loops.
  std::uint64_t generated = 0, stamped = 0, consumed = 0, no_mbuf = 0;
  std::uint64_t gro_segments = 0, gso_packets = 0;
  std::uint64_t handed_on = 0;  ///< Part of rx_packets: those that other workers handled.
  /// The workers over which this one spreads the packets that it receives; empty: it does not.
  std::vector<unsigned> spread_over;
  /// Receive calls by packets: 0, 1, 2-3, 4-7, 8-15, 16-31, 32-63, 64.
  std::array<std::uint64_t, 8> bursts{};
  std::size_t neighbours = 0;    ///< In the worker's own table.
  std::size_t table_octets = 0;  ///< Memory of the worker's own tables.
  std::size_t connections = 0;   ///< Connected queue pairs of this worker.
};

/// A row of `show fwd stats` and `show port stats`.
struct InterfaceStatsInfo {
  std::string name;
  TrafficInfo traffic;
  // Device counters: frames without room in the device, damaged frames, frames without an mbuf.
  std::uint64_t rx_missed = 0, rx_errors = 0, rx_nombuf = 0;
  std::uint64_t rx_pps = 0, tx_pps = 0, rx_bps = 0, tx_bps = 0;  ///< Since the last call.
};

/// ICMP errors and redirects. Neighbour discovery sends the redirects of IPv6 and counts them.
struct IcmpErrorCounters {
  std::uint64_t sent = 0;
  /// Not sent: limited, forbidden, to this node, or without an own address as the source.
  std::uint64_t suppressed = 0;
};

/// Forwarding state, and counts of test packets.
struct ForwardInfo {
  fwd::ForwardMode mode{};
  bool forwarding = false;
  unsigned burst = 0;
  std::string egress;  ///< Interface that leads to the first test destination, if one does.
  std::uint64_t egress_bps = 0;  ///< Speed of the egress; 0: not known.
  unsigned first_bursts = 0;     ///< Bursts of send_first() that wait for the egress.
  std::uint64_t generated = 0, consumed = 0, no_mbuf = 0;
};

/// The turns of the management lcore's loop since the start, without the time that it sleeps.
struct ManagementInfo {
  std::uint64_t turns = 0;
  std::uint64_t slow_turns =
      0;  ///< Longer than 100 ms; each second with one has a warning in the log.
  std::uint64_t p50_ns = 0, p99_ns = 0, p999_ns = 0, max_ns = 0;
  std::uint64_t log_lines_lost = 0;  ///< Lines that the destination of the log did not take.
};

struct LatencyInfo {
  std::uint64_t sent = 0, received = 0;  ///< Packets without duplicates.
  std::uint64_t lost = 0;                ///< Packets missing before the last one that arrived.
  std::uint64_t late = 0;                ///< Received packets that another one overtook.
  std::uint64_t duplicates = 0;
  std::uint64_t min_ns = 0, p50_ns = 0, p90_ns = 0, p99_ns = 0, p999_ns = 0, max_ns = 0;
};

/// A row of `show sa`: the client of one HCA, and the administrator if it runs here.
struct SaInfo {
  std::string hca;
  std::uint16_t sm_lid = 0;
  std::string problem;  ///< Problem of the port.
  sa::ClientCounters client;
  fabric::NamedCounters mads;  ///< Counters of the device that carries the MADs.
  bool administrator = false;
  struct Group {
    wire::Gid mgid;
    std::uint16_t mlid = 0;
    std::uint16_t pkey = 0;
    std::uint32_t qkey = 0;
    std::uint16_t mtu = 0;  ///< Octets.
    struct Member {
      wire::Gid port_gid;
      std::uint8_t join_state = 0;
    };
    std::vector<Member> members;
  };
  std::vector<Group> groups;  ///< Administrator only.
  struct Port {
    wire::Gid gid;
    std::uint16_t lid = 0;
  };
  std::vector<Port> ports;  ///< Administrator only: ports that it has learned.
  sa::SmpCounters smps;     ///< Administrator only.
};

/// The way of a node out of service: NodeControl::set_draining().
enum class Drain : std::uint8_t {
  kOff,
  kDraining,  ///< Neighbours should use other ways. The routes of Linux stay as they were.
  kEnding,    ///< Neighbours may use the node again. The routes still stay as they were.
};
inline constexpr std::array<std::string_view, 3> kDrainNames = {"off", "draining", "ending"};

/// Linux as the control plane.
struct LinuxInfo {
  Drain drain = Drain::kOff;
  std::string network_namespace;       ///< Empty: that of the process.
  bool in_step = false;                ///< The state of Linux is known, and its changes are heard.
  std::uint64_t snapshots = 0;         ///< Times that all of its state was read.
  std::uint64_t routes = 0;            ///< Routes of Linux that are in the node's table.
  std::uint64_t routes_refused = 0;    ///< Changes of routes that the table did not take.
  std::uint64_t multicast_routes = 0;  ///< Entries of the multicast router of Linux.
  std::uint64_t multicast_routes_refused = 0;  ///< Times that there was no room for one.
  struct MirrorRow {
    std::string iface;
    std::int32_t ifindex = 0;  ///< Index in Linux; 0: the mirror does not exist now.
    bool enabled = false;      ///< Set by `ip link set`.
    bool carrier = false;
    std::uint64_t to_linux = 0, from_linux = 0;  ///< Packets; frames.
    std::size_t addresses = 0;                   ///< That Linux gave to the interface.
    std::size_t groups = 0;                      ///< That programs of Linux have joined.
  };
  std::vector<MirrorRow> mirrors;  ///< Empty: nothing is mirrored.
};

/// Interfaces that share their subnets, and the hosts known on each.
struct ProxyInfo {
  std::string group;
  std::vector<std::string> interfaces;
  std::vector<link::ProxiedHost> hosts;
  std::size_t questions = 0;  ///< Questions that wait for an answer.
  link::ProxyCounters counters;
};

/// One row: reason, place that counted it ("ib0", "eth0", "soft0"), number of packets.
struct DropInfo {
  Drop reason{};
  std::string where;
  std::uint64_t packets = 0;
};

}  // namespace ipoib::mgmt
