// SPDX-License-Identifier: BSD-3-Clause
// Configuration of a node, checked and complete: app/ fills it from the configuration file and the
// command line, lib/mgmt reads it. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/fwd/filter/header_rules.h"
#include "lib/fwd/generator_config.h"
#include "lib/fwd/modes.h"
#include "lib/link/interface_config.h"
#include "lib/link/shared_info.h"
#include "lib/mgmt/filter_config.h"
#include "lib/mgmt/mad_config.h"
#include "lib/route/multicast/forwarder_rule.h"
#include "lib/wire/ip.h"

namespace ipoib::mgmt {

enum class HcaDriver : std::uint8_t { kSoft, kVerbs };
inline constexpr std::array<std::string_view, 2> kHcaDriverNames = {"soft", "verbs"};

struct HcaConfig {
  std::string name;
  HcaDriver driver = HcaDriver::kSoft;
  std::string wire;             ///< soft: name of the ethdev that is its cable.
  std::string device;           ///< verbs: device name in rdma-core.
  unsigned port = 1;            ///< verbs: port of that device.
  MadConfig mad{};              ///< soft.
  std::optional<unsigned> mtu;  ///< Largest IB MTU of the port, octets; none: see max_mtu().
  // soft with MADs over the wire; otherwise a subnet manager or the device sets these attributes.
  std::uint64_t guid = 0;
  std::uint16_t lid = 0;
  unsigned lmc = 0;  ///< The port has 2^lmc LIDs, from `lid` on.
  std::uint16_t sm_lid = 1;
  std::vector<std::uint16_t> pkeys{wire::kDefaultPkey};
  /// Serves the whole fabric or, with verbs on Ethernet link layer, only this node.
  bool subnet_administrator = false;
  /// Connections of one port of a peer that it has requested and that are not over.
  unsigned connections_per_port = 256;
  // soft.
  bool icrc = true;                        ///< false: sent as zero and not checked, as if hardware
                                           ///< did it; for measurements.
  std::optional<std::uint32_t> first_qpn;  ///< Queue pairs are numbered from here; none: random.
  /// QPNs of links, which no other queue pair gets. The node collects them.
  std::vector<std::uint32_t> link_qpns;

