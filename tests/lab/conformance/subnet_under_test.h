// SPDX-License-Identifier: BSD-3-Clause
// The interface to a subnet whose administrator is under test, as four of its ports see it: their
// attributes, the MADs that they send and receive, and the time, real or virtual.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/fabric/qp1.h"
#include "lib/wire/gid.h"
#include "lib/wire/mad.h"

namespace ipoib::conformance {

/// Partitions of the subnet. All except kBare have their own broadcast group from the start.
/// kUnknown is a P_Key without a partition.
inline constexpr std::uint16_t kDefault = wire::kDefaultPkey, kLab = 0x8001, kOther = 0x8002,
                               kBare = 0x8003, kUnknown = 0x8077;
inline constexpr std::uint64_t kSmKey = 1;  ///< The SM_Key of both administrators.

/// The ports. Each is in the default partition and differs in its other partitions.
enum PortId : std::size_t {
  kA,        ///< Full member of kLab and kBare.
  kB,        ///< Full member of kLab and kBare, like kA.
  kLimited,  ///< Limited member of kLab.
  kOutside,  ///< Full member of kOther.
  kPorts
};

struct PortUnderTest {
  wire::Gid gid;
  std::uint16_t lid = 0;
};

class SubnetUnderTest {
 public:
  virtual ~SubnetUnderTest() = default;

  /// "embedded" or "opensm".
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual PortUnderTest port(PortId id) const = 0;
  /// The administrator's port.
  [[nodiscard]] virtual PortUnderTest administrator() const = 0;
  [[nodiscard]] virtual TimePoint now() const = 0;

  virtual Status send(PortId from, const fabric::MadAddress& to,
                      std::span<const std::byte, wire::kMadLen> mad) = 0;

  using Deliver = std::function<void(PortId to, const fabric::ReceivedMad& mad)>;
  /// Lets time pass until MADs have arrived, and delivers them, or until `until`.
  virtual void step(TimePoint until, const Deliver& deliver) = 0;

  /// Makes the administrator see the port out of service, or back in service.
  virtual void unplug(PortId id) = 0;
  virtual void plug(PortId id) = 0;

  /// The largest size of an answer on this subnet, in octets.
  [[nodiscard]] virtual std::size_t longest_answer() const = 0;
};

}  // namespace ipoib::conformance
