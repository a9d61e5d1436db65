// SPDX-License-Identifier: BSD-3-Clause
// Cuts TCP packets that are larger than a link carries into segments that fit.
//
// Why not rte_gso: it takes no IPv6, sets no checksum of TCP, so each segment's payload would have
// to be read once more by us, and its indirect mbufs, two for each segment, are more than a copy
// that is read for the checksum anyway.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "lib/base/contract.h"
#include "lib/fwd/tcp_packet.h"

namespace ipoib::fwd {

/// One packet in the making of its segments, in order. Each is a copy in one piece: headers of the
/// packet, sequence number and IPv4 identification counted up, FIN and PSH in the last only, CWR in
/// the first only. A packet whose TCP checksum is wrong gives segments whose checksums are all
/// wrong by as much.
class TcpCut {
 public:
  /// `m` starts at its IP header, is checked, is the caller's and outlives this.
  TcpCut(rte_mbuf* m, std::uint16_t mtu, rte_mempool* pool) noexcept;

  /// False for what is no TCP packet, for SYN, RST and urgent ones, whose meaning is not to be cut,
  /// for packets with IP options, extension headers or of a fragment, and where an mbuf or the MTU
  /// is too small for headers and payload. Nothing else may be called then.
  [[nodiscard]] bool possible() const noexcept { return room_ != 0; }
  [[nodiscard]] bool done() const noexcept {
    expects(possible(), "the packet may be cut");
    return at_ == packet_.payload_len();
  }
  /// The next segment, the caller's. Shape: not done(). Null: no mbuf; may be tried again.
  [[nodiscard]] rte_mbuf* next() noexcept;

 private:
  void copy_payload(std::byte* to, std::uint32_t len) noexcept;
  void finish(const TcpPacket& segment, std::uint16_t payload_sum) const noexcept;

  TcpPacket packet_;
  rte_mempool* pool_;
  std::uint32_t room_ = 0;   ///< Octets of payload in each segment but the last.
  std::uint32_t at_ = 0;     ///< Octets of payload that have become segments.
  std::uint32_t n_ = 0;      ///< Segments made.
  std::uint16_t error_ = 0;  ///< By which the checksum of the packet is wrong; 0: right.
  // Where the payload goes on.
  const rte_mbuf* from_;
  std::uint32_t from_at_;
};

}  // namespace ipoib::fwd
