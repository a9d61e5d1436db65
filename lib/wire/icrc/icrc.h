// SPDX-License-Identifier: BSD-3-Clause
// The two checksums of an InfiniBand packet. Source: IBA vol 1 §7.8; iba-wire.md §1.7, §1.8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ipoib::wire {

/// ICRC of a packet, from the LRH through the last pad octet (without the ICRC itself), with the
/// octets as on the wire. The function masks the fields that the ICRC excludes in registers; it
/// neither writes nor copies the packet, except where it falls back to icrc_portable().
/// Shape: packet.size() >= 20 (no GRH) or 60 (GRH, by LRH.LNH); fastest for a multiple of 4.
/// Returns the value in host order whose little-endian octets go on the wire.
[[nodiscard]] std::uint32_t icrc(std::span<const std::byte> packet) noexcept;

/// Octets that an ICRC covers. Not a std::span, because an array of spans costs its initialisation.
struct Covered {
  const std::byte* octets;
  std::size_t size;

  [[nodiscard]] std::span<const std::byte> span() const noexcept { return {octets, size}; }
};

/// icrc() of every packet of a burst; faster than single calls if packets are short.
/// Shape: out.size() >= packets.size().
void icrc_burst(std::span<const Covered> packets, std::span<std::uint32_t> out) noexcept;

/// icrc() without CPU-specific instructions: the fallback of icrc() and the reference of its tests.
[[nodiscard]] std::uint32_t icrc_portable(std::span<const std::byte> packet) noexcept;

/// Implementations of icrc(), each faster than the one before: ISA-L's CRC, PCLMULQDQ, and
/// VPCLMULQDQ on 256 and on 512 bits.
enum class IcrcKernel : std::uint8_t { kPortable, kClmul, kAvx2, kAvx512 };

/// icrc() and icrc_burst() use the fastest kernel of the CPU; this selects another one, for tests
/// and benchmarks. Returns false if the CPU does not have it. No other thread may compute an ICRC
/// meanwhile.
bool select_icrc_kernel(IcrcKernel kernel) noexcept;
[[nodiscard]] IcrcKernel fastest_icrc_kernel() noexcept;

/// VCRC of a packet, from the LRH through the ICRC; stored least significant octet first.
[[nodiscard]] std::uint16_t vcrc(std::span<const std::byte> packet) noexcept;

}  // namespace ipoib::wire
