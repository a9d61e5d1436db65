// SPDX-License-Identifier: BSD-3-Clause
// What a worker is given when it is made. Filled by lib/mgmt; everything pointed to outlives the
// worker.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lib/base/contract.h"
#include "lib/base/doorbell.h"
#include "lib/fabric/hca.h"
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
/// Packets that a device is asked for at least: the vector receive functions of many drivers round
/// what they are asked for down to a multiple of 4 or 8, and of fewer they would return none.
inline constexpr std::uint16_t kLeastReceived = 8;

enum class InterfaceKind : std::uint8_t { kEthernet, kIpoib };

/// One interface as every worker sees it. Its place in WorkerConfig::interfaces is its InterfaceId.
/// Receiving and sending belong to the worker `owner` alone; the others hand packets over.
/// All links of one Hca that has a poll_function() must have the same owner.
struct alignas(64) InterfaceEntry {
  // Fixed before the first worker starts.
  InterfaceKind kind = InterfaceKind::kEthernet;
  std::uint8_t owner = 0;          ///< Worker number.
  std::uint16_t ethdev_port = 0;   ///< kEthernet.
  std::uint16_t ethdev_queue = 0;  ///< kEthernet; for receive and transmit.
  wire::MacAddr mac{};             ///< kEthernet: own address.
  /// kEthernet: TCP segments that came here are merged for neighbours with a connection, and TCP
  /// packets that are too large to leave here are cut.
  bool tcp_offload = false;
  fabric::UdQueue* ud_queue = nullptr;            ///< kIpoib.
  fabric::ReceiveQueue* receive_queue = nullptr;  ///< kIpoib in connected mode.
  // Writer: management lcore, while workers run; relaxed, each stands for itself.
  std::atomic<std::uint16_t> mtu{0};  ///< Largest IP packet, except for neighbours with a
                                      ///< connection. Means something while `up` only.
  /// Mbufs of the longest chain that its device sends (fabric::Capabilities); 1: no chains.
  std::atomic<std::uint16_t> max_segments{1};
  std::atomic<bool> up{false};  ///< Down: routed packets to it are dropped as kLinkDown.
  /// An operator took it down: whatever it receives is dropped as kInterfaceDown. An interface that
  /// is on its way up is not `up` yet, but it receives.
  std::atomic<bool> admin_down{false};
  /// Each multicast packet that leaves here, but for those of link-local scope, is also sent to the
  /// link's all-routers group (224.0.0.2, ff02::2).
  std::atomic<bool> copy_to_routers{false};
  /// A multicast router's: IGMP and MLD that come here go up whatever group they are sent to, and
  /// sources that no delivery names are told of.
  std::atomic<bool> multicast_router{false};
  /// kEthernet: the device is the management lcore's, who stops it or has stopped it. Set with
  /// relaxed: true holds for a worker from its next quiescent state on. Cleared with release.
  std::atomic<bool> device_stopped{false};
  /// kIpoib: own GID, in memory order; 0: not known. Multicast that comes from there and from
  /// ud_queue's own number is this link's, sent back by the fabric.
  std::array<std::atomic<std::uint64_t>, 2> gid{};

  /// Acquire: pairs with the release in set_up(), so that whoever sees it up sees its MTU.
  [[nodiscard]] bool is_up() const noexcept { return up.load(std::memory_order_acquire); }
  /// Management lcore. `new_mtu`: octets, where `on`; while down the last one stays, for a worker
  /// may just have seen the interface up. Written only when it changed: workers read these lines
  /// per packet.
  void set_up(bool on, std::uint16_t new_mtu) noexcept {
    expects_management();
    if (on && mtu.load(std::memory_order_relaxed) != new_mtu)
      mtu.store(new_mtu, std::memory_order_relaxed);
    if (up.load(std::memory_order_relaxed) != on) up.store(on, std::memory_order_release);
  }
  /// Acquire: pairs with the store of whoever started the device.
  [[nodiscard]] bool is_stopped() const noexcept {
    return device_stopped.load(std::memory_order_acquire);
  }
  /// Management lcore. Two stores: for a moment workers may see one half of the old GID with one of
  /// the new. Both have a GUID of this port, if not the same, so that is nobody else's GID, and at
  /// worst a packet of its own comes back to a link whose GID has just changed.
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
};
static_assert(sizeof(InterfaceEntry) == 64);

