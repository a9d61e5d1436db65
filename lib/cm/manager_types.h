// SPDX-License-Identifier: BSD-3-Clause
// Types of the communication manager's interface: parameters, the Consumer class, configuration and
// counters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/cm/cm_info.h"
#include "lib/cm/port_limiter.h"
#include "lib/fabric/qp1.h"
#include "lib/wire/cm_mads.h"

namespace ipoib::cm {

/// Sends a MAD: through MadPort in the program, over a simulated wire in tests. It may call
/// Manager::on_mad() with the answer before it returns. Losing MADs is allowed.
using MadSender =
    std::function<Status(const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen>)>;

/// Source: IBA vol 1 §12.9.5-§12.9.7; iba-wire.md §5.6.
enum class State : std::uint8_t {
  // Active side.
  kReqSent,
  kRepWait,  ///< MRA for the REQ received: the peer needs more time.
  kRepRcvd,  ///< The consumer must confirm or reject.
  kMraRepSent,
  // Passive side.
  kReqRcvd,  ///< The consumer must accept or reject.
  kMraReqSent,
  kRepSent,
  kRtuWait,  ///< MRA for the REP received.
  // Both sides.
  kRejSent,  ///< Over; the REJ is repeated for each repetition of the rejected message.
  kEstablished,
  kDreqSent,
  kTimeWait,  ///< Packets of the connection may still be under way.
};
[[nodiscard]] std::string_view to_string(State state);

struct Closed {
  CloseReason reason = CloseReason::kTimedOut;
  /// kRejected: the peer's REJ, including private data.
  wire::CmRej rej{};
};

/// A consumer's word on a REQ that has no connection yet.
struct Admission {
  enum class What : std::uint8_t {
    kAccept,  ///< on_request() accepts it, as far as is known.
    kReject,  ///< on_request() rejects it, so that it needs no queue pair.
    kWait,    ///< Ask again.
    kDrop,    ///< Its sender is not whom it names; there is no answer.
  };
  What what = What::kAccept;
  bool known = false;  ///< Its sender is a neighbour, and comes before strangers.
};

/// User of connections: an IPoIB link, or a test. The manager calls it only from on_mad, tick and
/// shutdown, never from a function that the consumer calls itself. A consumer may call any function
/// of the manager from here, but must not destroy it.
///
/// A handle is valid from connect() or on_request() until on_released(), which comes exactly once
/// for each handle. on_closed() comes before it, at most once, and not if the consumer itself ended
/// the connection by reject() or disconnect(), unless both sides ended it at once.
class Consumer {
 public:
  virtual ~Consumer() = default;
  /// Called for a REQ when it arrives and, while it waits, every few milliseconds. `waits_since`:
  /// time of its arrival; empty: it has no place to wait yet, and must cause no work, as queries do.
  [[nodiscard]] virtual Admission admit(const wire::CmReq& /*req*/,
                                        const fabric::MadAddress& /*from*/,
                                        std::optional<TimePoint> /*waits_since*/,
                                        TimePoint /*now*/) {
    return {};
  }
  /// A REQ for a service with a listener. accept() or reject() it, now or soon: the manager sends
  /// an MRA after half of the peer's timeout. `from`: source of the MAD according to its headers.
  virtual void on_request(Handle handle, const wire::CmReq& req, const fabric::MadAddress& from,
                          TimePoint now) = 0;
  /// The REP to a connect(). confirm() or reject() it, with the same rule for the MRA. The queue
  /// pair must send and receive before confirm().
  virtual void on_reply(Handle handle, const wire::CmRep& rep, TimePoint now) = 0;
  /// Passive side: the peer is ready, because its RTU or its first packet has arrived. (The active
  /// side calls confirm() instead.)
  virtual void on_established(Handle handle, TimePoint now) = 0;
  /// The connection is over: the queue pair must enter its error state.
  virtual void on_closed(Handle handle, const Closed& closed, TimePoint now) = 0;
  /// The peer's LAP on an established connection: packets of the peer will take this path when the one
  /// in use fails. Load its reverse, and return the status for the APR.
  [[nodiscard]] virtual wire::ApStatus on_alternate(Handle /*handle*/, const wire::CmLap& /*lap*/,
                                                    TimePoint /*now*/) {
    return wire::ApStatus::kNotSupported;
  }
  /// The peer's answer to load_alternate(); empty: none in time.
  virtual void on_alternate_answer(Handle /*handle*/, std::optional<wire::ApStatus> /*status*/,
                                   TimePoint /*now*/) {}
  /// No packet of the connection is under way any more: its QPN may be used again.
  virtual void on_released(Handle handle, TimePoint now) = 0;
};

/// Parameters of the active side. Times are codes: 4.096 us << code.
struct ConnectParams {
  fabric::MadAddress to{};  ///< The peer's communication manager; with the P_Key of the path.
  std::uint64_t service_id = 0;
  wire::CmTransport transport = wire::CmTransport::kRc;
  std::uint32_t qpn = 0;
  std::uint32_t starting_psn = 0;  ///< The first PSN that this side expects to receive.
  bool srq = false;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t mtu = 4;  ///< Path MTU as code.
  wire::CmPath primary{};
  wire::CmPath alternate{};          ///< All zeros: none.
  std::uint8_t lifetime = 16;        ///< Packet lifetime of the path.
  std::uint8_t remote_timeout = 18;  ///< The peer must answer the REQ in this time.
  std::uint8_t local_timeout = 18;   ///< This side answers a REP in this time.
  std::uint8_t max_retries = 4;      ///< Retransmits of a message, 0-15.
  /// Sent in REQ, MRA, RTU and REJ; truncated to the size of the field.
  std::vector<std::byte> private_data{};
};

/// Parameters of a LAP. Times are codes.
struct AlternateParams {
  wire::CmPath path{};
  std::uint8_t remote_timeout = 18;  ///< That of the connection's REQ, if this side sent it.
};

/// Parameters of the passive side's REP.
struct AcceptParams {
  std::uint32_t qpn = 0;
  std::uint32_t starting_psn = 0;
  bool srq = false;
  std::uint8_t rnr_retry = 7;  ///< For the peer's sends.
  std::uint8_t target_ack_delay = 15;
  /// For the alternate path of the REQ, if it has one.
  wire::Failover failover = wire::Failover::kNotSupported;
  /// Sent in REP, in later REJs and in the RTU of probe().
  std::vector<std::byte> private_data{};
};

struct ManagerConfig {
  std::uint64_t ca_guid = 0;  ///< Node GUID; 0: the GUID of the port is used.
  /// Limit of passive connections between REQ and RTU plus remembered rejected ones. The oldest is
  /// dropped for a new one, rejected ones first.
  std::size_t max_half_open = 512;
  /// Limit of connections that wait for an answer to a DREQ. The oldest waits no longer.
  std::size_t max_ending = 1024;
  std::size_t max_connections = 65'536;  ///< Limit in all states; further ones are refused.
  // Bounds of times that peers choose.
  Duration min_timeout = std::chrono::milliseconds(10);
  Duration max_timeout = std::chrono::seconds(10);   ///< Limit of one attempt or one MRA.
  Duration max_handshake = std::chrono::minutes(2);  ///< Limit from the first message on.
  std::uint8_t max_lifetime = 19;                    ///< Time code; 2.1 s.
  /// Time code sent in MRAs: the consumer must answer in this time, or the manager rejects.
  std::uint8_t service_timeout = 20;
  /// Limit of the time in which a DREQ is repeated; the peer's queue pair may be gone.
  Duration max_disconnect = std::chrono::seconds(8);
  unsigned max_sidr = 256;  ///< Limit of outstanding requests.
  PortLimits limits{};      ///< Queue pairs for the requests of peers.
};

/// Duration of a time code. Source: iba-wire.md §2.
[[nodiscard]] constexpr Duration time_of(std::uint8_t code) noexcept {
  return Duration{4096} * (std::int64_t{1} << (code & 0x1f));
}

}  // namespace ipoib::cm
