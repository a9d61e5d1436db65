// SPDX-License-Identifier: BSD-3-Clause
// A host of Linux 6.1 in connected mode that sends packets to an interface of the simulation. It has
// none of this program's code: it is written from the behaviour of ib_ipoib and of the kernel's
// communication manager. Source: linux-interop.md §4, §11.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tests/support/linux_cm.h"
#include "tests/support/sim_connections.h"

namespace ipoib::link {

/// It takes the place of a side of the simulation, and sends over a connection of its own.
class LinuxPeer {
 public:
  /// The host sends to `to`. `lifetime` is the packet lifetime of its path, as a time code.
  LinuxPeer(SimConnections& sim, SimSide& to, std::uint8_t lifetime)
      : sim_{sim}, place_{sim.add({})}, to_{to}, lifetime_{lifetime} {
    // Its interface has a queue pair of its own for datagrams, which it never needs here.
    to.meet(place_, wire::LinkAddr::kFlagRc);
    sim.meddle = [this](std::uint16_t /*from*/, std::uint16_t lid, const wire::CmMad& mad) {
      if (lid != place_.lid()) return true;
      sim_.at(sim_.now + sim_.delay, [this, mad] { receive(mad); });
      return false;
    };
  }

  /// Sends a packet as the kernel does: over the connection, or after it is there.
  void send() {
    ++sent;
    if (state_ == State::kUp) return transmit();
    if (waiting_ == kMaxWaiting) {
      ++lost;
      return;
    }
    ++waiting_;
    if (state_ == State::kNone) request();
  }

  [[nodiscard]] bool connected() const { return state_ == State::kUp; }

  std::uint64_t sent = 0;
  std::uint64_t lost = 0;
  std::size_t requests = 0;
  std::size_t ends = 0;  ///< Connections that ended after a DREQ.

 private:
  enum class State : std::uint8_t { kNone, kRequested, kUp };
  /// Packets that wait for a path or for a connection (IPOIB_MAX_PATH_REC_QUEUE).
  static constexpr unsigned kMaxWaiting = 3;
  static constexpr unsigned kHz = 250;  ///< Debian's kernel.

  /// Timeout of a path: the larger of the ACK delay and twice the lifetime, doubled if the other is
  /// at least half of it.
  [[nodiscard]] static int timeout_of(int delay, int lifetime) {
    const int both_ways = lifetime + 1;
    const int larger = std::max(both_ways, delay), smaller = std::min(both_ways, delay);
    return std::min(31, larger + (smaller >= larger - 1 ? 1 : 0));
  }
  /// The time at which a timer of so many milliseconds expires. The kernel's timer wheel has
  /// coarser slots for later timers, and never expires one early.
  [[nodiscard]] TimePoint expiry(std::int64_t ms) const {
    constexpr Duration kJiffy = Duration{1s} / kHz;
    const std::int64_t jiffies = (ms * kHz + 999) / 1000;
    unsigned shift = 0;
    for (std::int64_t first = 63; jiffies >= first && shift < 24; first <<= 3) shift += 3;
    const std::int64_t expires = sim_.now.time_since_epoch() / kJiffy + jiffies;
    return TimePoint{kJiffy * (((expires >> shift) + 1) << shift)};
  }

  template <class Message>
  void tell(std::uint64_t tid, const Message& message) {
    fabric::ReceivedMad mad;
    mad.from = place_.mad_address();
    std::ranges::copy(wire::bytes_of(wire::make_cm_mad(tid, message)), mad.bytes.begin());
    sim_.at(sim_.now + sim_.delay, [this, mad] { to_.manager->on_mad(mad, sim_.now); });
  }

  void request() {
    state_ = State::kRequested;
    ++requests;
    local_id_ += 0x100;
    qpn_ += 2;
    tell(++tid_, test::linux_req(local_id_, qpn_, {place_.lid(), place_.address()},
                                 {to_.lid(), to_.address()},
                                 static_cast<unsigned>(timeout_of(0, lifetime_))));
  }

  void receive(const wire::CmMad& mad) {
    switch (mad.attr()) {
      case wire::CmAttr::kRep: return on_rep(mad);
      case wire::CmAttr::kRej: return forget();
      case wire::CmAttr::kDreq: return on_dreq(mad);
      default: return;
    }
  }

  /// Packets that waited leave before the RTU.
  void on_rep(const wire::CmMad& mad) {
    const auto rep = wire::cm_message<wire::CmRep>(mad);
    if (state_ != State::kRequested || rep.remote_id.host() != local_id_) return;
    state_ = State::kUp;
    peer_id_ = rep.local_id.host();
    peer_qpn_ = rep.local_qpn.host();
    ack_timeout_ = timeout_of(rep.target_ack_delay(), lifetime_);
    for (; waiting_ != 0; --waiting_) transmit();
    wire::CmRtu rtu{};
    rtu.local_id.set(local_id_);
    rtu.remote_id.set(peer_id_);
    tell(mad.hdr.tid.host(), rtu);
  }

  /// The queue pair stays in use until the time-wait is over.
  void on_dreq(const wire::CmMad& mad) {
    const auto dreq = wire::cm_message<wire::CmDreq>(mad);
    tell(mad.hdr.tid.host(), test::linux_drep(dreq));
    if (dreq.remote_id.host() != local_id_ || state_ != State::kUp || ending_ == local_id_) return;
    ending_ = local_id_;
    sim_.at(expiry(std::int64_t{1} << std::max(ack_timeout_ - 8, 0)), [this, id = local_id_] {
      if (id != local_id_) return;
      ++ends;
      forget();
    });
  }

  /// Forgets the neighbour, with the packets that wait for it. The next packet asks for a connection.
  void forget() {
    state_ = State::kNone;
    lost += waiting_;
    waiting_ = 0;
  }

  /// A message without ACK ends the connection, because the host retries nothing.
  void transmit() {
    const auto queue = to_.hca.queues.find(peer_qpn_);
    const bool heard = queue != to_.hca.queues.end() &&
                       (queue->second->info.state == fabric::QueueState::kReadyToReceive ||
                        queue->second->info.state == fabric::QueueState::kReadyToSend);
    if (heard) {
      ++queue->second->info.counters.rx_messages;
      return;
    }
    ++lost;
    sim_.at(sim_.now + cm::time_of(static_cast<std::uint8_t>(ack_timeout_)),
            [this, id = local_id_] {
              if (id == local_id_ && state_ == State::kUp) forget();
            });
  }

  SimConnections& sim_;
  SimSide& place_;
  SimSide& to_;
  const std::uint8_t lifetime_;
  State state_ = State::kNone;
  unsigned waiting_ = 0;
  std::uint64_t tid_ = 0x7000;
  std::uint32_t local_id_ = 0x40'0000;
  std::uint32_t ending_ = 0;  ///< Its DREQ was answered.
  std::uint32_t qpn_ = 0x900;
  std::uint32_t peer_id_ = 0;
  std::uint32_t peer_qpn_ = 0;
  int ack_timeout_ = 0;
};

}  // namespace ipoib::link
