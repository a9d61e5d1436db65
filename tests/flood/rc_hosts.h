// SPDX-License-Identifier: BSD-3-Clause
// Ports on the cable that have connections with the node, and the honest ones among them, which
// acknowledge everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/wire/cm_mads.h"
#include "lib/wire/frame.h"
#include "tests/flood/flood_frames.h"
#include "tests/flood/participants.h"

namespace ipoib::flood {

/// Adds a receiver of MADs in front of those that there are.
void also_on_mad(SimHosts& hosts, std::function<void(unsigned, std::span<const std::byte>)> also);

/// The message in a MAD, if it is one of this kind.
template <class T>
std::optional<T> message_of(std::span<const std::byte> octets) {
  wire::CmMad mad;
  if (wire::parse_cm_mad(octets, mad) != wire::CmError::kNone ||
      mad.hdr.attr_id.host() != static_cast<std::uint16_t>(T::kAttr))
    return std::nullopt;
  return wire::cm_message<T>(mad);
}

/// A packet of a connection, to a queue pair of the node. The ICRC is zero, as the node does not check
/// it. `payload`: from behind the BTH on.
[[nodiscard]] Bytes rc_frame(std::uint16_t from, std::uint32_t qpn, wire::Opcode opcode,
                             std::uint32_t psn, std::span<const std::byte> payload);
/// An ACK or NAK.
[[nodiscard]] Bytes rc_answer(std::uint16_t from, std::uint32_t qpn, std::uint8_t syndrome,
                              std::uint32_t psn);

/// Connections that ports on the cable request, and request again after the node has ended them.
/// It must not move.
class RcConnections {
 public:
  struct Settings {
    std::uint32_t first_id = 0;  ///< Communication ID; below 2^20 and far from those of others.
    std::uint8_t mtu = 4;        ///< Code of the path MTU.
    std::uint8_t rnr_retry = 6;
  };
  struct Connection {
    unsigned number = 0;     ///< The number of the host.
    unsigned interface = 0;  ///< The place among those of its port.
    std::uint32_t id = 0;    ///< Communication ID, and the low bits of the host's QPN.
    bool stands = false;
    std::uint32_t qpn = 0;       ///< That of the node.
    std::uint32_t psn = 0;       ///< First that the node expects.
    std::uint32_t expected = 0;  ///< Next PSN of the node.
    std::uint32_t sent = 0;      ///< Packets.
    TimePoint asked{};
  };

  RcConnections(FloodNode& node, SimHosts& hosts, Settings settings);
  RcConnections(const RcConnections&) = delete;
  RcConnections& operator=(const RcConnections&) = delete;

  /// Requests a connection of a port, for each of its interfaces in turn, and lets time pass so that
  /// the node may accept it.
  void add(unsigned number, unsigned interface);
  /// Lets time pass until all connections stand. Throws if they do not.
  void settle();
  /// Requests that have no answer are repeated.
  void renew();
  /// Number of connections that the node ended.
  [[nodiscard]] std::size_t ended() const { return ended_; }
  [[nodiscard]] std::vector<Connection>& all() { return all_; }
  /// The connection to whose queue pair the packet goes; null: none.
  [[nodiscard]] Connection* find(const wire::IbaFrame& packet);

 private:
  void on_mad(unsigned number, std::span<const std::byte> octets);
  void request(Connection& c);
  void pass(Duration time);

  FloodNode& node_;
  SimHosts& hosts_;
  Settings settings_;
  std::uint32_t next_id_;
  std::vector<Connection> all_;
  std::vector<std::size_t> by_id_;  ///< Index of a connection, from the first ID on.
  TimePoint renewed_{};
  std::size_t ended_ = 0;
};

/// Honest hosts that acknowledge what the node sends on their connections.
class ConnectedHosts {
 public:
  /// Lets the hosts appear, their connections stand, and the node send on them. Throws if it does
  /// not.
  ConnectedHosts(FloodNode& node, SimHosts& hosts);
  /// Sends what is due to them, from hosts on Ethernet.
  void step();
  /// Counts from zero.
  void restart();
  void wind_down() { winding_down_ = true; }
  /// Packets that arrived on the connections.
  [[nodiscard]] Share outcome() const { return share_; }
  /// Number of connections that the node ended.
  [[nodiscard]] std::size_t ended() const { return connections_.ended(); }

 private:
  void on_rc(const wire::IbaFrame& packet, std::span<const std::byte> body);
  void send();

  FloodNode& node_;
  SimHosts& hosts_;
  RcConnections connections_;
  TimePoint due_{};
  std::size_t at_ = 0;
  bool winding_down_ = false;
  Share share_;
};

}  // namespace ipoib::flood
