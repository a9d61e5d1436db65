// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/mad_port.h"

#include <algorithm>

#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

class SoftMad : public SoftFixture {};

fabric::MadBytes mad_bytes(std::uint8_t seed) {
  fabric::MadBytes mad;
  for (std::size_t i = 0; i < mad.size(); ++i) mad[i] = static_cast<std::byte>(i ^ seed);
  return mad;
}

TEST_F(SoftMad, FrameIsTheVectorsOctets) {
  const Bytes wanted = vector_frame("sa-path-get-request");
  const auto lrh = wire::read<wire::Lrh>(wanted, sizeof(EthHdr)).value();
  const auto ud = wire::read<UdWords>(wanted, kLocalHeadLen).value();
  SoftHcaConfig of_vector = config(0);
  of_vector.attr.lid = lrh.slid.host();
  of_vector.attr.pkeys = {ud.pkey()};
  const Node node = make_node(of_vector);
  fabric::MadBytes mad;
  std::copy_n(wanted.begin() + kLocalHeadLen + sizeof(UdWords), mad.size(), mad.begin());

  // The PSN counts the MADs sent.
  Bytes last;
  for (std::uint32_t psn = 0; psn <= (ud.ack_psn.host() & 0xff'ffff); ++psn) {
    ASSERT_TRUE(node.hca->mad_port().send(
        {.lid = lrh.dlid.host(), .sl = lrh.sl(), .qpn = 1, .pkey = ud.pkey()}, mad));
    node.poll();
    last = on_cable(1).at(0);
  }
  EXPECT_EQ(test::to_hex(last), test::to_hex(wanted));
}

TEST_F(SoftMad, RequestAndAnswerTravel) {
  const Node asker = make_node(0);
  const Node answerer = make_node(1);
  ASSERT_TRUE(asker.hca->mad_port().send({.lid = kLid[1], .sl = 5}, mad_bytes(1)));
  EXPECT_FALSE(answerer.hca->mad_port().receive()) << "nothing was polled yet";
  asker.poll();
  answerer.poll();
  const auto request = answerer.hca->mad_port().receive();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->bytes, mad_bytes(1));
  EXPECT_EQ(request->from.lid, kLid[0]);
  EXPECT_EQ(request->from.sl, 5);
  EXPECT_EQ(request->from.qpn, 1U);
  EXPECT_EQ(request->from.pkey, 0xffff);
  ASSERT_TRUE(answerer.hca->mad_port().send(request->from, mad_bytes(2)));
  answerer.poll();
  asker.poll();
  const auto answer = asker.hca->mad_port().receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->bytes, mad_bytes(2));
  EXPECT_FALSE(asker.hca->mad_port().receive());
}

TEST_F(SoftMad, ToTheOwnLidNothingTouchesTheWire) {
  const Node node = make_node(0);
  ASSERT_TRUE(node.hca->mad_port().send({.lid = kLid[0]}, mad_bytes(3)));
  const auto mad = node.hca->mad_port().receive();
  ASSERT_TRUE(mad);
  EXPECT_EQ(mad->bytes, mad_bytes(3));
  EXPECT_EQ(mad->from.lid, kLid[0]);
  node.poll();
  EXPECT_TRUE(on_cable(1).empty());
  EXPECT_EQ(mbufs_in_use(), 0U);
  for (unsigned i = 0; i < SoftMadPort::kRingSize; ++i)
    ASSERT_TRUE(node.hca->mad_port().send({.lid = kLid[0]}, mad_bytes(3)));
  EXPECT_EQ(node.hca->mad_port().send({.lid = kLid[0]}, mad_bytes(3)).error().code,
            Errc::kUnavailable);
}

struct PkeyCase {
  std::vector<std::uint16_t> asker, answerer;
  std::uint16_t sent, seen;  ///< seen 0: dropped
};

TEST_F(SoftMad, U36_AnyEntryOfThePkeyTableLetsAMadIn) {
  const PkeyCase kCases[] = {{{0xffff}, {0xffff}, 0xffff, 0xffff},
                             {{0x7fff}, {0xffff}, 0xffff, 0xffff},
                             {{0xffff}, {0x8001, 0x7fff}, 0xffff, 0x7fff},
                             {{0x8001}, {0xffff, 0x8001}, 0x8001, 0x8001},
                             {{0x7fff, 0xffff}, {0x7fff}, 0x7fff, 0x7fff},
                             {{0x8001, 0x7fff, 0xffff}, {0xffff}, 0xffff, 0xffff},
                             {{0x7fff}, {0x7fff}, 0x7fff, 0},
                             {{0x8002}, {0xffff, 0x8001}, 0x8002, 0}};
  for (const PkeyCase& c : kCases) {
    SoftHcaConfig from = config(0);
    SoftHcaConfig to = config(1);
    from.attr.pkeys = c.asker;
    to.attr.pkeys = c.answerer;
    const Node asker = make_node(from);
    const Node answerer = make_node(to);
    ASSERT_TRUE(asker.hca->mad_port().send({.lid = kLid[1], .pkey = c.sent}, mad_bytes(4)));
    asker.poll();
    answerer.poll();
    const auto mad = answerer.hca->mad_port().receive();
    ASSERT_EQ(mad.has_value(), c.seen != 0);
    if (mad) {
      EXPECT_EQ(mad->from.pkey, c.seen);
    }
    EXPECT_EQ(answerer.hca->drops().get(Drop::kIbPkey), c.seen == 0 ? 1U : 0U);
  }
}

