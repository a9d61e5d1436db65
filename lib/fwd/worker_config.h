// SPDX-License-Identifier: BSD-3-Clause
// Configuration of a new worker. lib/mgmt fills it; everything pointed to outlives the worker.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/contract.h"
#include "lib/base/doorbell.h"
#include "lib/fabric/hca.h"
#include "lib/fwd/filter/header_rules.h"
#include "lib/fwd/modes.h"
#include "lib/table/neighbour.h"
#include "lib/table/next_hop.h"
#include "lib/table/own_addresses.h"
#include "lib/table/prefix6_table.h"
#include "lib/table/prefix_table.h"
#include "lib/wire/gid.h"
#include "lib/wire/ipoib.h"

struct rte_mempool;
struct rte_rcu_qsbr;
struct rte_ring;

namespace ipoib::fwd {

inline constexpr std::uint16_t kMaxBurst = 64;
/// Minimum number of packets to request from a device: the vector receive functions of many drivers
/// round the number down to a multiple of 4 or 8, and would return no packet for a smaller one.
inline constexpr std::uint16_t kMinReceived = 8;

enum class InterfaceKind : std::uint8_t { kEthernet, kIpoib };

/// One interface in the view of all workers. Its index in WorkerConfig::interfaces is its
/// InterfaceId. Workers without a queue of their own to send (InterfaceQueues) hand packets to the
/// worker `owner`. All links of one Hca that has a poll_function() must have the same owner.
struct alignas(64) InterfaceEntry {
  // Fixed before the first worker starts, except the two atomics.
  InterfaceKind kind = InterfaceKind::kEthernet;
  std::uint8_t owner = 0;         ///< Worker number.
  std::uint16_t ethdev_port = 0;  ///< kEthernet.
  wire::MacAddr mac{};            ///< kEthernet: own address.
  /// kEthernet: TCP segments that arrive here are merged for neighbours with a connection, and TCP
  /// packets that are too large to leave here are cut.
  bool tcp_offload = false;
  wire::Encapsulation encapsulation = wire::Encapsulation::kTypeFirst;  ///< kIpoib.
  std::atomic<std::uint16_t> mtu{0};  ///< Largest IP packet, except for neighbours with a
                                      ///< connection. Valid only while `up`.
  /// Mbufs of the longest chain that the device sends (fabric::Capabilities); 1: no chains.
  std::atomic<std::uint16_t> max_segments{1};
  std::span<fabric::UdQueue* const> ud_queues;  ///< kIpoib: those of all workers.
  bool connected = false;                       ///< kIpoib in connected mode.
  /// Other interfaces share its subnets: ARP and neighbour solicitations for any host are punted.
  bool proxy = false;
  // Writer: management lcore, while workers run; relaxed unless stated, because each value is
  // independent.
  std::atomic<bool> up{false};  ///< False: routed packets to it are dropped as kLinkDown.
  /// Administratively down: all packets that it receives are dropped as kInterfaceDown. An
  /// interface that is coming up is not `up` yet, but it receives.
  std::atomic<bool> admin_down{false};
  /// Each multicast packet that leaves here, except those of link-local scope, is also sent to the
  /// link's all-routers group (224.0.0.2, ff02::2).
  std::atomic<bool> copy_to_routers{false};
  /// Multicast routing is enabled: IGMP and MLD that arrive here are punted for any group, and
  /// sources that no delivery names are reported, and packets that other routers forward.
  std::atomic<bool> multicast_router{false};
  /// Linux has a mirror of the interface: broadcasts and LLDP that arrive here are punted.
  std::atomic<bool> mirrored{false};
  /// Linux routes multicast here: IGMP and MLD that arrive here are punted for any group, and packets
  /// to groups without an entry of Linux are given to it, within limits.
  std::atomic<bool> linux_multicast{false};
  std::atomic<SourceCheck> source_check{SourceCheck::kOff};  ///< For arriving packets.
  std::atomic<DirectedBroadcast> directed_broadcast{DirectedBroadcast::kOff};  ///< To be sent here.
  /// kEthernet: the management lcore owns the device and is stopping it or has stopped it. Set with
  /// relaxed: a worker sees true from its next quiescent state on. Cleared with release.
  std::atomic<bool> device_stopped{false};
  /// kIpoib: own GID, in memory order; 0: not known. Multicast from this GID and the QPN of one of
  /// ud_queues is this link's, returned by the fabric.
  std::array<std::atomic<std::uint64_t>, 2> gid{};

