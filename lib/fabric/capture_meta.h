// SPDX-License-Identifier: BSD-3-Clause
// Metadata of a captured frame, from the worker that copies it to the lcore that writes it. The
// mbuf's data is the frame from LRH through ICRC. CaptureTap (hca.h) carries it.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

namespace ipoib::fabric {

enum class CaptureDirection : std::uint8_t { kReceived = 0, kSent = 1 };

/// Time and direction of a captured frame. It lies at the start of the mbuf's headroom.
struct CaptureMeta {
  std::uint64_t tsc;
  CaptureDirection direction;
};
static_assert(sizeof(CaptureMeta) <= RTE_PKTMBUF_HEADROOM);

[[nodiscard]] inline CaptureMeta& capture_meta_of(rte_mbuf* m) noexcept {
  return *static_cast<CaptureMeta*>(m->buf_addr);
}

}  // namespace ipoib::fabric