TEST_F(SoftMad, AddressesThatDoNotExistAreRefused) {
  const Node node = make_node(0);
  for (const fabric::MadAddress& to :
       {fabric::MadAddress{.lid = 0}, fabric::MadAddress{.lid = 0xc001},
        fabric::MadAddress{.lid = 0xffff}, fabric::MadAddress{.lid = 5, .sl = 16},
        fabric::MadAddress{.lid = 5, .pkey = 0x8001}}) {
    const Status refused = node.hca->mad_port().send(to, mad_bytes(5));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kInvalidArgument);
  }
}

TEST_F(SoftMad, RingFullOfOutgoingMadsIsUnavailable) {
  const Node node = make_node(0);
  for (unsigned i = 0; i < SoftMadPort::kRingSize; ++i)
    ASSERT_TRUE(node.hca->mad_port().send({.lid = 9}, mad_bytes(6)));
  EXPECT_EQ(node.hca->mad_port().send({.lid = 9}, mad_bytes(6)).error().code, Errc::kUnavailable);
}

TEST_F(SoftMad, MadsWaitForTheWireAndThenAreLost) {
  const Node node = make_node(0);
  auto* cable = Cable::get().towards[1];
  while (rte_ring_free_count(cable) > 0) put_on_cable(1, counting(60));
  ASSERT_TRUE(node.hca->mad_port().send({.lid = 9}, mad_bytes(7)));
  for (int i = 0; i < 1000; ++i) node.poll();
  EXPECT_EQ(node.all_drops(), 0U);
  (void)on_cable(1);
  node.poll();
  EXPECT_EQ(on_cable(1).size(), 1U) << "sent when there was room";

  while (rte_ring_free_count(cable) > 0) put_on_cable(1, counting(60));
  ASSERT_TRUE(node.hca->mad_port().send({.lid = 9}, mad_bytes(8)));
  for (int i = 0; i < 2000; ++i) node.poll();
  EXPECT_EQ(node.hca->drops().get(Drop::kIbTxFull), 1U);
  EXPECT_EQ(node.all_drops(), 1U);
}

/// A frame on the cable with another sender. Its ICRC is wrong then.
Bytes from_lid(Bytes frame, std::uint16_t lid) {
  constexpr std::size_t kSlidAt = sizeof(EthHdr) + 6;
  frame[kSlidAt] = static_cast<std::byte>(lid >> 8);
  frame[kSlidAt + 1] = static_cast<std::byte>(lid);
  return frame;
}

/// The flood of a sender, and of a kind, fills a part of the queue. Others find room, and the flood
/// again when the management lcore has taken its MADs.
TEST_F(SoftMad, P16_AFloodOfMadsLeavesRoomForOthers) {
  const Node asker = make_node(0);
  SoftHcaConfig no_icrc = config(1);
  no_icrc.icrc = false;
  const Node answerer = make_node(no_icrc);
  const auto frame_of = [&](std::uint8_t seed) {
    EXPECT_TRUE(asker.hca->mad_port().send({.lid = kLid[1]}, mad_bytes(seed)));
    asker.poll();
    return on_cable(1).at(0);
  };
  const auto come = [&](const Bytes& frame) {
    put_on_cable(1, frame);
    answerer.poll();
  };
  const auto drops = [&](Drop reason) { return answerer.hca->drops().get(reason); };
  const Bytes flood = frame_of(9), other = frame_of(0x55);
  constexpr unsigned kFlood = SoftMadPort::kRingSize + 10;
  for (unsigned i = 0; i < kFlood; ++i) come(flood);
  const std::uint64_t taken = kFlood - drops(Drop::kIbMadShare);
  EXPECT_GT(taken, SoftMadPort::kRingSize / 4);
  EXPECT_LT(taken, SoftMadPort::kRingSize / 2);
  // Another sender of this kind.
  come(from_lid(flood, 900));
  EXPECT_EQ(drops(Drop::kIbMadShare), kFlood - taken);
  // Many senders of this kind, and then another kind.
  for (std::uint16_t i = 0; i < kFlood; ++i)
    come(from_lid(flood, static_cast<std::uint16_t>(1000 + i)));
  const std::uint64_t before = drops(Drop::kIbMadShare);
  EXPECT_GT(before, kFlood);
  come(from_lid(other, 901));
  EXPECT_EQ(drops(Drop::kIbMadShare), before);
  EXPECT_EQ(drops(Drop::kIbMadOverflow), 0U);

  std::uint64_t received = 0, from_other = 0;
  while (const auto mad = answerer.hca->mad_port().receive()) {
    ++received;
    from_other += mad->from.lid == 901 ? 1 : 0;
  }
  EXPECT_EQ(received, 2 * kFlood + 2 - before);
  EXPECT_EQ(from_other, 1U);
  for (std::uint64_t i = 0; i < taken; ++i) come(flood);
  EXPECT_EQ(drops(Drop::kIbMadShare), before) << "all places came back";
}

TEST_F(SoftMad, HcaThatGoesAwayFreesItsMads) {
  const Node asker = make_node(0);
  {
    const Node answerer = make_node(1);
    ASSERT_TRUE(asker.hca->mad_port().send({.lid = kLid[1]}, mad_bytes(1)));
    ASSERT_TRUE(answerer.hca->mad_port().send({.lid = 9}, mad_bytes(1)));
    asker.poll();
    answerer.poll();
    ASSERT_TRUE(answerer.hca->mad_port().send({.lid = 9}, mad_bytes(1)));
    EXPECT_EQ(mbufs_in_use(), 3U);
    (void)on_cable(0);
  }
  EXPECT_EQ(mbufs_in_use(), 0U);
}

}  // namespace
}  // namespace ipoib::soft