  /// Octets of the largest IB MTU that the port may have. A device has its own.
  [[nodiscard]] unsigned max_mtu() const {
    return mtu.value_or(driver == HcaDriver::kVerbs ? 4096 : 2048);
  }
};

/// Attributes of a broadcast group.
struct SubnetConfig {
  unsigned mtu = 2048;  ///< Octets.
  std::uint32_t qkey = 0x8001'0b1b;
  unsigned rate = 10;  ///< Gb/s as written.
  std::uint8_t sl = 0;
  unsigned tclass = 0;
  std::uint32_t flow_label = 0;
  std::optional<unsigned> hop_limit{};  ///< None: by the scope.
  std::uint64_t sm_key = 0;             ///< Requests with it are trusted; 0: none is.
};

/// Linux as the control plane.
struct LinuxConfig {
  bool mirror = false;  ///< Default of the interfaces.
  std::optional<std::string>
      network_namespace;          ///< The one of the mirrors; none: that of the process.
  bool routes = true;             ///< Its routes through mirrors are routes of the node.
  std::uint32_t table = 254;      ///< Routing table of Linux; 254: main.
  bool echo = false;              ///< It answers pings to the node, which it otherwise does itself.
  bool multicast_routes = false;  ///< It is the multicast router on mirrored interfaces.
  /// At the end of the process: time between the begin of a drain and the end of the interfaces.
  Duration drain_time = Duration::zero();
  /// After a drain: time for which the node keeps the routes that Linux had before it.
  Duration drain_hold = std::chrono::seconds(60);
};

/// IP options that links and ports share.
struct IpConfig {
  link::Ip6Config ip6;
  fwd::SourceCheck source_check = fwd::SourceCheck::kOff;
  fwd::DirectedBroadcast directed_broadcast = fwd::DirectedBroadcast::kOff;
  bool ask_rarp = false;             ///< RARP request for an own IPv4 address.
  unsigned rarp_prefix_len = 24;     ///< Prefix length of that address.
  std::optional<std::string> proxy;  ///< Group of interfaces that share their subnets.
  std::optional<bool> mirror;        ///< None: LinuxConfig::mirror.
  [[nodiscard]] bool mirrored(const LinuxConfig& plane) const {
    return mirror.value_or(plane.mirror);
  }
  [[nodiscard]] bool linux_routes_multicast(const LinuxConfig& plane) const {
    return plane.multicast_routes && mirrored(plane);
  }
  std::vector<wire::IpAddr> groups;  ///< Multicast groups that this node listens to.
  bool multicast_router = false;     ///< Forwards the groups that hosts want here from other such
                                     ///< interfaces.
  /// Multicast router: interval of the two queries that it sends before it gives up a group that
  /// was left.
  Duration last_member_interval = std::chrono::seconds(1);
  // Multicast router: names and defaults of RFC 3376 §8.
  Duration query_interval = std::chrono::seconds(125);
  Duration query_response_interval = std::chrono::seconds(10);
  unsigned query_robustness = 2;
  unsigned igmp_version = 3;
  unsigned mld_version = 2;
  route::ForwarderRule multicast_forwarder = route::ForwarderRule::kQuerier;
  /// Groups of hosts of each IP version; on links also those that this node listens to, and the
  /// further ones that it sends to or routes.
  std::size_t max_groups = 4'096;
};

/// Transport of unicast packets, in addition to UD.
enum class LinkMode : std::uint8_t { kDatagram, kConnectedRc, kConnectedUc, kConnected };
inline constexpr std::array<std::string_view, 4> kLinkModeNames = {"datagram", "connected-rc",
                                                                   "connected-uc", "connected"};

enum class LinkDialect : std::uint8_t { kRfc4391, kIbarp2001 };
inline constexpr std::array<std::string_view, 2> kLinkDialectNames = {"rfc4391", "ibarp2001"};

struct LinkConfigEntry {
  std::string name;
  std::string hca;
  std::uint16_t pkey = wire::kDefaultPkey;
  std::uint8_t scope = 2;  ///< link::kScopeAuto: searched.
  std::vector<wire::IpPrefix> addresses;
  IpConfig ip{};
  LinkDialect dialect = LinkDialect::kRfc4391;
  link::IbarpConfig ibarp{};  ///< With kIbarp2001.
  LinkMode mode = LinkMode::kDatagram;
  unsigned connected_mtu = 65'520;  ///< Largest IP packet that a connection accepts.
  /// All fields except rc, uc and receive_mtu, which follow from `mode` and `connected_mtu`.
  link::ConnectionConfig connection{};
  bool create_broadcast = false;
  SubnetConfig broadcast{};  ///< Attributes with create_broadcast.
  link::AllNodes all_nodes = link::AllNodes::kAuto;
  link::SharedPort shared_port = link::SharedPort::kAuto;
  link::SendOnly send_only = link::SendOnly::kNonMember;
  bool flood_absent = false;
  bool copy_to_routers = false;  ///< Each multicast datagram is also sent to the all-routers group.
  unsigned queue_pairs = 0;      ///< Limit of UD queue pairs; 0: one for each worker.
  std::optional<std::uint32_t> qpn{};  ///< Wanted for the first queue pair; none: any.
  bool anonymous_requests = true;      ///< With several queue pairs: ARP requests without a sender.
  bool balance = true;  ///< With several queue pairs: neighbours leave those of busy workers.
  unsigned paths = 1;   ///< Largest number of paths to a neighbour.
  link::SharedConfig shared{};  ///< Addresses that several nodes have.
};

struct PortConfig {
  std::string name;
  std::string device;  ///< Any ethdev name.
  std::vector<wire::IpPrefix> addresses;
  std::uint16_t mtu = 1500;
  bool tcp_offload = false;  ///< TCP is merged for connected neighbours, and cut to the MTU.
  IpConfig ip{};
};

struct RouteConfig {
  wire::IpPrefix to;
  std::vector<wire::IpAddr> via;  ///< Empty with blackhole.
  bool blackhole = false;
  std::optional<std::string> iface{};  ///< The interface of each `via`; link-local ones need it.
};

/// Packets to `groups` that arrive on `in` are forwarded to every interface of `out`.
struct MulticastRouteConfig {
  wire::IpPrefix groups;
  wire::IpAddr source{};  ///< All zero: any.
  std::string in;
  std::vector<std::string> out;
};

/// A host that gets its IPv4 address from this node by RARP.
struct RarpEntryConfig {
  std::string iface;  ///< Link or port name.
  std::string lladdr;
  wire::IpAddr addr;
};

struct NeighbourEntryConfig {
  std::string iface;  ///< Link or port name.
  wire::IpAddr addr;
  std::string lladdr;
  std::uint16_t lid = 0;  ///< 0: asked of the SA.
  std::uint8_t sl = 0;
};

using fwd::ForwardMode;
using fwd::GeneratorConfig;
using fwd::IdlePolicy;

struct WorkerConfig {
  unsigned count = 1;  ///< --nb-cores.
  unsigned burst = 32;
  IdlePolicy idle = IdlePolicy::kPoll;
  bool balance = true;  ///< A busy worker spreads its packets by flow over idle ones.
  /// Port or HCA name -> numbers of the workers that receive from it, one for a real HCA; empty:
  /// spread evenly.
  std::map<std::string, std::vector<unsigned>> assign;
  fwd::HeaderChanges
      headers{};  ///< IPv4 options and IPv6 extension headers, other than by default.
};

/// Limits of the tables of prefixes: routes, networks and addresses of the node.
struct RouteTableConfig {
  std::uint32_t max_prefixes = 65'536;   ///< IPv4.
  std::uint32_t max_prefixes6 = 65'536;  ///< IPv6.
  /// IPv4 networks of 24 bits that contain longer prefixes or neighbours.
  std::uint32_t max_networks = 4'096;
};

struct NodeConfig {
  std::vector<HcaConfig> hcas;
  std::vector<LinkConfigEntry> links;
  std::vector<PortConfig> ports;
  std::vector<RouteConfig> routes;
  std::vector<MulticastRouteConfig> multicast_routes;
  std::vector<FilterConfig> filters;
  std::vector<NeighbourEntryConfig> neighbours;
  std::vector<RarpEntryConfig> rarp;
  SubnetConfig subnet;
  WorkerConfig worker;
  link::NeighbourConfig neighbour;  ///< [neighbour-cache]
  RouteTableConfig route_table;
  LinuxConfig linux_plane;
  ForwardMode mode = ForwardMode::kRoute;
  GeneratorConfig generator;
  bool redirects = true;  ///< Hosts get redirects to a better first hop on their own link.
  unsigned tx_first = 0;  ///< Bursts that each worker sends first, with `auto_start`.
  unsigned rxd = 512;
  unsigned txd = 512;
  unsigned total_num_mbufs = 0;  ///< 0: computed from the queues.
  unsigned mbuf_size = 0;        ///< 0: computed from the largest MTU.
  bool auto_start = false;
};

}  // namespace ipoib::mgmt
