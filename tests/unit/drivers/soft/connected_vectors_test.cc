// SPDX-License-Identifier: BSD-3-Clause
// Compares frames of connected queue pairs with those of the reference. Between known ends the
// octets are the same, except the bits that a sender may choose.
#include <string>
#include <vector>

#include "tests/support/vector_frames.h"
#include "tests/unit/drivers/soft/connected_fixture.h"

namespace ipoib::soft {
namespace {

using fabric::Transport;
using wire::Bth;

/// A frame of the reference, with its parsed headers.
struct Recorded {
  Bytes octets;  ///< LRH through ICRC
  wire::IbaFrame f;
};

Recorded recorded(const std::string& name) {
  Recorded r{.octets = test::packet_named(name), .f = {}};
  EXPECT_EQ(wire::parse_iba(r.octets, r.f), wire::FrameError::kNone) << name;
  EXPECT_FALSE(r.f.global) << name;
  return r;
}

class ConnectedVectors : public ConnectedFixture {
 protected:
  /// Makes side 0 the sender of the frame, with this path MTU code. Side 0 expects `rx_psn` and
  /// sends from the frame's PSN.
  void become_sender(const Recorded& r, Transport transport, std::uint8_t path_mtu,
                     std::uint32_t rx_psn = 0) {
    const wire::IbaFrame& f = r.f;
    clear();
    SoftHcaConfig own = config(0);
    own.attr.lid = f.lrh.slid.host();
    own.attr.pkeys = {f.bth.pkey.host()};
    peers[0].hca = SoftHca::create(own).value();
    SoftHca& hca = *peers[0].hca;
    peers[0].rx = hca.create_receive_queue({.depth = 2}).value();
    fabric::ConnectedQueue& q =
        *hca.create_connected_queue(
                {.transport = transport, .pkey = f.bth.pkey.host(), .receive_queue = peers[0].rx})
             .value();
    peers[0].queue = &q;
    fabric::ReadyToReceive to{.peer_qpn = f.bth.dest_qp.host(),
                              .path_mtu = path_mtu,
                              .rx_psn = rx_psn,
                              .min_rnr_timer = 14};
    to.path.dlid = f.lrh.dlid.host();
    to.path.sl = f.lrh.sl();
    ASSERT_TRUE(hca.set_ready_to_receive(q, to));
    ASSERT_TRUE(hca.set_ready_to_send(q, {.tx_psn = f.bth.psn.host()}));
  }
  /// Lets side 0 receive a request of the peer in the same connection.
  void hear(const Recorded& answer, std::uint8_t opcode, std::uint32_t psn, std::size_t len) {
    const wire::Lrh lrh{.vl_lver = 0,
                        .sl_lnh = 2,
                        .dlid = answer.f.lrh.slid,
                        .resv_pktlen = wire::Be16{static_cast<std::uint16_t>((24 + len) / 4)},
                        .slid = answer.f.lrh.dlid};
    const Bth bth{.opcode = opcode,
                  .flags = Bth::kMigReq,
                  .pkey = answer.f.bth.pkey,
                  .resv8a = 0,
                  .dest_qp = wire::Be24{peers[0].queue->qpn()},
                  .ack_resv = Bth::kAckReq,
                  .psn = wire::Be24{psn}};
    // LIDs 4 and 3, as in all answers of the reference.
    Bytes frame = test::unhex("02494200000402494200000388b5");
    frame.resize(sizeof(EthHdr) + 24 + len);
    std::ranges::copy(wire::bytes_of(lrh), frame.begin() + sizeof(EthHdr));
    std::ranges::copy(wire::bytes_of(bth), frame.begin() + sizeof(EthHdr) + sizeof(lrh));
    seal(frame);
    frame.resize(std::max(frame.size(), kMinEthFrame));
    put(0, frame);
  }
};

TEST_F(ConnectedVectors, C11_MessagesAreThoseOfTheReference) {
  const std::vector<std::vector<std::string>> kMessages = {
      {"rc-send-only"},
      {"uc-send-only"},
      {"rc-send-first", "rc-send-middle", "rc-send-last"},
      {"uc-send-first", "uc-send-middle", "uc-send-last"}};
  for (const auto& names : kMessages) {
    const Transport transport = names[0][0] == 'r' ? Transport::kRc : Transport::kUc;
    std::vector<Recorded> packets;
    Bytes message;
    for (const std::string& name : names) {
      packets.push_back(recorded(name));
      const Recorded& r = packets.back();
      const auto* const body = r.octets.data() + r.f.body;
      message.insert(message.end(), body, body + r.f.body_len);
    }
    // 256 octets, the path MTU of the long messages of the reference.
    ASSERT_NO_FATAL_FAILURE(become_sender(packets[0], transport, 1));
    ASSERT_TRUE(send(0, message, 100)) << "in segments of 100 octets";
    std::vector<Bytes> sent = cut(1);
    ASSERT_EQ(sent.size(), packets.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
      SCOPED_TRACE(names[i]);
      const Bth expected = packets[i].f.bth;
      edit(sent[i], [&](Bth& bth) {
        EXPECT_EQ(bth.opcode, expected.opcode);
        EXPECT_EQ(bth.psn, expected.psn);
        EXPECT_EQ(bth.pad(), expected.pad());
        const bool last = i + 1 == sent.size();
        const bool reliable = transport == Transport::kRc;
        if (last || !reliable) {
          EXPECT_EQ(bth.ack_resv, reliable ? Bth::kAckReq : 0);
        }
        // The sender chooses the ACK request and the solicited event.
        bth.ack_resv = expected.ack_resv;
        bth.flags = static_cast<std::uint8_t>((bth.flags & ~Bth::kSolicited) |
                                              (expected.flags & Bth::kSolicited));
      });
      EXPECT_EQ(iba_of(sent[i]), packets[i].octets);
    }
  }
}

TEST_F(ConnectedVectors, C11_AnswersAreThoseOfTheReference) {
  constexpr std::uint8_t kSendOnly = 0x04, kRdmaWriteOnly = 0x0a;
  struct Case {
    const char* name;
    std::uint32_t expected;                                        ///< Next PSN.
    std::vector<std::pair<std::uint8_t, std::uint32_t>> requests;  ///< Opcodes and PSNs.
  };
  // The receive queue holds two messages.
  const Case kCases[] = {
      {"rc-ack", 1, {{kSendOnly, 1}}},
      {"rc-nak-seq", 1, {{kSendOnly, 2}}},
      {"rc-nak-invreq", 1, {{kRdmaWriteOnly, 1}}},
      {"rc-rnr-nak", 0xff'ffff, {{kSendOnly, 0xff'ffff}, {kSendOnly, 0}, {kSendOnly, 1}}}};
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Recorded answer = recorded(c.name);
    ASSERT_NO_FATAL_FAILURE(become_sender(answer, Transport::kRc, 1, c.expected));
    for (const auto& [opcode, psn] : c.requests) hear(answer, opcode, psn, 64);
    peers[0].poll();
    std::vector<Bytes> sent = cut(1);
    ASSERT_EQ(sent.size(), 1U);
    // The reference does not state the number of earlier messages.
    const wire::Aeth expected = *wire::read<wire::Aeth>(answer.octets, answer.f.body);
    wire::Aeth aeth = aeth_of(sent[0]);
    EXPECT_EQ(aeth.syndrome, expected.syndrome);
    aeth.msn = expected.msn;
    std::ranges::copy(wire::bytes_of(aeth), sent[0].begin() + kLocalHeadLen + sizeof(Bth));
    seal(sent[0]);
    EXPECT_EQ(iba_of(sent[0]), answer.octets);
  }
}

}  // namespace
}  // namespace ipoib::soft
