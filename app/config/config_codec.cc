// SPDX-License-Identifier: BSD-3-Clause
#include "app/config/config_codec.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lib/wire/gid.h"
#include "lib/wire/iba.h"
#include "lib/wire/ip_prefix.h"
#include "lib/wire/ipoib.h"

namespace ipoib::app {
namespace {

template <class Codec>
void reject(const Codec& codec, const Field& field) {
  field.reject(phrase(codec.type(), codec.allowed()));
}

/// Reports a value that is no such address. `where`: the place that names the interface instead of a
/// zone, which is the part of "fe80::1%ib0" behind the percent sign (RFC 4007 §11).
template <class Codec>
void reject_address(const Codec& codec, const Field& field, std::string_view where) {
  std::string allowed = phrase(codec.type(), codec.allowed());
  if (const auto* text = field.node().as_string();
      text != nullptr && text->get().find('%') != std::string::npos)
    allowed += fmt::format(", without a zone: {} names the interface", where);
  field.reject(allowed);
}

/// Returns the string in the tree; null if the value is not a string.
const std::string* text_of(const Field& field) {
  const auto* value = field.node().as_string();
  return value == nullptr ? nullptr : &value->get();
}

std::optional<double> number_of(const Field& field) {
  if (const auto* i = field.node().as_integer()) return static_cast<double>(i->get());
  if (const auto* f = field.node().as_floating_point())
    if (std::isfinite(f->get())) return f->get();
  return std::nullopt;
}

/// True for an address of one host: not "this network", loopback, multicast or class E, and not an
/// IPv6 link-local address.
bool is_host_address(const wire::IpAddr& addr) {
  if (!addr.is_v4()) {
    constexpr wire::IpAddr kLoopback = [] {
      wire::IpAddr a;
      a.bytes[15] = std::byte{1};
      return a;
    }();
    return addr != wire::IpAddr{} && addr != kLoopback && !wire::is_multicast(addr) &&
           !wire::is_link_local6(addr);
  }
  const auto first = addr.v4_host() >> 24;
  return first != 0 && first != 127 && first < 224;
}

}  // namespace

std::string phrase(std::string_view type, std::string_view allowed) {
  return allowed.empty() ? std::string{type} : fmt::format("{} {}", type, allowed);
}

std::string Integer::allowed() const {
  return fmt::format("{}-{}", write(min), write(max));
}

std::optional<std::int64_t> Integer::read(const Field& field) const {
  const auto* value = field.node().as_integer();
  if (value != nullptr && allows(value->get())) return value->get();
  reject(*this, field);
  return std::nullopt;
}

std::string Integer::write(std::int64_t value) const {
  return hex ? fmt::format("{:#x}", value) : std::to_string(value);
}

std::string IntegerOf::allowed() const {
  return fmt::format("{}", fmt::join(values, " | "));
}

std::optional<std::int64_t> IntegerOf::read(const Field& field) const {
  const auto* value = field.node().as_integer();
  if (value != nullptr && allows(value->get())) return value->get();
  reject(*this, field);
  return std::nullopt;
}

std::optional<std::uint16_t> Pkey::read(const Field& field) const {
  const auto* value = field.node().as_integer();
  if (value != nullptr && value->get() > 0 && value->get() <= 0xffff &&
      (value->get() & 0x7fff) != 0)
    return static_cast<std::uint16_t>(value->get());
  reject(*this, field);
  return std::nullopt;
}

std::string Pkey::write(std::uint16_t value) const {
  return fmt::format("{:#06x}", value);
}

std::optional<bool> Boolean::read(const Field& field) const {
  if (const auto* value = field.node().as_boolean()) return value->get();
  reject(*this, field);
  return std::nullopt;
}

std::optional<bool> Switch::read(const Field& field) const {
  if (const auto* value = field.node().as_boolean()) return value->get();
  if (const auto* text = text_of(field); text != nullptr && (*text == "on" || *text == "off"))
    return *text == "on";
  reject(*this, field);
  return std::nullopt;
}

std::string Seconds::allowed() const {
  return fmt::format("{}-{}", min, max);
}

std::optional<Duration> Seconds::read(const Field& field) const {
  const auto value = number_of(field);
  if (value && *value >= min && *value <= max)
    return Duration{std::llround(*value * 1e6) * 1000};  // Rounded to the microsecond.
  reject(*this, field);
  return std::nullopt;
}

std::string Seconds::write(Duration value) const {
  return fmt::format("{}", std::chrono::duration<double>(value).count());
}

std::string Rate::allowed() const {
  std::vector<unsigned> mbps;
  for (std::uint8_t code = 0; code < 64; ++code)
    if (const unsigned rate = wire::rate_mbps(code); rate != 0) mbps.push_back(rate);
  std::sort(mbps.begin(), mbps.end());
  std::string text;
  for (const unsigned m : mbps) text += (text.empty() ? "" : " | ") + write(m / 1000);
  return text;
}

std::optional<unsigned> Rate::read(const Field& field) const {
  const auto value = number_of(field);
  if (value && *value == 2.5) return 2;
  if (value && *value > 2.5 && *value <= 1200 && *value == std::floor(*value) &&
      wire::rate_code(static_cast<unsigned>(*value)) != 0)
    return static_cast<unsigned>(*value);
  reject(*this, field);
  return std::nullopt;
}

std::string Rate::write(unsigned value) const {
  return value == 2 ? "2.5" : std::to_string(value);
}

std::string Text::allowed() const {
  return fmt::format("1-{} printable characters", longest);
}

std::optional<std::string> Text::read(const Field& field) const {
  const auto* text = text_of(field);
  const auto prints = [](char c) { return c > ' ' && c < 0x7f; };
  if (text != nullptr && !text->empty() && text->size() <= longest &&
      std::all_of(text->begin(), text->end(), prints))
    return *text;
  reject(*this, field);
  return std::nullopt;
}

std::string to_string(const mgmt::MadConfig& mad) {
  if (mad.device.empty()) return "wire";
  return mad.port == 0 ? "umad:" + mad.device : fmt::format("umad:{}:{}", mad.device, mad.port);
}

std::optional<mgmt::MadConfig> MadRoute::read(const Field& field) const {
  constexpr std::string_view kUmad = "umad:";
  constexpr std::size_t kMaxDeviceLen = 19;  // UMAD_CA_NAME_LEN without the terminating zero.
  constexpr unsigned kLastPort = 254;
  const auto* text = text_of(field);
  if (text != nullptr && *text == "wire") return mgmt::MadConfig{};
  if (text != nullptr && text->starts_with(kUmad)) {
    const auto colon = text->find(':', kUmad.size());
    mgmt::MadConfig mad{text->substr(kUmad.size(), colon - kUmad.size()), 0};
    bool good = !mad.device.empty() && mad.device.size() <= kMaxDeviceLen &&
                mad.device.find_first_of(" /") == std::string::npos;
    if (colon != std::string::npos) {
      const char* end = text->data() + text->size();
      const auto result = std::from_chars(text->data() + colon + 1, end, mad.port);
      good = good && result.ec == std::errc{} && result.ptr == end && mad.port >= 1 &&
             mad.port <= kLastPort;
    }
    if (good) return mad;
  }
  reject(*this, field);
  return std::nullopt;
}

std::optional<std::uint64_t> Guid::read(const Field& field) const {
  const auto* text = text_of(field);
  std::uint64_t value = 0;
  if (text != nullptr && text->starts_with("0x")) {
    const char* end = text->data() + text->size();
    const auto result = std::from_chars(text->data() + 2, end, value, 16);
    if (result.ec == std::errc{} && result.ptr == end && text->size() <= 18 && value != 0)
      return value;
  }
  reject(*this, field);
  return std::nullopt;
}

std::string Guid::write(std::uint64_t value) const {
  return fmt::format("\"{:#018x}\"", value);
}

std::optional<wire::IpAddr> Address::read(const Field& field) const {
  const auto* text = text_of(field);
  const auto addr = text != nullptr ? wire::parse_ip(*text) : std::nullopt;
  if (addr && is_host_address(*addr)) return addr;
  reject_address(*this, field, "the key link");
  return std::nullopt;
}

std::optional<wire::IpAddr> Gateway::read(const Field& field) const {
  const auto* text = text_of(field);
  const auto addr = text != nullptr ? wire::parse_ip(*text) : std::nullopt;
  if (addr && (is_host_address(*addr) || wire::is_link_local6(*addr))) return addr;
  reject_address(*this, field, "the key interface");
  return std::nullopt;
}

std::optional<wire::IpAddr> Group::read(const Field& field) const {
  const auto* text = text_of(field);
  const auto addr = text != nullptr ? wire::parse_ip(*text) : std::nullopt;
  if (addr && wire::is_multicast(*addr)) return addr;
  reject_address(*this, field, "the section");
  return std::nullopt;
}

std::optional<wire::IpPrefix> Groups::read(const Field& field) const {
  const auto* text = text_of(field);
  if (const auto addr = text != nullptr ? wire::parse_ip(*text) : std::nullopt;
      addr && wire::is_multicast(*addr))
    return wire::host_prefix(*addr);
  const auto prefix = text != nullptr ? wire::parse_prefix(*text) : std::nullopt;
  if (prefix && wire::is_multicast(*prefix) && prefix->addr == wire::network(*prefix))
    return prefix;
  reject_address(*this, field, "the key in");
  return std::nullopt;
}

std::string Groups::write(const wire::IpPrefix& value) const {
  return quote(wire::is_host(value) ? wire::to_string(value.addr) : wire::to_string(value));
}

std::optional<wire::IpAddr> Source::read(const Field& field) const {
  const auto* text = text_of(field);
  if (text != nullptr && *text == "any") return wire::IpAddr{};
  const auto addr = text != nullptr ? wire::parse_ip(*text) : std::nullopt;
  if (addr && is_host_address(*addr)) return addr;
  reject_address(*this, field, "the key in");
  return std::nullopt;
}

std::optional<wire::IpPrefix> InterfaceAddress::read(const Field& field) const {
  const auto* text = text_of(field);
  const auto prefix = text != nullptr ? wire::parse_prefix(*text) : std::nullopt;
  if (prefix && wire::is_interface_address(*prefix)) return prefix;
  reject_address(*this, field, "the section");
  return std::nullopt;
}

std::optional<wire::IpPrefix> Prefix::read(const Field& field) const {
  const auto* text = text_of(field);
  const auto prefix = text != nullptr ? wire::parse_prefix(*text) : std::nullopt;
  const bool unicast = prefix && (prefix->len == 0 || is_host_address(prefix->addr)) &&
                       prefix->addr == wire::network(*prefix);
  if (unicast) return prefix;
  reject_address(*this, field, "the key interface");
  return std::nullopt;
}

std::optional<std::string> LinkLayerAddress::read(const Field& field) const {
  const auto* text = text_of(field);
  if (text != nullptr && wire::parse_hw_addr(*text)) return *text;
  reject(*this, field);
  return std::nullopt;
}

std::optional<std::vector<unsigned>> Workers::read(const Field& field) const {
  std::vector<unsigned> workers;
  bool good = true;
  const auto take = [&](const toml::node& node) {
    const auto number = node.value_exact<std::int64_t>();
    good = good && number && *number >= 0 && *number <= 127 &&
           std::count(workers.begin(), workers.end(), *number) == 0;
    if (good) workers.push_back(static_cast<unsigned>(*number));
  };
  if (const auto* list = field.node().as_array())
    for (const auto& node : *list) take(node);
  else
    take(field.node());
  if (good && !workers.empty()) return workers;
  reject(*this, field);
  return std::nullopt;
}

std::string Workers::write(const std::vector<unsigned>& value) const {
  return value.size() == 1 ? std::to_string(value.front())
                           : fmt::format("[{}]", fmt::join(value, ", "));
}

std::optional<Assignment::Map> Assignment::read(const Field& field) const {
  std::optional<Map> result{std::in_place};
  if (const auto* text = text_of(field); text != nullptr && *text == "auto") return result;
  const auto* table = field.node().as_table();
  if (table == nullptr) {
    reject(*this, field);
    return std::nullopt;
  }
  for (const auto& [name, node] : *table) {
    const auto workers = Workers{}.read(field.at(node));
    if (workers && result) result->emplace(name.str(), *workers);
    if (!workers) result.reset();
  }
  return result;
}

std::string Assignment::write(const Map& value) const {
  if (value.empty()) return "\"auto\"";
  std::string text;
  for (const auto& [name, workers] : value)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, Workers{}.write(workers));
  return "{ " + text + " }";
}

}  // namespace ipoib::app
