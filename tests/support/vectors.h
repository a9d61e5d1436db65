// SPDX-License-Identifier: BSD-3-Clause
// Reads the test vectors: JSON files with octets as hex strings in wire order. A file that cannot
// be read causes an exception, which fails the test.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ipoib::test {

using Bytes = std::vector<std::byte>;

inline std::string vector_path(std::string_view file) {
  return std::string{IPOIB_VECTORS_DIR} + '/' + std::string{file};
}

inline nlohmann::json load_json(const std::string& path) {
  std::ifstream in{path};
  if (!in) throw std::runtime_error("cannot open " + path);
  return nlohmann::json::parse(in);
}
inline nlohmann::json load_vectors(std::string_view file) {
  return load_json(vector_path(file));
}

inline Bytes unhex(std::string_view hex) {
  if (hex.size() % 2 != 0) throw std::runtime_error("odd number of hex digits");
  Bytes bytes;
  bytes.reserve(hex.size() / 2);
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoul(std::string{hex.substr(i, 2)}, nullptr, 16)));
  return bytes;
}
/// The octets of a vector's field.
inline Bytes octets(const nlohmann::json& hex) {
  return unhex(std::string_view{hex.get_ref<const std::string&>()});
}

inline std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const std::byte b : bytes) {
    hex += kDigits[std::to_integer<std::size_t>(b >> 4)];
    hex += kDigits[std::to_integer<std::size_t>(b & std::byte{0x0f})];
  }
  return hex;
}

/// Numbers as the vectors write them: 17, "17" or "0x11".
inline std::uint64_t number(const nlohmann::json& value) {
  if (value.is_number()) return value.get<std::uint64_t>();
  return std::stoull(value.get<std::string>(), nullptr, 0);
}

}  // namespace ipoib::test
