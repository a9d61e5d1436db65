// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/arp.h"

#include <utility>

#include "lib/wire/append.h"

namespace ipoib::wire {
namespace {

struct ArpHdr {
  Be16 hardware_type;
  Be16 protocol_type;
  std::uint8_t hardware_len;
  std::uint8_t protocol_len;
  Be16 op;
  friend bool operator==(const ArpHdr&, const ArpHdr&) noexcept = default;
};
static_assert(WireRecord<ArpHdr> && sizeof(ArpHdr) == 8);
static_assert(arp_len(LinkKind::kEthernet) == 28 && arp_len(LinkKind::kInfiniband) == 56 &&
              arp_len(LinkKind::kIbarp) == 80);

ArpHdr header(const LinkFormat& format, ArpOp op) {
  return {Be16{format.arp_hardware}, Be16{static_cast<std::uint16_t>(EtherType::kIpv4)},
          static_cast<std::uint8_t>(hw_len(format.kind)), sizeof(Be32),
          Be16{static_cast<std::uint16_t>(op)}};
}

/// One side of a record: an address of the link, and one of IPv4.
struct ArpSide {
  HwAddr hw;
  std::uint32_t ip;
};

void append_side(std::vector<std::byte>& out, const LinkFormat& format, const ArpSide& side) {
  append_hw(out, format, side.hw);
  append(out, bytes_of(Be32{side.ip}));
}

/// Shape: there are enough octets.
ArpSide read_side(const LinkFormat& format, std::span<const std::byte> octets) {
  return {*read_hw(format, octets), read<Be32>(octets, written_len(format))->host()};
}

/// True if the second side is the one that sends the record.
bool sender_is_second(const LinkFormat& format, ArpOp op) {
  return format.reply_keeps_order && op == ArpOp::kReply;
}

}  // namespace

std::vector<std::byte> build_arp(const Arp& arp, const LinkFormat& format) {
  ArpSide first{arp.sender_hw, arp.sender_ip}, second{arp.target_hw, arp.target_ip};
  if (sender_is_second(format, arp.op)) std::swap(first, second);
  std::vector<std::byte> out;
  out.reserve(arp_len(format));
  append(out, bytes_of(header(format, arp.op)));
  append_side(out, format, first);
  append_side(out, format, second);
  return out;
}

std::optional<Arp> parse_arp(const LinkFormat& format, std::span<const std::byte> octets) {
  if (octets.size() < arp_len(format)) return std::nullopt;
  if (format.kind == LinkKind::kIbarp && octets.size() != arp_len(format)) return std::nullopt;
  const auto hdr = *read<ArpHdr>(octets);
  const auto op = static_cast<ArpOp>(hdr.op.host());
  if (hdr != header(format, op) || hdr.op.host() < 1 || hdr.op.host() > 4) return std::nullopt;
  const auto sides = octets.subspan(sizeof(ArpHdr));
  ArpSide sender = read_side(format, sides);
  ArpSide target = read_side(format, sides.subspan(written_len(format) + sizeof(Be32)));
  if (sender_is_second(format, op)) std::swap(sender, target);
  return Arp{op, sender.hw, sender.ip, target.hw, target.ip};
}

}  // namespace ipoib::wire
