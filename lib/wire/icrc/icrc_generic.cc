// SPDX-License-Identifier: BSD-3-Clause
// icrc() for CPUs without an implementation of their own.
#include "lib/base/contract.h"
#include "lib/wire/icrc/icrc.h"

namespace ipoib::wire {

std::uint32_t icrc(std::span<const std::byte> packet) noexcept {
  return icrc_portable(packet);
}

void icrc_burst(std::span<const Covered> packets, std::span<std::uint32_t> out) noexcept {
  expects(out.size() >= packets.size(), "out.size() >= packets.size()");
  for (std::size_t i = 0; i < packets.size(); ++i) out[i] = icrc(packets[i].span());
}

IcrcKernel fastest_icrc_kernel() noexcept {
  return IcrcKernel::kPortable;
}

bool select_icrc_kernel(IcrcKernel kernel) noexcept {
  return kernel == IcrcKernel::kPortable;
}

}  // namespace ipoib::wire
