// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/arp.h"

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
static_assert(arp_len(LinkKind::kEthernet) == 28 && arp_len(LinkKind::kInfiniband) == 56);

ArpHdr header(LinkKind kind, ArpOp op) {
  const bool infiniband = kind == LinkKind::kInfiniband;
  return {Be16{infiniband ? kArpHardwareInfiniband : kArpHardwareEthernet},
          Be16{static_cast<std::uint16_t>(EtherType::kIpv4)},
          static_cast<std::uint8_t>(hw_len(kind)), sizeof(Be32),
          Be16{static_cast<std::uint16_t>(op)}};
}

}  // namespace

std::vector<std::byte> build_arp(const Arp& arp) {
  std::vector<std::byte> out;
  out.reserve(arp_len(arp.sender_hw.kind()));
  append(out, bytes_of(header(arp.sender_hw.kind(), arp.op)));
  append(out, arp.sender_hw.octets());
  append(out, bytes_of(Be32{arp.sender_ip}));
  append(out, arp.target_hw.octets());
  append(out, bytes_of(Be32{arp.target_ip}));
  return out;
}

std::optional<Arp> parse_arp(LinkKind kind, std::span<const std::byte> octets) {
  if (octets.size() < arp_len(kind)) return std::nullopt;
  const auto hdr = *read<ArpHdr>(octets);
  const auto op = static_cast<ArpOp>(hdr.op.host());
  if (hdr != header(kind, op) || hdr.op.host() < 1 || hdr.op.host() > 4) return std::nullopt;
  const auto sender = octets.subspan(sizeof(ArpHdr));
  const auto target = sender.subspan(hw_len(kind) + sizeof(Be32));
  return Arp{op, *HwAddr::read(kind, sender), read<Be32>(sender, hw_len(kind))->host(),
             *HwAddr::read(kind, target), read<Be32>(target, hw_len(kind))->host()};
}

}  // namespace ipoib::wire
