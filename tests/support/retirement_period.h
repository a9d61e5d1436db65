// SPDX-License-Identifier: BSD-3-Clause
// A retirement whose periods a test ends.
#pragma once

#include <cstdint>

#include "lib/fabric/retirement.h"

namespace ipoib::test {

/// Periods that started before `now` are over.
struct RetirementPeriod final : fabric::Retirement {
  std::uint64_t start() override { return now; }
  [[nodiscard]] bool over(std::uint64_t token) const override { return token < now; }
  std::uint64_t now = 0;
};

}  // namespace ipoib::test
