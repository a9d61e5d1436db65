// SPDX-License-Identifier: BSD-3-Clause
// Frames of hosts around the node, on Ethernet and on the cable of its HCA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "lib/wire/frame.h"
#include "lib/wire/hw_addr.h"
#include "lib/wire/iba.h"
#include "lib/wire/ip.h"
#include "lib/wire/mad.h"

namespace ipoib::flood {

using Bytes = std::vector<std::byte>;

/// Octets in front of the payload of an Ethernet frame, and of a UD packet without GRH on the cable.
inline constexpr std::size_t kEthHead = 14;
inline constexpr std::size_t kUdHead = kEthHead + wire::kUdLocalHeaderLen;
/// Octets in front of an IP packet or ARP record on the cable.
inline constexpr std::size_t kIpoibHead = kUdHead + 4;
/// Octets in front of them in a packet to a group.
inline constexpr std::size_t kIpoibGroupHead = kIpoibHead + sizeof(wire::Grh);

inline constexpr wire::MacAddr kBroadcastMac{std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                                             std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};

[[nodiscard]] wire::MacAddr mac_of(std::uint64_t number);
[[nodiscard]] wire::Gid gid_of(std::uint64_t number);

[[nodiscard]] Bytes ethernet(const wire::MacAddr& to, const wire::MacAddr& from,
                             wire::EtherType type, std::span<const std::byte> payload);

/// The other end of a packet on the cable.
struct CablePort {
  std::uint16_t lid = 0;
  std::uint32_t qpn = 0;
  wire::Gid gid{};
};

/// A packet from a port to a queue pair. `payload`: from the IPoIB header on, or a MAD.
[[nodiscard]] Bytes ud(const CablePort& from, const CablePort& to, std::uint32_t qkey,
                       std::uint16_t pkey, std::span<const std::byte> payload);
/// An IP packet, ARP record or ND message behind its IPoIB header.
[[nodiscard]] Bytes encapsulated(wire::EtherType type, std::span<const std::byte> payload);
/// A packet to a group of the link with this P_Key.
[[nodiscard]] Bytes ud_to_group(const CablePort& from, const wire::Gid& mgid, std::uint16_t mlid,
                                std::uint32_t qkey, std::uint16_t pkey,
                                std::span<const std::byte> payload);
/// A MAD to QP1 of a port.
[[nodiscard]] Bytes mad_frame(const CablePort& from, std::uint16_t to,
                              std::span<const std::byte, wire::kMadLen> mad);

/// The mark of a packet that the bench follows, in the payload of UDP.
struct Mark {
  wire::Be32 magic;
  wire::Be32 kind;
  wire::Be32 id;
  wire::Be32 sequence;

  static constexpr std::uint32_t kMagic = 0x666c'6f64;
};

/// UDP between two addresses of one family, with a mark and padding to `data_len` octets of UDP
/// payload. `dont_fragment`: IPv4.
[[nodiscard]] Bytes marked(const wire::IpAddr& from, const wire::IpAddr& to, std::uint32_t kind,
                           std::uint32_t id, std::uint32_t sequence, std::size_t data_len = 32,
                           bool dont_fragment = false);
/// The mark of a packet, from its IP header on; none: it has none.
[[nodiscard]] std::optional<Mark> mark_of(std::span<const std::byte> packet);

/// Writes the header checksum of an IPv4 header without options.
void put_checksum4(std::byte* header);

/// A number of a sequence without order, that a seed determines.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_{seed} {}
  std::uint64_t next();
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((next() >> 32) * n >> 32);
  }

 private:
  std::uint64_t state_;
};

/// Writes a number in network order.
template <class T>
void put(std::byte* at, T value) {
  const wire::Be<T> be{value};
  std::memcpy(at, &be, sizeof(be));
}

}  // namespace ipoib::flood
