// SPDX-License-Identifier: BSD-3-Clause
// What this driver needs of libibumad, so that tests can play every fault of it.
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

/// A class of management datagrams, and what an agent for it asks the kernel to do.
struct AgentClass {
  std::uint8_t mgmt_class;
  std::uint8_t version;
  std::uint8_t rmpp_version;    ///< 1: the kernel segments and reassembles.
  std::uint32_t methods_asked;  ///< Bit m: requests of method m are wanted.
};

/// Other end of a datagram, as the kernel names it.
struct Peer {
  std::uint16_t lid = 0;
  std::uint8_t sl = 0;
  std::uint32_t qpn = 0;
  std::uint16_t pkey_index = 0;
  wire::Gid gid{};             ///< Of the port, in a GRH; zero: there is no GRH.
  std::uint8_t gid_index = 0;  ///< In the GRH: which of this port's own.
};

struct Arrived {
  int error = 0;   ///< 0, EAGAIN: nothing there, otherwise the descriptor is of no use any more.
  int status = 0;  ///< Not 0: one of ours that was not answered (ETIMEDOUT) or not delivered.
  Peer from{};
  std::vector<std::byte> bytes{};
};

/// Any thread, but a descriptor is not closed while another polls it.
class Umad {
 public:
  Umad() = default;
  Umad(const Umad&) = delete;
  Umad& operator=(const Umad&) = delete;
  virtual ~Umad() = default;

  /// `port` 0: the first that fits. kNotFound, kRefused (permission), kUnavailable.
  virtual Result<int> open(const std::string& device, unsigned port) = 0;
  virtual void close(int fd) = 0;
  /// Number of the agent; kRefused with the system's reason.
  virtual Result<int> register_agent(int fd, const AgentClass& agent) = 0;
  virtual void unregister_agent(int fd, int agent) = 0;
  /// Returns 0 or the error number.
  virtual int send(int fd, int agent, const Peer& to, std::uint32_t qkey,
                   std::span<const std::byte> mad, std::uint32_t answer_ms) = 0;
  /// Waits until receive() has something to say, or so long.
  virtual void wait(int fd, int timeout_ms) = 0;
  virtual Arrived receive(int fd) = 0;
};

/// The library itself.
[[nodiscard]] std::unique_ptr<Umad> make_umad();

}  // namespace ipoib::umad
