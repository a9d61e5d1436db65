// SPDX-License-Identifier: BSD-3-Clause
// What a node is to be, checked and ready: filled by app/ from the configuration file and the
// command line, read by lib/mgmt. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/fwd/generator_config.h"
#include "lib/fwd/modes.h"
#include "lib/link/interface.h"
#include "lib/link/ipoib_types.h"
#include "lib/wire/gid.h"
#include "lib/wire/ip.h"
#include "lib/wire/ipoib.h"

namespace ipoib::mgmt {

/// Where management datagrams go.
struct MadConfig {
  std::string device;  ///< Of libibumad; empty: over the wire.
  unsigned port = 0;   ///< Of that device; 0: the first.
};

enum class HcaDriver : std::uint8_t { kSoft, kVerbs };
inline constexpr std::array<std::string_view, 2> kHcaDriverNames = {"soft", "verbs"};

struct HcaConfig {
  std::string name;
  HcaDriver driver = HcaDriver::kSoft;
  std::string wire;     ///< soft: name of the ethdev that is its cable.
  std::string device;   ///< verbs: of rdma-core.
  unsigned port = 1;    ///< verbs: of that device.
  MadConfig mad{};      ///< soft.
  unsigned mtu = 2048;  ///< Largest IB MTU of the port, octets.
  // soft with MADs over the wire; otherwise a subnet manager, or the device, says what the port is.
  std::uint64_t guid = 0;
  std::uint16_t lid = 0;
  std::uint16_t sm_lid = 1;
  std::vector<std::uint16_t> pkeys{wire::kDefaultPkey};
  /// For the whole fabric, or verbs on Ethernet link layer: for this node alone.
  bool subnet_administrator = false;
  // soft.
  bool icrc = true;                        ///< false: as hardware would do it; for measurements.
  std::optional<std::uint32_t> first_qpn;  ///< Queue pairs are numbered from here; none: random.
};

/// Attributes of a broadcast group.
struct SubnetConfig {
  unsigned mtu = 2048;  ///< Octets.
  std::uint32_t qkey = 0x8001'0b1b;
  unsigned rate = 10;  ///< Gb/s as written.
  std::uint8_t sl = 0;
};

/// IP options that links and ports have alike.
struct IpConfig {
  link::Ip6Config ip6;
  bool ask_rarp = false;             ///< For an own IPv4 address.
  unsigned rarp_prefix_len = 24;     ///< Of that address.
  std::vector<wire::IpAddr> groups;  ///< Multicast groups this node listens to.
  bool multicast_router = false;  ///< What hosts here want is brought from other such interfaces.
  /// Of the multicast router: between the two questions before a group that was left is given up.
  Duration last_member_interval = std::chrono::seconds(1);
};

/// Transport of unicast packets, beside UD.
enum class LinkMode : std::uint8_t { kDatagram, kConnectedRc, kConnectedUc, kConnected };
inline constexpr std::array<std::string_view, 4> kLinkModeNames = {"datagram", "connected-rc",
                                                                   "connected-uc", "connected"};

struct LinkConfigEntry {
  std::string name;
  std::string hca;
  std::uint16_t pkey = wire::kDefaultPkey;
  std::uint8_t scope = 2;  ///< link::kScopeAuto: searched.
  std::vector<wire::IpPrefix> addresses;
  IpConfig ip{};
  LinkMode mode = LinkMode::kDatagram;
  unsigned connected_mtu = 65'520;  ///< Largest IP packet taken by a connection.
  link::ConnectionConfig
      connection{};  ///< But for rc, uc and receive_mtu, which follow from these.
  bool create_broadcast = false;
  SubnetConfig broadcast{};  ///< Attributes with create_broadcast.
  link::AllNodes all_nodes = link::AllNodes::kAuto;
  link::SendOnly send_only = link::SendOnly::kNonMember;
  bool flood_absent = false;
  bool copy_to_routers = false;  ///< Each multicast datagram also to the all-routers group.
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
};

/// Packets to `groups` that come by `in` are forwarded to every interface of `out`.
struct MulticastRouteConfig {
  wire::IpPrefix groups;
  wire::IpAddr source{};  ///< All zero: any.
  std::string in;
  std::vector<std::string> out;
};

/// A host that is told its IPv4 address when it asks by RARP.
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
  /// Interface or HCA name -> worker number; empty: spread evenly.
  std::map<std::string, unsigned> assign;
};

struct NodeConfig {
  std::vector<HcaConfig> hcas;
  std::vector<LinkConfigEntry> links;
  std::vector<PortConfig> ports;
  std::vector<RouteConfig> routes;
  std::vector<MulticastRouteConfig> multicast_routes;
  std::vector<NeighbourEntryConfig> neighbours;
  std::vector<RarpEntryConfig> rarp;
  SubnetConfig subnet;
  WorkerConfig worker;
  link::NeighbourConfig neighbour;  ///< [neighbour-cache]
  ForwardMode mode = ForwardMode::kRoute;
  GeneratorConfig generator;
  bool redirects = true;  ///< Hosts are told of a better first hop on their own link.
  unsigned tx_first = 0;  ///< Bursts that each worker sends before anything else.
  unsigned rxd = 512;
  unsigned txd = 512;
  unsigned total_num_mbufs = 0;  ///< 0: worked out from queues.
  unsigned mbuf_size = 0;        ///< 0: worked out from the largest MTU.
  bool auto_start = false;
};

}  // namespace ipoib::mgmt
