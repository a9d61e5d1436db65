// SPDX-License-Identifier: BSD-3-Clause
// Octets and addresses of mbufs that start at a whole IP header, of either version, in their first
// segment.
#pragma once

#include <rte_mbuf.h>

#include <cstddef>
#include <span>

#include "lib/wire/ip.h"

namespace ipoib::mgmt {

/// Octets of the first segment.
inline std::span<std::byte> data_of(rte_mbuf* m) {
  return {rte_pktmbuf_mtod(m, std::byte*), rte_pktmbuf_data_len(m)};
}
inline bool is_v4(const rte_mbuf* m) {
  return rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*)->version() == 4;
}
inline wire::IpAddr source_of(const rte_mbuf* m) {
  return is_v4(m) ? wire::IpAddr::v4(rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*)->src.host())
                  : rte_pktmbuf_mtod(m, const wire::Ipv6Hdr*)->src;
}
inline wire::IpAddr destination_of(const rte_mbuf* m) {
  return is_v4(m) ? wire::IpAddr::v4(rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*)->dst.host())
                  : rte_pktmbuf_mtod(m, const wire::Ipv6Hdr*)->dst;
}

/// Octets from a whole IP header on.
inline wire::IpAddr source_of(std::span<const std::byte> packet) {
  const auto v4 = *wire::read<wire::Ipv4Hdr>(packet);
  return v4.version() == 4 ? wire::IpAddr::v4(v4.src.host())
                           : wire::read<wire::Ipv6Hdr>(packet)->src;
}
inline wire::IpAddr destination_of(std::span<const std::byte> packet) {
  const auto v4 = *wire::read<wire::Ipv4Hdr>(packet);
  return v4.version() == 4 ? wire::IpAddr::v4(v4.dst.host())
                           : wire::read<wire::Ipv6Hdr>(packet)->dst;
}

}  // namespace ipoib::mgmt
