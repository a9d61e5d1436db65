// SPDX-License-Identifier: BSD-3-Clause
// Conversion of requests to SA MADs and of answers to replies, for client and administrator.
// Source: iba-wire.md §3.1, §3.2, §4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/fabric/qp1.h"
#include "lib/sa/client.h"
#include "lib/wire/rmpp.h"
#include "lib/wire/sa_records.h"

namespace ipoib::sa {

/// Set is answered with GetResp, every other method with itself and the response bit.
[[nodiscard]] constexpr std::uint8_t response_of(std::uint8_t method) noexcept {
  if (method == static_cast<std::uint8_t>(wire::Method::kSet))
    return static_cast<std::uint8_t>(wire::Method::kGetResp);
  return method | wire::kMethodResponse;
}

[[nodiscard]] wire::SaMad request_mad(const Request& request, std::uint64_t tid) noexcept;

/// True if a received SA MAD is for a client (answers and Reports), false if it is for an
/// administrator (requests, and the answers to Reports).
[[nodiscard]] constexpr bool is_for_client(std::uint8_t method) noexcept {
  if (method == static_cast<std::uint8_t>(wire::Method::kReport)) return true;
  if (method == static_cast<std::uint8_t>(wire::Method::kReportResp)) return false;
  return (method & wire::kMethodResponse) != 0;
}

/// True if the MAD is an RMPP packet. Some transports leave the active flag in an answer that they
/// cut to one MAD, with version and type 0: such a MAD is not an RMPP packet.
[[nodiscard]] bool is_rmpp(const wire::SaHdr& hdr) noexcept;

/// Reason why an answer gives no Reply.
struct Fault {
  enum class Kind { kRefused, kMalformed } kind;
  std::uint16_t status = 0;  ///< MAD status, if refused.
};

/// Reads a table from its header and all of its octets. `padded`: the length is not known, and
/// records of zeros at the end are padding. A refusal with "no records" is an empty table.
[[nodiscard]] tl::expected<Reply, Fault> read_table(const wire::SaHdr& hdr,
                                                    std::span<const std::byte> data, bool padded);

/// Reads an answer without RMPP to a request with `method`.
[[nodiscard]] tl::expected<Reply, Fault> read_answer(const wire::SaMad& mad, wire::Method method);

/// Reads a table that the transport reassembled; `mad` is its first MAD. An SA that answers without
/// RMPP pads its one MAD; a transport that cuts answers reports how many octets it left.
[[nodiscard]] tl::expected<Reply, Fault> read_whole_table(const wire::SaMad& mad,
                                                          const fabric::ReceivedMad& received);

}  // namespace ipoib::sa
