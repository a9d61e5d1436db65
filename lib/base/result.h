// SPDX-License-Identifier: BSD-3-Clause
// Errors of control plane functions: a value that describes the failure in one sentence that an
// operator can act on. The data plane does not use it; there a rejected packet is a Drop (drop.h).
#pragma once

#include <fmt/format.h>
#include <tl/expected.hpp>

#include <string>
#include <utility>

namespace ipoib {

enum class Errc {
  kInvalidArgument,  ///< The request itself is wrong; a retry cannot succeed.
  kNotFound,
  kExists,
  kUnavailable,  ///< Not possible now: down, not joined, no answer yet.
  kTimedOut,
  kNoResources,
  kRefused,   ///< The peer (SA, kernel, device) refused.
  kProtocol,  ///< The peer's message is invalid.
};

struct Error {
  Errc code;
  std::string what;  ///< One sentence with the names and numbers needed to act, no full stop.
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(Errc code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::make_unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace ipoib
