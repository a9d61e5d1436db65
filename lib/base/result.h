// SPDX-License-Identifier: BSD-3-Clause
// How control-plane functions fail: a value that says what happened in one sentence an operator
// can act on. The datapath does not use it; there a reject is a Drop (drop.h).
#pragma once

#include <fmt/format.h>
#include <tl/expected.hpp>

#include <string>
#include <utility>

namespace ipoib {

enum class Errc {
  kInvalidArgument,  ///< The request itself is wrong; repeating it cannot help.
  kNotFound,
  kExists,
  kUnavailable,  ///< Not now: down, not joined, no answer yet.
  kTimedOut,
  kNoResources,
  kRefused,   ///< The peer (SA, kernel, device) said no.
  kProtocol,  ///< The peer's bytes make no sense.
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
