// SPDX-License-Identifier: BSD-3-Clause
// A network namespace for a test, with a loopback interface only.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace ipoib::test {

/// It ends when no socket and no interface's descriptor in it is open any more.
class NetworkNamespace {
 public:
  NetworkNamespace() {
    std::thread{[this] {
      if (unshare(CLONE_NEWNET) == 0) fd_ = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    }}.join();
  }
  ~NetworkNamespace() {
    if (fd_ >= 0) close(fd_);
  }
  NetworkNamespace(const NetworkNamespace&) = delete;
  NetworkNamespace& operator=(const NetworkNamespace&) = delete;

  /// False: this process may not make network namespaces.
  [[nodiscard]] bool made() const { return fd_ >= 0; }
  /// For kernel::in_network_namespace().
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_ = -1;
};

}  // namespace ipoib::test
