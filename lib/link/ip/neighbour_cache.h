// SPDX-License-Identifier: BSD-3-Clause
// The neighbours of one interface: the state machine of address resolution, which InfiniBand and
// Ethernet share.
//
// Incomplete --reply--> [Path] --> Reachable --time--> Stale --in use--> Probe --reply--> Reachable
//     |                    |                             |                 |
//     +---- no answer -----+--> Failed <-----------------|-----------------+
//                                 |                      +-- idle --> forgotten
//                                 +-- negative time over: forgotten (gateways: requested again)
//
// Both families follow RFC 4861 §7.3; IPv4 uses ARP messages. A link-layer address from any message
// except a reply to this node is Stale: packets use it, and it is confirmed once it is used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/keyed_hash.h"
#include "lib/base/result.h"
#include "lib/link/interface.h"
#include "lib/link/ip/held_packets.h"
#include "lib/link/ip/resolution_places.h"
#include "lib/link/jitter.h"
#include "lib/link/medium.h"
#include "lib/link/time_order.h"

namespace ipoib::link {

/// The kind of message that a link-layer address comes from.
enum class Evidence : std::uint8_t {
  kReply,  ///< A reply to this node, so both directions work.
  kOther,  ///< Any other message: a request, an announcement.
};

/// Sends requests for the link-layer address of a neighbour.
class Solicitor {
 public:
  virtual ~Solicitor() = default;
  /// Sends a request to all hosts. `attempt`: number of unanswered ones before it.
  virtual void request(const wire::IpAddr& addr, unsigned attempt, TimePoint now) = 0;
  /// Sends a request to the neighbour only, at its last known address.
  virtual void probe(const wire::IpAddr& addr, const wire::HwAddr& hw, TimePoint now) = 0;
  /// The neighbour did not answer, or has no path: it is assumed to be gone.
  virtual void failed(const wire::IpAddr& addr) = 0;
  /// False while requests for `addr` would be lost: the interface is stopped or suspended, or the
  /// family of `addr` does not run. Once that ends, the owner of the cache calls
  /// NeighbourCache::request_gateways().
  [[nodiscard]] virtual bool can_ask(const wire::IpAddr& addr) const = 0;
};

/// Follows which neighbours have a link-layer address.
class NeighbourWatch {
 public:
  virtual ~NeighbourWatch() = default;
  /// The entry gets one, or another. Called before the entry is valid. Must not change this cache.
  virtual void neighbour_located(const wire::IpAddr& addr, TimePoint now) = 0;
  /// The entry has none any more. Must not change this cache.
  virtual void neighbour_lost(const wire::IpAddr& addr) = 0;
};

struct NeighbourEntry {
  wire::IpAddr addr;
  table::NeighbourIndex index = table::kNoNeighbour;
  NeighbourPhase phase = NeighbourPhase::kIncomplete;
  Evidence evidence = Evidence::kOther;  ///< Source of `hw`.
  bool is_static = false;
  bool is_mapped = false;   ///< `hw` follows from the address: never requested, never learned.
  bool has_path = false;    ///< Registered as a user of the path to `hw`.
  bool is_unasked = false;  ///< Only other hosts have spoken of it, and nothing was sent to it.
  unsigned gateways = 0;    ///< Number of routes through it.
  bool failed = false;      ///< The last resolution had no answer: routes avoid the gateway.
  unsigned attempts = 0;    ///< Requests or probes in this phase; 0 in kIncomplete: idle.
  std::optional<wire::HwAddr> hw;  ///< Empty while unknown.
  table::Neighbour installed;
  TimePoint phase_due = kNever;
  TimePoint wake = kNever;   ///< Position in the order of timers: phase or oldest held packet.
  TimePoint quiet = kNever;  ///< Position in an order of eviction.
  TimePoint touched{};       ///< Creation or last use known to management.
  TimePoint wanted = TimePoint::min();  ///< Last packet that was punted for it.
  TimePoint confirmed{};
  TimePoint moved = TimePoint::min();  ///< Last change to another address.
  TimePoint looked{};  ///< Use after this time means that the stale entry is in use.
  HeldQueue held;
  std::optional<ResolutionPlaces::Place> place;  ///< While it is asked for because of a packet.
  bool answered = false;                         ///< Confirmed while this node needed it.

