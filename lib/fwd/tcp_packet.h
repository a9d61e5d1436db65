// SPDX-License-Identifier: BSD-3-Clause
// A TCP packet of either IP version with its headers in place, for merging and cutting.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/contract.h"
#include "lib/fwd/ip4_header.h"
#include "lib/fwd/ones_sum.h"
#include "lib/wire/ip.h"
#include "lib/wire/tcp.h"

namespace ipoib::fwd {

/// Class of a checked packet that starts at its IP header.
enum class TcpKind : std::uint8_t {
  kOther,  ///< Not TCP.
  kSkip,   ///< TCP, or possibly TCP: behind IP options or extension headers, in a fragment, or with
           ///< headers that are not complete in the first segment.
  kTcp,
};

/// The lengths are valid with kTcp only.
struct TcpPacket {
  rte_mbuf* m = nullptr;
  TcpKind kind = TcpKind::kOther;
  bool v6 = false;
  std::uint16_t ip_len = 0;      ///< Octets of the IP header.
  std::uint16_t header_len = 0;  ///< Octets of both headers, including TCP options.

  TcpPacket() noexcept = default;
  explicit TcpPacket(rte_mbuf* packet) noexcept : m{packet} {
    constexpr auto kProtocol = static_cast<std::uint8_t>(wire::IpProto::kTcp);
    const auto* const ip = rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
    v6 = ip->version() == 6;
    if (v6) {
      const std::uint8_t next = rte_pktmbuf_mtod(m, const wire::Ipv6Hdr*)->next_header;
      ip_len = sizeof(wire::Ipv6Hdr);
      if (next != kProtocol) {
        if (is_extension(next)) kind = TcpKind::kSkip;
        return;
      }
    } else {
      ip_len = sizeof(wire::Ipv4Hdr);
      if (ip->protocol != kProtocol) return;
      if (ip->header_len() != ip_len || ip->is_fragment()) {
        kind = TcpKind::kSkip;
        return;
      }
    }
    kind = TcpKind::kSkip;
    if (m->data_len < ip_len + sizeof(wire::TcpHdr)) return;
    const std::size_t tcp_len = tcp().header_len();
    if (tcp_len < sizeof(wire::TcpHdr) || m->data_len < ip_len + tcp_len) return;
    header_len = static_cast<std::uint16_t>(ip_len + tcp_len);
    kind = TcpKind::kTcp;
  }

  [[nodiscard]] wire::Ipv4Hdr& ip4() const noexcept { return *rte_pktmbuf_mtod(m, wire::Ipv4Hdr*); }
  [[nodiscard]] wire::Ipv6Hdr& ip6() const noexcept { return *rte_pktmbuf_mtod(m, wire::Ipv6Hdr*); }
  [[nodiscard]] wire::TcpHdr& tcp() const noexcept {
    return *rte_pktmbuf_mtod_offset(m, wire::TcpHdr*, ip_len);
  }
  [[nodiscard]] std::uint32_t payload_len() const noexcept {
    expects_tcp();
    return m->pkt_len - header_len;
  }
  [[nodiscard]] std::span<const std::byte> tcp_octets() const noexcept {
    return {rte_pktmbuf_mtod_offset(m, const std::byte*, ip_len),
            static_cast<std::size_t>(header_len - ip_len)};
  }
  /// Source and destination addresses in the IP header.
  [[nodiscard]] std::span<const std::byte> addresses() const noexcept {
    const std::size_t len = v6 ? 2 * sizeof(wire::IpAddr) : 2 * sizeof(wire::Be32);
    return {rte_pktmbuf_mtod_offset(m, const std::byte*, ip_len - len), len};
  }

  /// Sums pseudo header and TCP header in their present form, for a packet of m->pkt_len octets:
  /// everything that TCP's checksum covers except the payload. Source: RFC 9293 §3.1, RFC 8200
  /// §8.1.
  [[nodiscard]] OnesSum header_sum() const noexcept {
    expects_tcp();
    OnesSum sum;
    sum.add(addresses());
    sum.add_word(static_cast<std::uint16_t>(wire::IpProto::kTcp));
    sum.add_word(static_cast<std::uint16_t>(m->pkt_len - ip_len));
    sum.add(tcp_octets());
    return sum;
  }

  /// Sets IP length and IPv4 checksum for m->pkt_len octets; the other fields must be final.
  void set_ip_len() const noexcept {
    expects_tcp();
    if (v6) {
      ip6().payload_len.set(static_cast<std::uint16_t>(m->pkt_len - ip_len));
      return;
    }
    ip4().total_len.set(static_cast<std::uint16_t>(m->pkt_len));
    set_ip4_checksum(ip4(), ip_len);
  }

 private:
  [[gnu::always_inline]] void expects_tcp() const noexcept {
    expects(kind == TcpKind::kTcp, "the packet is TCP");
  }
  /// True for headers that may precede that of an upper layer: hop-by-hop options, routing,
  /// fragment, ESP, authentication, destination options, mobility, host identity and shim6. Source:
  /// RFC 7045 §4.
  static bool is_extension(std::uint8_t next) noexcept {
    constexpr std::array<std::uint8_t, 9> kExtensions = {0, 43, 44, 50, 51, 60, 135, 139, 140};
    return std::find(kExtensions.begin(), kExtensions.end(), next) != kExtensions.end();
  }
};

/// Returns the IPv4 identification of the packet `n` places behind this one. Hosts count up, or
/// leave it 0 in datagrams that may not be fragmented. Source: RFC 6864 §4.1.
inline std::uint16_t ip4_id_after(const wire::Ipv4Hdr& first, std::uint32_t n) noexcept {
  const bool atomic = (first.flags_offset.host() & wire::Ipv4Hdr::kDontFragment) != 0;
  const std::uint16_t id = first.id.host();
  return atomic && id == 0 ? id : static_cast<std::uint16_t>(id + n);
}

}  // namespace ipoib::fwd
