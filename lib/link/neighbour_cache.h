// SPDX-License-Identifier: BSD-3-Clause
// Who the neighbours of one interface are: the state machine behind address resolution, the same
// for InfiniBand and Ethernet.
//
//   Incomplete --reply--> [Path] --> Reachable --time--> Stale --in use--> Probe --reply-->
//   Reachable
//       |                    |                             |                 |
//       +---- no answer -----+--> Failed <-----------------|-----------------+
//                                   |                      +-- idle --> forgotten
//                                   +-- negative time over: forgotten (gateways: asked for again)
//
// RFC 4861 §7.3 for both families, with ARP for the messages of IPv4. A link-layer address that was
// learned from anything but a reply to us is Stale: good for sending, to be confirmed once used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/link/held_packets.h"
#include "lib/link/interface.h"
#include "lib/link/jitter.h"
#include "lib/link/medium.h"
#include "lib/link/time_order.h"

namespace ipoib::link {

struct NeighbourCounters {
  std::uint64_t evicted = 0;  ///< Unused ones that made room in a full table.
  std::uint64_t refused = 0;  ///< Not taken in: the table is full of neighbours in use.
};

/// What a message from a neighbour says beside its address.
enum class Evidence : std::uint8_t {
  kReply,  ///< It answered us, so both directions work.
  kOther,  ///< It spoke: a request, an announcement.
};

template <class Hw>
struct NeighbourEntry {
  wire::IpAddr addr;
  table::NeighbourIndex index = table::kNoNeighbour;
  NeighbourPhase phase = NeighbourPhase::kIncomplete;
  Evidence evidence = Evidence::kOther;  ///< Where `hw` is from.
  bool is_static = false;
  bool is_mapped = false;  ///< `hw` follows from the address: never asked, never learned.
  bool has_hw = false;
  bool has_path = false;  ///< Registered as a user of the path to `hw`.
  unsigned gateways = 0;  ///< Routes that go through it.
  unsigned attempts = 0;  ///< Requests or probes sent in this phase; 0 in kIncomplete: asleep.
  Hw hw{};
  table::Neighbour installed;
  TimePoint phase_due = kNever;
  TimePoint wake = kNever;   ///< Place in the order of timers: phase or oldest held packet.
  TimePoint quiet = kNever;  ///< Place in the order of eviction.
  TimePoint touched{};       ///< Creation or last use that management knows of.
  TimePoint wanted = TimePoint::min();  ///< Last packet that asked for it.
  TimePoint confirmed{};
  TimePoint moved = TimePoint::min();  ///< Last change of one address for another.
  TimePoint looked{};                  ///< Use after this means the stale entry is in use.
  HeldQueue held;

  /// Being resolved: not to be evicted.
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

/// `Hw`: wire::LinkAddr or wire::MacAddr. Management lcore only. Calls back into the sink with
/// packets only when its own state is settled.
template <class Hw>
class NeighbourCache {
 public:
  NeighbourCache(const NeighbourConfig& config, table::InterfaceId iface, NeighbourSink& sink,
                 Solicitor<Hw>& solicitor, NeighbourPaths<Hw>& paths, std::uint64_t seed);

  /// Takes over `packet`: holds it, releases it or drops it.
  void want(const wire::IpAddr& addr, HeldPacket packet, TimePoint now);
  /// Errors: kNoResources when the table is full of entries in use.
  Result<table::NeighbourIndex> use_gateway(const wire::IpAddr& addr, TimePoint now);
  void forget_gateway(const wire::IpAddr& addr);
  /// Entry that neither ages nor learns; its path is asked for at once.
  Status add_static(const wire::IpAddr& addr, const Hw& hw, TimePoint now);
  /// Entry whose link-layer address follows from its own (a multicast group on Ethernet): valid at
  /// once, forgotten when unused like those that were learned. Errors: kNoResources.
  Status add_mapped(const wire::IpAddr& addr, const Hw& hw, TimePoint now);
  /// A gateway's entry stays, but knows nothing. Errors: kNotFound.
  Status remove(const wire::IpAddr& addr);
  /// Forgets what is not static; gateways stay, knowing nothing.
  void flush() { reset_all(Drop::kNeighbourGone, false); }
  /// Forgets everything but gateways, which stay knowing nothing; packets go under `reason`.
  void withdraw(Drop reason) { reset_all(reason, true); }

