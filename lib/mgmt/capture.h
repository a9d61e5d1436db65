// SPDX-License-Identifier: BSD-3-Clause
// A capture: frames of every HCA's wire go to a file as pcap of ERF records.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/fabric/hca.h"
#include "lib/mgmt/capture_writer.h"

namespace ipoib::mgmt {

/// Management lcore only. One file at a time.
class Capture {
 public:
  Capture() = default;
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// `limit`: octets that the file may get long; 0: no limit. kExists while one runs, or is being
  /// written to its end; kRefused when a device cannot show its wire or the file cannot be made.
  Status start(const std::string& path, std::uint64_t limit, const std::vector<fabric::Hca*>& hcas);
  /// Frames written; kUnavailable when none runs, or when the file takes so long that its end has
  /// to wait: it follows by itself.
  Result<std::uint64_t> stop();

  /// Notices a capture that ended by itself. Now and then.
  void follow();

 private:
  void take_taps_off();

  std::optional<CaptureWriter> writer_;
  std::vector<fabric::Hca*> hcas_;  ///< Those that have a tap.
};

}  // namespace ipoib::mgmt
