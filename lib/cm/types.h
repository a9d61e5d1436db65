// SPDX-License-Identifier: BSD-3-Clause
// What the communication manager is given and what it tells: parameters, the consumer's face,
// configuration, counters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/fabric/types.h"
#include "lib/wire/cm_messages.h"

namespace ipoib::cm {

/// How a MAD leaves: MadPort in the program, a simulated wire in tests. It may feed the answer
/// right back. Losing MADs is allowed.
using MadSender =
    std::function<Status(const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen>)>;

/// A connection, or the attempt at one: its local communication ID. Not used again before all
/// others have been.
using Handle = std::uint32_t;
inline constexpr Handle kNoHandle = 0;

/// Source: IBA vol 1 §12.9.5-§12.9.7; iba-wire.md §5.6.
enum class State : std::uint8_t {
  // Active side.
  kReqSent,
  kRepWait,  ///< MRA for the REQ received: the peer takes its time.
  kRepRcvd,  ///< The consumer is to confirm or reject.
  kMraRepSent,
  // Passive side.
  kReqRcvd,  ///< The consumer is to accept or reject.
  kMraReqSent,
  kRepSent,
  kRtuWait,  ///< MRA for the REP received.
  // Both.
  kRejSent,  ///< Over; the REJ is repeated for each repetition of what it rejected.
  kEstablished,
  kDreqSent,
  kTimeWait,  ///< Packets of the connection may still be under way.
};
[[nodiscard]] std::string_view to_string(State state);

/// Why a connection ended, or did not come about.
enum class CloseReason : std::uint8_t {
  kRejected,  ///< By the peer's REJ.
  kTimedOut,  ///< The peer did not answer any attempt; or the consumer not in time.
  kPeer,      ///< By the peer's DREQ.
  kStale,     ///< The peer uses the queue pair or communication ID anew: it has forgotten this one.
  kProtocol,  ///< The peer's REP makes no sense.
  kDropped,   ///< Oldest of too many half-open ones.
  kShutdown,
  kCount
};
[[nodiscard]] std::string_view to_string(CloseReason reason);

struct Closed {
  CloseReason reason = CloseReason::kTimedOut;
  /// kRejected: the peer's REJ, private data included.
  wire::CmRej rej{};
};

/// Who has connections: an IPoIB link, or a test. Called from on_mad, tick and shutdown of the
/// manager alone, never from what the consumer calls itself; everything of the manager may be
/// called from here, but it may not be destroyed.
///
/// A handle lives from connect() or on_request() to on_released(), which comes for each of them and
/// exactly once. Before that on_closed() comes, at most once; not where the consumer ended it
/// itself by reject() or disconnect(), unless both happened at once.
class Consumer {
 public:
  virtual ~Consumer() = default;
  /// A REQ for a service listened to; accept() or reject() it, now or soon: the peer is told to
  /// wait (MRA) when it takes longer than half the peer's time-out. `from`: what its headers said.
  virtual void on_request(Handle handle, const wire::CmReq& req, const fabric::MadAddress& from,
                          TimePoint now) = 0;
  /// The REP to a connect(); confirm() or reject() it, likewise. The queue pair must send and
  /// receive before confirm().
  virtual void on_reply(Handle handle, const wire::CmRep& rep, TimePoint now) = 0;
  /// Passive side: the peer is ready, by its RTU or by the first packet. (The active side has
  /// confirmed.)
  virtual void on_established(Handle handle, TimePoint now) = 0;
  /// Over: the queue pair goes to its error state.
  virtual void on_closed(Handle handle, const Closed& closed, TimePoint now) = 0;
  /// No packet of it is under way any more: its QPN may be used again.
  virtual void on_released(Handle handle, TimePoint now) = 0;
};

/// The active side's wishes. Times are codes: 4.096 us << code.
struct ConnectParams {
  fabric::MadAddress to{};  ///< The peer's communication manager; P_Key that of the path.
  std::uint64_t service_id = 0;
  wire::CmTransport transport = wire::CmTransport::kRc;
  std::uint32_t qpn = 0;
  std::uint32_t starting_psn = 0;  ///< The first expected to be received.
  bool srq = false;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t mtu = 4;  ///< Of the path, as code.
  wire::CmPath primary{};
  std::uint8_t lifetime = 16;        ///< Packet lifetime of the path.
  std::uint8_t remote_timeout = 18;  ///< The peer has to answer the REQ in this time.
  std::uint8_t local_timeout = 18;   ///< This side answers a REP in this time.
  std::uint8_t max_retries = 4;      ///< Repetitions of a message, 0-15.
  /// In REQ, RTU and REJ; what does not fit is cut.
  std::vector<std::byte> private_data{};
};

/// The passive side's answer.
struct AcceptParams {
  std::uint32_t qpn = 0;
  std::uint32_t starting_psn = 0;
  bool srq = false;
  std::uint8_t rnr_retry = 7;  ///< What the peer is to use when it sends.
  std::uint8_t target_ack_delay = 15;
  /// In REP and REJ.
  std::vector<std::byte> private_data{};
};

struct ManagerConfig {
  std::uint64_t ca_guid = 0;  ///< Node GUID; 0: the port's own stands for it.
  /// Passive connections between REQ and RTU, and rejected ones remembered; the oldest goes when
  /// there are more.
  std::size_t max_half_open = 1024;
  std::size_t max_connections = 65'536;  ///< Of any state; more are refused.
  // Bounds for times that peers choose.
  Duration min_timeout = std::chrono::milliseconds(10);
  Duration max_timeout = std::chrono::seconds(10);   ///< Of one attempt, one MRA included.
  Duration max_handshake = std::chrono::minutes(2);  ///< From its first message on.
  std::uint8_t max_lifetime = 19;                    ///< Time code; 2.1 s.
  /// MRAs tell peers that the consumer takes so long; then it is too late for it. Time code.
  std::uint8_t service_timeout = 20;
  unsigned max_sidr = 256;  ///< Requests outstanding.
};

struct ManagerCounters {
  /// By kind of message (wire::index_of).
  std::array<std::uint64_t, wire::kCmAttrs> sent{};      ///< Repetitions included.
  std::array<std::uint64_t, wire::kCmAttrs> repeated{};  ///< Those of them.
  std::array<std::uint64_t, wire::kCmAttrs> received{};
  std::array<std::uint64_t, wire::kCmAttrs> duplicates{};  ///< Had already.
  std::uint64_t send_failed = 0;                           ///< The sender did not take it.
  /// Unreadable, by fault; dropped (a REQ of another class version is rejected).
  std::array<std::uint64_t, static_cast<std::size_t>(wire::CmError::kCount)> malformed{};
  // Readable and dropped.
  std::uint64_t unknown_id = 0;  ///< About no connection of this node.
  std::uint64_t wrong_peer = 0;  ///< Its other ID or QPN is not that of the connection.
  std::uint64_t unexpected = 0;  ///< Not what the state of the connection waits for.
  // REQs refused by the manager itself: with a REJ of that reason.
  std::uint64_t refused_service = 0;    ///< Nobody listens.
  std::uint64_t refused_transport = 0;  ///< Neither RC nor UC.
  std::uint64_t refused_fields = 0;     ///< QPN, path MTU, GID or LID that cannot be.
  std::uint64_t refused_full = 0;       ///< max_connections.
  std::uint64_t refused_stale = 0;      ///< QPN or ID of a connection that exists.
  // Attempts and connections.
  std::uint64_t requests = 0;  ///< connect().
  std::uint64_t incoming = 0;  ///< Given to consumers.
  std::uint64_t established = 0;
  std::uint64_t by_traffic = 0;  ///< Those of them that a packet established before the RTU.
  std::uint64_t rejected_here = 0;
  std::uint64_t disconnected = 0;  ///< By consumers.
  std::uint64_t laps_refused = 0;
  /// By CloseReason.
  std::array<std::uint64_t, static_cast<std::size_t>(CloseReason::kCount)> closed{};
  std::uint64_t sidr_requests = 0, sidr_answered = 0, sidr_timed_out = 0;
  std::uint64_t sidr_served = 0, sidr_refused = 0;

  [[nodiscard]] std::uint64_t closed_by(CloseReason reason) const {
    return closed[static_cast<std::size_t>(reason)];
  }
};

/// Duration of a time code. Source: iba-wire.md §2.
[[nodiscard]] constexpr Duration time_of(std::uint8_t code) noexcept {
  return Duration{4096} * (std::int64_t{1} << (code & 0x1f));
}

}  // namespace ipoib::cm
