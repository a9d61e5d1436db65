// SPDX-License-Identifier: BSD-3-Clause
// Types of an IPoIB link's connected mode: its HCA functions, configuration and counters. Source:
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
#include "lib/cm/manager_types.h"
#include "lib/fabric/connected.h"
#include "lib/fabric/fabric_types.h"
#include "lib/wire/ip.h"
#include "lib/wire/ipoib_cm.h"

namespace ipoib::link {

/// The HCA functions that connected mode uses: lib/fabric/hca.h. Management lcore only.
class ConnectionActions {
 public:
  virtual ~ConnectionActions() = default;
  virtual Result<fabric::ConnectedQueue*> create_connected(fabric::Transport transport) = 0;
  /// Precondition: no installed entry names the queue any more; workers may still be about to use
  /// it.
  virtual void destroy_connected(fabric::ConnectedQueue& queue) = 0;
  virtual Status set_ready_to_receive(fabric::ConnectedQueue& queue,
                                      const fabric::ReadyToReceive& attr) = 0;
  virtual Status set_ready_to_send(fabric::ConnectedQueue& queue,
                                   const fabric::ReadyToSend& attr) = 0;
  virtual void set_error(fabric::ConnectedQueue& queue) = 0;
  [[nodiscard]] virtual fabric::ConnectedQueueInfo info(
      const fabric::ConnectedQueue& queue) const = 0;
};

/// The condition under which this side requests a connection with a peer that offers connected
/// mode.
enum class OpenPolicy : std::uint8_t {
  kTraffic,  ///< While packets are sent to it.
  kAlways,   ///< Whenever it is a neighbour.
  kAccept,   ///< Never; requests of peers are accepted.
};

/// Number of connections between two interfaces.
enum class PairPolicy : std::uint8_t {
  /// One for both directions; crossing requests are resolved by address (draft §3.3). Peers that
  /// request with Linux's service ID have one in each direction, because Linux must not be sent to
  /// on a connection that it opened.
  kOne,
  /// Linux's way, with every peer: all requests are accepted, each side sends on its own.
  kPerDirection,
};

struct ConnectionConfig {
  // If both are false, the link is UD only, its address says so, and it does not listen.
  bool rc = false;
  bool uc = false;
  OpenPolicy open = OpenPolicy::kTraffic;
  PairPolicy pairs = PairPolicy::kOne;
  /// First octet of the service ID in the first request. The other one follows if the peer does not
  /// know that service. The link listens on both.
  wire::ServiceIdForm service_id = wire::ServiceIdForm::kIetf;
  /// Largest message received, including the encapsulation header: IP packets of up to 65,520.
  std::uint32_t receive_mtu = 65'524;
  std::size_t max_connections = 4096;  ///< Limit of both sides together; further peers use UD.
  Duration idle = std::chrono::seconds(300);  ///< A connection that is unused this long is closed.
  /// Delay after a failure; doubled with each one.
  Duration backoff_min = std::chrono::seconds(1);
  Duration backoff_max = std::chrono::seconds(60);
  /// Retries of a request, and the peer's time to answer: 4.096 us << code.
  std::uint8_t cm_retries = 4;
  std::uint8_t cm_timeout = 17;
  // RC only. Short in comparison with TCP's shortest retransmission timeout of 200 ms (draft §7.1):
  // 7 retries of 17 ms, after which the connection has failed and packets use UD.
  std::uint8_t retry_count = 7;
  /// The value requested from peers, and the upper limit of the value that a peer may request from
  /// this side. 7 means for ever: a peer that never has a buffer would then hold all messages sent
  /// to it.
  std::uint8_t rnr_retry = 6;
  std::uint8_t ack_timeout = 12;
};

/// The reason why a connection ended or was not set up.
enum class ConnectionEnd : std::uint8_t {
  kRejected,  ///< The peer rejected it.
  kTimedOut,  ///< The peer did not answer.
  kPeer,      ///< The peer closed it.
  kStale,     ///< The peer has forgotten it.
  kIdle,
  kUnwanted,  ///< Its neighbours are gone.
  kReplaced,  ///< A newer connection with the same peer replaced it.
  kDropped,   ///< The peer never became ready, and another connection needed its place.
  kFailed,    ///< The queue pair failed: see fabric::QueueError.
  kClosed,    ///< The operator closed it, or the link went down.
  kRefused,   ///< This side refused: the peer's answer is invalid, or resources are missing.
  kCount
};
[[nodiscard]] std::string_view to_string(ConnectionEnd end);

struct ConnectionCounters {
  std::uint64_t asked = 0;     ///< REQs of this side.
  std::uint64_t incoming = 0;  ///< REQs of peers.
  std::uint64_t established = 0;
  std::uint64_t crossed = 0;  ///< REQs that crossed a REQ of this side.
  std::uint64_t limited = 0;  ///< Not requested, or refused: max_connections is reached.
  // Refused REQs, except for crossing ones and those beyond the limit.
  /// No valid UD QPN, an MTU that carries nothing, or this link's own address.
  std::uint64_t bad_private_data = 0;
  std::uint64_t bad_transport = 0;  ///< A transport that this link does not offer.
  std::uint64_t elsewhere = 0;  ///< REQs that name a peer that is connected through another port.
  std::uint64_t no_queue = 0;   ///< The HCA provided no queue.
  std::array<std::uint64_t, static_cast<std::size_t>(ConnectionEnd::kCount)> ended{};

  [[nodiscard]] std::uint64_t ended_by(ConnectionEnd end) const {
    return ended[static_cast<std::size_t>(end)];
  }
};

/// One row of `show connection`.
struct ConnectionInfo {
  cm::Handle handle = cm::kNoHandle;
  std::string iface;  ///< Set by the owner of the link.
  std::string peer;   ///< Link-layer address.
  std::vector<wire::IpAddr> neighbours;
  fabric::Transport transport = fabric::Transport::kRc;
  bool active = false;   ///< This side requested it.
  bool sending = false;  ///< Packets to the peer use it.
  std::string_view state;
  std::uint32_t qpn = 0;
  std::uint32_t peer_qpn = 0;
  std::uint32_t mtu = 0;  ///< Largest IP packet; 0 until known.
  Duration age{};
  Duration idle{};  ///< Time since a packet was last seen on it.
  fabric::ConnectedQueueInfo queue{};
};

}  // namespace ipoib::link
