// SPDX-License-Identifier: BSD-3-Clause
// Paths to the neighbours of an Ethernet port: sending needs the address only, so a path is ready
// at once and never changes.
#pragma once

#include <cstdint>

#include "lib/link/medium.h"

namespace ipoib::link {

class EthernetPaths final : public NeighbourPaths {
 public:
  /// `mtu`: MTU of the port, which may change; the reference is kept.
  explicit EthernetPaths(const std::uint16_t& mtu) : mtu_{mtu} {}

  PathState acquire(const wire::IpAddr&, const wire::HwAddr&, TimePoint) override {
    return PathState::kReady;
  }
  void release(const wire::IpAddr&, const wire::HwAddr&) override {}
  void refresh(const wire::HwAddr&, TimePoint) override {}
  [[nodiscard]] PathState state(const wire::HwAddr&) const override { return PathState::kReady; }
  [[nodiscard]] table::NeighbourMode mode() const override {
    return table::NeighbourMode::kEthernet;
  }
  void describe(const wire::HwAddr& hw, table::Neighbour& out) const override {
    out.mac = hw.mac();
    out.mtu = mtu_;
  }
  void describe(const wire::HwAddr&, NeighbourInfo&) const override {}

 private:
  const std::uint16_t& mtu_;
};

}  // namespace ipoib::link
