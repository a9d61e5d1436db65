// SPDX-License-Identifier: BSD-3-Clause
// Text forms of the packet generator's settings, for the configuration, arguments and commands.
#pragma once

#include <cstdint>
#include <vector>

#include "app/config/text_form.h"
#include "lib/fwd/generator_config.h"

namespace ipoib::app {

/// "198.18.0.1,198.18.0.2".
[[nodiscard]] const TextForm<fwd::GeneratorConfig::Addresses>& tx_ip_form();
/// "9" for both ports, "1000,2000" for source and destination.
[[nodiscard]] const TextForm<fwd::GeneratorConfig::Ports>& tx_udp_form();
/// "64", "64,576,1500", "imix".
[[nodiscard]] const TextForm<std::vector<std::uint16_t>>& packet_sizes_form();
/// "0", "1000 pps", "2.5 gbps", "10 percent".
[[nodiscard]] const TextForm<fwd::PacketRate>& packet_rate_form();

}  // namespace ipoib::app
