// SPDX-License-Identifier: BSD-3-Clause
// The text forms of IPv4 options and IPv6 extension headers, for the configuration file: the names of
// the registries of IANA, and numbers.
#pragma once

#include <cstdint>

#include "app/config/text_form.h"
#include "lib/fwd/filter/header_rules.h"

namespace ipoib::app {

/// "rr", "7". Not the end of the list, no operation, and source routes: rules do not change these.
[[nodiscard]] const TextForm<std::uint8_t>& ip_option_form();
/// "ipv6-frag", "44"; "ipv6-route-4" for one type of routing header. Not "ipv6-route-0", which is a
/// source route.
[[nodiscard]] const TextForm<fwd::Ip6Extension>& ip6_extension_form();

}  // namespace ipoib::app
