// SPDX-License-Identifier: BSD-3-Clause
#include "app/config/header_text.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace ipoib::app {
namespace {

using Name = std::pair<std::string_view, std::uint8_t>;

/// Source: registry "IP Option Numbers".
constexpr std::array<Name, 20> kOptionNames = {
    {{"rr", 7},       {"zsu", 10},     {"mtup", 11},  {"mtur", 12},   {"encode", 15},
     {"qs", 25},      {"ts", 68},      {"tr", 82},    {"sec", 130},   {"e-sec", 133},
     {"cipso", 134},  {"sid", 136},    {"visa", 142}, {"imitd", 144}, {"eip", 145},
     {"addext", 147}, {"rtralt", 148}, {"sdb", 149},  {"dps", 151},   {"ump", 152}}};

/// Source: registry "Assigned Internet Protocol Numbers".
constexpr std::array<Name, 9> kExtensionNames = {{{"hopopt", 0},
                                                  {"ipv6-route", 43},
                                                  {"ipv6-frag", 44},
                                                  {"esp", 50},
                                                  {"ah", 51},
                                                  {"ipv6-opts", 60},
                                                  {"mobility-header", 135},
                                                  {"hip", 139},
                                                  {"shim6", 140}}};
constexpr std::string_view kRoutingType = "ipv6-route-";

template <std::size_t kN>
std::optional<std::uint8_t> number_of(const std::array<Name, kN>& names, std::string_view text) {
  for (const auto& [name, number] : names)
    if (name == text) return number;
  return parse_number<std::uint8_t>(text);
}

template <std::size_t kN>
std::string name_of(const std::array<Name, kN>& names, std::uint8_t number) {
  for (const auto& [name, of] : names)
    if (of == number) return std::string{name};
  return std::to_string(number);
}

template <std::size_t kN>
std::string names_of(const std::array<Name, kN>& names) {
  std::string text;
  for (const auto& [name, number] : names) text += fmt::format("{}, ", name);
  return text;
}

std::optional<std::uint8_t> parse_option(std::string_view text) {
  const auto type = number_of(kOptionNames, text);
  return type && *type > 1 && !fwd::is_source_route(*type) ? type : std::nullopt;
}

std::string format_option(const std::uint8_t& type) {
  return name_of(kOptionNames, type);
}

std::optional<fwd::Ip6Extension> parse_extension(std::string_view text) {
  if (text.starts_with(kRoutingType)) {
    const auto type = parse_number<std::uint8_t>(text.substr(kRoutingType.size()));
    if (!type || *type == 0) return std::nullopt;
    return fwd::Ip6Extension{wire::kRoutingHeader, type};
  }
  const auto header = number_of(kExtensionNames, text);
  if (!header || !fwd::is_ip6_extension(*header)) return std::nullopt;
  return fwd::Ip6Extension{*header};
}

std::string format_extension(const fwd::Ip6Extension& extension) {
  if (extension.routing_type) return fmt::format("{}{}", kRoutingType, *extension.routing_type);
  return name_of(kExtensionNames, extension.header);
}

}  // namespace

const TextForm<std::uint8_t>& ip_option_form() {
  static const std::string kAllowed =
      names_of(kOptionNames) + "or 2-255, except source routes (131, 137), which never pass";
  static const TextForm<std::uint8_t> kForm{kAllowed, &parse_option, &format_option};
  return kForm;
}

const TextForm<fwd::Ip6Extension>& ip6_extension_form() {
  static const std::string kAllowed =
      names_of(kExtensionNames) +
      "ipv6-route-1 to ipv6-route-255 (type 0, source routes, never passes), 253, 254, or the "
      "number of such a header";
  static const TextForm<fwd::Ip6Extension> kForm{kAllowed, &parse_extension, &format_extension};
  return kForm;
}

}  // namespace ipoib::app
