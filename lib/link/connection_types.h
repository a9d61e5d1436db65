// SPDX-License-Identifier: BSD-3-Clause
// What connected mode of an IPoIB link is given and what it tells. Source:
// draft-ietf-ipoib-connected-mode-03 (RFC 4755).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/cm/types.h"
#include "lib/fabric/connected.h"
#include "lib/fabric/types.h"
#include "lib/wire/ip.h"
#include "lib/wire/ipoib_cm.h"

namespace ipoib::link {

/// What connected mode does to its HCA: lib/fabric/hca.h. Management lcore only.
class ConnectionActions {
 public:
  virtual ~ConnectionActions() = default;
  virtual Result<fabric::ConnectedQueue*> create_connected(fabric::Transport transport) = 0;
  /// Nothing that was installed names the queue any more; workers may be about to.
  virtual void destroy_connected(fabric::ConnectedQueue& queue) = 0;
  virtual Status set_ready_to_receive(fabric::ConnectedQueue& queue,
                                      const fabric::ReadyToReceive& attr) = 0;
  virtual Status set_ready_to_send(fabric::ConnectedQueue& queue,
                                   const fabric::ReadyToSend& attr) = 0;
  virtual void set_error(fabric::ConnectedQueue& queue) = 0;
  [[nodiscard]] virtual fabric::ConnectedQueueInfo info(
      const fabric::ConnectedQueue& queue) const = 0;
};

/// When this side asks a peer that offers connected mode for a connection.
enum class OpenPolicy : std::uint8_t {
  kTraffic,  ///< While packets go there.
  kAlways,   ///< As soon as it is a neighbour.
  kAccept,   ///< Never; requests of peers are accepted.
};

/// How many connections two interfaces have.
enum class PairPolicy : std::uint8_t {
  /// One, for both directions; requests that cross are settled by address (draft §3.3). Peers that
  /// ask with Linux's service ID have one each way, as Linux must not be sent to on a connection
  /// that it opened.
  kOne,
  kPerDirection,  ///< Linux's habit with every peer: all requests accepted, each side sends on its
                  ///< own.
};

struct ConnectionConfig {
  // Neither: the link is UD only, its address says so and nobody listens.
  bool rc = false;
  bool uc = false;
  OpenPolicy open = OpenPolicy::kTraffic;
  PairPolicy pairs = PairPolicy::kOne;
  /// First octet of the service ID that is asked first; the other one where the peer knows no such
  /// service. Both are listened on.
  wire::ServiceIdForm service_id = wire::ServiceIdForm::kIetf;
  /// Largest message taken, encapsulation header included: IP packets of up to 65,520.
  std::uint32_t receive_mtu = 65'524;
  std::size_t max_connections = 4096;         ///< Of either side; peers beyond it stay with UD.
  Duration idle = std::chrono::seconds(300);  ///< Unused this long, a connection is closed.
  Duration backoff_min = std::chrono::seconds(1);  ///< After a failure; doubled with each.
  Duration backoff_max = std::chrono::seconds(60);
  /// Retries of a request, and how long the peer has to answer: 4.096 us << code.
  std::uint8_t cm_retries = 4;
  std::uint8_t cm_timeout = 17;
  // Of RC. Short against TCP's shortest retransmission time-out of 200 ms (draft §7.1): 7 retries
  // of 17 ms, after which the connection has failed and packets go by UD.
  std::uint8_t retry_count = 7;
  /// What peers are asked for, and the most that a peer may ask of this side; 7: for ever, while
  /// which a peer that never has a buffer holds all that was sent to it.
  std::uint8_t rnr_retry = 6;
  std::uint8_t ack_timeout = 12;
};

/// Why connections came to an end, or did not come about.
enum class ConnectionEnd : std::uint8_t {
  kRejected,  ///< By the peer.
  kTimedOut,  ///< It did not answer.
  kPeer,      ///< The peer closed it.
  kStale,     ///< The peer has forgotten it.
  kIdle,
  kUnwanted,  ///< Its neighbours are gone.
  kReplaced,  ///< By a newer one with the same peer.
  kDropped,   ///< The peer never got ready, and another asked where max_connections are in use.
  kFailed,    ///< The queue pair: see fabric::QueueError.
  kClosed,    ///< By the operator, or the link went down.
  kRefused,   ///< Here: the peer's answer makes no sense, or there are no resources.
  kCount
};
[[nodiscard]] std::string_view to_string(ConnectionEnd end);

struct ConnectionCounters {
  std::uint64_t asked = 0;     ///< REQs of this side.
  std::uint64_t incoming = 0;  ///< REQs of peers.
  std::uint64_t established = 0;
  std::uint64_t crossed = 0;  ///< REQs that crossed one of this side.
  std::uint64_t limited = 0;  ///< Not asked for or refused: max_connections.
  // REQs refused, beside those that crossed and those beyond the limit.
  std::uint64_t bad_private_data = 0;  ///< No UD QPN of a peer, or an MTU that carries nothing.
  std::uint64_t bad_transport = 0;     ///< Not one this link has.
  std::uint64_t elsewhere = 0;  ///< In the name of a peer whose connection is with another port.
  std::uint64_t no_queue = 0;   ///< The HCA gave none.
  std::array<std::uint64_t, static_cast<std::size_t>(ConnectionEnd::kCount)> ended{};

  [[nodiscard]] std::uint64_t ended_by(ConnectionEnd end) const {
    return ended[static_cast<std::size_t>(end)];
  }
};

/// One row of `show connection`.
struct ConnectionInfo {
  cm::Handle handle = cm::kNoHandle;
  std::string iface;  ///< Set by the one who has the link.
  std::string peer;   ///< Link-layer address.
  std::vector<wire::IpAddr> neighbours;
  fabric::Transport transport = fabric::Transport::kRc;
  bool active = false;   ///< This side asked for it.
  bool sending = false;  ///< Packets to the peer go by it.
  std::string_view state;
  std::uint32_t qpn = 0;
  std::uint32_t peer_qpn = 0;
  std::uint32_t mtu = 0;  ///< Largest IP packet; 0 until known.
  Duration age{};
  Duration idle{};  ///< Since a packet was last seen on it.
  fabric::ConnectedQueueInfo queue{};
};

}  // namespace ipoib::link
