// SPDX-License-Identifier: BSD-3-Clause
// The socket by which the kernel reports its interfaces.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/mgmt/device/kernel_interfaces.h"

namespace ipoib::mgmt {

/// Management lcore only.
class InterfaceWatch {
 public:
  /// Opens the socket and asks for a list of all interfaces, for `interfaces`, whose reference is
  /// kept. Errors: kUnavailable (the process may not open it).
  static Result<std::unique_ptr<InterfaceWatch>> open(KernelInterfaces& interfaces, TimePoint now);
  ~InterfaceWatch();
  InterfaceWatch(const InterfaceWatch&) = delete;
  InterfaceWatch& operator=(const InterfaceWatch&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  /// Takes the messages that wait, a limited number of them, and asks for a list if one is needed,
  /// once a second at most. An error: no more messages will come.
  Status receive(TimePoint now);
  /// Time of the next receive() without a message.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

 private:
  InterfaceWatch(int fd, KernelInterfaces& interfaces) : fd_{fd}, interfaces_{interfaces} {}

  Status ask(TimePoint now);

  int fd_;
  KernelInterfaces& interfaces_;
  std::uint32_t sequence_ = 0;
  TimePoint asked_{};
};

}  // namespace ipoib::mgmt
