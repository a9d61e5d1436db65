// SPDX-License-Identifier: BSD-3-Clause
// The addresses of this node, for a first check of the source of every received packet.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>

#include "lib/wire/ip.h"

namespace ipoib::table {

/// A Bloom filter with one hash function over the node's own addresses: "no" is certain; "perhaps"
/// must be confirmed in the prefix table, where own addresses are routes of kind kLocal or
/// kLocalDown. With 100 addresses one foreign source in 40 needs this second check. 512 octets,
/// which stay in the L1 cache.
///
/// One writer (management lcore), any number of readers; each word is independent of the others.
class OwnAddresses {
 public:
  /// Repeating either is harmless. Link-local addresses do not belong here: they are valid on their
  /// link only and are in the delivery table.
  void add(const wire::IpAddr& addr);
  void remove(const wire::IpAddr& addr);

  /// addr in host order.
  [[nodiscard]] bool perhaps_v4(std::uint32_t addr) const noexcept {
    return test(bit_of(word_of_v4(addr)));
  }
  [[nodiscard]] bool perhaps(const wire::IpAddr& addr) const noexcept {
    return test(bit_of(word_of(addr)));
  }

 private:
  static constexpr unsigned kBits = 12;

  /// In memory order: an address that was just read from a packet needs no swap.
  static std::uint64_t word_of_v4(std::uint32_t addr) noexcept { return __builtin_bswap32(addr); }
  /// An IPv4 address in memory order; for an IPv6 address, both halves mixed.
  static std::uint64_t word_of(const wire::IpAddr& addr) noexcept {
    if (addr.is_v4()) return word_of_v4(addr.v4_host());
    std::uint64_t high, low;
    std::memcpy(&high, addr.bytes.data(), sizeof(high));
    std::memcpy(&low, addr.bytes.data() + sizeof(high), sizeof(low));
    return high * 0xff51'afd7'ed55'8ccdULL ^ low;
  }
  static std::size_t bit_of(std::uint64_t word) noexcept {
    return static_cast<std::size_t>((word * 0x9e37'79b9'7f4a'7c15ULL) >> (64 - kBits));
  }
  [[nodiscard]] bool test(std::size_t bit) const noexcept {
    return (words_[bit / 64].load(std::memory_order_relaxed) >> (bit % 64) & 1) != 0;
  }

  alignas(64) std::array<std::atomic<std::uint64_t>, (1U << kBits) / 64> words_{};
  std::set<wire::IpAddr> addresses_;  ///< Writer only.
};

}  // namespace ipoib::table