  /// Being resolved, so not evicted.
  [[nodiscard]] bool busy() const {
    return !held.empty() || phase == NeighbourPhase::kPath ||
           (phase == NeighbourPhase::kIncomplete && attempts > 0);
  }
  [[nodiscard]] bool kept() const { return is_static || gateways > 0; }
  [[nodiscard]] bool valid() const {
    return phase == NeighbourPhase::kReachable || phase == NeighbourPhase::kStale ||
           phase == NeighbourPhase::kProbe || phase == NeighbourPhase::kStatic;
  }
};

/// The neighbours of one interface of either kind. Management lcore only. Passes packets to the
/// sink only when its own state is consistent.
///
/// Other hosts can send messages with any number of made-up sources. Entries of which only such
/// messages have spoken take at most half of the places, never displace others, and are the first
/// to be evicted. They become like others once a packet is sent to them. An IP family with at most
/// half of the places loses none to the other. Source: RFC 6583 §7.1.
class NeighbourCache {
 public:
  /// See limit_mtu6().
  static constexpr unsigned kLimitsPerTurn = 1024;

  NeighbourCache(const NeighbourConfig& config, table::InterfaceId iface, NeighbourSink& sink,
                 Solicitor& solicitor, NeighbourPaths& paths, std::uint64_t seed);

  /// The watch outlives the cache.
  void set_watch(NeighbourWatch& watch) { watch_ = &watch; }

  /// Takes over `packet`: holds it, releases it or drops it.
  void request_neighbour(const wire::IpAddr& addr, HeldPacket packet, TimePoint now);
  /// Errors: kNoResources when the table is full of entries in use.
  Result<table::NeighbourIndex> use_gateway(const wire::IpAddr& addr, TimePoint now);
  void forget_gateway(const wire::IpAddr& addr);
  /// True if the last resolution failed. False for addresses without an entry.
  [[nodiscard]] bool has_failed(const wire::IpAddr& addr) const;
  /// Adds an entry that neither ages nor learns, and requests its path at once.
  Status add_static(const wire::IpAddr& addr, const wire::HwAddr& hw, TimePoint now);
  /// Adds an entry whose link-layer address follows from its own (a multicast group on Ethernet).
  /// It is valid at once, and forgotten when unused, like learned ones. Errors: kNoResources.
  Status add_mapped(const wire::IpAddr& addr, const wire::HwAddr& hw, TimePoint now);
  /// Removes the entry. A gateway's entry stays, but loses its data. A gateway that had failed is
  /// requested again, because routes avoid it and no packet would. Errors: kNotFound.
  Status remove(const wire::IpAddr& addr);
  /// Does the same with all entries except static ones.
  void flush() {
    flush([](const wire::IpAddr&) { return true; });
  }
  /// Does the same with those of them for whose address `which` returns true.
  void flush(const std::function<bool(const wire::IpAddr&)>& which) {
    reset_all(Drop::kNeighbourGone, [&](const Entry& e) { return !e.is_static && which(e.addr); });
    request_gateways();
  }
  /// Forgets all entries, static ones too. Gateways stay but lose their data. Held packets are
  /// dropped under `reason`.
  void withdraw(Drop reason) {
    reset_all(reason, [](const Entry&) { return true; });
  }
  /// The interface is up again, or IPv6 runs: requests all failed gateways now.
  void request_gateways();

  /// `addr` claims to be at `hw`. `create`: also without an existing entry. Returns false if the
  /// entry was moved less than a second ago and this contradicts it. The entry then stays, so that
  /// two hosts that claim one address do not make it flap.
  bool learn(const wire::IpAddr& addr, const wire::HwAddr& hw, Evidence evidence, bool create,
             TimePoint now);
  /// A neighbour advertisement for `addr` with these flags (RFC 4861 §7.2.5); `hw` may be missing.
  /// Returns false in the same case as learn().
  bool advertised(const wire::IpAddr& addr, const std::optional<wire::HwAddr>& hw, bool solicited,
                  bool override_it, TimePoint now);
  /// True if add_static() made the entry.
  [[nodiscard]] bool is_static(const wire::IpAddr& addr) const;
  /// The link-layer address, if known.
  [[nodiscard]] std::optional<wire::HwAddr> hw_of(const wire::IpAddr& addr) const;
  /// The last time a packet was sent to it; TimePoint::min(): never, or no such neighbour.
  [[nodiscard]] TimePoint last_used(const wire::IpAddr& addr) const;
  /// True if routes go through it.
  [[nodiscard]] bool is_gateway(const wire::IpAddr& addr) const;
  /// True if it answered recently.
  [[nodiscard]] bool is_reachable(const wire::IpAddr& addr) const;
  /// Releases the packets that wait for the entry, because a route leads elsewhere now.
  void release_held(const wire::IpAddr& addr);
  /// Limits IPv6 packets to this length, even if the path carries more; 0: no additional limit. A
  /// router of the link can change it each second, so one call, and each tick() after it, applies it
  /// to kLimitsPerTurn neighbours only.
  void limit_mtu6(std::uint16_t mtu);
  /// The path of `addr` became ready, changed or failed.
  void on_path(const wire::IpAddr& addr, TimePoint now);
  /// Asks a valid neighbour for an answer to NeighbourPaths::answered(). Returns false if none has
  /// sent to it since `since` and no routes go through it.
  bool probe(const wire::IpAddr& addr, TimePoint since, TimePoint now);
  /// A value that all entries depend on has changed (the MTU of the link).
  void reinstall();

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const {
    return unlimited6_.empty() ? timers_.next() : TimePoint{};
  }

