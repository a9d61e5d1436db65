// SPDX-License-Identifier: BSD-3-Clause
// What test packets look like, as people write it: in the configuration, in arguments, in commands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/fwd/generator_config.h"

namespace ipoib::app {

/// A kind of value: what it is, and the way to and from text.
template <class T>
struct TextForm {
  std::string_view allowed;
  std::optional<T> (*parse)(std::string_view text);
  std::string (*format)(const T& value);
};

/// "198.18.0.1,198.18.0.2".
[[nodiscard]] const TextForm<fwd::GeneratorConfig::Addresses>& tx_ip_form();
/// "9" for both, "1000,2000".
[[nodiscard]] const TextForm<fwd::GeneratorConfig::Ports>& tx_udp_form();
/// "64", "64,576,1500", "imix".
[[nodiscard]] const TextForm<std::vector<std::uint16_t>>& packet_sizes_form();
/// "0", "1000 pps", "2.5 gbps", "10 percent".
[[nodiscard]] const TextForm<fwd::PacketRate>& packet_rate_form();

}  // namespace ipoib::app
