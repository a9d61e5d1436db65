// SPDX-License-Identifier: BSD-3-Clause
// Packet filters of a node: configuration and state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/fwd/filter/filter_rule.h"

namespace ipoib::mgmt {

/// The first one in order that fits a packet decides its fate.
struct FilterConfig {
  std::string iface;  ///< Link or port name; empty: every one.
  fwd::FilterRule rule{};
};

/// A row of `show filter`.
struct FilterInfo {
  std::size_t number = 0;  ///< Place in the order of the rules, from 1.
  FilterConfig config{};
  std::uint64_t packets = 0;  ///< That fitted it first, since it was added.
  bool active = false;        ///< The workers use it; false: it is being compiled.
};

}  // namespace ipoib::mgmt
