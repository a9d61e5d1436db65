// SPDX-License-Identifier: BSD-3-Clause
// A link-layer (hardware) address of any kind of link as one value, so that the control plane needs
// one state machine for all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/wire/ipoib.h"

namespace ipoib::wire {

/// The kinds of link. The value is the length of a link-layer address in octets.
enum class LinkKind : std::uint8_t {
  kEthernet = sizeof(MacAddr),
  kInfiniband = sizeof(LinkAddr),
  kIbarp = sizeof(IbarpAddr),  ///< InfiniBand with the addresses of the draft of 2001.
};

/// Octets of a link-layer address on a link of this kind.
[[nodiscard]] constexpr std::size_t hw_len(LinkKind kind) noexcept {
  return static_cast<std::size_t>(kind);
}

/// The destination of datagrams that an address of an InfiniBand link names.
struct DatagramAddr {
  std::uint32_t qpn = 0;
  /// Q_Key that the receiver demands; empty: that of the link.
  std::optional<std::uint32_t> qkey;
  Gid gid;
};

class HwAddr {
 public:
  // Conversions, because each of them is a hardware address.
  HwAddr(const MacAddr& mac) noexcept : HwAddr{LinkKind::kEthernet, mac} {}
  HwAddr(const LinkAddr& addr) noexcept : HwAddr{LinkKind::kInfiniband, bytes_of(addr)} {}
  HwAddr(const IbarpAddr& addr) noexcept : HwAddr{LinkKind::kIbarp, bytes_of(addr)} {}
  /// All octets are zero.
  [[nodiscard]] static HwAddr zero(LinkKind kind) noexcept { return {kind, {}}; }
  /// Copies the address from the first octets; empty if there are too few.
  [[nodiscard]] static std::optional<HwAddr> read(LinkKind kind,
                                                  std::span<const std::byte> octets) {
    if (octets.size() < hw_len(kind)) return std::nullopt;
    return HwAddr{kind, octets.first(hw_len(kind))};
  }

  [[nodiscard]] LinkKind kind() const noexcept { return kind_; }
  [[nodiscard]] std::span<const std::byte> octets() const noexcept {
    return std::span{octets_}.first(hw_len(kind_));
  }
  /// Precondition: kind() is kEthernet.
  [[nodiscard]] MacAddr mac() const;
  /// Precondition: kind() is kInfiniband.
  [[nodiscard]] LinkAddr link_addr() const;
  /// Precondition: kind() is kIbarp.
  [[nodiscard]] IbarpAddr ibarp_addr() const;
  /// Precondition: kind() is kInfiniband or kIbarp.
  [[nodiscard]] DatagramAddr datagram_addr() const;

  /// True if both are of one interface: equal, except for the flags of an IPoIB address and the
  /// reserved octet of an IBARP address.
  [[nodiscard]] bool same_interface(const HwAddr& o) const noexcept;
  /// True if one path leads to both: the GIDs, or the MAC addresses, are equal, and the Q_Keys of
  /// IBARP addresses.
  [[nodiscard]] bool same_port(const HwAddr& o) const noexcept;
  /// True if a single interface can have this address: no group, not zero, and no management queue
  /// pair (QPNs 0 and 1).
  [[nodiscard]] bool is_plausible() const;

  friend bool operator==(const HwAddr&, const HwAddr&) noexcept = default;

 private:
  /// `octets`: at most hw_len(kind).
  HwAddr(LinkKind kind, std::span<const std::byte> octets) noexcept;

  LinkKind kind_;
  std::array<std::byte, sizeof(IbarpAddr)> octets_{};  ///< Zero behind the address.
};

/// Octets in hex with colons between, the form of `ip neigh`.
[[nodiscard]] std::string to_string(const HwAddr& addr);
/// Reads that form; the number of octets tells the kind.
[[nodiscard]] std::optional<HwAddr> parse_hw_addr(std::string_view text);

inline constexpr std::uint16_t kArpHardwareEthernet = 1;
inline constexpr std::uint16_t kArpHardwareInfiniband = 32;

/// The form in which ARP records and ND options of a link have its link-layer addresses.
struct LinkFormat {
  LinkKind kind;
  /// Hardware type of ARP records. "TBD" in the draft of 2001; InfiniBand was assigned 32 later,
  /// which is what an implementation that was kept in use has.
  std::uint16_t arp_hardware;
  /// kIbarp: the first word of each GID is written twice, as the figures of the draft have it. That
  /// makes its 92 octets of IBARP payload and its five units of the ND option come out. But its
  /// HLEN of 32 is right without the repetition only, and receivers of ARP find the next field by
  /// HLEN. False is the reading of an implementer who trusts HLEN: 84 octets of payload, and four
  /// octets of padding at the end of the ND option. HLEN is 32 in both forms.
  /// Source: draft-pelissier-ipoib-encaparp-00 §5, §6.3, §6.4.
  bool gid_word_twice = false;
  /// A reply of ARP keeps the sender and the target of its request, and the target's address is the
  /// answer. In RFC 826 the host that replies becomes the sender. The draft says so in a table of
  /// the values that each field SHALL have; an implementer who followed its "modeled closely after
  /// that for Ethernet" sends the other order. Both are received. struct Arp always has RFC 826's.
  /// RARP, which the draft does not have, keeps the order of RFC 903.
  /// Source: draft-pelissier-ipoib-encaparp-00 §6.4.
  bool reply_keeps_order = false;

  // A conversion, because the kind alone is enough for all links but those of the draft of 2001.
  constexpr LinkFormat(LinkKind link_kind) noexcept
      : kind{link_kind},
        arp_hardware{link_kind == LinkKind::kEthernet ? kArpHardwareEthernet
                                                      : kArpHardwareInfiniband},
        reply_keeps_order{link_kind == LinkKind::kIbarp} {}

  /// True if replies of other implementations may have either order.
  [[nodiscard]] constexpr bool reply_order_varies() const noexcept {
    return kind == LinkKind::kIbarp;
  }

  friend bool operator==(const LinkFormat&, const LinkFormat&) = default;
};

/// Octets that an address has in records and options.
[[nodiscard]] constexpr std::size_t written_len(const LinkFormat& format) noexcept {
  const bool twice = format.kind == LinkKind::kIbarp && format.gid_word_twice;
  return hw_len(format.kind) + (twice ? sizeof(Be32) : 0);
}

/// Shape: addr.kind() == format.kind.
void append_hw(std::vector<std::byte>& out, const LinkFormat& format, const HwAddr& addr);

/// Reads an address from the first octets; empty if there are too few. The first copy of a word
/// that is written twice is ignored.
[[nodiscard]] std::optional<HwAddr> read_hw(const LinkFormat& format,
                                            std::span<const std::byte> octets);

}  // namespace ipoib::wire
