// SPDX-License-Identifier: BSD-3-Clause
// Generic segmentation offload (GSO) in software: cuts TCP packets that are larger than a link
// carries into segments that fit.
//
// Why not rte_gso: it supports no IPv6 and sets no TCP checksum, so that this program would have to
// read each segment's payload again; and its indirect mbufs, two per segment, cost more than a copy
// that is read for the checksum anyway.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "lib/base/contract.h"
#include "lib/fwd/tcp_packet.h"

namespace ipoib::fwd {

/// Cuts one packet into segments, in order. Each is a copy in one mbuf: headers of the packet,
/// sequence number and IPv4 identification counted up, FIN and PSH in the last only, CWR in the
/// first only. If the TCP checksum of the packet is wrong, those of all segments are wrong by the
/// same amount.
class TcpGso {
 public:
  /// `m` starts at its IP header, is checked, stays the caller's and outlives this object.
  TcpGso(rte_mbuf* m, std::uint16_t mtu, rte_mempool* pool) noexcept;

  /// False if the packet is not TCP; for SYN, RST and urgent packets, which must not be cut; for
  /// packets with IP options or extension headers and for fragments; and if an mbuf or the MTU is
  /// too small for headers and payload. No other function may be called then.
  [[nodiscard]] bool possible() const noexcept { return room_ != 0; }
  [[nodiscard]] bool done() const noexcept {
    expects(possible(), "the packet may be cut");
    return at_ == packet_.payload_len();
  }
  /// Returns the next segment, owned by the caller. Shape: not done(). Null: no mbuf; may be
  /// repeated.
  [[nodiscard]] rte_mbuf* next() noexcept;

 private:
  void copy_payload(std::byte* to, std::uint32_t len) noexcept;
  void finish(const TcpPacket& segment, std::uint16_t payload_sum) const noexcept;

  TcpPacket packet_;
  rte_mempool* pool_;
  std::uint32_t room_ = 0;   ///< Octets of payload in each segment except the last.
  std::uint32_t at_ = 0;     ///< Octets of payload already in segments.
  std::uint32_t n_ = 0;      ///< Segments made.
  std::uint16_t error_ = 0;  ///< Error of the packet's checksum; 0: right.
  // Position of the next payload octet.
  const rte_mbuf* from_;
  std::uint32_t from_at_;
};

}  // namespace ipoib::fwd
