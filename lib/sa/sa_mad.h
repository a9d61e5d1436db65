// How a request becomes an SA MAD and an answer becomes a reply: what client and administrator must
// agree on. Source: reference §3.1, §3.2, §4.
#pragma once

#include <cstdint>

#include "lib/sa/client.h"
#include "lib/wire/mad.h"

namespace ipoib::sa {

inline constexpr std::uint8_t kRmppVersion = 1;
inline constexpr std::uint8_t kRmppData = 1;
inline constexpr std::uint8_t kRmppActive = 1;       ///< Flag.
inline constexpr std::uint8_t kRmppOnlySegment = 7;  ///< Flags Active, First, Last.
inline constexpr std::uint8_t kRmppFlagsMask = 7;
inline constexpr std::uint8_t kRmppNoRespTime = 0x1f << 3;
/// Octets of the SA header that RMPP counts as payload of every segment.
inline constexpr std::uint32_t kRmppSaHeaderLen = 20;

/// Set is answered by GetResp; every other method by itself with the response bit.
[[nodiscard]] constexpr std::uint8_t response_of(std::uint8_t method) noexcept {
  if (method == static_cast<std::uint8_t>(wire::Method::kSet))
    return static_cast<std::uint8_t>(wire::Method::kGetResp);
  return method | wire::kMethodResponse;
}

[[nodiscard]] wire::SaMad request_mad(const Request& request, std::uint64_t tid) noexcept;

/// Why an answer is no reply.
struct Fault {
  enum class Kind { kRefused, kSegmented, kMalformed } kind;
  std::uint16_t status = 0;  ///< When refused.
};

/// Reads the answer to a request with `method`. A table may come as one RMPP segment or without
/// RMPP; in the latter case its length is not told, and records of nothing but zeros at the end are
/// taken as padding. A table refused with "no records" is an empty table.
[[nodiscard]] tl::expected<Reply, Fault> read_answer(const wire::SaMad& mad, wire::Method method);

}  // namespace ipoib::sa
