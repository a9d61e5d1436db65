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

/// Copies a checked packet that is longer than `mtu` into fragments of at most `mtu` octets, which
/// also fit one mbuf, with checksums set. It makes one burst at a time, because a long packet and a
/// small MTU give more fragments than a burst holds. Options without the copied flag go into the
/// first fragment only. The packet is not changed, stays the caller's and must outlive this object.
class Ip4Fragmenter {
 public:
  Ip4Fragmenter(const rte_mbuf* m, std::uint16_t mtu, rte_mempool* pool) noexcept;

  /// True if all of the packet is in fragments.
  [[nodiscard]] bool done() const noexcept { return at_ != 0 && at_ == payload_len_; }
  /// Makes the next fragments, up to kMaxBurst. Shape: not done(); `out` is empty. Returns false,
  /// with `out` empty, if there are no mbufs; or, before the first fragment, if the MTU or the
  /// mbufs cannot hold a header and 8 octets, or a fragment would reach beyond 65,535 octets.
  [[nodiscard]] bool next(Burst& out) noexcept;

 private:
  static constexpr std::size_t kMaxHeaderLen = 60;

  /// A header under construction: fixed part and options.
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
  std::size_t first_room_ = 0;  ///< Octets of payload in the first fragment; 0: cannot fragment.
  std::size_t later_room_ = 0;  ///< Octets of payload in later fragments; 0: cannot fragment.
  std::uint16_t flags_offset_;
};

}  // namespace ipoib::fwd
