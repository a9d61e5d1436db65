// SPDX-License-Identifier: BSD-3-Clause
// State and counters of a connected queue (lib/fabric/connected.h), for display: plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ipoib::fabric {

/// Source: IBA vol 1 §10.3.1. The states SQD and SQE are not exposed.
enum class QueueState : std::uint8_t { kInit, kReadyToReceive, kReadyToSend, kError };

[[nodiscard]] constexpr std::string_view to_string(QueueState state) noexcept {
  constexpr std::array<std::string_view, 4> kNames = {"init", "ready to receive", "ready to send",
                                                      "error"};
  return kNames[static_cast<std::size_t>(state)];
}

/// Reason of a queue's error state. Source: IBA vol 1 §10.10, §11.6.2.
enum class QueueError : std::uint8_t {
  kNone,
  kClosed,                ///< set_error() was called.
  kRetryExceeded,         ///< The peer does not answer.
  kRnrRetryExceeded,      ///< The peer never had a buffer.
  kRemoteInvalidRequest,  ///< The peer reports an invalid request from this side.
  kRemoteAccess,
  kRemoteOperation,    ///< The peer reports a failure of its own.
  kInvalidRequest,     ///< Invalid request from the peer: opcode or length out of order.
  kMessageTooLong,     ///< The peer sent more than a receive buffer holds.
  kUnfinishedMessage,  ///< The peer began a message and did not finish it in time.
  kCount
};

[[nodiscard]] constexpr std::string_view to_string(QueueError error) noexcept {
  constexpr std::array<std::string_view, static_cast<std::size_t>(QueueError::kCount)> kNames = {
      "none",
      "closed",
      "retry exceeded",
      "RNR retry exceeded",
      "remote invalid request",
      "remote access error",
      "remote operation error",
      "invalid request",
      "message too long",
      "unfinished message"};
  return kNames[static_cast<std::size_t>(error)];
}

/// Counters of a queue. A counter that the device does not support is 0.
template <class T>
struct ConnectedCountersOf {
  T tx_messages{};  ///< Messages that tx_burst took to send.
  T tx_octets{};    ///< Octets of these messages.
  T rx_messages{};  ///< Whole messages passed to the receive queue.
  T rx_octets{};
  T tx_done{};          ///< Messages acknowledged; UC: sent.
  T tx_flushed{};       ///< Messages without an ACK when the queue failed or ended.
  T tx_repeated{};      ///< Retransmitted packets.
  T timeouts{};         ///< ACK timeouts.
  T naks_received{};    ///< Sequence errors that the peer reported.
  T rnr_received{};     ///< RNR NAKs received: the peer had no buffer.
  T naks_sent{};        ///< NAKs of any kind except RNR.
  T rnr_sent{};         ///< RNR NAKs sent: this side had no buffer.
  T rx_duplicates{};    ///< Duplicate packets.
  T rx_out_of_order{};  ///< Packets behind a missing one.
};

struct ConnectedQueueInfo {
  QueueState state = QueueState::kInit;
  QueueError error = QueueError::kNone;
  std::uint32_t peer_qpn = 0;
  ConnectedCountersOf<std::uint64_t> counters{};
};

}  // namespace ipoib::fabric
