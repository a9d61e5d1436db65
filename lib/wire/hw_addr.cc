// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/hw_addr.h"

#include <algorithm>

#include "lib/base/contract.h"

namespace ipoib::wire {

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

bool HwAddr::same_interface(const HwAddr& o) const noexcept {
  const std::size_t flags = kind_ == LinkKind::kInfiniband ? sizeof(LinkAddr::flags) : 0;
  return kind_ == o.kind_ &&
         std::equal(octets_.begin() + flags, octets_.end(), o.octets_.begin() + flags);
}

bool HwAddr::same_port(const HwAddr& o) const noexcept {
  const std::size_t port = kind_ == LinkKind::kInfiniband ? offsetof(LinkAddr, gid) : 0;
  return kind_ == o.kind_ &&
         std::equal(octets_.begin() + port, octets_.end(), o.octets_.begin() + port);
}

bool HwAddr::is_plausible() const {
  if (kind_ == LinkKind::kEthernet)
    return (octets_[0] & std::byte{1}) == std::byte{0} && *this != zero(kind_);
  const LinkAddr addr = link_addr();
  const std::uint32_t qpn = addr.qpn.host();
  return qpn > 1 && qpn != kMulticastQpn && !addr.gid.is_multicast() && !addr.gid.is_zero();
}

std::string to_string(const HwAddr& addr) {
  return addr.kind() == LinkKind::kEthernet ? to_string(addr.mac()) : to_string(addr.link_addr());
}

}  // namespace ipoib::wire
