// SPDX-License-Identifier: BSD-3-Clause
// Types of an IPoIB link: the interface to its surroundings, configuration, parameters and
// counters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/fabric/fabric_types.h"
#include "lib/link/interface.h"
#include "lib/link/ip/ip_stack.h"
#include "lib/link/ipoib/connected/connection_types.h"
#include "lib/link/shared_info.h"
#include "lib/sa/client.h"

namespace ipoib::link {

/// Another user of the port and partition: an interface of the kernel. The SA counts a port once in
/// each group, so that all users of a port share its memberships.
enum class PortUser : std::uint8_t {
  kNone,
  kIdle,    ///< It exists, but is a member of no group.
  kActive,  ///< It may be a member of any group.
};

/// The functions of the queue pair and the fabric that an IPoIB link uses.
class LinkActions {
 public:
  virtual ~LinkActions() = default;
  [[nodiscard]] virtual const fabric::PortAttr& port() const = 0;
  /// Number of UD queue pairs, each of another worker.
  [[nodiscard]] virtual unsigned queue_pairs() const = 0;
  /// 0: the device has no hardware for it. The first always has, unless the device is away.
  [[nodiscard]] virtual std::uint32_t qpn(unsigned queue_pair) const = 0;
  virtual Status set_qkey(std::uint32_t qkey) = 0;
  virtual Status attach(unsigned queue_pair, const wire::Gid& mgid, std::uint16_t mlid) = 0;
  virtual void detach(unsigned queue_pair, const wire::Gid& mgid, std::uint16_t mlid) = 0;
  virtual Result<fabric::AhIndex> create_ah(const fabric::AhAttr& attr) = 0;
  virtual void destroy_ah(fabric::AhIndex ah) = 0;
  /// Sends octets that start at the IPoIB header. Losing them is allowed, as on any wire.
  virtual void send(fabric::AhIndex ah, std::uint32_t qpn, std::span<const std::byte> frame) = 0;
  virtual void state_changed(State state) = 0;
  /// The most active of the other users. IpoibLink::on_port_user() follows each change.
  [[nodiscard]] virtual PortUser port_user() const { return PortUser::kNone; }
  /// A message of address resolution from this port arrived; it may be forged.
  virtual void port_heard(const wire::Gid& /*port*/, std::uint16_t /*slid*/, TimePoint /*now*/) {}

  /// Number of queue pairs, from the first on, that can receive; at least 1.
  [[nodiscard]] unsigned receiving_queue_pairs() const {
    unsigned n = 1;
    while (n < queue_pairs() && qpn(n) != 0) ++n;
    return n;
  }
};

struct GroupConfig {
  SendOnly send_only = SendOnly::kNonMember;
  /// Packets to an absent group are sent to the broadcast group, which RFC 4391 §10 allows for
  /// scopes beyond link-local but calls inefficient.
  bool flood_absent = false;
  /// All groups of the link are received (NonMember), the all-routers groups are joined.
  bool multicast_router = false;
  /// An absent group is not queried again for this long.
  Duration negative = std::chrono::seconds(10);
  /// An unused membership to send is left after this.
  Duration send_idle = std::chrono::seconds(300);
  Duration backoff_min = std::chrono::seconds(1);  ///< Between attempts to join.
  Duration backoff_max = std::chrono::seconds(16);
  /// Limit of groups listened to, and of further ones sent to or routed.
  std::size_t max_groups = 4096;
  std::size_t max_queries = 32;  ///< Limit of open SA requests about groups.
};

/// Attributes for the broadcast group if this node creates it. Codes as in lib/wire/iba.h.
struct BroadcastAttributes {
  std::uint8_t mtu = 4;
  std::uint32_t qkey = 0x8001'0b1b;  ///< Controlled: high bit set (RFC 4391 §4.1).
  std::uint8_t rate = 3;
  std::uint8_t sl = 0;
  std::uint8_t tclass = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
};

struct LinkConfig : IpConfig {
  std::optional<IbarpConfig> ibarp;  ///< Empty: the link is one of RFC 4391.
  unsigned max_queues = ~0U;  ///< Limit of queue pairs that neighbours and groups are spread over.
  std::uint16_t pkey = wire::kDefaultPkey;
  std::uint8_t scope = 2;  ///< Scope of the broadcast-GID; kScopeAuto.
  /// The broadcast group is created with these attributes if it is absent; empty: never.
  std::optional<BroadcastAttributes> create_broadcast;
  AllNodes all_nodes = AllNodes::kAuto;
  SharedPort shared_port = SharedPort::kAuto;
  /// With several queue pairs, ARP requests to all hosts have no sender.
  bool anonymous_requests = true;
  bool balance = true;  ///< balance() moves neighbours, and busy workers get no new connections.
  unsigned paths = 1;   ///< PathConfig::paths
  GroupConfig group;
  SharedConfig shared;  ///< Addresses in addition to IpConfig::addresses.
  ConnectionConfig connected;
  Duration join_backoff_min = std::chrono::seconds(1);
  Duration join_backoff_max = std::chrono::seconds(16);
  /// Interval of confirmations of the broadcast membership at the SA, so that a restarted SA learns
  /// of it again; 0: never.
  Duration membership_refresh = std::chrono::seconds(60);
  /// Interval of questions to the SA if it still knows of that membership; 0: never.
  Duration membership_check = std::chrono::seconds(3);
};

/// Number of queue pairs that neighbours and groups are spread over.
[[nodiscard]] inline unsigned spread_width(const LinkConfig& config, const LinkActions& actions) {
  return std::min(config.max_queues, actions.receiving_queue_pairs());
}

/// True if the SA itself denied the request. False if it was silent, busy or short of resources.
[[nodiscard]] inline bool sa_says_no(const sa::Failure& failure) {
  return failure.code == Errc::kRefused &&
         failure.status >= static_cast<std::uint16_t>(wire::MadStatus::kSaRequestInvalid);
}

}  // namespace ipoib::link
