// SPDX-License-Identifier: BSD-3-Clause
// The packet trace: management says which packets to record, workers write the records, and
// management reads them. A Session is memory that all workers share while a trace runs. Workers get
// it with Down::Kind::kTrace; none of them waits for another.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "lib/base/drop.h"
#include "lib/msg/worker_messages.h"
#include "lib/table/neighbour.h"
#include "lib/table/next_hop.h"
#include "lib/wire/ip.h"
#include "lib/wire/ipoib.h"

namespace ipoib::msg::trace {

/// Stages of lib/fwd that a packet enters without a result of their own.
enum class Stage : std::uint8_t {
  kEthInput,
  kIpoibInput,
  kIp4Input,
  kIp6Input,
  kIoForward,
  kInject,
  kHandoffInput,
  kGenerate,
};

[[nodiscard]] constexpr std::string_view to_string(Stage stage) noexcept {
  constexpr std::array<std::string_view, 8> kNames = {"eth_input",     "ipoib_input", "ip4_input",
                                                      "ip6_input",     "io_forward",  "inject",
                                                      "handoff_input", "generate"};
  return kNames[static_cast<std::size_t>(stage)];
}

// The steps of a packet, in the order in which they happened.

/// The packet entered the stage, or passed it if the stage is part of the one before.
struct Entered {
  Stage stage;
  table::NeighbourMode mode = table::NeighbourMode::kEthernet;  ///< Way to this node, if received.
};
/// Result of ip4_route or ip6_route.
struct Routed {
  table::NextHopKind kind;
  table::InterfaceId iface;
  wire::IpAddr to;  ///< Destination that was looked up.
};
/// The neighbour to send to. State kFree: the worker's table has none.
struct Resolved {
  wire::IpAddr addr;
  table::InterfaceId iface;
  table::NeighbourState state;
  table::NeighbourMode mode;
  wire::MacAddr mac;  ///< kEthernet.
  std::uint32_t qpn;  ///< kUd: of the neighbour; kRc, kUc: of this end of the connection.
};
/// Result of multicast_input.
struct Delivered {
  bool local;         ///< A copy is for this node.
  std::uint64_t out;  ///< Bit i: interface i.
};
/// GRO appended segments to this packet: it has `segments` now.
struct Merged {
  std::uint16_t segments;
};
/// The packet was too large: it left as fragments, or as TCP segments (GSO).
struct Cut {
  bool tcp;
  std::uint16_t mtu;
  std::uint16_t pieces;
};

// Steps at which the packet, or one of its copies or pieces, leaves the worker.

/// GRO made it part of another packet.
struct Joined {};
/// The device took it. `lost`: number of packets of the burst that the device discarded at once and
/// counted under a reason.
struct Sent {
  table::InterfaceId iface;
  table::NeighbourMode mode;
  std::uint16_t packets = 1;
  std::uint16_t lost = 0;
};
struct HandedOff {
  std::uint8_t worker;
  table::InterfaceId iface;  ///< Egress; kNoInterface: the packet is not routed yet.
  std::uint16_t packets = 1;
};
/// `kind` is not kNeighbourWanted. kIcmpError: for an error to its sender, after Dropped.
struct Punted {
  Up::Kind kind;
  std::uint8_t icmp_type = 0;
  std::uint8_t icmp_code = 0;
};
/// Management holds it until the neighbour is resolved.
struct Held {
  wire::IpAddr addr;
  table::InterfaceId iface;
};
/// `iface`: egress, if it is known and counts the drop.
struct Dropped {
  Drop reason;
  table::InterfaceId iface = table::kNoInterface;
  std::uint16_t packets = 1;
};
/// A test forward mode counted and freed it.
struct Consumed {};

using Step = std::variant<Entered, Routed, Resolved, Delivered, Merged, Cut, Joined, Sent,
                          HandedOff, Punted, Held, Dropped, Consumed>;
static_assert(std::is_trivially_copyable_v<Step>);

/// A packet as it arrived.
struct Packet {
  std::uint16_t ether_type = 0;
  std::uint32_t len = 0;  ///< Octets from the IP or ARP header on.
  // IPv4, IPv6; the addresses also for ARP and RARP.
  bool has_addresses = false;
  wire::IpAddr src, dst;
  std::uint8_t protocol = 0;  ///< IPv6: next header; ARP: opcode.
  std::uint8_t hops = 0;      ///< TTL or hop limit.
  /// TCP and UDP: ports. ICMP and ICMPv6: type and code.
  std::optional<std::array<std::uint16_t, 2>> upper;

