// SPDX-License-Identifier: BSD-3-Clause
// Types of option values. A codec describes the values that it accepts (type, allowed), reads a
// value from the file and writes one in the same form. read() reports any other value and returns
// nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/config/config_report.h"
#include "app/config/generator_text.h"
#include "lib/base/clock.h"
#include "lib/mgmt/node_config.h"
#include "lib/wire/ip.h"

namespace ipoib::app {

/// Returns the form of the file: "wire", "umad:mlx5_0", "umad:mlx5_0:2".
[[nodiscard]] std::string to_string(const mgmt::MadConfig& mad);

/// Returns type and range in one phrase, for errors.
[[nodiscard]] std::string phrase(std::string_view type, std::string_view allowed);

struct Integer {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
  bool hex = false;

  [[nodiscard]] std::string type() const { return "integer"; }
  [[nodiscard]] std::string allowed() const;
  [[nodiscard]] bool allows(std::int64_t value) const { return value >= min && value <= max; }
  [[nodiscard]] std::optional<std::int64_t> read(const Field& field) const;
  [[nodiscard]] std::string write(std::int64_t value) const;
};

/// One of a few integers.
struct IntegerOf {
  std::vector<std::int64_t> values;

  [[nodiscard]] std::string type() const { return "integer"; }
  [[nodiscard]] std::string allowed() const;
  [[nodiscard]] bool allows(std::int64_t value) const {
    return std::ranges::count(values, value) != 0;
  }
  [[nodiscard]] std::optional<std::int64_t> read(const Field& field) const;
  [[nodiscard]] std::string write(std::int64_t value) const { return std::to_string(value); }
};

/// "auto", or one of `values`, an Integer or IntegerOf.
template <class Values>
struct AutoOr {
  Values values;
  std::int64_t automatic;  ///< The value of "auto".

  [[nodiscard]] std::string type() const { return values.type(); }
  [[nodiscard]] std::string allowed() const { return "auto | " + values.allowed(); }
  [[nodiscard]] std::optional<std::int64_t> read(const Field& field) const {
    if (field.node().value_exact<std::string>() == "auto") return automatic;
    if (const auto* value = field.node().as_integer(); value && values.allows(value->get()))
      return value->get();
    field.reject(phrase(type(), allowed()));
    return std::nullopt;
  }
  [[nodiscard]] std::string write(std::int64_t value) const {
    return value == automatic ? "\"auto\"" : values.write(value);
  }
};

/// A P_Key: 15 bits that are not all zero, and the bit of full membership.
struct Pkey {
  [[nodiscard]] std::string type() const { return "integer"; }
  [[nodiscard]] std::string allowed() const { return "0x0001-0x7fff, 0x8001-0xffff"; }
  [[nodiscard]] std::optional<std::uint16_t> read(const Field& field) const;
  [[nodiscard]] std::string write(std::uint16_t value) const;
};

struct Boolean {
  [[nodiscard]] std::string type() const { return "boolean"; }
  [[nodiscard]] std::string allowed() const { return "true | false"; }
  [[nodiscard]] std::optional<bool> read(const Field& field) const;
  [[nodiscard]] std::string write(bool value) const { return value ? "true" : "false"; }
};

/// "on" and "off", or a boolean.
struct Switch {
  [[nodiscard]] std::string type() const { return "string or boolean"; }
  [[nodiscard]] std::string allowed() const { return "\"on\" | \"off\" | true | false"; }
  [[nodiscard]] std::optional<bool> read(const Field& field) const;
  [[nodiscard]] std::string write(bool value) const { return value ? "\"on\"" : "\"off\""; }
};

/// Seconds, whole or with a fraction.
struct Seconds {
  double min = 0.001;
  double max = 86400;