class Generator;

/// What the CLI may change while workers run; shared by all. Writer: management lcore, relaxed.
struct alignas(64) Settings {
  std::atomic<bool> forwarding{false};  ///< Off: IP packets are dropped as kForwardingStopped.
  std::atomic<ForwardMode> mode{ForwardMode::kRoute};
  std::atomic<IdlePolicy> idle{IdlePolicy::kPoll};
  /// 1 to kMaxBurst; a larger value counts as kMaxBurst. Never fewer than kLeastReceived packets
  /// are asked for when packets are received.
  std::atomic<std::uint16_t> burst{32};
  /// Bursts that each worker is to have sent in all before anything else, once forwarding is on.
  std::atomic<std::uint32_t> first_bursts{0};
  /// Senders are told of a better first hop on their own link.
  std::atomic<bool> redirects{true};
  /// Packets to be made. Stored with release, after they are prepared; freed only when every worker
  /// has been quiescent since it was replaced.
  std::atomic<const Generator*> generator{nullptr};
};

/// How many packets of each kind a worker passes up per interval, so that no storm reaches the
/// management lcore. What exceeds them is dropped and counted here.
struct PuntLimits {
  std::uint32_t interval_us = 100'000;
  std::uint32_t neighbour_per_key = 16;  ///< Packets for one unresolved neighbour.
  std::uint32_t neighbour = 1024;        ///< Packets for all unresolved neighbours.
  std::uint32_t icmp_error = 128;
  std::uint32_t arp = 4096;
  std::uint32_t local = 8192;
  std::uint32_t membership = 4096;
  std::uint32_t nd = 4096;
  std::uint32_t redirect = 32;
  std::uint32_t redirect_again = 10;    ///< Intervals until a flow's sender is told again.
  std::uint32_t multicast = 64;         ///< Sources of groups.
  std::uint32_t multicast_again = 100;  ///< Intervals until a source is told of again.
};

struct WorkerConfig {
  unsigned number = 0;  ///< 0, 1, ...; also its thread id in `rcu`.
  int socket = -1;      ///< NUMA node of its lcore, where its own tables lie; -1: any.
  std::span<const InterfaceEntry> interfaces;  ///< All of the node, by InterfaceId.
  std::vector<fabric::Hca*> hcas;  ///< Those whose poll_function() this worker calls once a loop.
  const Settings* settings = nullptr;

  /// Elements msg::Up and msg::Down (rte_ring_create_elem), single producer, single consumer.
  rte_ring* up = nullptr;
  rte_ring* down = nullptr;
  Doorbell* doorbell = nullptr;
  /// By worker number, the own place null: rings of rte_mbuf*, single producer, single consumer.
  /// Worker a's handoff_out[b] is worker b's handoff_in[a]. Empty where there is one worker.
  std::vector<rte_ring*> handoff_out;
  std::vector<rte_ring*> handoff_in;

  const table::NextHopTable* next_hops = nullptr;
  const table::PrefixTable* prefixes = nullptr;
  const table::Prefix6Table* prefixes6 = nullptr;
  const table::OwnAddresses* own_addresses = nullptr;
  rte_rcu_qsbr* rcu = nullptr;  ///< The one the prefix tables were made with.

  rte_mempool* fragment_pool = nullptr;     ///< mbufs for fragments; room for the largest link MTU.
  std::size_t neighbour_capacity = 65'536;  ///< NeighbourIndex is below this.
  std::size_t delivery_capacity = 16'384;   ///< Groups and link-local addresses, by interface.
  std::uint64_t epoch_tsc = 0;              ///< TSC at the start of the process: TimePoint 0.
  std::uint64_t (*tsc)() noexcept = nullptr;  ///< Instead of the time-stamp counter; null: it.
  std::uint32_t run_id = 0;                   ///< Time stamps with it are of this process.
  PuntLimits punt;
};

}  // namespace ipoib::fwd
