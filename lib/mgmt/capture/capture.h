// SPDX-License-Identifier: BSD-3-Clause
// A capture: writes the frames on every HCA's wire to a file, as pcap of ERF records. The management
// lcore sets the taps and takes them off; all that may take time is up to the writer's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lib/base/result.h"
#include "lib/fabric/hca.h"
#include "lib/mgmt/capture/capture_writer.h"
#include "lib/mgmt/capture_info.h"

namespace ipoib::mgmt {

/// Management lcore only. One file at a time.
class Capture {
 public:
  /// Opens the file of a request. The writer's thread calls it.
  using Open = std::function<Result<FrameFilePtr>(const CaptureRequest& request)>;

  /// Opens files as ErfWriter does.
  Capture();
  explicit Capture(Open open) : open_{std::move(open)} {}
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Begins to open the file, and waits for that at most kOpenPatience: later faults are in info().
  /// kExists while a capture runs or its file is still being completed, or the file exists; kRefused
  /// if the file cannot be created. The wires must outlive the capture.
  Status start(const CaptureRequest& request, std::vector<fabric::WireCapture*> wires);
  /// Ends the capture and returns at once; the file is completed in the background. kUnavailable if
  /// no capture runs.
  Result<CaptureInfo> stop();

  /// Sets the taps when the writer is ready, and cleans up after a capture that ended. Call it in
  /// each turn, and soon again while in_transition().
  void follow();
  [[nodiscard]] bool in_transition() const;
  [[nodiscard]] CaptureInfo info() const;

  /// For the end of the node: stops, and waits for the file at most so long. A file that is slower
  /// stays incomplete.
  void end(std::chrono::milliseconds at_most);

  static constexpr std::chrono::milliseconds kOpenPatience{20};

 private:
  void set_taps();
  void take_taps_off();
  void begin_to_end();
  [[nodiscard]] CaptureState state() const;
  [[nodiscard]] std::uint64_t lost_at_taps() const;

  Open open_;
  std::optional<CaptureWriter> writer_;
  bool ending_ = false;                      ///< writer_ is on its way to Stage::kOver.
  bool stopped_ = false;                     ///< stop() was called.
  std::vector<fabric::WireCapture*> wires_;  ///< Wires that the capture listens to.
  bool tapped_ = false;                      ///< The wires have taps.
  std::uint64_t lost_before_ = 0;            ///< lost_at_taps() at the start.
  CaptureInfo last_;  ///< While writer_ has a value: the request; otherwise its result.
};

}  // namespace ipoib::mgmt
