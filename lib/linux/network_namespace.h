// SPDX-License-Identifier: BSD-3-Clause
// Work in another network namespace. Source: setns(2), network_namespaces(7), ip-netns(8).
#pragma once

#include <functional>
#include <string>

#include "lib/base/result.h"

namespace ipoib::kernel {

/// Runs a job, which must be short, in the network namespace, and waits for its end. Sockets that it
/// opens stay there. The namespace of the calling thread does not change.
/// `name`: as `ip netns` lists it, or the path of its file if it contains a slash; empty: the
/// namespace of the caller.
/// Errors: kNotFound (no such namespace), kInvalidArgument (the file is none), kUnavailable (the
/// process may not enter it), kNoResources.
[[nodiscard]] Status in_network_namespace(const std::string& name,
                                          const std::function<void()>& job);

}  // namespace ipoib::kernel
