// SPDX-License-Identifier: BSD-3-Clause
#include "app/config/filter_text.h"

#include <fmt/format.h>

#include "lib/wire/ip_prefix.h"

namespace ipoib::app {
namespace {

std::optional<std::uint8_t> parse_protocol(std::string_view text) {
  for (const auto& [name, number] : kProtocolNames)
    if (name == text) return number;
  return parse_number<std::uint8_t>(text);
}

std::string format_protocol(const std::uint8_t& protocol) {
  for (const auto& [name, number] : kProtocolNames)
    if (number == protocol) return std::string{name};
  return std::to_string(protocol);
}

std::optional<fwd::PortRange> parse_port_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = parse_number<std::uint16_t>(text.substr(0, dash));
  const auto last =
      dash == std::string_view::npos ? first : parse_number<std::uint16_t>(text.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return fwd::PortRange{*first, *last};
}

std::string format_port_range(const fwd::PortRange& ports) {
  return ports.first == ports.last ? std::to_string(ports.first)
                                   : fmt::format("{}-{}", ports.first, ports.last);
}

std::optional<wire::IpPrefix> parse_filter_prefix(std::string_view text) {
  if (const auto addr = wire::parse_ip(text)) return wire::host_prefix(*addr);
  const auto prefix = wire::parse_prefix(text);
  return prefix && prefix->addr == wire::network(*prefix) ? prefix : std::nullopt;
}

std::string format_filter_prefix(const wire::IpPrefix& prefix) {
  return wire::to_string(prefix);
}

}  // namespace

const TextForm<std::uint8_t>& protocol_form() {
  static const TextForm<std::uint8_t> kForm{"icmp, igmp, tcp, udp, icmpv6, or 0-255",
                                            &parse_protocol, &format_protocol};
  return kForm;
}

const TextForm<fwd::PortRange>& port_range_form() {
  static const TextForm<fwd::PortRange> kForm{"a port or FIRST-LAST, 0-65535", &parse_port_range,
                                              &format_port_range};
  return kForm;
}

const TextForm<wire::IpPrefix>& filter_prefix_form() {
  static const TextForm<wire::IpPrefix> kForm{"IP prefix without host bits, or IP address",
                                              &parse_filter_prefix, &format_filter_prefix};
  return kForm;
}

}  // namespace ipoib::app
