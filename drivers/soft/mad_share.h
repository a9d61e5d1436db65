// SPDX-License-Identifier: BSD-3-Clause
// Shares the ring of received MADs between senders and between kinds of MADs, so that a flood of
// one does not push out the others. The threshold is dynamic: a sender or a kind may hold places in
// proportion to those that are free. Source: Choudhury and Hahne, "Dynamic queue length thresholds
// for shared-memory packet switches", IEEE/ACM Transactions on Networking 6 (2), 1998.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/drop.h"
#include "lib/wire/mad.h"

namespace ipoib::soft {

/// The worker that has QP1 puts MADs into the ring, the management lcore takes them out. Each writes
/// counters of its own, and no one waits. Each sender and each kind has counters of its own, so that
/// none shares those of a flood; they take 1 MiB.
class MadShare {
 public:
  struct Mad {
    std::uint16_t slid;  ///< The sender.
    // The kind.
    std::uint8_t mgmt_class;
    std::uint8_t method;
  };

  /// `places`: those of the ring.
  explicit MadShare(std::uint32_t places) noexcept : places_{places} {}

  /// Worker. Takes a place for a MAD. kIbMadOverflow: there is none. kIbMadShare: its sender has at
  /// least half as many places as are free, or its kind as many.
  [[nodiscard]] Drop take(const Mad& mad) noexcept;
  /// Worker. Undoes take().
  void undo(const Mad& mad) noexcept;
  /// Management lcore. The MAD has left the ring.
  void give_back(const Mad& mad) noexcept;

  /// Places that are taken. Either lcore; the value may be too large for a moment.
  [[nodiscard]] std::uint32_t taken() const noexcept;

 private:
  /// Counters run on without end; their difference is the number that is held.
  struct Counts {
    std::array<std::atomic<std::uint32_t>, 65'536> senders{};  ///< The index is the LID.
    std::array<std::atomic<std::uint32_t>, 65'536> kinds{};    ///< The index is kind_of().
    std::atomic<std::uint32_t> all{0};

    void add(const Mad& mad, std::uint32_t n) noexcept;
  };

  [[nodiscard]] static std::size_t kind_of(const Mad& mad) noexcept {
    return std::size_t{mad.mgmt_class} << 8 | mad.method;
  }

  std::uint32_t places_;
  alignas(64) Counts in_;   ///< Written by the worker.
  alignas(64) Counts out_;  ///< Written by the management lcore.
};

/// `bytes` is the MAD itself.
[[nodiscard]] inline MadShare::Mad shared_mad(
    std::uint16_t slid, std::span<const std::byte, wire::kMadLen> bytes) noexcept {
  const auto* hdr = reinterpret_cast<const wire::MadHdr*>(bytes.data());
  return {slid, hdr->mgmt_class, hdr->method};
}

}  // namespace ipoib::soft
