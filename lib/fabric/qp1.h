// SPDX-License-Identifier: BSD-3-Clause
// QP1 of a port and its management datagrams.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/fabric/fabric_types.h"
#include "lib/wire/gid.h"
#include "lib/wire/mad.h"

namespace ipoib::fabric {

/// Other end of a MAD on QP1.
struct MadAddress {
  std::uint16_t lid = 0;
  std::uint8_t sl = 0;
  std::uint32_t qpn = 1;
  std::uint16_t pkey = wire::kDefaultPkey;
  /// Request: time that the sender waits for the answer, ms; 0: no answer is expected. Some
  /// transports accept an answer only while they remember its request.
  std::uint32_t answer_ms = 0;
  /// GID of the port: destination or source in the GRH. Zero: no GRH.
  wire::Gid gid{};
};

/// True if both are on the same port. If both have a GID, the GIDs decide: ports behind routers have
/// the routers' LIDs, and a link layer without LIDs gives one LID to many ports. Otherwise the LIDs
/// do. A port has 2^lmc of them; subnet managers give all ports of a subnet one LMC.
[[nodiscard]] constexpr bool same_port(const MadAddress& a, const MadAddress& b,
                                       std::uint8_t lmc) noexcept {
  if (!a.gid.is_zero() && !b.gid.is_zero()) return a.gid == b.gid;
  return a.lid >> lmc == b.lid >> lmc;
}

using MadBytes = std::array<std::byte, wire::kMadLen>;

struct ReceivedMad {
  MadAddress from;
  MadBytes bytes;
  /// The transport has completed RMPP: this is the whole answer, `len` is its length in octets, and
  /// `rest` holds its octets beyond 256. Octets of `bytes` beyond `len` are 0.
  bool whole = false;
  std::size_t len = wire::kMadLen;
  std::vector<std::byte> rest{};
};

/// QP1 of a port. Management lcore only.
class MadPort {
 public:
  virtual ~MadPort() = default;
  /// Sends a copy of one MAD. Errors: kUnavailable if the queue to the wire is full or the port is
  /// not active; kInvalidArgument for an address that the port cannot send to; kNoResources.
  virtual Status send(const MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) = 0;
  /// Returns the next MAD. Empty: none has arrived or, while pending(), this call handled or dropped
  /// a bounded number of MADs itself.
  virtual std::optional<ReceivedMad> receive() = 0;
  /// False: receive() need not be called before the doorbell rings that the device was made with.
  [[nodiscard]] virtual bool polled() const = 0;
  /// True if MADs wait for receive(). For devices with a doorbell: checked again before sleep.
  [[nodiscard]] virtual bool pending() const = 0;
  [[nodiscard]] virtual NamedCounters counters() const = 0;
  /// Reason why MADs to other ports are not sent, for operators; empty: no known problem.
  [[nodiscard]] virtual std::string problem() const = 0;
};

}  // namespace ipoib::fabric
