// SPDX-License-Identifier: BSD-3-Clause
// A subnet whose administrator is under test, as four of its ports see it: what they are, the MADs
// they send and receive, and the time, real or virtual.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/fabric/types.h"
#include "lib/wire/gid.h"
#include "lib/wire/mad.h"

namespace ipoib::conformance {

/// Partitions of the subnet. All but kBare have a broadcast group of their own from the start.
inline constexpr std::uint16_t kDefault = wire::kDefaultPkey, kLab = 0x8001, kOther = 0x8002,
                               kBare = 0x8003, kUnknown = 0x8077;

/// The ports, by what they are there for. Every one is in the default partition.
enum PortId : std::size_t {
  kA,        ///< Full member of kLab and kBare.
  kB,        ///< As kA.
  kLimited,  ///< Limited member of kLab.
  kOutside,  ///< Full member of kOther; in no other partition.
  kPorts
};

struct PortUnderTest {
  wire::Gid gid;
  std::uint16_t lid = 0;
};

class SubnetUnderTest {
 public:
  virtual ~SubnetUnderTest() = default;

  /// "embedded", "opensm".
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual PortUnderTest port(PortId id) const = 0;
  /// The port the administrator is at.
  [[nodiscard]] virtual PortUnderTest administrator() const = 0;
  [[nodiscard]] virtual TimePoint now() const = 0;

  virtual Status send(PortId from, const fabric::MadAddress& to,
                      std::span<const std::byte, wire::kMadLen> mad) = 0;

  using Deliver = std::function<void(PortId to, const fabric::ReceivedMad& mad)>;
  /// Lets time pass until MADs have arrived, which are delivered, or until `until`.
  virtual void step(TimePoint until, const Deliver& deliver) = 0;

  /// The port goes out of service as far as the administrator can tell; or comes back.
  virtual void unplug(PortId id) = 0;
  virtual void plug(PortId id) = 0;

  /// Octets an answer of this subnet can have at most.
  [[nodiscard]] virtual std::size_t longest_answer() const = 0;
};

}  // namespace ipoib::conformance
