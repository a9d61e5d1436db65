// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/fragments.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "lib/wire/append.h"
#include "lib/wire/ip6_next_headers.h"

namespace ipoib::route {
namespace {

using wire::Be16;
using wire::Be32;
using wire::Ipv4Hdr;
using wire::Ipv6Hdr;

constexpr std::size_t kMaxLen =
    65'535;  ///< The length of an IPv4 packet, or of the payload of IPv6.
constexpr std::size_t kPieceCost = 128;  ///< Memory of a piece beside its octets, roughly.

/// Octets of a first fragment that an ICMP error quotes.
constexpr std::size_t kQuoted = wire::kMinIpv6Mtu;

/// Source: RFC 8200 §4.5.
struct FragmentHdr {
  std::uint8_t next_header;
  std::uint8_t reserved;
  Be16 offset_more;  ///< Bits 15-3: offset in units of 8 octets; bit 0: more fragments.
  Be32 id;

  static constexpr std::uint16_t kOffsetMask = 0xfff8;
  static constexpr std::uint16_t kMore = 1;
};
static_assert(wire::WireRecord<FragmentHdr> && sizeof(FragmentHdr) == 8);

std::optional<Fragment> fragment4(std::span<const std::byte> packet, const Ipv4Hdr& ip) {
  const std::size_t head_len = ip.header_len();
  if (!ip.is_fragment() || head_len < sizeof(Ipv4Hdr) || head_len > packet.size())
    return std::nullopt;
  Fragment f{.packet = packet,
             .source = wire::IpAddr::v4(ip.src.host()),
             .destination = wire::IpAddr::v4(ip.dst.host())};
  f.id = ip.id.host();
  f.protocol = ip.protocol;
  f.head_len = head_len;
  f.offset = std::size_t{ip.flags_offset.host() & std::uint32_t{Ipv4Hdr::kOffsetMask}} * 8;
  f.payload = packet.subspan(head_len);
  f.more = (ip.flags_offset.host() & Ipv4Hdr::kMoreFragments) != 0;
  return f;
}

/// Walks the headers in front of the fragment header.
std::optional<Fragment> fragment6(std::span<const std::byte> packet, const Ipv6Hdr& ip) {
  const auto octet = [&](std::size_t at) { return std::to_integer<std::uint8_t>(packet[at]); };
  if (ip.payload_len.host() != packet.size() - sizeof(Ipv6Hdr)) return std::nullopt;
  std::uint8_t kind = ip.next_header;
  std::size_t next_header_at = offsetof(Ipv6Hdr, next_header), at = sizeof(Ipv6Hdr);
  while (kind == wire::kHopByHop || kind == wire::kRoutingHeader ||
         kind == wire::kDestinationOptions) {
    if (packet.size() - at < 8) return std::nullopt;
    const std::size_t len = (std::size_t{octet(at + 1)} + 1) * 8;
    if (packet.size() - at < len) return std::nullopt;
    kind = octet(at);
    next_header_at = at;
    at += len;
  }
  const auto hdr = wire::read<FragmentHdr>(packet, at);
  if (kind != wire::kFragmentHeader || !hdr) return std::nullopt;
  Fragment f{.packet = packet, .source = ip.src, .destination = ip.dst};
  f.id = hdr->id.host();
  f.protocol = hdr->next_header;
  f.head_len = at;
  f.next_header_at = next_header_at;
  f.offset = hdr->offset_more.host() & std::size_t{FragmentHdr::kOffsetMask};
  f.payload = packet.subspan(at + sizeof(FragmentHdr));
  f.more = (hdr->offset_more.host() & FragmentHdr::kMore) != 0;
  return f;
}

/// Octets of the length field of a packet with so many octets of headers and payload.
std::size_t length_of(bool v4, std::size_t head_len, std::size_t payload_len) {
  return head_len + payload_len - (v4 ? 0 : sizeof(Ipv6Hdr));
}

bool is_valid(const Fragment& f) {
  if (f.is_atomic()) return true;
  if (f.payload.empty() || (f.more && f.payload.size() % 8 != 0)) return false;
  return length_of(f.source.is_v4(), f.head_len, f.offset + f.payload.size()) <= kMaxLen;
}

}  // namespace

std::optional<Fragment> fragment_of(std::span<const std::byte> packet) {
  if (const auto ip4 = wire::read<Ipv4Hdr>(packet); ip4 && ip4->version() == 4)
    return fragment4(packet, *ip4);
  const auto ip6 = wire::read<Ipv6Hdr>(packet);
  return ip6 && ip6->version() == 6 ? fragment6(packet, *ip6) : std::nullopt;
}

std::optional<Reassembler::Whole> Reassembler::add(const Fragment& f, table::InterfaceId iface,
                                                   TimePoint now) {
  tick(now);
  if (!is_valid(f)) {
    sink_.fragment_lost(iface, Drop::kIpFragmentInvalid);
    return std::nullopt;
  }
  if (f.is_atomic()) {
    whole_.clear();
    wire::append(whole_, f.packet.first(f.head_len));
    wire::append(whole_, f.payload);
    return complete(f.next_header_at, f.protocol, f.head_len, 1);
  }
  const auto p = packet_of(f, iface, now);
  const Place place = place_of(*p, f);
  const bool too_many = p->pieces.size() == kMaxFragments;
  if (place != Place::kFree || too_many) {
    const Drop reason = place != Place::kFree ? Drop::kIpFragmentInvalid : Drop::kIpFragmentLimit;
    sink_.fragment_lost(iface, reason);
    if (place != Place::kRepeated) lose(p, reason);
    return std::nullopt;
  }
  store(*p, f, iface);
  make_room(*p);
  return p->total == p->len ? finish(p) : std::nullopt;
}

void Reassembler::tick(TimePoint now) {
  while (!packets_.empty() && packets_.front().since + kMaxAge <= now) {
    const auto p = packets_.begin();
    if (!p->first.empty()) sink_.packet_timed_out(p->pieces.begin()->second.iface, p->first);
    lose(p, Drop::kIpFragmentTimeout);
  }
}

std::optional<TimePoint> Reassembler::next_deadline() const {
  if (packets_.empty()) return std::nullopt;
  return packets_.front().since + kMaxAge;
}

std::size_t Reassembler::waiting() const {
  std::size_t n = 0;
  for (const Packet& p : packets_) n += p.pieces.size();
  return n;
}

/// Returns the packet to which the fragment belongs, which may be a new one.
Reassembler::Packets::iterator Reassembler::packet_of(const Fragment& f, table::InterfaceId iface,
                                                      TimePoint now) {
  const bool local = wire::is_link_local6(f.source) || wire::is_link_local6(f.destination);
  const table::InterfaceId zone = local ? iface : table::kNoInterface;
  const std::uint8_t protocol = f.source.is_v4() ? f.protocol : std::uint8_t{0};
  const auto found = std::find_if(packets_.begin(), packets_.end(), [&](const Packet& p) {
    return p.id == f.id && p.source == f.source && p.destination == f.destination &&
           p.protocol == protocol && p.zone == zone;
  });
  if (found != packets_.end()) return found;
  Packet& p = packets_.emplace_back();
  p.source = f.source;
  p.destination = f.destination;
  p.zone = zone;
  p.id = f.id;
  p.protocol = protocol;
  p.since = now;
  ++sources_[{p.source, p.zone}].packets;
  return std::prev(packets_.end());
}

Reassembler::Place Reassembler::place_of(const Packet& p, const Fragment& f) {
  const std::size_t end = f.offset + f.payload.size();
  const auto next = p.pieces.lower_bound(f.offset);
  if (next != p.pieces.end() && next->first == f.offset &&
      next->second.octets.size() == f.payload.size())
    return Place::kRepeated;
  if (next != p.pieces.end() && next->first < end) return Place::kContradiction;
  if (next != p.pieces.begin()) {
    const auto& [offset, before] = *std::prev(next);
    if (offset + before.octets.size() > f.offset) return Place::kContradiction;
  }
  // Octets after the last fragment, or a second last one.
  if (p.total && (!f.more || end > *p.total)) return Place::kContradiction;
  if (!f.more && next != p.pieces.end()) return Place::kContradiction;
  return Place::kFree;
}

void Reassembler::store(Packet& p, const Fragment& f, table::InterfaceId iface) {
  const bool is_first = f.offset == 0;
  const auto first = f.packet.first(
      is_first ? std::min(f.packet.size(), std::max(f.head_len, kQuoted)) : std::size_t{0});
  const std::size_t memory = f.payload.size() + kPieceCost + first.size();
  p.pieces.emplace(f.offset, Piece{{f.payload.begin(), f.payload.end()}, iface});
  p.len += f.payload.size();
  p.memory += memory;
  memory_ += memory;
  sources_.at({p.source, p.zone}).memory += memory;
  if (!f.more) p.total = f.offset + f.payload.size();
  if (!is_first) return;
  p.first.assign(first.begin(), first.end());
  p.head_len = f.head_len;
  p.next_header_at = f.next_header_at;
  p.next_header = f.protocol;
}

bool Reassembler::is_full() const {
  return packets_.size() > kMaxPackets || memory_ > kMaxOctets;
}

/// Loses the oldest packets except `last`: first those of its source, while that has more than its
/// share, or has several and there are too many of all; then any while there are too many.
void Reassembler::make_room(const Packet& last) {
  const Share& share = sources_.at({last.source, last.zone});
  const auto source_is_full = [&] {
    return share.packets > kMaxPacketsOfSource || share.memory > kMaxOctetsOfSource ||
           (share.packets > 1 && is_full());
  };
  const auto lose_oldest = [&](auto is_too_much, auto counts) {
    for (auto p = packets_.begin(); p != packets_.end() && is_too_much();) {
      const auto old = p++;
      if (&*old != &last && counts(*old)) lose(old, Drop::kIpFragmentLimit);
    }
  };
  lose_oldest(source_is_full,
              [&](const Packet& p) { return p.source == last.source && p.zone == last.zone; });
  lose_oldest([&] { return is_full(); }, [](const Packet&) { return true; });
}

std::optional<Reassembler::Whole> Reassembler::finish(Packets::iterator p) {
  // The first fragment may have more headers than the others.
  if (length_of(p->source.is_v4(), p->head_len, p->len) > kMaxLen) {
    lose(p, Drop::kIpFragmentInvalid);
    return std::nullopt;
  }
  whole_.clear();
  wire::append(whole_, std::span{p->first}.first(p->head_len));
  for (const auto& piece : p->pieces) wire::append(whole_, piece.second.octets);
  const Whole whole = complete(p->next_header_at, p->next_header, p->head_len, p->pieces.size());
  erase(p);
  return whole;
}

/// Corrects the headers in front of the payload in `whole_`.
Reassembler::Whole Reassembler::complete(std::size_t next_header_at, std::uint8_t next_header,
                                         std::size_t head_len, std::size_t fragments) {
  const std::span<std::byte> packet{whole_};
  if (auto ip4 = *wire::read<Ipv4Hdr>(packet); ip4.version() == 4) {
    ip4.total_len.set(static_cast<std::uint16_t>(packet.size()));
    ip4.flags_offset = {};
    ip4.checksum = {};
    std::memcpy(packet.data(), &ip4, sizeof ip4);
    ip4.checksum.set(wire::internet_checksum(packet.first(head_len)));
    std::memcpy(packet.data(), &ip4, sizeof ip4);
  } else {
    auto ip6 = *wire::read<Ipv6Hdr>(packet);
    ip6.payload_len.set(static_cast<std::uint16_t>(packet.size() - sizeof ip6));
    std::memcpy(packet.data(), &ip6, sizeof ip6);
    packet[next_header_at] = std::byte{next_header};
  }
  return {packet, fragments};
}

void Reassembler::lose(Packets::iterator p, Drop reason) {
  for (const auto& piece : p->pieces) sink_.fragment_lost(piece.second.iface, reason);
  erase(p);
}

void Reassembler::erase(Packets::iterator p) {
  const auto share = sources_.find({p->source, p->zone});
  memory_ -= p->memory;
  share->second.memory -= p->memory;
  if (--share->second.packets == 0) sources_.erase(share);
  packets_.erase(p);
}

std::vector<std::vector<std::byte>> fragments6(std::span<const std::byte> packet, std::size_t mtu,
                                               std::uint32_t id) {
  std::vector<std::vector<std::byte>> out;
  if (packet.size() <= mtu) {
    out.emplace_back(packet.begin(), packet.end());
    return out;
  }
  auto ip = *wire::read<Ipv6Hdr>(packet);
  const std::uint8_t next_header =
      std::exchange(ip.next_header, std::uint8_t{wire::kFragmentHeader});
  const auto payload = packet.subspan(sizeof ip);
  const std::size_t step = (mtu - sizeof ip - sizeof(FragmentHdr)) / 8 * 8;
  for (std::size_t at = 0; at < payload.size(); at += step) {
    const auto part = payload.subspan(at, std::min(step, payload.size() - at));
    const bool more = at + part.size() < payload.size();
    const FragmentHdr hdr{next_header, 0,
                          Be16{static_cast<std::uint16_t>(at | (more ? FragmentHdr::kMore : 0U))},
                          Be32{id}};
    ip.payload_len.set(static_cast<std::uint16_t>(sizeof hdr + part.size()));
    auto& fragment = out.emplace_back();
    wire::append(fragment, wire::bytes_of(ip));
    wire::append(fragment, wire::bytes_of(hdr));
    wire::append(fragment, part);
  }
  return out;
}

}  // namespace ipoib::route
