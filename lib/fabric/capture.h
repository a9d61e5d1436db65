// SPDX-License-Identifier: BSD-3-Clause
// What goes with a captured frame from the worker that copied it to the lcore that writes it. The
// mbuf's data is the frame from LRH through ICRC; the way there is CaptureTap (hca.h).
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

namespace ipoib::fabric {

enum class CaptureDirection : std::uint8_t { kReceived = 0, kSent = 1 };

/// When and which way a captured frame passed. Lies at the start of its mbuf's headroom.
struct CaptureMeta {
  std::uint64_t tsc;
  CaptureDirection direction;
};
static_assert(sizeof(CaptureMeta) <= RTE_PKTMBUF_HEADROOM);

[[nodiscard]] inline CaptureMeta& capture_meta_of(rte_mbuf* m) noexcept {
  return *static_cast<CaptureMeta*>(m->buf_addr);
}

}  // namespace ipoib::fabric
