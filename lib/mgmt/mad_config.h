// SPDX-License-Identifier: BSD-3-Clause
// The device that carries the management datagrams of an HCA: part of its configuration and of its
// row in `show hca`.
#pragma once

#include <string>

namespace ipoib::mgmt {

struct MadConfig {
  std::string device;  ///< Name in libibumad; empty: over the wire.
  unsigned port = 0;   ///< Port of that device; 0: the first.
};

}  // namespace ipoib::mgmt
