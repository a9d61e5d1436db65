// SPDX-License-Identifier: BSD-3-Clause
// Owned memory of DPDK's allocator.
#pragma once

#include <rte_malloc.h>

namespace ipoib {

/// For std::unique_ptr.
struct RteFree {
  void operator()(void* memory) const noexcept { rte_free(memory); }
};

}  // namespace ipoib
