// SPDX-License-Identifier: BSD-3-Clause
// Threads for work that may block or take long, and so must not be done on an lcore.
#pragma once

#include <functional>

#include "lib/base/result.h"

namespace ipoib {

/// Runs a job in a detached thread, on the CPUs that EAL does not use for lcores. `name`: at most 15
/// octets; `purpose` follows "the thread that" in the error. Errors: kNoResources.
[[nodiscard]] Status run_on_control_thread(const char* name, const char* purpose,
                                           std::function<void()> job);

}  // namespace ipoib
