// SPDX-License-Identifier: BSD-3-Clause
// The frame heads of a worker's neighbours: for links whose device takes whole frames
// (lib/fabric/ud_frames.h), the worker's own entry of a neighbour has the headers that its address
// handle determines.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/fwd/worker_config.h"
#include "lib/table/neighbour_table.h"

namespace ipoib::fwd {

class FrameHeads {
 public:
  explicit FrameHeads(const WorkerConfig& config);

  /// Makes a neighbour of mode kUd one of mode kUdFrame or kUdGroupFrame if this worker can write
  /// its frames.
  void fill(table::Neighbour& to) noexcept;
  /// The GRH for neighbours of mode kUdGroupFrame. Shape: there is one, for this link and version.
  [[nodiscard]] const fabric::GroupGrh& group_grh(table::InterfaceId iface,
                                                  bool ip6) const noexcept;
  /// Renews the heads of a link when its port's LID, LMC, GID or rate has changed. Once a loop.
  void follow(table::NeighbourTable& neighbours) noexcept {
    for (Link& link : links_)
      if (const std::uint32_t now = link.version->load(std::memory_order_acquire); now != link.seen)
          [[unlikely]]
        renew(link, now, neighbours);
  }

 private:
  struct Link {
    table::InterfaceId iface;
    const fabric::UdQueue* queue;
    const std::atomic<std::uint32_t>* version;
    std::uint32_t seen;
    /// For IPv4 and IPv6: that of the first group, and after a change of the port that of the group
    /// with the lowest number. Groups with another one, for instance with a flow label, are sent by
    /// their handles.
    std::array<std::optional<fabric::GroupGrh>, 2> group_grh{};
  };

  void renew(Link& link, std::uint32_t now, table::NeighbourTable& neighbours) noexcept;

  std::vector<Link> links_;  ///< Own links whose device takes frames.
};

}  // namespace ipoib::fwd
