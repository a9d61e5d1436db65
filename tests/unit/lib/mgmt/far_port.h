// SPDX-License-Identifier: BSD-3-Clause
// A port at the far end of a node's cable. The test writes the packets that it sends, and reads those
// that the node has sent.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/sa/queries.h"
#include "lib/sa/sa_mad.h"
#include "lib/wire/frame.h"
#include "tests/support/packets.h"
#include "tests/support/ring_device.h"
#include "tests/support/soft_frames.h"

namespace ipoib::mgmt {

class FarPort {
 public:
  using Bytes = std::vector<std::byte>;
  static constexpr std::uint16_t kLid = 9, kNodeLid = 1;
  static constexpr std::uint32_t kQpn = 0x4a7;
  static constexpr std::uint64_t kGuid = 0x0002'c903'0000'0099;

  /// A UD packet from the node. `payload` begins behind the IPoIB header, if it has one.
  struct Packet {
    wire::UdFrame frame;
    std::optional<wire::Grh> grh;
    std::uint16_t type = 0;  ///< EtherType; 0: a MAD.
    Bytes payload;
  };

  FarPort(const test::RingDevice& cable, rte_mempool* pool) : cable_{cable}, pool_{pool} {}

  [[nodiscard]] static wire::Gid gid() { return wire::Gid::of(wire::kDefaultGidPrefix, kGuid); }
  [[nodiscard]] static wire::LinkAddr address() { return {0, wire::Be24{kQpn}, gid()}; }
  /// The link-local address. Source: RFC 4391 §8.
  [[nodiscard]] static wire::IpAddr ip6() {
    return wire::IpAddr{wire::Gid::of(wire::kDefaultGidPrefix, wire::interface_id(kGuid)).bytes};
  }

  /// Sends a packet behind an IPoIB header. `spec` has the destination and the Q_Key.
  void send(wire::UdSpec spec, std::uint16_t type, std::span<const std::byte> packet) const {
    Bytes payload;
    fwd::test::append(payload, wire::IpoibHdr{wire::Be16{type}, {}});
    fwd::test::append(payload, packet);
    spec.src_qp = kQpn;
    put(spec, payload);
  }
  /// Sends a packet to a multicast group.
  void send_to_group(const wire::Gid& mgid, std::uint16_t mlid, std::uint32_t qkey,
                     std::uint16_t type, std::span<const std::byte> packet) const {
    send({.dlid = mlid,
          .grh = wire::GrhSpec{.sgid = gid(), .dgid = mgid},
          .dest_qp = wire::kMulticastQpn,
          .qkey = qkey},
         type, packet);
  }
  /// Sends a request to the subnet administrator of the node. It is not repeated.
  void request(const sa::Request& request) {
    const wire::SaMad mad = sa::request_mad(request, ++tid_);
    put({.dlid = kNodeLid,
         .dest_qp = wire::kGsiQpn,
         .src_qp = wire::kGsiQpn,
         .qkey = wire::kGsiQkey,
         .mig_req = false},
        wire::bytes_of(mad));
  }
  /// Returns the UD packets that the node has sent since the last call.
  std::vector<Packet> take() const {
    std::vector<Packet> packets;
    while (rte_mbuf* const m = test::next_of(cable_.from_node)) {
      const Bytes octets = test::take(m);
      const Bytes iba = soft::iba_of(octets);
      Packet p;
      if (wire::parse_ud(iba, p.frame) != wire::FrameError::kNone) continue;
      if (p.frame.iba.global) p.grh = wire::grh_of(iba);
      auto payload = std::span{iba}.subspan(p.frame.payload, p.frame.payload_len);
      if (p.frame.iba.bth.dest_qp.host() != wire::kGsiQpn) {
        p.type = wire::read<wire::IpoibHdr>(payload)->type.host();
        payload = payload.subspan(sizeof(wire::IpoibHdr));
      }
      p.payload.assign(payload.begin(), payload.end());
      packets.push_back(std::move(p));
    }
    return packets;
  }

 private:
  void put(wire::UdSpec spec, std::span<const std::byte> payload) const {
    spec.slid = kLid;
    ASSERT_EQ(rte_ring_enqueue(cable_.to_node, test::mbuf_of(pool_, soft::ud_frame(spec, payload))),
              0);
  }

  const test::RingDevice& cable_;
  rte_mempool* pool_;
  std::uint64_t tid_ = 0x700;
};

}  // namespace ipoib::mgmt