  /// Addresses of all entries, in order.
  [[nodiscard]] std::vector<wire::IpAddr> addresses() const;
  [[nodiscard]] std::optional<NeighbourInfo> info(const wire::IpAddr& addr, TimePoint now) const;
  [[nodiscard]] NeighbourPhases phases() const;
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t held() const { return held_.total(); }
  [[nodiscard]] const NeighbourCounters& counters() const { return counters_; }

 private:
  using Entry = NeighbourEntry;

  Entry* find(const wire::IpAddr& addr);
  /// The entries of one IP family.
  struct Family {
    std::size_t size = 0;
    TimeOrder<wire::IpAddr> quiet;  ///< May be evicted, least recently used first.
  };

  [[nodiscard]] Family& family(const wire::IpAddr& addr) { return families_[addr.is_v4() ? 0 : 1]; }
  Result<Entry*> create(const wire::IpAddr& addr, bool unasked, TimePoint now);
  [[nodiscard]] bool make_room(Family& f, bool unasked, TimePoint now);
  bool evict_unasked();
  bool evict_quiet(Family& f, TimePoint now);
  void ask_for(Entry& e);
  Result<Entry*> find_or_create(const wire::IpAddr& addr, TimePoint now);
  void give_place_back(Entry& e);
  void forget(Entry& e, Drop reason);
  void to_sleep(Entry& e);
  void reset(Entry& e, Drop reason);
  void request_gateway(Entry& e);
  void reset_all(Drop reason, const std::function<bool(const Entry&)>& which);
  void schedule(Entry& e);

  void resolve(Entry& e, TimePoint now);
  void use_path(Entry& e, TimePoint now);
  void become_valid(Entry& e, TimePoint now);
  void become_stale(Entry& e, TimePoint now);
  void confirm(Entry& e, TimePoint now);
  void fail(Entry& e, TimePoint now);
  void leave_path(Entry& e);
  void forget_hw(Entry& e);
  void move(Entry& e, const wire::HwAddr& hw, Evidence evidence, TimePoint now);
  void on_flags_change(Entry& e, const wire::HwAddr& hw, TimePoint now);
  bool move_if_settled(Entry& e, const wire::HwAddr& hw, Evidence evidence, TimePoint now);
  void install(Entry& e, table::NeighbourState state);
  void apply_limit();

  void on_due(Entry& e, TimePoint now);
  void try_again(Entry& e);
  void ask_again(Entry& e, TimePoint now);
  void check_use(Entry& e, TimePoint now);
  void check_mapped(Entry& e, TimePoint now);
  void probe_again(Entry& e, TimePoint now);

  [[nodiscard]] TimePoint last_use(const Entry& e) const;
  [[nodiscard]] bool used_since(const Entry& e, TimePoint when) const;
  void drop_all(const HeldQueue& packets, Drop reason, bool unreachable);

  NeighbourConfig config_;
  table::InterfaceId iface_;
  NeighbourSink& sink_;
  Solicitor& solicitor_;
  NeighbourPaths& paths_;
  NeighbourWatch* watch_ = nullptr;
  Jitter jitter_;
  std::uint16_t mtu6_ = 0;
  std::vector<wire::IpAddr> unlimited6_;  ///< Neighbours whose entries may have another mtu6_.
  HeldPackets held_;
  ResolutionPlaces places_;
  std::unordered_map<wire::IpAddr, Entry, KeyedHash> entries_;
  TimeOrder<wire::IpAddr> timers_;
  std::array<Family, 2> families_;
  TimeOrder<wire::IpAddr> unasked_;  ///< All that are NeighbourEntry::is_unasked, oldest first.
  NeighbourCounters counters_;
};

}  // namespace ipoib::link
