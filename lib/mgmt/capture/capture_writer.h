// SPDX-License-Identifier: BSD-3-Clause
// Takes captured frames off the workers' rings and writes them to a file, in a thread of its own,
// because a disk may block and the management lcore must not.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "lib/base/result.h"
#include "lib/fabric/hca.h"

namespace ipoib::mgmt {

/// A file being written. Used by one thread at a time.
class FrameFile {
 public:
  virtual ~FrameFile() = default;
  /// `frame`: LRH through ICRC. `unix_ns`: nanoseconds since 1970.
  virtual Status write(std::span<const std::byte> frame, std::uint64_t unix_ns) = 0;
  /// Size of the file, octets.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
};

/// Management lcore only. Rings and mempool are the queue: if the file is too slow, frames are lost
/// at the devices, which count them.
class CaptureWriter {
 public:
  /// Errors: kNoResources.
  static Result<CaptureWriter> create();

  /// Creates the tap of another device. Errors: kNoResources.
  Result<fabric::CaptureTap> add_tap();
  /// Begins to write. Writing ends by itself when the file would be longer than `limit` octets (0:
  /// never) or accepts no more data. Call once, after the last add_tap(). Errors: kNoResources.
  Status start(std::unique_ptr<FrameFile> file, std::uint64_t limit);
  /// Precondition: no tap is in use any more. The frames that wait are written, then the file is
  /// closed.
  void end();
  /// Waits until the file is closed. Returns false if it is still open; the thread goes on.
  [[nodiscard]] bool wait(std::chrono::milliseconds at_most) const;

  [[nodiscard]] bool is_over() const { return wait(std::chrono::milliseconds{0}); }
  /// Reason why writing ended by itself; empty: it did not. Precondition: is_over().
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] std::uint64_t frames() const;

 private:
  struct Shared;
  explicit CaptureWriter(std::shared_ptr<Shared> shared) : shared_{std::move(shared)} {}
  static void* run(void* shared);

  std::shared_ptr<Shared> shared_;  ///< Shared with the thread, which may outlive this object.
};

}  // namespace ipoib::mgmt
