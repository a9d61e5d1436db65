// SPDX-License-Identifier: BSD-3-Clause
// A capture: writes the frames on every HCA's wire to a file, as pcap of ERF records.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/fabric/hca.h"
#include "lib/mgmt/capture/capture_writer.h"

namespace ipoib::mgmt {

/// Management lcore only. One file at a time.
class Capture {
 public:
  Capture() = default;
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// `limit`: maximum size of the file, octets; 0: no limit. kExists while a capture runs or its
  /// file is still being completed; kRefused if a device cannot capture its wire or the file cannot
  /// be created.
  Status start(const std::string& path, std::uint64_t limit, const std::vector<fabric::Hca*>& hcas);
  /// Returns the number of frames written. kUnavailable if no capture runs, or if the file is so
  /// slow that it is completed later, in the background.
  Result<std::uint64_t> stop();

  /// Cleans up after a capture that ended by itself. Call periodically.
  void follow();

 private:
  void take_taps_off();

  std::optional<CaptureWriter> writer_;
  std::vector<fabric::WireCapture*> wires_;  ///< Wires with a tap.
};

}  // namespace ipoib::mgmt
