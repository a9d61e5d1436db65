// SPDX-License-Identifier: BSD-3-Clause
// Ones' complement sums of octets at any place, in any number of pieces, for the checksums of TCP.
// Sums are in memory order. Source: RFC 1071.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "lib/base/contract.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// Sum of consecutive octets; 0xffff if they include a correct checksum.
class OnesSum {
 public:
  /// A piece that begins at an odd offset counts with the octets of its words swapped. Source: RFC
  /// 1071 §2 (B).
  void add(std::span<const std::byte> octets) noexcept {
    const std::uint16_t sum = of(octets);
    sum_ += odd_ ? __builtin_bswap16(sum) : sum;
    odd_ ^= octets.size() % 2 != 0;
  }
  /// Adds the sum of `len` octets that follow the previous ones.
  void add(std::uint16_t sum, std::size_t len) noexcept {
    sum_ += odd_ ? __builtin_bswap16(sum) : sum;
    odd_ ^= len % 2 != 0;
  }
  /// Adds a 16-bit number in host order at an even offset.
  void add_word(std::uint16_t host) noexcept { sum_ += __builtin_bswap16(host); }
  /// Adds octets `at` to `at + len` of a packet. Shape: at + len <= m->pkt_len.
  void add(const rte_mbuf* m, std::uint32_t at, std::uint32_t len) noexcept {
    expects(std::uint64_t{at} + len <= m->pkt_len, "the octets are the packet's");
    for (; len != 0; m = m->next) {
      if (at >= m->data_len) {
        at -= m->data_len;
        continue;
      }
      const std::uint32_t n = std::min<std::uint32_t>(len, m->data_len - at);
      add({rte_pktmbuf_mtod_offset(m, const std::byte*, at), n});
      len -= n;
      at = 0;
    }
  }

  [[nodiscard]] std::uint16_t folded() const noexcept { return fold(sum_); }
  /// The checksum in host order, ready to be stored with Be16.
  [[nodiscard]] std::uint16_t checksum() const noexcept {
    return __builtin_bswap16(static_cast<std::uint16_t>(~folded()));
  }

 private:
  static std::uint16_t fold(std::uint64_t sum) noexcept {
    sum = (sum & 0xffff'ffff) + (sum >> 32);
    sum = (sum & 0xffff'ffff) + (sum >> 32);
    return wire::fold_carries(static_cast<std::uint32_t>(sum));
  }
  static std::uint16_t of(std::span<const std::byte> octets) noexcept {
    std::uint64_t sum = 0;
    const std::byte* p = octets.data();
    const std::size_t words = octets.size() / sizeof(std::uint32_t);
    for (std::size_t i = 0; i < words; ++i, p += sizeof(std::uint32_t)) {
      std::uint32_t word;
      std::memcpy(&word, p, sizeof(word));
      sum += word;
    }
    std::uint32_t tail = 0;
    std::memcpy(&tail, p, octets.size() % sizeof(tail));
    return fold(sum + tail);
  }

  std::uint64_t sum_ = 0;
  bool odd_ = false;
};

}  // namespace ipoib::fwd
