// SPDX-License-Identifier: BSD-3-Clause
// The two checksums of an InfiniBand packet. Source: IBA vol 1 §7.8; iba-wire.md §1.7, §1.8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ipoib::wire {

/// ICRC of a packet, from the LRH through the last pad octet (the ICRC itself not included), the
/// octets as they are on the wire; the fields the ICRC leaves out are masked here, in registers:
/// the packet is neither written nor copied.
/// Shape: packet.size() >= 20 (no GRH) or 60 (GRH, told by LRH.LNH); fastest for a multiple of 4.
/// Returns the value in host order whose little-endian octets go on the wire.
[[nodiscard]] std::uint32_t icrc(std::span<const std::byte> packet) noexcept;

/// What an ICRC covers. No std::span, as an array of those costs its initialisation.
struct Covered {
  const std::byte* octets;
  std::size_t size;

  [[nodiscard]] std::span<const std::byte> span() const noexcept { return {octets, size}; }
};

/// icrc() of each of a burst: faster than one by one where packets are short.
/// Shape: out.size() >= packets.size().
void icrc_burst(std::span<const Covered> packets, std::span<std::uint32_t> out) noexcept;

/// The same without instructions of one CPU: what icrc() falls back to, and is tested against.
[[nodiscard]] std::uint32_t icrc_portable(std::span<const std::byte> packet) noexcept;

/// VCRC of a packet, from the LRH through the ICRC; stored least significant octet first.
[[nodiscard]] std::uint16_t vcrc(std::span<const std::byte> packet) noexcept;

}  // namespace ipoib::wire
