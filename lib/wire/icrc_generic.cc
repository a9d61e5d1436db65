// SPDX-License-Identifier: BSD-3-Clause
// icrc() where no kernel of our own exists for the CPU.
#include "lib/wire/icrc.h"

namespace ipoib::wire {

std::uint32_t icrc(std::span<const std::byte> packet) noexcept {
  return icrc_portable(packet);
}

}  // namespace ipoib::wire