  [[nodiscard]] std::string type() const { return "seconds"; }
  [[nodiscard]] std::string allowed() const;
  [[nodiscard]] std::optional<Duration> read(const Field& field) const;
  [[nodiscard]] std::string write(Duration value) const;
};

/// Gb/s. 2.5 is stored as 2, as in SubnetConfig.
struct Rate {
  [[nodiscard]] std::string type() const { return "number"; }
  [[nodiscard]] std::string allowed() const;
  [[nodiscard]] std::optional<unsigned> read(const Field& field) const;
  [[nodiscard]] std::string write(unsigned value) const;
};

/// Text of printable characters.
struct Text {
  std::size_t longest = 63;

  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string allowed() const;
  [[nodiscard]] std::optional<std::string> read(const Field& field) const;
  [[nodiscard]] std::string write(const std::string& value) const { return quote(value); }
};

/// One of a few names.
template <class T>
struct OneOf {
  std::vector<std::pair<std::string, T>> values;

  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string allowed() const {
    std::string text;
    for (const auto& [name, value] : values) text += (text.empty() ? "" : " | ") + quote(name);
    return text;
  }
  [[nodiscard]] std::optional<T> read(const Field& field) const {
    const auto text = field.node().template value_exact<std::string>().value_or("");
    for (const auto& [name, value] : values)
      if (name == text) return value;
    field.reject(phrase(type(), allowed()));
    return std::nullopt;
  }
  [[nodiscard]] std::string write(const T& value) const {
    for (const auto& [name, v] : values)
      if (v == value) return quote(name);
    return {};
  }
  /// The enumerators of `T`, which index `names`.
  template <std::size_t kN>
  [[nodiscard]] static OneOf named(const std::array<std::string_view, kN>& names) {
    OneOf all;
    for (std::size_t i = 0; i < kN; ++i) all.values.emplace_back(names[i], static_cast<T>(i));
    return all;
  }
};

/// "wire", or a libibumad device, optionally with its port number.
struct MadRoute {
  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string allowed() const {
    return "\"wire\" | \"umad:DEVICE\" | \"umad:DEVICE:PORT\"";
  }
  [[nodiscard]] std::optional<mgmt::MadConfig> read(const Field& field) const;
  [[nodiscard]] std::string write(const mgmt::MadConfig& value) const {
    return quote(to_string(value));
  }
};

/// 64-bit GUID: "0x0002c903000a0b01", not zero.
struct Guid {
  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string allowed() const { return "\"0x\" and 1-16 hexadecimal digits, not 0"; }
  [[nodiscard]] std::optional<std::uint64_t> read(const Field& field) const;
  [[nodiscard]] std::string write(std::uint64_t value) const;
};

/// IPv4 or IPv6 address of a host.
struct Address {
  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string allowed() const { return "IP address of a host, \"10.0.0.2\""; }
  [[nodiscard]] std::optional<wire::IpAddr> read(const Field& field) const;
  [[nodiscard]] std::string write(const wire::IpAddr& value) const {
    return quote(wire::to_string(value));
  }
};

/// Address of a router, which may be link-local.
struct Gateway : Address {
  [[nodiscard]] std::optional<wire::IpAddr> read(const Field& field) const;
};

/// An IP multicast address.
struct Group {
  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string allowed() const { return "IP multicast address, \"239.1.1.1\""; }
  [[nodiscard]] std::optional<wire::IpAddr> read(const Field& field) const;
  [[nodiscard]] std::string write(const wire::IpAddr& value) const {
    return quote(wire::to_string(value));
  }
};

/// One multicast address, or a prefix of multicast addresses.
struct Groups {
  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string allowed() const {
    return "IP multicast address or prefix, \"239.1.1.1\" or \"239.1.0.0/16\"";
  }
  [[nodiscard]] std::optional<wire::IpPrefix> read(const Field& field) const;
  [[nodiscard]] std::string write(const wire::IpPrefix& value) const;
};

/// Address of one host, or "any".
struct Source {
  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string allowed() const { return "any or an IP address of a host"; }
  [[nodiscard]] std::optional<wire::IpAddr> read(const Field& field) const;
  [[nodiscard]] std::string write(const wire::IpAddr& value) const {
    return value == wire::IpAddr{} ? "\"any\"" : quote(wire::to_string(value));
  }
};

/// Address of an interface with its prefix length.
struct InterfaceAddress {
  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string allowed() const {
    return "IP address of a host and prefix length, \"10.0.0.1/24\"";
  }
  [[nodiscard]] std::optional<wire::IpPrefix> read(const Field& field) const;
  [[nodiscard]] std::string write(const wire::IpPrefix& value) const {
    return quote(wire::to_string(value));
  }
};

/// IP prefix of a route, host bits zero.
struct Prefix {
  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string allowed() const {
    return "IP prefix without host bits, \"192.168.2.0/24\"";
  }
  [[nodiscard]] std::optional<wire::IpPrefix> read(const Field& field) const;
  [[nodiscard]] std::string write(const wire::IpPrefix& value) const {
    return quote(wire::to_string(value));
  }
};

/// 20 octets (IPoIB) or 6 (Ethernet). check_ip() checks that the form fits the interface.
struct LinkLayerAddress {
  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string allowed() const {
    return "20 octets (link; 32 with dialect ibarp2001) or 6 octets (port) in hexadecimal, "
           "separated by colons";
  }
  [[nodiscard]] std::optional<std::string> read(const Field& field) const;
  [[nodiscard]] std::string write(const std::string& value) const { return quote(value); }
};

/// Text in the notation of `form`. An integer needs no quotes.
template <class T>
struct Written {
  const TextForm<T>& form;

