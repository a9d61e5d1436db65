// SPDX-License-Identifier: BSD-3-Clause
// MADs as umad has them and as users of a port do: what every kind of port does with them alike.
#pragma once

#include <cstdint>
#include <optional>

#include "drivers/umad/umad.h"
#include "lib/fabric/types.h"
#include "lib/wire/mad.h"

namespace ipoib::umad {

[[nodiscard]] constexpr bool is(std::uint8_t mgmt_class, wire::MgmtClass wanted) noexcept {
  return mgmt_class == static_cast<std::uint8_t>(wanted);
}

[[nodiscard]] constexpr bool is_response(std::uint8_t method) noexcept {
  return (method & wire::kMethodResponse) != 0;
}

/// A message of a communication manager. They are no answers: whoever has connections looks what
/// they are.
[[nodiscard]] bool is_of_connections(const wire::MadHdr& header) noexcept;

/// What is said to who asks for what nobody here serves, rather than leaving it waiting (a subnet
/// manager's sweep waits for ever in the simulator); nothing where nothing answers that.
[[nodiscard]] std::optional<fabric::MadBytes> refusal_of(const Arrived& request,
                                                         const wire::MadHdr& header);

/// `pkey`: that of the table's entry which let it in.
[[nodiscard]] fabric::ReceivedMad as_received(const Arrived& arrived, std::uint16_t pkey);

}  // namespace ipoib::umad
