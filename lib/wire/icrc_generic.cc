// SPDX-License-Identifier: BSD-3-Clause
// icrc() for CPUs without an implementation of their own.
#include "lib/wire/icrc.h"

namespace ipoib::wire {

std::uint32_t icrc(std::span<const std::byte> packet) noexcept {
  return icrc_portable(packet);
}

}  // namespace ipoib::wire
