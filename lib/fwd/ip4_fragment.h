// SPDX-License-Identifier: BSD-3-Clause
// IPv4 fragmentation. Source: RFC 791 §3.2.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// Copies a checked packet, longer than `mtu`, into fragments of at most `mtu` octets, and of what
/// one mbuf holds, checksums set: a burst at a time, as a long packet to a small MTU is more than
/// one burst holds. Options without the copied flag go into the first fragment only. The packet
/// stays as it is, the caller's, and outlives this.
class Ip4Fragmenter {
 public:
  Ip4Fragmenter(const rte_mbuf* m, std::uint16_t mtu, rte_mempool* pool) noexcept;

  /// All of the packet is in fragments.
  [[nodiscard]] bool done() const noexcept { return at_ != 0 && at_ == payload_len_; }
  /// The next fragments, up to kMaxBurst. Shape: not done(); `out` is empty. False, and nothing in
  /// `out`: no mbufs; or, before the first one, an MTU or mbufs that hold no header and 8 octets,
  /// or a fragment that reaches beyond 65,535 octets.
  [[nodiscard]] bool next(Burst& out) noexcept;

 private:
  static constexpr std::size_t kMaxHeaderLen = 60;

  /// A header in the making: fixed part and options.
  struct Header {
    alignas(4) std::array<std::byte, kMaxHeaderLen> bytes{};
    std::size_t len = sizeof(wire::Ipv4Hdr);

    wire::Ipv4Hdr& fixed() noexcept { return *reinterpret_cast<wire::Ipv4Hdr*>(bytes.data()); }
  };
  static Header whole_header(const rte_mbuf* m) noexcept;
  static Header later_header(const Header& first) noexcept;

  void fill(rte_mbuf* fragment) noexcept;

  const rte_mbuf* m_;
  rte_mempool* pool_;
  Header first_, later_;
  std::size_t payload_len_;
  std::size_t at_ = 0;          ///< Octets of payload in fragments so far.
  std::size_t first_room_ = 0;  ///< Octets of payload in the first fragment, and in later ones;
  std::size_t later_room_ = 0;  ///< 0: it cannot be done.
  std::uint16_t flags_offset_;
};

}  // namespace ipoib::fwd
