// SPDX-License-Identifier: BSD-3-Clause
// Text to a descriptor that may take no more: a pipe that is not read, or a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace ipoib::app {

/// Waits for the descriptor at most `patience` in all; negative: any time. Returns the rest, which
/// is not written.
[[nodiscard]] std::string_view write_patiently(int fd, std::string_view text,
                                               std::chrono::milliseconds patience);

/// Lines that are missing if `text` is; a part of a line counts as one.
[[nodiscard]] std::uint64_t lines_in(std::string_view text);

}  // namespace ipoib::app