  /// Acquire: pairs with the release in set_up(), so that a worker that sees it up also sees its
  /// MTU.
  [[nodiscard]] bool is_up() const noexcept { return up.load(std::memory_order_acquire); }
  /// Management lcore. `new_mtu`: octets, used if `on`; while down the last one stays, because a
  /// worker may just have seen the interface up. Stores only changed values, because workers read
  /// these cache lines per packet.
  void set_up(bool on, std::uint16_t new_mtu) noexcept {
    expects_management();
    if (on && mtu.load(std::memory_order_relaxed) != new_mtu)
      mtu.store(new_mtu, std::memory_order_relaxed);
    if (up.load(std::memory_order_relaxed) != on) up.store(on, std::memory_order_release);
  }
  /// Acquire: pairs with the store that follows the start of the device.
  [[nodiscard]] bool is_stopped() const noexcept {
    return device_stopped.load(std::memory_order_acquire);
  }
  /// Management lcore. Two stores: for a moment workers may see one half of the old GID with one of
  /// the new. Both have a GUID of this port, if not the same, so that no other port has the mixed
  /// GID. At worst a link whose GID has just changed accepts a packet of its own.
  void set_gid(const wire::Gid& own) noexcept {
    expects_management();
    std::array<std::uint64_t, 2> words;
    std::memcpy(words.data(), &own, sizeof(words));
    for (std::size_t i = 0; i < words.size(); ++i)
      gid[i].store(words[i], std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_own(const wire::Gid& source) const noexcept {
    std::array<std::uint64_t, 2> words;
    std::memcpy(words.data(), &source, sizeof(words));
    return words[1] != 0 && words[0] == gid[0].load(std::memory_order_relaxed) &&
           words[1] == gid[1].load(std::memory_order_relaxed);
  }
  [[nodiscard]] wire::Gid own_gid() const noexcept {
    const std::array words{gid[0].load(std::memory_order_relaxed),
                           gid[1].load(std::memory_order_relaxed)};
    return std::bit_cast<wire::Gid>(words);
  }
};
static_assert(sizeof(InterfaceEntry) == 64);

class FilterTable;
class Generator;

/// Settings that the CLI may change while workers run; all workers share them. Writer: management
/// lcore, relaxed.
struct alignas(64) Settings {
  std::atomic<bool> forwarding{false};  ///< Off: IP packets are dropped as kForwardingStopped.
  std::atomic<ForwardMode> mode{ForwardMode::kRoute};
  std::atomic<IdlePolicy> idle{IdlePolicy::kPoll};
  /// 1 to kMaxBurst; a larger value counts as kMaxBurst. Receive calls request at least
  /// kMinReceived packets.
  std::atomic<std::uint16_t> burst{32};
  /// Bursts that each worker must have sent in total, before paced packets, while forwarding is on.
  std::atomic<std::uint32_t> first_bursts{0};
  /// Senders get redirects to a better first hop on their own link.
  std::atomic<bool> redirects{true};
  /// Generator of test packets. Stored with release, after the packets are prepared; freed only
  /// when every worker has passed a quiescent state since it was replaced.
  std::atomic<const Generator*> generator{nullptr};
  /// Packet filters; null: none. Stored with release; freed only when every worker has passed a
  /// quiescent state since it was replaced. Workers write its counters.
  std::atomic<FilterTable*> filters{nullptr};
};

/// Limits of the packets of each kind that all workers together punt per interval, so that no storm
/// reaches the management lcore. Workers drop and count excess packets. The packets of one ingress
/// interface take at most half of what the others have left of a limit, so that a storm on one
/// leaves room for the others. More than `max_parts` workers have more in all. Limits that name one
/// neighbour or source are those of each worker.
struct PuntLimits {
  std::uint32_t interval_us = 100'000;
  /// Workers that the limits are divided by, at most: ARP comes by one queue of most devices, however
  /// many workers there are.
  std::uint32_t max_parts = 8;
  std::uint32_t neighbour_per_key = 16;  ///< Packets for one unresolved neighbour.
  std::uint32_t neighbour = 2048;        ///< Packets for all unresolved neighbours.
  /// One sender may use a sixteenth of `neighbour` once its interface has used half of its own part.
  std::uint32_t neighbour_senders = 16;
  /// All senders with one MAC address, or LID and QPN, may use a quarter then.
  std::uint32_t neighbour_link_senders = 4;
  std::uint32_t icmp_error = 256;
  std::uint32_t too_big = 256;  ///< ICMP errors that path MTU discovery needs.
  /// ARP and ND of neighbours that this node has asked for or sent to.
  std::uint32_t known_per_key = 8;  ///< Limit of one neighbour.
  /// Limit of one MAC address, or LID and QPN, however many neighbours it speaks of.
  std::uint32_t known_per_source = 64;
  std::uint32_t known_arp = 8192;
  std::uint32_t known_nd = 8192;
  /// ARP and ND of all other hosts.
  std::uint32_t stranger_per_source = 64;  ///< Limit of one MAC address, or LID and QPN.
  std::uint32_t arp = 4096;
  std::uint32_t nd = 4096;
  /// Requests and solicitations beyond these limits that each worker answers itself.
  std::uint32_t answers = 262'144;
  std::uint32_t local = 16'384;
  std::uint32_t membership = 4096;
  std::uint32_t broadcast = 512;            ///< Broadcasts for programs of Linux.
  std::uint32_t broadcast_per_source = 16;  ///< Limit of one MAC address, or LID and QPN.
  std::uint32_t link_frame = 32;
  std::uint32_t redirect = 64;
  std::uint32_t redirect_again = 10;    ///< Intervals until a flow's sender gets another redirect.
  std::uint32_t multicast = 128;        ///< Reports of sources of groups.
  std::uint32_t multicast_again = 100;  ///< Intervals until a source is reported again.
  /// Reports of each worker for the election of forwarders: in heard_again intervals, one of each of
  /// 4,096 groups on each of two interfaces.
  std::uint32_t heard = 1536;
  /// Intervals until the packets of a source that arrive on one interface are reported again. With
  /// one more, they are at most route::ForwarderElection::kReportInterval.
  std::uint32_t heard_again = 9;
  std::uint32_t for_linux = 512;  ///< Packets to groups for the multicast router of Linux.
  /// Intervals until a source and group without an entry gives it another packet.
  std::uint32_t linux_again = 5;
};

/// The queues of one interface that a worker polls and sends to. No other worker uses them.
struct InterfaceQueues {
  std::vector<std::uint16_t> eth_rx;    ///< kEthernet: receive queues of the ethdev.
  std::optional<std::uint16_t> eth_tx;  ///< kEthernet; none: the owner sends for this worker.
  fabric::UdQueue* ud = nullptr;        ///< kIpoib; null: the owner sends for this worker.
  /// kIpoib in connected mode: messages of the worker's connections; null: it has none.
  fabric::ReceiveQueue* receive = nullptr;
};

/// An Hca whose poll_function() a worker calls once a loop.
struct PolledHca {
  fabric::Hca* hca = nullptr;
  unsigned worker = 0;  ///< The worker's number in fabric::UdQueueConfig::worker.
};

/// Returns the queues of a worker if every interface has one queue, of its owner: number 0 of an
/// ethdev, the first of InterfaceEntry::ud_queues. Indexed by InterfaceId.
[[nodiscard]] std::vector<InterfaceQueues> queues_of_owner(
    std::span<const InterfaceEntry> interfaces, unsigned worker);

struct WorkerConfig {
  unsigned number = 0;   ///< 0, 1, ...; also its thread id in `rcu`.
  unsigned workers = 1;  ///< Workers of the node, which divide the limits of `punt`.
  int socket = -1;       ///< NUMA node of its lcore and of its own tables; -1: any.
  std::span<const InterfaceEntry> interfaces;  ///< All of the node, indexed by InterfaceId.
  /// Indexed by InterfaceId. The owner of an interface has a queue to send.
  std::vector<InterfaceQueues> queues;
  std::vector<PolledHca> hcas;
  const Settings* settings = nullptr;

  /// Rings with elements msg::Up and msg::Down (rte_ring_create_elem), single producer, single
  /// consumer.
  rte_ring* up = nullptr;
  rte_ring* down = nullptr;
  Doorbell* doorbell = nullptr;
  /// Indexed by worker number, the own place null: rings of rte_mbuf*, single producer, single
  /// consumer. Worker a's handoff_out[b] is worker b's handoff_in[a]. Empty if there is one worker.
  std::vector<rte_ring*> handoff_out;
  std::vector<rte_ring*> handoff_in;
  std::vector<rte_ring*> handoffs;  ///< The handoff rings of all workers.

  const table::NextHopTable* next_hops = nullptr;
  const table::PrefixTable* prefixes = nullptr;
  const table::Prefix6Table* prefixes6 = nullptr;
  const table::OwnAddresses* own_addresses = nullptr;
  const HeaderRules* header_rules = &HeaderRules::defaults();
  rte_rcu_qsbr* rcu = nullptr;  ///< RCU variable of the prefix tables.

  rte_mempool* fragment_pool = nullptr;     ///< Mbufs for fragments; room for the largest link MTU.
  std::size_t neighbour_capacity = 65'536;  ///< NeighbourIndex is below this.
  std::size_t delivery_capacity = 16'384;   ///< Groups and link-local addresses, per interface.
  std::uint64_t epoch_tsc = 0;              ///< TSC at the start of the process: TimePoint 0.
  std::uint64_t (*tsc)() noexcept = nullptr;  ///< Replaces the time-stamp counter; null: use it.
  std::uint32_t run_id = 0;                   ///< Identifies time stamps of this process.
  PuntLimits punt;
};

}  // namespace ipoib::fwd
