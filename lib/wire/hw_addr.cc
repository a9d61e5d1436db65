// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/hw_addr.h"

#include <algorithm>

#include "lib/base/contract.h"
#include "lib/wire/append.h"

namespace ipoib::wire {
namespace {

constexpr std::size_t kGidAt = offsetof(IbarpAddr, gid);

}  // namespace

HwAddr::HwAddr(LinkKind kind, std::span<const std::byte> octets) noexcept : kind_{kind} {
  std::copy(octets.begin(), octets.end(), octets_.begin());
}

MacAddr HwAddr::mac() const {
  expects(kind_ == LinkKind::kEthernet, "a MAC address is needed");
  return *wire::read<MacAddr>(octets_);
}

LinkAddr HwAddr::link_addr() const {
  expects(kind_ == LinkKind::kInfiniband, "an IPoIB address is needed");
  return *wire::read<LinkAddr>(octets_);
}

IbarpAddr HwAddr::ibarp_addr() const {
  expects(kind_ == LinkKind::kIbarp, "an IBARP address is needed");
  return *wire::read<IbarpAddr>(octets_);
}

DatagramAddr HwAddr::datagram_addr() const {
  if (kind_ == LinkKind::kIbarp) {
    const IbarpAddr addr = ibarp_addr();
    return {addr.qpn.host(), addr.qkey.host(), addr.gid};
  }
  const LinkAddr addr = link_addr();
  return {addr.qpn.host(), std::nullopt, addr.gid};
}

bool HwAddr::same_interface(const HwAddr& o) const noexcept {
  if (kind_ != o.kind_) return false;
  // The octet that does not count; behind the addresses all octets are zero.
  std::size_t ignored = octets_.size();
  if (kind_ == LinkKind::kInfiniband) ignored = offsetof(LinkAddr, flags);
  if (kind_ == LinkKind::kIbarp) ignored = offsetof(IbarpAddr, reserved);
  for (std::size_t i = 0; i < octets_.size(); ++i)
    if (i != ignored && octets_[i] != o.octets_[i]) return false;
  return true;
}

bool HwAddr::same_port(const HwAddr& o) const noexcept {
  std::size_t port = 0;
  if (kind_ == LinkKind::kInfiniband) port = offsetof(LinkAddr, gid);
  if (kind_ == LinkKind::kIbarp) port = offsetof(IbarpAddr, qkey);
  return kind_ == o.kind_ &&
         std::equal(octets_.begin() + port, octets_.end(), o.octets_.begin() + port);
}

bool HwAddr::is_plausible() const {
  if (kind_ == LinkKind::kEthernet)
    return (octets_[0] & std::byte{1}) == std::byte{0} && *this != zero(kind_);
  const DatagramAddr to = datagram_addr();
  return to.qpn > 1 && to.qpn != kMulticastQpn && !to.gid.is_multicast() && !to.gid.is_zero();
}

std::string to_string(const HwAddr& addr) {
  switch (addr.kind()) {
    case LinkKind::kEthernet: return to_string(addr.mac());
    case LinkKind::kInfiniband: return to_string(addr.link_addr());
    case LinkKind::kIbarp: break;
  }
  return to_string(addr.ibarp_addr());
}

std::optional<HwAddr> parse_hw_addr(std::string_view text) {
  if (const auto mac = parse_mac(text)) return *mac;
  if (const auto addr = parse_link_addr(text)) return *addr;
  if (const auto addr = parse_ibarp_addr(text)) return *addr;
  return std::nullopt;
}

void append_hw(std::vector<std::byte>& out, const LinkFormat& format, const HwAddr& addr) {
  expects(addr.kind() == format.kind, "the address is of the link's kind");
  const auto octets = addr.octets();
  if (written_len(format) == octets.size()) return append(out, octets);
  append(out, octets.first(kGidAt + sizeof(Be32)));
  append(out, octets.subspan(kGidAt));
}

std::optional<HwAddr> read_hw(const LinkFormat& format, std::span<const std::byte> octets) {
  if (octets.size() < written_len(format)) return std::nullopt;
  if (written_len(format) == hw_len(format.kind)) return HwAddr::read(format.kind, octets);
  std::array<std::byte, sizeof(IbarpAddr)> once;
  const auto gid = octets.subspan(kGidAt + sizeof(Be32), sizeof(Gid));
  std::copy_n(octets.begin(), kGidAt, once.begin());
  std::copy(gid.begin(), gid.end(), once.begin() + kGidAt);
  return HwAddr::read(format.kind, once);
}

}  // namespace ipoib::wire
