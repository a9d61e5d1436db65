// SPDX-License-Identifier: BSD-3-Clause
// Interface to libibumad, so that tests can simulate every fault of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/wire/gid.h"

namespace ipoib::umad {

/// A class of management datagrams, and the parameters of its agent in the kernel.
struct AgentClass {
  std::uint8_t mgmt_class;
  std::uint8_t version;
  std::uint8_t rmpp_version;      ///< 1: the kernel segments and reassembles.
  std::uint32_t request_methods;  ///< Bit m: requests of method m are wanted.
};

/// Other end of a datagram, as the kernel names it.
struct Peer {
  std::uint16_t lid = 0;
  std::uint8_t sl = 0;
  std::uint32_t qpn = 0;
  std::uint16_t pkey_index = 0;
  wire::Gid gid{};             ///< GID of the port, in a GRH; zero: there is no GRH.
  std::uint8_t gid_index = 0;  ///< Index of this port's own GID in the GRH.
};

struct Arrived {
  int error = 0;   ///< 0; EAGAIN: nothing arrived; otherwise the descriptor is no longer usable.
  int status = 0;  ///< Not 0: a sent MAD was not answered (ETIMEDOUT) or not delivered.
  Peer from{};
  std::vector<std::byte> bytes{};
};

/// Any thread, but no thread may close a descriptor that another one polls.
class Umad {
 public:
  Umad() = default;
  Umad(const Umad&) = delete;
  Umad& operator=(const Umad&) = delete;
  virtual ~Umad() = default;

  /// `port` 0: the first that fits. Errors: kNotFound, kRefused (permission), kUnavailable.
  virtual Result<int> open(const std::string& device, unsigned port) = 0;
  virtual void close(int fd) = 0;
  /// Returns the number of the agent. kRefused: the text has the system's reason.
  virtual Result<int> register_agent(int fd, const AgentClass& agent) = 0;
  virtual void unregister_agent(int fd, int agent) = 0;
  /// Returns 0 or the error number.
  virtual int send(int fd, int agent, const Peer& to, std::uint32_t qkey,
                   std::span<const std::byte> mad, std::uint32_t answer_ms) = 0;
  /// Waits until receive() has a result or the timeout expires.
  virtual void wait(int fd, int timeout_ms) = 0;
  virtual Arrived receive(int fd) = 0;
};

/// Implements Umad with libibumad.
[[nodiscard]] std::unique_ptr<Umad> make_umad();

}  // namespace ipoib::umad
