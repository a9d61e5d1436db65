// SPDX-License-Identifier: BSD-3-Clause
// The checksum kernels agree on every input that has room for headers.
#include <array>

#include "lib/wire/iba.h"
#include "lib/wire/icrc/icrc.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ipoib::wire;
  const auto octets = ipoib::test::input(data, size);
  (void)vcrc(octets);
  if (octets.size() < sizeof(Lrh) + sizeof(Bth)) return 0;
  const bool global = (data[1] & 3) == static_cast<std::uint8_t>(Lnh::kGlobal);
  if (global && octets.size() < sizeof(Lrh) + sizeof(Grh) + sizeof(Bth)) return 0;
  const std::uint32_t expected = icrc_portable(octets);
  std::array<Covered, 4> burst;
  burst.fill({octets.data(), octets.size()});
  for (const auto kernel : {IcrcKernel::kClmul, IcrcKernel::kAvx2, IcrcKernel::kAvx512}) {
    if (!select_icrc_kernel(kernel)) continue;
    ipoib::test::require(icrc(octets) == expected);
    std::array<std::uint32_t, burst.size()> found{};
    icrc_burst(burst, found);
    for (const std::uint32_t icrc : found) ipoib::test::require(icrc == expected);
  }
  return 0;
}
