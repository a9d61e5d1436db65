// SPDX-License-Identifier: BSD-3-Clause
// Big-endian integers of wire records, stored as bytes, so a record has alignment 1 and may lie at
// any address. Conversion is explicit in both directions on purpose.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace ipoib::wire {

template <class T>
class Be {
  static_assert(std::is_unsigned_v<T>);

 public:
  constexpr Be() noexcept = default;
  constexpr explicit Be(T host) noexcept { set(host); }

  [[nodiscard]] constexpr T host() const noexcept { return swap(std::bit_cast<T>(bytes_)); }
  constexpr void set(T host) noexcept { bytes_ = std::bit_cast<Bytes>(swap(host)); }

  /// Compares as one number; a defaulted operator would compare octet by octet.
  friend constexpr bool operator==(const Be& a, const Be& b) noexcept {
    return std::bit_cast<T>(a.bytes_) == std::bit_cast<T>(b.bytes_);
  }

 private:
  using Bytes = std::array<std::byte, sizeof(T)>;
  static_assert(std::endian::native == std::endian::little, "DPDK's x86-64 and arm64 are both");

  static constexpr T swap(T v) noexcept {
    if constexpr (sizeof(T) == 2) return __builtin_bswap16(v);
    if constexpr (sizeof(T) == 4) return __builtin_bswap32(v);
    if constexpr (sizeof(T) == 8) return __builtin_bswap64(v);
    return v;
  }
  Bytes bytes_{};
};

using Be16 = Be<std::uint16_t>;
using Be32 = Be<std::uint32_t>;
using Be64 = Be<std::uint64_t>;

/// 24-bit big-endian integer (QPN, PSN, producer type).
class Be24 {
 public:
  constexpr Be24() noexcept = default;
  constexpr explicit Be24(std::uint32_t host) noexcept { set(host); }
  [[nodiscard]] constexpr std::uint32_t host() const noexcept {
    return std::to_integer<std::uint32_t>(bytes_[0]) << 16 |
           std::to_integer<std::uint32_t>(bytes_[1]) << 8 |
           std::to_integer<std::uint32_t>(bytes_[2]);
  }
  /// Takes the low 24 bits.
  constexpr void set(std::uint32_t host) noexcept {
    bytes_ = {static_cast<std::byte>(host >> 16), static_cast<std::byte>(host >> 8),
              static_cast<std::byte>(host)};
  }
  friend constexpr bool operator==(const Be24&, const Be24&) noexcept = default;

 private:
  std::array<std::byte, 3> bytes_{};
};

/// Trivially copyable type with alignment 1, so it can be copied out of any octets.
template <class T>
concept WireRecord = std::is_trivially_copyable_v<T> && alignof(T) == 1;

/// Copies a record out of the octets at `offset`; empty if they do not hold the whole record.
template <WireRecord T>
[[nodiscard]] std::optional<T> read(std::span<const std::byte> bytes, std::size_t offset = 0) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T record;
  std::memcpy(&record, bytes.data() + offset, sizeof(T));
  return record;
}

/// Copies a record into the octets at `offset`. Returns false and writes nothing if it does not
/// fit.
template <WireRecord T>
[[nodiscard]] bool write(std::span<std::byte> bytes, std::size_t offset, const T& record) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
  std::memcpy(bytes.data() + offset, &record, sizeof(T));
  return true;
}

template <WireRecord T>
[[nodiscard]] std::span<const std::byte, sizeof(T)> bytes_of(const T& record) {
  return std::as_bytes(std::span<const T, 1>{&record, 1});
}

}  // namespace ipoib::wire