  /// `addr` said it is at `hw`. `create`: also where no entry asks for it. False: the entry was
  /// moved less than a second ago and this contradicts it, so it stays; two who insist on one
  /// address do not make it flap.
  bool learn(const wire::IpAddr& addr, const Hw& hw, Evidence evidence, bool create, TimePoint now);
  /// A neighbour advertisement for `addr` with these flags (RFC 4861 §7.2.5); `hw` may be missing.
  /// False as for learn().
  bool advertised(const wire::IpAddr& addr, const std::optional<Hw>& hw, bool solicited,
                  bool override_it, TimePoint now);
  /// Where the neighbour is, when known.
  [[nodiscard]] std::optional<Hw> hw_of(const wire::IpAddr& addr) const;
  /// When a packet last left for it; TimePoint::min(): none has, or no such neighbour.
  [[nodiscard]] TimePoint last_used(const wire::IpAddr& addr) const;
  /// Routes go through it.
  [[nodiscard]] bool is_gateway(const wire::IpAddr& addr) const;
  /// IPv6 packets are at most this long, whatever the path carries; 0: no limit of its own.
  void limit_mtu6(std::uint16_t mtu);
  /// The path `addr` uses became ready, changed or failed.
  void on_path(const wire::IpAddr& addr, TimePoint now);
  /// Something all entries depend on changed (the MTU of the link).
  void reinstall();

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return timers_.next(); }

  /// Of all entries, in order.
  [[nodiscard]] std::vector<wire::IpAddr> addresses() const;
  [[nodiscard]] std::optional<NeighbourInfo> info(const wire::IpAddr& addr, TimePoint now) const;
  [[nodiscard]] NeighbourPhases phases() const;
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t held() const { return held_.total(); }
  [[nodiscard]] const NeighbourCounters& counters() const { return counters_; }

 private:
  using Entry = NeighbourEntry<Hw>;

  Entry* find(const wire::IpAddr& addr);
  Result<Entry*> create(const wire::IpAddr& addr, TimePoint now);
  bool evict_one(TimePoint now);
  void forget(Entry& e, Drop reason);
  void to_sleep(Entry& e);
  void reset(Entry& e, Drop reason);
  void reset_all(Drop reason, bool statics_too);
  void schedule(Entry& e);

  void resolve(Entry& e, TimePoint now);
  void use_path(Entry& e, TimePoint now);
  void become_valid(Entry& e, TimePoint now);
  void become_stale(Entry& e, TimePoint now);
  void confirm(Entry& e, TimePoint now);
  void fail(Entry& e, TimePoint now);
  void leave_path(Entry& e);
  void move(Entry& e, const Hw& hw, Evidence evidence, TimePoint now);
  void follow_flags(Entry& e, const Hw& hw, TimePoint now);
  bool move_if_settled(Entry& e, const Hw& hw, Evidence evidence, TimePoint now);
  void install(Entry& e, table::NeighbourState state);

  void on_due(Entry& e, TimePoint now);
  void try_again(Entry& e, TimePoint now);
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
  Solicitor<Hw>& solicitor_;
  NeighbourPaths<Hw>& paths_;
  Jitter jitter_;
  std::uint16_t mtu6_ = 0;
  HeldPackets held_;
  std::unordered_map<wire::IpAddr, Entry> entries_;
  TimeOrder<wire::IpAddr> timers_;
  TimeOrder<wire::IpAddr> quiet_;  ///< Entries that may be evicted, longest unused first.
  NeighbourCounters counters_;
};

extern template class NeighbourCache<wire::LinkAddr>;
extern template class NeighbourCache<wire::MacAddr>;

}  // namespace ipoib::link