  [[nodiscard]] std::string type() const { return "string"; }
  [[nodiscard]] std::string allowed() const { return std::string{form.allowed}; }
  [[nodiscard]] std::optional<T> read(const Field& field) const {
    std::string text = field.node().template value_exact<std::string>().value_or("");
    if (const auto* number = field.node().as_integer()) text = std::to_string(number->get());
    auto value = form.parse(text);
    if (!value) field.reject(phrase(type(), allowed()));
    return value;
  }
  [[nodiscard]] std::string write(const T& value) const { return quote(form.format(value)); }
};

/// An array of values of another type. A single value counts as an array of one.
template <class Codec>
struct ListOf {
  Codec element;
  std::size_t min_size = 0;
  std::size_t max_size = 128;

  [[nodiscard]] std::string type() const { return "list of " + element.type(); }
  [[nodiscard]] std::string allowed() const {
    return fmt::format("{}-{} of: {}", min_size, max_size, element.allowed());
  }
  [[nodiscard]] auto read(const Field& field) const {
    using Element = typename decltype(element.read(field))::value_type;
    std::optional<std::vector<Element>> result{std::in_place};
    const auto take = [&](const toml::node& node) {
      auto value = element.read(field.at(node));
      if (!value)
        result.reset();
      else if (result)
        result->push_back(*std::move(value));
    };
    const auto* array = field.node().as_array();
    if (array == nullptr) {
      take(field.node());
    } else if (array->size() < min_size || array->size() > max_size) {
      field.reject(phrase(type(), allowed()));
      result.reset();
    } else {
      for (const auto& node : *array) take(node);
    }
    return result;
  }
  template <class Values>
  [[nodiscard]] std::string write(const Values& values) const {
    std::string text;
    for (const auto& v : values) text += (text.empty() ? "" : ", ") + element.write(v);
    return "[" + text + "]";
  }
};

/// The workers of one port or HCA: a number, or a list without repetitions.
struct Workers {
  [[nodiscard]] std::string type() const { return "integer or list"; }
  [[nodiscard]] std::string allowed() const { return "WORKER | [WORKER, ...], each once, 0-127"; }
  [[nodiscard]] std::optional<std::vector<unsigned>> read(const Field& field) const;
  [[nodiscard]] std::string write(const std::vector<unsigned>& value) const;
};

/// Port or HCA name -> its workers; "auto" is the empty map.
struct Assignment {
  using Map = std::map<std::string, std::vector<unsigned>>;

  [[nodiscard]] std::string type() const { return "string or table"; }
  [[nodiscard]] std::string allowed() const {
    return "\"auto\" | { NAME = WORKER | [WORKER, ...], ... }, workers from 0";
  }
  [[nodiscard]] std::optional<Map> read(const Field& field) const;
  [[nodiscard]] std::string write(const Map& value) const;
};

}  // namespace ipoib::app
