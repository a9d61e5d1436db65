// SPDX-License-Identifier: BSD-3-Clause
// A host of Linux 6.1 at the far end of a node's cable. Its HCA is a software HCA; the rest is written
// from the behaviour of ib_ipoib and of the kernel's IPv4: it registers with no subnet administrator,
// has a connection in each direction, sends on its own only, and cuts packets to the MTU of its
// interface. Source: linux-interop.md §4, §11.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "drivers/soft/soft_hca.h"
#include "lib/wire/cm_mads.h"
#include "lib/wire/ipoib.h"

namespace ipoib::mgmt {

class LinuxHost {
 public:
  using Bytes = std::vector<std::byte>;
  static constexpr std::uint16_t kLid = 9, kNodeLid = 1;
  static constexpr std::uint32_t kIp = 0x0a00'0009, kNodeIp = 0x0a00'0001;  ///< 10.0.0.9, 10.0.0.1
  static constexpr std::uint32_t kQkey = 0x0b1b;                            ///< The one of OpenSM.
  static constexpr std::size_t kDatagramMtu = 2044, kConnectedMtu = 65'520;

  /// The rings are the ends of the node's cable. `connected`: the interface is in connected mode.
  LinuxHost(rte_ring* from_node, rte_ring* to_node, rte_mempool* pool, bool connected);
  ~LinuxHost();
  LinuxHost(const LinuxHost&) = delete;
  LinuxHost& operator=(const LinuxHost&) = delete;

  /// One turn: takes and answers what has arrived.
  void step();
  /// Sends an echo request with so many octets of data to the node.
  void ping(std::size_t octets, bool dont_fragment = false);
  /// Octets of data of the echo replies that arrived whole, since the last call.
  [[nodiscard]] std::vector<std::size_t> replies() { return std::exchange(replies_, {}); }
  /// It may send over its connection.
  [[nodiscard]] bool connected() const { return out_.up; }
  /// The node sends over a connection of its own.
  [[nodiscard]] bool is_sent_to() const { return in_.up; }

  std::uint8_t node_ack_delay = 0;    ///< In the REP of the node, a time code.
  std::size_t requests = 0;           ///< Echo requests that arrived.
  std::size_t longest_piece = 0;      ///< Octets of the longest IPv4 packet that arrived.
  std::size_t pieces_of_replies = 0;  ///< IPv4 packets with echo replies or parts of them.
  std::size_t wrong = 0;              ///< Packets that are no possible answer, or forbid fragments.

 private:
  struct Connection {
    fabric::ConnectedQueue* queue = nullptr;
    bool up = false;
  };
  struct Fragments {
    std::map<std::size_t, Bytes> parts;
    std::size_t total = 0;  ///< Octets, once the last one is here.
  };

  [[nodiscard]] wire::LinkAddr address() const;
  void resolve();
  void send_datagram(fabric::AhIndex ah, std::uint32_t qpn, std::uint16_t type,
                     std::span<const std::byte> octets);
  void send_ip(const Bytes& packet);
  void receive(const Bytes& frame);
  void on_arp(std::span<const std::byte> octets);
  void on_ip(std::span<const std::byte> packet);
  void on_reply(std::span<const std::byte> message);
  template <class Message>
  void tell(std::uint64_t tid, const Message& message);
  [[nodiscard]] fabric::ConnectedQueue* make_queue();
  void on_mad(const fabric::ReceivedMad& mad);
  void request_connection();
  void on_req(const wire::CmMad& mad);
  void on_rep(const wire::CmMad& mad);

  rte_mempool* const pool_;
  const bool connected_;
  std::uint16_t port_ = 0;
  std::unique_ptr<soft::SoftHca> hca_;
  fabric::UdQueue* ud_ = nullptr;
  fabric::ReceiveQueue* receive_queue_ = nullptr;
  fabric::AhIndex everyone_ = fabric::kNoAh, node_ = fabric::kNoAh;
  std::optional<wire::LinkAddr> neighbour_;       ///< The node's interface.
  Connection out_, in_;                           ///< Requested by this host, and by the node.
  std::map<std::uint16_t, Fragments> fragments_;  ///< Key: identification.
  std::vector<std::size_t> replies_;
  std::uint16_t next_id_ = 1;
};

}  // namespace ipoib::mgmt
