// SPDX-License-Identifier: BSD-3-Clause
// IP addresses and prefixes from the text of a test. Other text ends the program.
#pragma once

#include <string_view>

#include "lib/wire/ip.h"

namespace ipoib::test {

inline wire::IpAddr ip(std::string_view text) {
  return wire::parse_ip(text).value();
}
inline wire::IpPrefix prefix(std::string_view text) {
  return wire::parse_prefix(text).value();
}

}  // namespace ipoib::test
