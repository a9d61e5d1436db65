// SPDX-License-Identifier: BSD-3-Clause
// The capture of a verbs port. No HCA shows its wire, so its packets are rebuilt from work requests,
// address handles and completions.
#pragma once

#include <infiniband/verbs.h>
#include <rte_mbuf.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "drivers/verbs/rebuilt_packet.h"
#include "lib/fabric/capture_meta.h"
#include "lib/fabric/fabric_types.h"
#include "lib/fabric/grace.h"
#include "lib/fabric/hca.h"
#include "lib/fabric/retirement.h"

namespace ipoib::verbs {

/// A tap, and the attributes of the port that the headers of its packets show. Immutable once it is
/// published.
struct CaptureView {
  fabric::CaptureTap tap;
  bool ethernet = false;  ///< The port has no LIDs. Those of its packets are 0.
  std::uint16_t lid = 0;  ///< The first one of 2^lmc.
  std::uint8_t lmc = 0;
  wire::Gid gid;
  std::vector<std::uint16_t> pkeys;                         ///< The P_Key table.
  std::vector<std::pair<wire::Gid, std::uint16_t>> groups;  ///< Attached groups with their MLIDs.

  /// Returns the P_Key that a queue pair of this partition sends.
  [[nodiscard]] std::uint16_t sent_pkey(std::uint16_t pkey) const noexcept;
  /// Headers of packets from this port along a path. The transport headers are left out.
  [[nodiscard]] PacketHead head_to(const fabric::AhAttr& to) const noexcept;
  /// Headers of packets that come along the reverse of a path. Their hop limit is the path's.
  [[nodiscard]] PacketHead head_from(const fabric::AhAttr& peer) const noexcept;
  /// LRH and GRH of a received datagram. `grh`: as the HCA wrote it; null: none. A multicast
  /// datagram has the multicast QPN as destination, any other one has `qpn`.
  [[nodiscard]] PacketHead head_of_datagram(std::uint16_t slid, std::uint8_t path_bits,
                                            std::uint8_t sl, const wire::Grh* grh,
                                            std::uint32_t qpn) const noexcept;
};

/// Immediate data of a completion that has it.
[[nodiscard]] inline wire::Be32 immediate_of(const ibv_wc& wc) noexcept {
  return std::bit_cast<wire::Be32>(wc.imm_data);
}

/// A message of a connected queue, which the HCA carries as one packet or several.
struct CapturedMessage {
  fabric::Transport transport = fabric::Transport::kRc;
  std::uint32_t mtu = 0;  ///< Octets of payload in each packet except the last.
  std::optional<wire::Be32> immediate{};
};

/// Any lcore, except publish() (management lcore).
class PacketCapture {
 public:
  explicit PacketCapture(const fabric::Grace& grace) : grace_{grace} {}
  PacketCapture(const PacketCapture&) = delete;
  PacketCapture& operator=(const PacketCapture&) = delete;

  /// Workers use `view` from now on, and the old one until the grace period is over. None: no
  /// capture.
  void publish(std::optional<CaptureView> view);

  /// Null: no capture. Otherwise valid for one burst.
  [[nodiscard]] const CaptureView* view() const noexcept {
    // Pairs with the release store of publish().
    return published_.load(std::memory_order_acquire);
  }

  /// Copies a packet to the tap. `payload`: one mbuf or a chain.
  void copy(const CaptureView& view, const PacketHead& head, const rte_mbuf* payload,
            fabric::CaptureDirection direction) noexcept {
    copy_part(view, head, payload, {0, payload->pkt_len}, direction);
  }
  void copy(const CaptureView& view, const PacketHead& head, std::span<const std::byte> payload,
            fabric::CaptureDirection direction) noexcept;
  /// Copies the packets of a message to the tap. `head`: that of each, except opcode, PSN and
  /// immediate data. `psn`: that of the first; becomes the one after the last.
  void copy_message(const CaptureView& view, PacketHead head, const CapturedMessage& message,
                    const rte_mbuf* payload, std::uint32_t& psn,
                    fabric::CaptureDirection direction) noexcept;

  /// Packets not captured because the ring was full or the pool empty.
  [[nodiscard]] std::uint64_t lost() const noexcept {
    return lost_.load(std::memory_order_relaxed);
  }

 private:
  struct Part {
    std::uint32_t offset;
    std::uint32_t len;
  };
  void copy_part(const CaptureView& view, const PacketHead& head, const rte_mbuf* payload,
                 Part part, fabric::CaptureDirection direction) noexcept;
  template <class Fill>
  void hand_over(const CaptureView& view, const PacketHead& head, std::size_t payload_len,
                 fabric::CaptureDirection direction, const Fill& fill) noexcept;

  const fabric::Grace& grace_;
  std::unique_ptr<const CaptureView> current_;
  std::atomic<const CaptureView*> published_{nullptr};
  fabric::Retired<std::unique_ptr<const CaptureView>> old_;
  std::atomic<std::uint64_t> lost_{0};
};

}  // namespace ipoib::verbs
