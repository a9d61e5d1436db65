// SPDX-License-Identifier: BSD-3-Clause
// The end of EAL with devices that are still there.
#pragma once

namespace ipoib::fabric {

/// Stops and closes every ethdev, and ends EAL. The drivers take their interrupt sources back when
/// they are closed; EAL's interrupt thread reads the list of sources once more after each change,
/// and rte_eal_cleanup() unmaps that list while the thread goes on: a program that calls it by
/// itself dies of SIGSEGV now and then (DPDK 22.11, memif). So the thread is halted first, for
/// good. Where it does not come within a second EAL is left as it is. No other thread may use a
/// device. Call it once, as the last call to DPDK.
void end_eal();

}  // namespace ipoib::fabric
