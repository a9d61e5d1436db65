// SPDX-License-Identifier: BSD-3-Clause
// Takes captured frames off the workers' rings and writes them, in a thread of its own: a disk may
// take its time, the management lcore may not.
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
  /// Octets that the file is long.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
};

/// Management lcore only. Rings and mempool are the queue, so what the file takes too slowly is
/// lost at the devices, which count it.
class CaptureWriter {
 public:
  /// Errors: kNoResources.
  static Result<CaptureWriter> create();

  /// Where another device puts its copies. Errors: kNoResources.
  Result<fabric::CaptureTap> add_tap();
  /// Begins to write. Ends by itself when the file would be longer than `limit` octets (0: never)
  /// or takes no more. Once, after the last add_tap(). Errors: kNoResources.
  Status start(std::unique_ptr<FrameFile> file, std::uint64_t limit);
  /// No tap is in use any more: what waits is written, then the file is closed.
  void end();
  /// Waits until the file is closed. False: it is not yet; the thread goes on.
  [[nodiscard]] bool wait(std::chrono::milliseconds at_most) const;

  [[nodiscard]] bool is_over() const { return wait(std::chrono::milliseconds{0}); }
  /// Why it ended by itself; empty: it did not. Where is_over().
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] std::uint64_t frames() const;

 private:
  struct Shared;
  explicit CaptureWriter(std::shared_ptr<Shared> shared) : shared_{std::move(shared)} {}
  static void* run(void* shared);

  std::shared_ptr<Shared> shared_;  ///< The thread's too: a file may hold it up beyond our life.
};

}  // namespace ipoib::mgmt
