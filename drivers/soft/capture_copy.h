// SPDX-License-Identifier: BSD-3-Clause
// Copies frames on the cable for a capture (lib/fabric/capture_meta.h).
#pragma once

#include "lib/fabric/capture_meta.h"
#include "lib/fabric/hca.h"

namespace ipoib::soft {

using fabric::CaptureDirection;
using fabric::CaptureTap;

/// Copies the IBA packet out of a soft frame: LRH through ICRC, no Ethernet header, no padding.
/// Null if the frame has no EtherType 0x88B5, or if the pool is empty; only the latter sets `lost`.
[[nodiscard]] rte_mbuf* capture_copy(const CaptureTap& tap, const rte_mbuf* frame,
                                     CaptureDirection direction, bool& lost) noexcept;

}  // namespace ipoib::soft
