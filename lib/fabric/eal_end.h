// SPDX-License-Identifier: BSD-3-Clause
// End of EAL while devices are still open.
#pragma once

namespace ipoib::fabric {

/// Stops and closes every ethdev, and ends EAL. Drivers unregister their interrupt sources when
/// they are closed. EAL's interrupt thread reads the list of sources again after each change, and
/// rte_eal_cleanup() unmaps that list while the thread still runs, so that a program that only
/// calls rte_eal_cleanup() sometimes ends with SIGSEGV (DPDK 22.11, memif). Therefore end_eal()
/// halts the thread first, for good. If that takes more than a second, EAL is not cleaned up. No
/// other thread may use a device. Call it once, as the last call to DPDK.
void end_eal();

}  // namespace ipoib::fabric
