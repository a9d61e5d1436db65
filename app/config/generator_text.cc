// SPDX-License-Identifier: BSD-3-Clause
#include "app/config/generator_text.h"

#include <fmt/format.h>

#include <array>

namespace ipoib::app {
namespace {

using fwd::GeneratorConfig;
using fwd::PacketRate;

/// Indexed by PacketRate::Unit. The smallest value above 0, and the largest.
struct RateUnit {
  std::string_view name;
  double min, max;
};
constexpr std::array kRateUnits = {RateUnit{"pps", 1, 1e10}, RateUnit{"gbps", 0.001, 10'000},
                                   RateUnit{"percent", 0.01, 100}};

/// Removes and returns the part before the next comma.
std::string_view next_part(std::string_view& text) {
  const auto comma = text.find(',');
  const auto part = text.substr(0, comma);
  text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  return part;
}

std::optional<GeneratorConfig::Addresses> parse_ip_pair(std::string_view text) {
  const auto src = wire::parse_ip(next_part(text));
  const auto dst = wire::parse_ip(text);
  if (!src || !dst || src->is_v4() != dst->is_v4()) return std::nullopt;
  if (wire::is_multicast(*src) || wire::is_multicast(*dst)) return std::nullopt;
  return GeneratorConfig::Addresses{*src, *dst};
}

std::optional<GeneratorConfig::Ports> parse_ports(std::string_view text) {
  const bool two = text.find(',') != std::string_view::npos;
  const auto src = parse_number<std::uint16_t>(next_part(text));
  const auto dst = two ? parse_number<std::uint16_t>(text) : src;
  if (!src || !dst || *src == 0 || *dst == 0) return std::nullopt;
  return GeneratorConfig::Ports{*src, *dst};
}

std::optional<std::vector<std::uint16_t>> parse_sizes(std::string_view text) {
  if (text == "imix") return fwd::imix_sizes();
  std::vector<std::uint16_t> sizes;
  while (!text.empty()) {
    const bool more = text.back() != ',';
    const auto size = parse_number<std::uint16_t>(next_part(text));
    if (!size || *size < GeneratorConfig::kMinSize4 || *size > GeneratorConfig::kMaxSize || !more ||
        sizes.size() == GeneratorConfig::kMaxSizes)
      return std::nullopt;
    sizes.push_back(*size);
  }
  if (sizes.empty()) return std::nullopt;
  return sizes;
}

std::optional<PacketRate> parse_rate(std::string_view text) {
  if (text == "0") return PacketRate{};
  const auto space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto value = parse_number<double>(text.substr(0, space));
  for (std::size_t i = 0; value && i < kRateUnits.size(); ++i) {
    const RateUnit& unit = kRateUnits[i];
    if (text.substr(space + 1) != unit.name) continue;
    if (*value == 0) return PacketRate{};
    if (*value >= unit.min && *value <= unit.max)
      return PacketRate{*value, static_cast<PacketRate::Unit>(i)};
  }
  return std::nullopt;
}

}  // namespace

const TextForm<GeneratorConfig::Addresses>& tx_ip_form() {
  static constexpr TextForm<GeneratorConfig::Addresses> kForm{
      "SRC,DST: IP addresses of hosts, of the same version", parse_ip_pair, [](const auto& v) {
        return fmt::format("{},{}", wire::to_string(v.src), wire::to_string(v.dst));
      }};
  return kForm;
}

const TextForm<GeneratorConfig::Ports>& tx_udp_form() {
  static constexpr TextForm<GeneratorConfig::Ports> kForm{
      "SRC[,DST]: ports, 1-65535", parse_ports,
      [](const auto& v) { return fmt::format("{},{}", v.src, v.dst); }};
  return kForm;
}

const TextForm<std::vector<std::uint16_t>>& packet_sizes_form() {
  static constexpr TextForm<std::vector<std::uint16_t>> kForm{
      "sizes of IP packets in octets, 44-9600 (IPv6: from 64), separated by commas, at most 256; "
      "or imix",
      parse_sizes, [](const auto& v) {
        return v == fwd::imix_sizes() ? "imix" : fmt::format("{}", fmt::join(v, ","));
      }};
  return kForm;
}

const TextForm<PacketRate>& packet_rate_form() {
  static constexpr TextForm<PacketRate> kForm{
      "0, 1-10000000000 pps, 0.001-10000 gbps, 0.01-100 percent", parse_rate, [](const auto& v) {
        if (v.value == 0) return std::string{"0"};
        return fmt::format("{} {}", v.value, kRateUnits[static_cast<std::size_t>(v.unit)].name);
      }};
  return kForm;
}

}  // namespace ipoib::app
