// SPDX-License-Identifier: BSD-3-Clause
// Takes captured frames off the workers' rings and writes them to a file, in a thread of its own,
// because a disk may block and the management lcore must not. That thread also opens and closes the
// file, and makes the mempool and the rings.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "lib/base/result.h"
#include "lib/fabric/hca.h"

namespace ipoib::mgmt {

/// A file being written. Used by one thread at a time. Only flush(), close() and the destructor
/// touch the file, and may block.
class FrameFile {
 public:
  virtual ~FrameFile() = default;
  /// Keeps a frame in memory. `frame`: LRH through ICRC. `unix_ns`: nanoseconds since 1970.
  virtual Status append(std::span<const std::byte> frame, std::uint64_t unix_ns) = 0;
  /// Writes all that append() kept. After an error nothing of it is in the file.
  virtual Status flush() = 0;
  /// Flushes and closes. Call it once, last.
  virtual Status close() = 0;
  /// Size of the file after the next flush(), octets.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Octets that the next flush() writes.
  [[nodiscard]] virtual std::size_t unwritten() const = 0;
};

using FrameFilePtr = std::unique_ptr<FrameFile>;

/// Management lcore only. Rings and mempool are the queue: if the file is too slow, frames are lost
/// at the devices, which count them.
class CaptureWriter {
 public:
  struct Order {
    std::function<Result<FrameFilePtr>()> open;  ///< The writer's thread calls it.
    std::size_t taps = 0;
    std::uint64_t max_octets = 0;  ///< Writing ends before the file is longer; 0: no limit.
    std::uint64_t max_frames = 0;  ///< 0: no limit.
  };
  /// The thread passes these stages in this order, but it may leave out those in between.
  enum class Stage : std::uint8_t {
    kOpening,
    kPreparing,  ///< The file is open.
    kWriting,    ///< taps() may be used.
    kClosed,     ///< Writing ended by itself. Frames from the taps are counted as lost until end().
    kOver,       ///< File and memory are released.
  };

  /// Starts the thread. Errors: kNoResources.
  static Result<CaptureWriter> start(Order order);

  [[nodiscard]] Stage stage() const;
  /// Waits until the thread has reached a stage. False: it has not.
  [[nodiscard]] bool wait(Stage stage, std::chrono::milliseconds at_most) const;
  /// One for each device. Precondition: the stage is kWriting or kClosed.
  [[nodiscard]] std::span<const fabric::CaptureTap> taps() const;
  /// Precondition: no tap is in use any more. The frames that wait are written, then the file is
  /// closed. The thread notices it as soon as the file lets it.
  void end();
  /// For the end of the node: releases the memory of the taps in place of a thread that waits for
  /// its file. That thread then touches nothing except its own memory. False: the thread is at work
  /// in EAL's memory for longer than `at_most`. Precondition: no tap is in use any more.
  [[nodiscard]] bool abandon(std::chrono::milliseconds at_most);

  /// Reason why writing failed or ended by itself; empty: it did not.
  [[nodiscard]] std::string reason() const;
  /// The file could not be opened, written or closed, or memory was missing; none: no fault.
  [[nodiscard]] std::optional<Error> fault() const;
  [[nodiscard]] std::uint64_t frames() const;  ///< Written to the file.
  [[nodiscard]] std::uint64_t octets() const;  ///< Size of the file.
  /// Frames that were taken from the taps and are not in the file.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  struct Shared;
  explicit CaptureWriter(std::shared_ptr<Shared> shared) : shared_{std::move(shared)} {}

  std::shared_ptr<Shared> shared_;  ///< Shared with the thread, which may outlive this object.
};

}  // namespace ipoib::mgmt
