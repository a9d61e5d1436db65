// SPDX-License-Identifier: BSD-3-Clause
// Classification and conversion of MADs, shared by all kinds of umad ports.
#pragma once

#include <cstdint>
#include <optional>

#include "drivers/umad/umad.h"
#include "lib/fabric/qp1.h"
#include "lib/wire/mad.h"

namespace ipoib::umad {

[[nodiscard]] constexpr bool is(std::uint8_t mgmt_class, wire::MgmtClass wanted) noexcept {
  return mgmt_class == static_cast<std::uint8_t>(wanted);
}

[[nodiscard]] constexpr bool is_response(std::uint8_t method) noexcept {
  return (method & wire::kMethodResponse) != 0;
}

/// True for a message of a communication manager. These messages are not responses: the receiver's
/// communication manager interprets them.
[[nodiscard]] bool is_of_connections(const wire::MadHdr& header) noexcept;

/// Error response to a request that this node does not serve, so that the requester does not wait
/// (a subnet manager's sweep waits for ever in the simulator). Empty if the method has no response.
[[nodiscard]] std::optional<fabric::MadBytes> refusal_of(const Arrived& request,
                                                         const wire::MadHdr& header);

/// `pkey`: the entry of the port's table that accepted the MAD.
[[nodiscard]] fabric::ReceivedMad as_received(const Arrived& arrived, std::uint16_t pkey);

}  // namespace ipoib::umad
