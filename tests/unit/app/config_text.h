// SPDX-License-Identifier: BSD-3-Clause
// A small configuration without faults, which tests extend with theirs, and the errors as lines.
#pragma once

#include <string>
#include <vector>

#include "app/config/config.h"

namespace ipoib::app {

/// 15 lines: one HCA, one link, one port.
inline const std::string kGoodConfig = R"([hca.soft0]
wire = "net_memif0"
guid = "0x0002c903000a0b01"
lid = 1
pkeys = [0xffff, 0x8001]
subnet-administrator = true

[link.ib0]
hca = "soft0"
address = "10.0.0.1/24"

[port.eth0]
device = "net_tap0"
address = ["192.168.1.1/24"]

)";

inline std::vector<std::string> lines_of(const ConfigResult& result) {
  std::vector<std::string> lines;
  for (const auto& d : result.diagnostics) lines.push_back(d.to_string());
  return lines;
}

inline std::vector<std::string> faults(const std::string& text,
                                       const std::vector<Override>& overrides = {}) {
  return lines_of(parse_config(text, "t.toml", overrides));
}

}  // namespace ipoib::app