  [[nodiscard]] bool is_ip() const noexcept {
    return has_addresses && (ether_type == static_cast<std::uint16_t>(wire::EtherType::kIpv4) ||
                             ether_type == static_cast<std::uint16_t>(wire::EtherType::kIpv6));
  }
  [[nodiscard]] bool is(wire::IpProto wanted) const noexcept {
    return is_ip() && protocol == static_cast<std::uint8_t>(wanted);
  }
};

/// Packets to record. Absent conditions match every packet.
struct Filter {
  table::InterfaceId in = table::kNoInterface;  ///< Ingress interface; kNoInterface: any.
  std::optional<wire::IpPrefix> src{}, dst{};
  std::optional<std::uint8_t> protocol{};
  std::optional<std::uint16_t> port{};  ///< TCP or UDP, source or destination.
  bool dropped_only = false;            ///< Only packets of which something was dropped.

  /// Compares all conditions except dropped_only.
  [[nodiscard]] bool matches(table::InterfaceId ingress, const Packet& p) const {
    if (in != table::kNoInterface && in != ingress) return false;
    if (src && !(p.has_addresses && wire::contains(*src, p.src))) return false;
    if (dst && !(p.has_addresses && wire::contains(*dst, p.dst))) return false;
    if (protocol && !(p.is_ip() && p.protocol == *protocol)) return false;
    if (!port) return true;
    return (p.is(wire::IpProto::kTcp) || p.is(wire::IpProto::kUdp)) && p.upper &&
           ((*p.upper)[0] == *port || (*p.upper)[1] == *port);
  }
};

struct Record {
  static constexpr std::size_t kMaxSteps = 20;

  std::uint64_t tsc = 0;                        ///< When the worker took the packet.
  table::InterfaceId in = table::kNoInterface;  ///< kNoInterface: this node made the packet, or
                                                ///< another worker handed it over.
  std::uint8_t worker = 0;
  std::uint8_t n_steps = 0;
  bool truncated = false;  ///< Further steps did not fit.
  Packet packet;
  std::array<Step, kMaxSteps> steps;

  [[nodiscard]] std::span<const Step> path() const noexcept { return {steps.data(), n_steps}; }
  void add(const Step& step) noexcept {
    if (n_steps == kMaxSteps)
      truncated = true;
    else
      steps[n_steps++] = step;
  }
};
static_assert(std::is_trivially_copyable_v<Record>);

/// One trace. Management makes it and keeps it until no worker has it any more; it is filled once.
class Session {
 public:
  static constexpr std::size_t kMaxRecords = 1000;

  /// `limit`: records of all workers together, 1 to kMaxRecords.
  Session(const Filter& filter, std::size_t limit) : filter_{filter}, slots_(limit) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] const Filter& filter() const noexcept { return filter_; }
  [[nodiscard]] std::size_t limit() const noexcept { return slots_.size(); }

  // Workers:
  /// True if no further record has room.
  [[nodiscard]] bool full() const noexcept {
    return taken_.load(std::memory_order_relaxed) >= slots_.size();
  }
  /// Publishes a copy of the record; false if there is no room. No two workers get one slot.
  bool publish(const Record& record) noexcept {
    if (full()) return false;
    const std::uint32_t slot = taken_.fetch_add(1, std::memory_order_relaxed);
    if (slot >= slots_.size()) return false;
    slots_[slot].record = record;
    // Release: pairs with the acquire in record().
    slots_[slot].ready.store(true, std::memory_order_release);
    return true;
  }
  /// Counts matching packets that a worker could not follow.
  void count_missed(std::uint32_t n) noexcept { missed_.fetch_add(n, std::memory_order_relaxed); }

  // Management:
  /// Null: no worker has published record `i` yet.
  [[nodiscard]] const Record* record(std::size_t i) const noexcept {
    const Slot& slot = slots_[i];
    return slot.ready.load(std::memory_order_acquire) ? &slot.record : nullptr;
  }
  [[nodiscard]] std::uint64_t missed() const noexcept {
    return missed_.load(std::memory_order_relaxed);
  }

 private:
  struct Slot {
    std::atomic<bool> ready{false};
    Record record;
  };

  Filter filter_;
  std::vector<Slot> slots_;
  alignas(64) std::atomic<std::uint32_t> taken_{0};  ///< Slots given to workers; it may pass limit.
  std::atomic<std::uint64_t> missed_{0};
};

}  // namespace ipoib::msg::trace
