// SPDX-License-Identifier: BSD-3-Clause
// How a request becomes an SA MAD and an answer becomes a reply: what client and administrator must
// agree on. Source: iba-wire.md §3.1, §3.2, §4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/fabric/types.h"
#include "lib/sa/client.h"
#include "lib/wire/mad.h"
#include "lib/wire/rmpp.h"

namespace ipoib::sa {

/// Set is answered by GetResp; every other method by itself with the response bit.
[[nodiscard]] constexpr std::uint8_t response_of(std::uint8_t method) noexcept {
  if (method == static_cast<std::uint8_t>(wire::Method::kSet))
    return static_cast<std::uint8_t>(wire::Method::kGetResp);
  return method | wire::kMethodResponse;
}

[[nodiscard]] wire::SaMad request_mad(const Request& request, std::uint64_t tid) noexcept;

/// Whom a MAD of subnet administration that arrived is for: a client (answers and Reports) or an
/// administrator (requests, and the answers to Reports).
[[nodiscard]] constexpr bool is_for_client(std::uint8_t method) noexcept {
  if (method == static_cast<std::uint8_t>(wire::Method::kReport)) return true;
  if (method == static_cast<std::uint8_t>(wire::Method::kReportResp)) return false;
  return (method & wire::kMethodResponse) != 0;
}

/// Whether RMPP carries the MAD. Some transports leave the flag in an answer they cut to one MAD,
/// with no version or type: that one is none.
[[nodiscard]] bool is_rmpp(const wire::SaHdr& hdr) noexcept;

/// Why an answer is no reply.
struct Fault {
  enum class Kind { kRefused, kMalformed } kind;
  std::uint16_t status = 0;  ///< When refused.
};

/// Reads a table: the header it came under and all of its octets. `padded`: its length was not
/// told, and records of nothing but zeros at the end are taken as padding. A table refused with "no
/// records" is an empty table.
[[nodiscard]] tl::expected<Reply, Fault> read_table(const wire::SaHdr& hdr,
                                                    std::span<const std::byte> data, bool padded);

/// Reads the answer to a request with `method` that came without RMPP.
[[nodiscard]] tl::expected<Reply, Fault> read_answer(const wire::SaMad& mad, wire::Method method);

/// Reads a table that the transport put together, `mad` its head. An SA that answered without RMPP
/// filled up its one MAD; a transport that cuts answers tells how many octets it left of them.
[[nodiscard]] tl::expected<Reply, Fault> read_whole_table(const wire::SaMad& mad,
                                                          const fabric::ReceivedMad& received);

}  // namespace ipoib::sa
