// SPDX-License-Identifier: BSD-3-Clause
// Settings of interfaces that users make: plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/clock.h"
#include "lib/wire/hw_addr.h"
#include "lib/wire/ibarp.h"
#include "lib/wire/ipoib.h"
#include "lib/wire/ipoib_cm.h"

namespace ipoib::link {

/// Every IPv4 link carries packets of this size in octets. Source: RFC 791 §3.2.
inline constexpr std::uint16_t kMinMtu = 68;

/// Timers and limits of neighbour resolution (RFC 1122 §2.3.2, RFC 4861 §10 in spirit).
struct NeighbourConfig {
  Duration retransmit = std::chrono::seconds(1);  ///< Interval of ARP and ND requests.
  unsigned max_requests = 3;                      ///< Broadcast requests before failing.
  unsigned max_probes = 3;  ///< Unicast probes before the next broadcast request.
  Duration reachable = std::chrono::seconds(30);   ///< A confirmation is valid this long (+-50 %).
  Duration probe_delay = std::chrono::seconds(1);  ///< A used stale entry is probed after this.
  Duration negative = std::chrono::seconds(3);     ///< A failed entry drops packets this long.
  Duration idle = std::chrono::seconds(300);  ///< An entry that is unused this long is forgotten.
  std::size_t max_held_per_neighbour = 16;
  std::size_t max_held = 2048;  ///< Limit over all neighbours of the interface.
  Duration max_held_age = std::chrono::seconds(3);
  std::size_t max_entries = 65536;
};

struct Ip6Config {
  bool enabled = true;
  /// This node is a router: advertisements say so, and the all-routers groups are joined.
  bool routing = true;
  /// Solicits routers; those that answer become default routers, and redirects are accepted.
  bool accept_ra = false;
  /// Sends router advertisements while IPv6 is up, if `routing`.
  bool router_advertisement = false;
  wire::InterfaceIdRule interface_id = wire::InterfaceIdRule::kSetUniversal;
  unsigned dad_transmits = 1;  ///< Solicitations of duplicate address detection; 0: off.
  Duration dad_delay = std::chrono::seconds(1);   ///< Upper limit of the first one's delay.
  Duration retransmit = std::chrono::seconds(1);  ///< Between them and after the last.
  Duration dad_retry = std::chrono::seconds(60);  ///< Mean time until a duplicate is tried again.
  Duration ra_min_interval = std::chrono::seconds(200);
  Duration ra_max_interval = std::chrono::seconds(600);
  Duration ra_lifetime = std::chrono::seconds(1800);  ///< 0: advertises, but is no default router.
};

/// The condition under which this side requests a connection with a peer that offers connected
/// mode.
enum class OpenPolicy : std::uint8_t {
  kTraffic,  ///< While packets are sent to it.
  kAlways,   ///< Whenever it is a neighbour.
  kAccept,   ///< Never; requests of peers are accepted.
};

/// Number of connections between two interfaces.
enum class PairPolicy : std::uint8_t {
  /// One for both directions; crossing requests are resolved by address
  /// (draft-ietf-ipoib-connected-mode-03 §3.3). Peers that request with Linux's service ID have one
  /// in each direction, because Linux must not be sent to on a connection that it opened. A further
  /// request of the peer replaces the connection that it had opened.
  kOne,
  /// kOne, but a further request is refused while there is a connection. It is probed then, and
  /// given up if the peer requests again after seconds in which it has sent nothing on it, so that a
  /// peer that has restarted is not refused for long.
  kFirst,
  /// Linux's way, with every peer: all requests are accepted, each side sends on its own.
  kPerDirection,
};

/// ConnectionConfig::ack_timeout: the packet lifetime of the path decides.
inline constexpr std::uint8_t kAckTimeoutAuto = 0;
/// The longest one that can be configured, or follows from a lifetime: 4.3 s.
inline constexpr std::uint8_t kLongestAckTimeout = 20;

struct ConnectionConfig {
  // If both are false, the link is UD only, its address says so, and it does not listen.
  bool rc = false;
  bool uc = false;
  OpenPolicy open = OpenPolicy::kTraffic;
  PairPolicy pairs = PairPolicy::kOne;
  /// First octet of the service ID in the first request. The other one follows if the peer does not
  /// know that service. The link listens on both.
  wire::ServiceIdForm service_id = wire::ServiceIdForm::kIetf;
  /// Largest message received, including the encapsulation header: IP packets of up to 65,520.
  std::uint32_t receive_mtu = 65'524;
  std::size_t max_connections = 4096;  ///< Limit of both sides together; further peers use UD.
  Duration idle = std::chrono::seconds(300);  ///< A connection that is unused this long is closed.
  /// Delay after a failure; doubled with each one.
  Duration backoff_min = std::chrono::seconds(1);
  Duration backoff_max = std::chrono::seconds(60);
  /// Retries of a request, and the peer's time to answer: 4.096 us << code.
  std::uint8_t cm_retries = 4;
  std::uint8_t cm_timeout = 17;
  // RC only. Short in comparison with TCP's shortest retransmission timeout of 200 ms
  // (draft-ietf-ipoib-connected-mode-03 §7.1): at most 8 times 17 ms, after which the connection has
  // failed and packets use UD. Hardware may take four times as long (iba-wire.md §6).
  std::uint8_t retry_count = 7;
  /// The value requested from peers, and the upper limit of the value that a peer may request from
  /// this side. 7 means for ever: a peer that never has a buffer would then hold all messages sent
  /// to it.
  std::uint8_t rnr_retry = 6;
  /// 4.096 us << code. Automatic: own queue pairs wait at least 1 ms, and no longer than TCP
  /// (ipoib/connected/ack_timeouts.h).
  std::uint8_t ack_timeout = kAckTimeoutAuto;
};

/// The way in which a sender joins a group that it does not listen to.
enum class SendOnly : std::uint8_t {
  kNonMember,   ///< RFC 4391 §10: only groups that exist.
  kFullMember,  ///< Linux's way: SendOnlyFullMember, which creates the group.
};

/// IPv6 all-nodes group FF1x:601B:pkey::1 (RFC 4391 §5, §8).
enum class AllNodes : std::uint8_t {
  kAuto,     ///< Joined if IPv6 runs.
  kJoined,   ///< In addition to the broadcast group.
  kInstead,  ///< It is the link's group: a link without ARP.
};

/// When another user, such as the kernel's ib_ipoib, may have memberships of the same port and
/// partition.
enum class SharedPort : std::uint8_t {
  kAuto,  ///< While an interface of the kernel is seen.
  kYes,   ///< Always: a user that this process cannot see.
  kNo,
};

/// A link of the draft of 2001, draft-pelissier-ipoib-encaparp-00.
struct IbarpConfig {
  std::uint64_t service_id = wire::kIbarpServiceId;
  bool server = false;           ///< Answers SIDR for the link, and asks no other node.
  std::uint16_t server_lid = 0;  ///< LID of the port to ask; 0: that of the subnet manager.
  std::uint16_t arp_hardware = wire::kArpHardwareInfiniband;
  /// Ethertype of IBARP. The table of the draft has that of IPv4 (0x0800), as its figure of the
  /// encapsulation does; an implementer who modelled IBARP after Ethernet used ARP's. Both are
  /// received.
  std::uint16_t arp_type = static_cast<std::uint16_t>(wire::EtherType::kArp);
  bool gid_word_twice = false;                        ///< See wire::LinkFormat.
  bool reply_keeps_order = true;                      ///< See wire::LinkFormat.
  Duration timeout = std::chrono::milliseconds(500);  ///< Time-out of one SIDR request.
  unsigned retries = 4;
};

/// Value of LinkConfig::scope: the scopes are searched from link-local upward.
inline constexpr std::uint8_t kScopeAuto = 0;

}  // namespace ipoib::link
