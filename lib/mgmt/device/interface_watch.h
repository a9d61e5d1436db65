// SPDX-License-Identifier: BSD-3-Clause
// The socket by which the kernel reports its interfaces.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/base/result.h"
#include "lib/mgmt/device/kernel_interfaces.h"

namespace ipoib::mgmt {

/// Management lcore only.
class InterfaceWatch {
 public:
  /// Opens the socket and asks for a list of all interfaces, for `interfaces`, whose reference is
  /// kept. Errors: kUnavailable (the process may not open it).
  static Result<std::unique_ptr<InterfaceWatch>> open(KernelInterfaces& interfaces);
  ~InterfaceWatch();
  InterfaceWatch(const InterfaceWatch&) = delete;
  InterfaceWatch& operator=(const InterfaceWatch&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  /// Takes the messages that wait, a limited number of them. An error: no more of them will come.
  Status receive();

 private:
  InterfaceWatch(int fd, KernelInterfaces& interfaces) : fd_{fd}, interfaces_{interfaces} {}

  Status ask();

  int fd_;
  KernelInterfaces& interfaces_;
  std::uint32_t sequence_ = 0;
};

}  // namespace ipoib::mgmt
