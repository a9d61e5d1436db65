// SPDX-License-Identifier: BSD-3-Clause
// An owned rte_ring.
#pragma once

#include <rte_ring.h>

#include <memory>

namespace ipoib::fabric {

struct RingDeleter {
  void operator()(rte_ring* ring) const noexcept { rte_ring_free(ring); }
};
using RingPtr = std::unique_ptr<rte_ring, RingDeleter>;

}  // namespace ipoib::fabric
