// SPDX-License-Identifier: BSD-3-Clause
// A QP1 whose MADs are lost on the way, and which receives none.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "lib/fabric/qp1.h"

namespace ipoib::test {

class SilentMadPort : public fabric::MadPort {
 public:
  Status send(const fabric::MadAddress& /*to*/,
              std::span<const std::byte, wire::kMadLen> /*mad*/) override {
    return {};
  }
  std::optional<fabric::ReceivedMad> receive() override { return std::nullopt; }
  [[nodiscard]] bool polled() const override { return true; }
  [[nodiscard]] bool pending() const override { return false; }
  [[nodiscard]] fabric::NamedCounters counters() const override { return {}; }
  [[nodiscard]] std::string problem() const override { return {}; }
};

}  // namespace ipoib::test
