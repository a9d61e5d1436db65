// SPDX-License-Identifier: BSD-3-Clause
// QP1 of a verbs port. Another object carries its MADs; this one copies them to a capture.
#pragma once

#include <functional>
#include <utility>

#include "drivers/verbs/packet_capture.h"
#include "lib/fabric/qp1.h"

namespace ipoib::verbs {

/// Management lcore only.
class CapturedMads final : public fabric::MadPort {
 public:
  /// `carrier` returns the object that carries MADs now.
  CapturedMads(PacketCapture& capture, std::function<fabric::MadPort&()> carrier)
      : capture_{capture}, carrier_{std::move(carrier)} {}

  Status send(const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) override;
  std::optional<fabric::ReceivedMad> receive() override;
  [[nodiscard]] bool polled() const override { return carrier_().polled(); }
  [[nodiscard]] bool pending() const override { return carrier_().pending(); }
  [[nodiscard]] fabric::NamedCounters counters() const override { return carrier_().counters(); }
  [[nodiscard]] std::string problem() const override { return carrier_().problem(); }

 private:
  PacketCapture& capture_;
  std::function<fabric::MadPort&()> carrier_;
};

}  // namespace ipoib::verbs
