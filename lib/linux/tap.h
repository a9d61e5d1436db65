// SPDX-License-Identifier: BSD-3-Clause
// An Ethernet interface of the kernel whose far end is this process. Source:
// Documentation/networking/tuntap.rst of Linux.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lib/base/result.h"

namespace ipoib::kernel {

struct TapConfig {
  std::string name;                   ///< At most 15 characters.
  std::string network_namespace;      ///< See in_network_namespace().
  std::array<std::uint8_t, 6> mac{};  ///< One that no interface can have: the kernel makes one up.
  unsigned mtu = 1500;                ///< Octets of an IP packet.
};

/// The interface exists as long as this object. The kernel asks for no neighbours on it (NOARP): every
/// packet that it sends there has the interface's own MAC address as destination. It makes no IPv6
/// addresses of its own.
/// Management lcore only. No call waits for a frame.
class Tap {
 public:
  /// Makes the interface, without carrier, and enables it. Errors: those of in_network_namespace();
  /// kExists: there is an interface of that name; kInvalidArgument: the kernel refuses name or MTU;
  /// kUnavailable: the process may not make one.
  static Result<std::unique_ptr<Tap>> create(const TapConfig& config);
  ~Tap();
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  /// Readable when the kernel has sent a frame.
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::int32_t ifindex() const { return made_.ifindex; }
  [[nodiscard]] const std::array<std::uint8_t, 6>& mac() const { return made_.mac; }

  /// The kernel tells its programs at once, or a second after the change before.
  Status set_carrier(bool on);

  /// Gives the kernel a frame: Ethernet header, then the rest. kUnavailable: the interface is disabled
  /// or gone; kNoResources: the kernel has no memory.
  Status send(std::span<const std::byte> header, std::span<const std::byte> packet);
  /// Takes the next frame of the kernel. Returns its length, at most that of the buffer; 0: none
  /// waits. kUnavailable: the interface is gone.
  Result<std::size_t> receive(std::span<std::byte> buffer);

 private:
  struct Made {
    std::int32_t ifindex = 0;
    std::array<std::uint8_t, 6> mac{};
  };
  static bool make(int fd, const TapConfig& config, Made& made, const char*& step);

  Tap(int fd, const Made& made) : fd_{fd}, made_{made} {}

  int fd_;
  Made made_;
};

}  // namespace ipoib::kernel
