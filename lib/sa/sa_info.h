// SPDX-License-Identifier: BSD-3-Clause
// Counters of the client of the subnet administrator, and of the embedded one: plain values.
#pragma once

#include <cstdint>

namespace ipoib::sa {

struct ClientCounters {
  std::uint64_t sent = 0;     ///< Requests sent, retransmissions included.
  std::uint64_t retried = 0;  ///< Retransmissions among them.
  std::uint64_t answered = 0, refused = 0, timed_out = 0;
  std::uint64_t unmatched = 0;    ///< MADs of no outstanding request (late, duplicate, foreign).
  std::uint64_t malformed = 0;    ///< Not SA MADs, or answers with invalid contents.
  std::uint64_t busy = 0;         ///< Answers with status busy, retried.
  std::uint64_t segmented = 0;    ///< Tables received in several RMPP segments.
  std::uint64_t send_failed = 0;  ///< MADs that the MadSender did not accept.
  std::uint64_t overflowed = 0;   ///< Requests failed because too many were waiting.

  std::uint64_t segments = 0;           ///< New RMPP segments accepted.
  std::uint64_t segments_repeated = 0;  ///< Duplicates, also late ones of an ended table.
  std::uint64_t segments_beyond = 0;    ///< Segments above the window, dropped.
  std::uint64_t tables_stopped = 0;     ///< STOPs and ABORTs of the SA.
  std::uint64_t tables_given_up = 0;    ///< Tables ended by this side: STOP, ABORT, or too big.

  std::uint64_t reports = 0;  ///< Reports of the SA, acknowledged; includes the next three.
  std::uint64_t reports_repeated = 0;  ///< Duplicates.
  std::uint64_t reports_vendor = 0;    ///< Not generic; not passed to the handler.
  std::uint64_t reports_garbled = 0;   ///< Invalid contents; also counted in `malformed`.
  std::uint64_t reports_foreign = 0;   ///< Not from the SA; neither acknowledged nor passed on.
};

/// SMPs of the embedded administrator to other ports.
struct SmpCounters {
  std::uint64_t sent = 0;  ///< Retransmissions included.
  std::uint64_t resent = 0;
  std::uint64_t answered = 0;
  std::uint64_t silent = 0;       ///< Requests without an answer.
  std::uint64_t send_failed = 0;  ///< The port refused them; retransmitted like lost ones.
};

}  // namespace ipoib::sa
