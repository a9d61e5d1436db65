// SPDX-License-Identifier: BSD-3-Clause
// Captures as commands start them and as `show capture` lists them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ipoib::mgmt {

/// A capture to start.
struct CaptureRequest {
  static constexpr std::uint64_t kDefaultOctets = 1'000'000'000;

  std::string file;
  std::uint64_t max_octets = kDefaultOctets;  ///< Size of the file; 0: no limit.
  std::uint64_t max_frames = 0;               ///< 0: no limit.
  bool replace = false;  ///< A regular file of this name may be replaced; otherwise none may exist.
};

enum class CaptureState : std::uint8_t {
  kNone,      ///< No capture since the start.
  kStarting,  ///< The file is being opened and the queue made. No frame is captured yet.
  kRunning,
  kEnding,  ///< No frame is captured any more. The file is being completed.
  kDone,    ///< The file is complete: stopped, or at a limit.
  kFailed,
  kCount
};

/// Names of states, indexed by CaptureState.
inline constexpr std::array<std::string_view, static_cast<std::size_t>(CaptureState::kCount)>
    kCaptureStateNames = {"none", "starting", "running", "ending", "done", "failed"};

/// The capture in progress, or the last one.
struct CaptureInfo {
  CaptureState state = CaptureState::kNone;
  std::string file;
  std::uint64_t frames = 0, octets = 0;  ///< In the file.
  /// Frames on the wire that are not in the file because the queue was full, or because the file
  /// had ended before the devices noticed.
  std::uint64_t lost = 0;
  std::uint64_t max_octets = 0, max_frames = 0;  ///< 0: no limit.
  std::string reason;  ///< Why it failed, or ended by itself; empty: it did not.
};

}  // namespace ipoib::mgmt
