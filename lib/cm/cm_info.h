// SPDX-License-Identifier: BSD-3-Clause
// Names and counters of connections, for display: plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/wire/cm_types.h"

namespace ipoib::cm {

/// The local communication ID of a connection or of an attempt. It is reused only after all other
/// IDs have been used.
using Handle = std::uint32_t;
inline constexpr Handle kNoHandle = 0;

/// The reason why a connection ended or was not set up.
enum class CloseReason : std::uint8_t {
  kRejected,  ///< The peer sent a REJ.
  kTimedOut,  ///< The peer answered no attempt, or the consumer did not answer in time.
  kPeer,      ///< The peer sent a DREQ.
  /// The peer uses the queue pair or communication ID again: it has forgotten the connection.
  kStale,
  kProtocol,  ///< The peer's REP is invalid.
  kDropped,   ///< It was the oldest of too many half-open connections.
  kShutdown,
  kCount
};
[[nodiscard]] std::string_view to_string(CloseReason reason);

struct ManagerCounters {
  /// Indexed by kind of message (wire::index_of).
  std::array<std::uint64_t, wire::kCmAttrs> sent{};      ///< Including retransmits.
  std::array<std::uint64_t, wire::kCmAttrs> repeated{};  ///< Retransmits only.
  std::array<std::uint64_t, wire::kCmAttrs> received{};
  std::array<std::uint64_t, wire::kCmAttrs> duplicates{};  ///< Messages that had arrived before.
  std::uint64_t send_failed = 0;                           ///< MadSender returned an error.
  /// Malformed messages by fault. They are dropped (a REQ of another class version is rejected).
  std::array<std::uint64_t, static_cast<std::size_t>(wire::CmError::kCount)> malformed{};
  // Well-formed messages that are dropped.
  std::uint64_t unknown_id = 0;  ///< The connection does not exist on this node.
  std::uint64_t wrong_peer = 0;  ///< The peer's ID or QPN is not that of the connection.
  std::uint64_t wrong_port = 0;  ///< From another port than the peer's.
  std::uint64_t unexpected = 0;  ///< Not possible in the state of the connection.
  // REQs that the manager itself refuses, with a REJ of that reason.
  std::uint64_t refused_service = 0;    ///< No consumer listens.
  std::uint64_t refused_transport = 0;  ///< Neither RC nor UC.
  std::uint64_t refused_fields = 0;     ///< Invalid QPN, path MTU, GID or LID.
  std::uint64_t refused_full = 0;       ///< max_connections is reached.
  std::uint64_t refused_stale = 0;      ///< QPN or ID of an existing connection.
  // Attempts and connections.
  std::uint64_t requests = 0;  ///< Calls of connect() that sent a REQ.
  std::uint64_t incoming = 0;  ///< REQs passed to consumers.
  // REQs that wait before that, for the path to their sender or for their turn.
  std::uint64_t waited = 0;
  std::uint64_t waiting_full = 0;     ///< Dropped: no place to wait.
  std::uint64_t waited_too_long = 0;  ///< Dropped after the longest wait.
  std::uint64_t not_admitted = 0;     ///< Dropped: the consumer does not believe them.
  std::uint64_t established = 0;
  /// Established by a packet before the RTU; included in `established`.
  std::uint64_t by_traffic = 0;
  std::uint64_t rejected_here = 0;
  std::uint64_t disconnected = 0;  ///< Calls of disconnect().
  /// Disconnects that the peer has not answered in time, or whose place another one needed.
  std::uint64_t dreqs_unanswered = 0;
  // Alternate paths: LAPs of peers by answer, and own ones without an answer.
  std::uint64_t laps_accepted = 0;
  std::uint64_t laps_refused = 0;
  std::uint64_t laps_unanswered = 0;
  /// Indexed by CloseReason.
  std::array<std::uint64_t, static_cast<std::size_t>(CloseReason::kCount)> closed{};
  std::uint64_t sidr_requests = 0, sidr_answered = 0, sidr_timed_out = 0;
  std::uint64_t sidr_served = 0, sidr_refused = 0;

  [[nodiscard]] std::uint64_t closed_by(CloseReason reason) const {
    return closed[static_cast<std::size_t>(reason)];
  }
};

}  // namespace ipoib::cm
