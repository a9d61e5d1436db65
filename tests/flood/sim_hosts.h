// SPDX-License-Identifier: BSD-3-Clause
// The hosts around a node: those on its Ethernet port, and those on the first link of its HCA. They
// answer ARP, neighbour solicitations and nothing else, join groups at the subnet administrator,
// and send and receive marked packets.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/wire/arp.h"
#include "lib/wire/frame.h"
#include "lib/wire/hw_addr.h"
#include "lib/wire/ip.h"
#include "lib/wire/nd.h"
#include "lib/wire/sa_records.h"
#include "tests/flood/flood_frames.h"
#include "tests/flood/flood_node.h"

namespace ipoib::flood {

/// Host `number` of a side. Hosts of even numbers have an IPv4 address, the others an IPv6 address.
/// Numbers at and above the count of SimHosts belong to no host.
struct Host {
  Side side = Side::kEthernet;
  unsigned number = 0;

  [[nodiscard]] wire::IpAddr ip() const;
  [[nodiscard]] wire::MacAddr mac() const { return mac_of(0x100'0000 + number); }
  [[nodiscard]] CablePort port() const;
};
/// The host with this address, whether or not it is present; none: the address is no host's.
[[nodiscard]] std::optional<Host> host_with(const wire::IpAddr& addr);

class SimHosts {
 public:
  /// Numbers above these are for addresses without a host.
  static constexpr unsigned kMost = 30'000;

  explicit SimHosts(FloodNode& node);

  /// Adds the next host of a side. It answers from now on.
  Host add(Side side) { return {side, count_[index(side)]++}; }
  /// Such a host on the cable, whose address says that it has connections.
  Host add_connected() {
    const Host host = add(Side::kCable);
    connected_.insert(host.number);
    return host;
  }
  [[nodiscard]] unsigned count(Side side) const { return count_[index(side)]; }

  /// Asks the subnet administrator for membership of the broadcast group, and of the group for
  /// solicitations of all hosts of IPv6.
  void ask_to_join(const Host& host);
  /// Sends an IP packet of the host to the node, as to its router.
  void send(const Host& from, std::span<const std::byte> packet);
  /// Sends an ARP request of an Ethernet host for the node's address to all.
  void ask_for_router(const Host& host);
  void send_mad(const Host& from, std::span<const std::byte, wire::kMadLen> mad);

  /// Takes everything that the node has sent, and answers it.
  void receive();

  // The bench sets these; a host that is not present receives nothing.
  /// A marked packet reached a host.
  std::function<void(const Host&, const Mark&)> on_packet = [](const Host&, const Mark&) {};
  /// Any other IP packet to a host.
  std::function<void(const Host&, std::span<const std::byte>)> on_other =
      [](const Host&, std::span<const std::byte>) {};
  /// An answer of the node to ask_for_router().
  std::function<void(const Host&)> on_router = [](const Host&) {};
  /// A MAD to a host on the cable, of the number, which need not be present.
  std::function<void(unsigned, std::span<const std::byte>)> on_mad =
      [](unsigned, std::span<const std::byte>) {};

  /// A packet of a connection to a port on the cable, and its octets behind the BTH.
  std::function<void(const wire::IbaFrame&, std::span<const std::byte>)> on_rc =
      [](const wire::IbaFrame&, std::span<const std::byte>) {};

  [[nodiscard]] std::uint16_t broadcast_mlid() const { return broadcast_mlid_; }

 private:
  static std::size_t index(Side side) { return static_cast<std::size_t>(side); }
  [[nodiscard]] bool present(const Host& host) const { return host.number < count(host.side); }
  [[nodiscard]] wire::HwAddr hw_of(const Host& host) const;
  void receive_ethernet(std::span<const std::byte> frame);
  void receive_cable(std::span<const std::byte> frame);
  void answer_arp(Side side, const wire::Arp& arp);
  void answer_nd(Side side, std::span<const std::byte> packet);
  void arrive(Side side, wire::EtherType type, std::span<const std::byte> packet);
  /// Sends to an address on the link.
  void send_to(const Host& from, const wire::HwAddr& to, wire::EtherType type,
               std::span<const std::byte> payload);

  FloodNode& node_;
  std::array<unsigned, 2> count_{};
  std::set<unsigned> connected_;  ///< Numbers of hosts.
  std::uint16_t broadcast_mlid_ = 0;
};

}  // namespace ipoib::flood
