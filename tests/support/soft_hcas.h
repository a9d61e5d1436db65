// SPDX-License-Identifier: BSD-3-Clause
// Software HCAs for nodes in tests.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "app/soft_hca_config.h"
#include "tests/support/sim_tsc.h"

namespace ipoib::mgmt {

/// `tsc` is the clock of path rates; null stands for the time-stamp counter.
inline Result<std::unique_ptr<fabric::Hca>> make_soft_by(const HcaConfig& config,
                                                         const HcaResources& r,
                                                         std::uint64_t (*tsc)() noexcept) {
  soft::SoftHcaConfig soft = app::soft_hca_config(config, r);
  soft.tsc = tsc;
  auto hca = soft::SoftHca::create(soft);
  if (!hca) return tl::make_unexpected(hca.error());
  return std::unique_ptr<fabric::Hca>{std::move(*hca)};
}
inline Result<std::unique_ptr<fabric::Hca>> make_soft(const HcaConfig& config,
                                                      const HcaResources& r) {
  return make_soft_by(config, r, nullptr);
}
/// Its time is test::sim_tsc.
inline Result<std::unique_ptr<fabric::Hca>> make_timed_soft(const HcaConfig& config,
                                                            const HcaResources& r) {
  return make_soft_by(config, r, &ipoib::test::read_sim_tsc);
}

}  // namespace ipoib::mgmt
