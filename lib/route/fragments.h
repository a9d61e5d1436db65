// SPDX-License-Identifier: BSD-3-Clause
// Fragments of packets to this node, which become whole packets again, and of its own long IPv6
// packets. Source: RFC 791 §3.2, RFC 8200 §4.5, RFC 8900.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/drop.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

/// A packet with a fragment header, or an IPv4 packet with an offset or more fragments to come.
struct Fragment {
  std::span<const std::byte> packet;  ///< All octets, from the IP header on.
  wire::IpAddr source;
  wire::IpAddr destination;
  std::uint32_t id = 0;
  std::uint8_t protocol = 0;       ///< The one of the payload.
  std::size_t head_len = 0;        ///< Octets of the headers that each fragment has.
  std::size_t next_header_at = 0;  ///< IPv6: the octet of them that names the fragment header.
  std::size_t offset = 0;          ///< Place in the payload, in octets.
  std::span<const std::byte> payload{};
  bool more = false;

  /// The only fragment of its packet (RFC 6946).
  [[nodiscard]] bool is_atomic() const { return offset == 0 && !more; }
};

/// Empty for whole packets and truncated headers. `packet` (octets from the IP header on) has the
/// length of its header.
[[nodiscard]] std::optional<Fragment> fragment_of(std::span<const std::byte> packet);

/// Receives the losses of a Reassembler, synchronously.
class FragmentSink {
 public:
  virtual ~FragmentSink() = default;
  /// A fragment that arrived on `iface` is lost.
  virtual void fragment_lost(table::InterfaceId iface, Drop reason) = 0;
  /// Other fragments of a packet did not arrive in time. `first`: octets of its first fragment, from
  /// the IP header on.
  virtual void packet_timed_out(table::InterfaceId iface, std::span<const std::byte> first) = 0;
};

/// Makes packets of fragments in limited memory, time and work. A packet of which fragments overlap
/// is lost (RFC 5722, also for IPv4); a repeated fragment is lost alone. When a source has more than
/// its share, or all have too much, the oldest unfinished packets give way. One thread.
class Reassembler {
 public:
  static constexpr std::size_t kMaxPackets = 256, kMaxPacketsOfSource = 16;
  static constexpr std::size_t kMaxOctets = 4U << 20, kMaxOctetsOfSource = 256U << 10;
  static constexpr std::size_t kMaxFragments = 128;  ///< Limit of one packet.
  /// Source: RFC 1122 §3.3.2, RFC 8200 §4.5.
  static constexpr Duration kMaxAge = std::chrono::seconds(60);

  struct Whole {
    std::span<std::byte> packet;  ///< Valid until the next call; checksum and lengths are set.
    std::size_t fragments = 0;
  };

  /// `sink` must outlive this object.
  explicit Reassembler(FragmentSink& sink) : sink_{sink} {}

  /// Takes a copy of the fragment. Returns its packet if that is whole now. Losses: of this and
  /// earlier fragments kIpFragmentInvalid and kIpFragmentLimit.
  std::optional<Whole> add(const Fragment& f, table::InterfaceId iface, TimePoint now);
  /// Gives up old packets: kIpFragmentTimeout.
  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  /// Fragments that wait for others.
  [[nodiscard]] std::size_t waiting() const;

 private:
  struct Piece {
    std::vector<std::byte> octets;
    table::InterfaceId iface;
  };
  struct Packet {
    wire::IpAddr source, destination;
    table::InterfaceId zone;  ///< The interface of link-local addresses; else kNoInterface.
    std::uint32_t id;
    std::uint8_t protocol;  ///< 0 for IPv6, where fragments may name different ones.
    TimePoint since;
    std::map<std::size_t, Piece> pieces;  ///< Ordered by offset.
    std::size_t len = 0;                  ///< Octets of the pieces.
    std::size_t memory = 0;               ///< Octets that count for the limits.
    std::optional<std::size_t> total;  ///< Octets of the payload, once the last fragment is here.
    std::vector<std::byte> first;      ///< Start of the first fragment.
    std::size_t head_len = 0;          ///< The one of the first fragment.
    std::size_t next_header_at = 0;
    std::uint8_t next_header = 0;
  };
  using Packets = std::list<Packet>;  ///< In the order of their first arrival.
  using Source = std::pair<wire::IpAddr, table::InterfaceId>;  ///< With the zone of its packets.
  struct Share {
    std::size_t packets = 0;
    std::size_t memory = 0;
  };
  enum class Place : std::uint8_t { kFree, kRepeated, kContradiction };

  [[nodiscard]] Packets::iterator packet_of(const Fragment& f, table::InterfaceId iface,
                                            TimePoint now);
  [[nodiscard]] static Place place_of(const Packet& p, const Fragment& f);
  [[nodiscard]] bool is_full() const;
  void make_room(const Packet& last);
  void store(Packet& p, const Fragment& f, table::InterfaceId iface);
  std::optional<Whole> finish(Packets::iterator p);
  Whole complete(std::size_t next_header_at, std::uint8_t next_header, std::size_t head_len,
                 std::size_t fragments);
  void lose(Packets::iterator p, Drop reason);
  void erase(Packets::iterator p);

  FragmentSink& sink_;
  Packets packets_;
  std::size_t memory_ = 0;           ///< The sum over all packets.
  std::map<Source, Share> sources_;  ///< The sums over the packets of each source that has any.
  std::vector<std::byte> whole_;
};

/// Returns a whole IPv6 packet without extension headers in fragments of at most `mtu` octets, with
/// this identification, or alone if it is not longer. `mtu`: at least 1280.
[[nodiscard]] std::vector<std::vector<std::byte>> fragments6(std::span<const std::byte> packet,
                                                             std::size_t mtu, std::uint32_t id);

}  // namespace ipoib::route
