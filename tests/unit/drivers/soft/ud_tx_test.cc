// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

class SoftTx : public SoftFixture {};

/// The headers of a vector, as the parameters of a node that sends the same frame.
struct Sender {
  SoftHcaConfig config;
  fabric::AhAttr to;
  std::uint32_t dest_qp, psn, qkey;
  Bytes payload;
};

Sender sender_of(const Bytes& frame, SoftHcaConfig config) {
  Sender s{.config = std::move(config), .to = {}, .dest_qp = 0, .psn = 0, .qkey = 0, .payload = {}};
  const auto lrh = wire::read<wire::Lrh>(frame, sizeof(EthHdr)).value();
  s.to.dlid = lrh.dlid.host();
  s.to.sl = lrh.sl();
  s.to.global = lrh.lnh() == wire::Lnh::kGlobal;
  s.config.attr.lid = lrh.slid.host();
  if (s.to.global) {
    const auto grh = wire::read<wire::Grh>(frame, kLocalHeadLen).value();
    s.to.tclass = grh.tclass();
    s.to.flow_label = grh.flow_label();
    s.to.hop_limit = grh.hop_limit;
    s.to.dgid = grh.dgid;
    s.config.attr.gid_prefix = grh.sgid.prefix();
    s.config.attr.guid = grh.sgid.guid();
  }
  const std::size_t head_len = s.to.global ? kGlobalHeadLen : kLocalHeadLen;
  const auto ud = wire::read<UdWords>(frame, head_len).value();
  s.config.first_qpn = ud.src_qp();
  s.config.attr.pkeys = {ud.pkey()};
  s.dest_qp = ud.dest_qp();
  s.psn = ud.ack_psn.host() & 0xff'ffff;
  s.qkey = ud.qkey.host();
  const auto end = frame.begin() + static_cast<std::ptrdiff_t>(sizeof(EthHdr) + lrh.packet_len() -
                                                               wire::kIcrcLen - ud.pad());
  s.payload = Bytes(frame.begin() + static_cast<std::ptrdiff_t>(head_len + sizeof(UdWords)), end);
  return s;
}

/// Moves the data of the mbuf so that `headroom` octets are free in front of it.
void squeeze(rte_mbuf* m, std::uint16_t headroom) {
  std::memmove(static_cast<std::byte*>(m->buf_addr) + headroom, rte_pktmbuf_mtod(m, void*),
               m->data_len);
  m->data_off = headroom;
}

TEST_F(SoftTx, U13_U14_FramesAreTheVectorsOctets) {
  for (const char* name :
       {"ud-arp-request", "ud-arp-reply", "ud-ipv4-pad0", "ud-ipv4-pad1", "ud-ipv4-pad2",
        "ud-ipv4-pad3", "ud-ipv6-ns", "ud-ipv4-grh-global", "ud-mcast-ipv4"}) {
    SCOPED_TRACE(name);
    Bytes wanted = vector_frame(name);
    wanted[sizeof(EthHdr)] &= std::byte{0x0f};  // One vector has VL 3, and the HCA uses VL 0.
    const Sender s = sender_of(wanted, config(0));
    const Node node = make_node(s.config);
    ASSERT_TRUE(node.hca->set_qkey(*node.queue, s.qkey));
    for (auto n = s.psn; n-- > 0;) (void)static_cast<SoftUdQueue*>(node.queue)->next_psn();
    rte_mbuf* m = packet(s.payload, node.hca->create_ah(s.to).value(), s.dest_qp);
    ASSERT_EQ(node.queue->tx_burst(&m, 1), 1);
    const auto cable = on_cable(1);
    ASSERT_EQ(cable.size(), 1U);
    EXPECT_EQ(test::to_hex(cable[0]), test::to_hex(wanted));
  }
}

TEST_F(SoftTx, E03_AHandleMayHaveItsOwnQkey) {
  const Node from = make_node(0);
  const Node to = make_node(1);
  ASSERT_TRUE(to.hca->set_qkey(*to.queue, 0x1234));
  fabric::AhAttr own;
  own.dlid = kLid[1];
  own.qkey = 0x1234;
  const auto of_queue = ah_to(from, kLid[1]), of_peer = from.hca->create_ah(own).value();
  for (const std::size_t len : {8U, 100U, 2048U}) {
    rte_mbuf* m[] = {packet(counting(len), of_queue, to.queue->qpn()),
                     packet(counting(len), of_peer, to.queue->qpn())};
    ASSERT_EQ(from.queue->tx_burst(m, 2), 2);
    to.poll();
    const auto pkts = to.receive();
    ASSERT_EQ(pkts.size(), 1U) << "the other one has the sender's Q_Key";
    EXPECT_EQ(bytes_of(pkts[0]), counting(len));
    rte_pktmbuf_free(pkts[0]);
  }
  EXPECT_EQ(to.hca->drops().get(Drop::kIbQkey), 3U);
  EXPECT_EQ(from.all_drops(), 0U);
}

/// The source of a frame is the LID that the path of its handle names, in the LRH and as the MAC
/// address, until the port has no such LID any more.
TEST_F(SoftTx, U41_AHandleMayHaveSourcePathBits) {
  SoftHcaConfig with_lmc = config(0);
  with_lmc.attr.lid = 8;
  with_lmc.attr.lmc = 2;
  const Node from = make_node(with_lmc);
  const Node to = make_node(1);
  fabric::AhAttr way;
  way.dlid = kLid[1];
  for (const std::uint8_t bits : std::array<std::uint8_t, 3>{0, 1, 3}) {
    way.src_path_bits = bits;
    const auto ah = from.hca->create_ah(way).value();
    for (const std::size_t len : {8U, 100U, 2048U}) {
      rte_mbuf* m = packet(counting(len), ah, to.queue->qpn());
      ASSERT_EQ(from.queue->tx_burst(&m, 1), 1);
      to.poll();
      const auto pkts = to.receive();
      ASSERT_EQ(pkts.size(), 1U);
      EXPECT_EQ(bytes_of(pkts[0]), counting(len));
      EXPECT_EQ(fabric::meta_of(pkts[0]).rx.slid, 8 + bits);
      rte_pktmbuf_free(pkts[0]);
    }
    rte_mbuf* m = packet(counting(60), ah, to.queue->qpn());
    ASSERT_EQ(from.queue->tx_burst(&m, 1), 1);
    const auto cable = on_cable(1);
    ASSERT_EQ(cable.size(), 1U);
    EXPECT_EQ(wire::read<EthHdr>(cable[0])->src, mac_of_dlid(static_cast<std::uint16_t>(8 + bits)));
  }
  way.src_path_bits = 4;
  EXPECT_EQ(from.hca->create_ah(way).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(from.all_drops(), 0U);
}

TEST_F(SoftTx, ControlledQkeyIsTheQueuePairsOwn) {
  const Node from = make_node(0);
  const Node to = make_node(1);
  fabric::AhAttr controlled;
  controlled.dlid = kLid[1];
  controlled.qkey = 0x8000'1234;
  rte_mbuf* m = packet(counting(40), from.hca->create_ah(controlled).value(), to.queue->qpn());
  ASSERT_EQ(from.queue->tx_burst(&m, 1), 1);
  to.poll();
  const auto pkts = to.receive();
  ASSERT_EQ(pkts.size(), 1U);
  rte_pktmbuf_free(pkts[0]);
}

TEST_F(SoftTx, EveryLengthArrivesWithAndWithoutGrh) {
  const Node from = make_node(0);
  const Node to = make_node(1);
  fabric::AhAttr global;
  global.dlid = kLid[1];
  global.global = true;
  global.dgid = to.hca->attr().gid();
  for (const fabric::AhIndex ah : {ah_to(from, kLid[1]), from.hca->create_ah(global).value()})
    for (std::size_t len = 0; len <= 2048; len += len < 80 || len >= 2036 ? 1 : 61) {
      const Bytes payload = counting(len);
      rte_mbuf* m = packet(payload, ah, to.queue->qpn());
      ASSERT_EQ(from.queue->tx_burst(&m, 1), 1);
      to.poll();
      const auto pkts = to.receive();
      ASSERT_EQ(pkts.size(), 1U) << len;
      EXPECT_EQ(bytes_of(pkts[0]), payload);
      rte_pktmbuf_free(pkts[0]);
    }
  EXPECT_EQ(from.all_drops() + to.all_drops(), 0U);
}

TEST_F(SoftTx, ShortFramesArePaddedToSixtyOctetsOfZero) {
  const Node node = make_node(0);
  rte_mbuf* m = packet(counting(1), ah_to(node, 9), 5);
  std::memset(rte_pktmbuf_mtod(m, std::byte*) + 1, 0xee, 60);  // Former contents of the buffer.
  ASSERT_EQ(node.queue->tx_burst(&m, 1), 1);
  const auto cable = on_cable(1);
  ASSERT_EQ(cable.at(0).size(), kMinEthFrame);
  const std::size_t icrc_end = kLocalHeadLen + sizeof(UdWords) + 4 + wire::kIcrcLen;
  EXPECT_TRUE(std::all_of(cable[0].begin() + icrc_end, cable[0].end(),
                          [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(test::to_hex(std::span{cable[0]}.subspan(icrc_end - 7, 3)), "000000")
      << "IBA's own pad";
}

TEST_F(SoftTx, PsnCountsTheFramesThatLeft) {
  const Node node = make_node(0);
  const auto ah = ah_to(node, 9);
  for (std::uint32_t psn : {0U, 1U, 2U}) {
    rte_mbuf* m[] = {packet(counting(8), fabric::kNoAh, 5), packet(counting(8), ah, 5)};
    ASSERT_EQ(node.queue->tx_burst(m, 2), 2);
    const auto frame = on_cable(1).at(0);
    EXPECT_EQ(wire::read<UdWords>(frame, kLocalHeadLen)->ack_psn.host(), psn);
  }
}

TEST_F(SoftTx, WithoutIcrcItsOctetsAreZero) {
  SoftHcaConfig quick = config(0);
  quick.icrc = false;
  const Node node = make_node(quick);
  rte_mbuf* m = packet(counting(40), ah_to(node, 9), 5);
  ASSERT_EQ(node.queue->tx_burst(&m, 1), 1);
  EXPECT_EQ(test::to_hex(std::span{on_cable(1).at(0)}.last(4)), "00000000");
}

TEST_F(SoftTx, PacketsThatCanNeverBeSentAreTakenFreedAndCounted) {
  const Node node = make_node(0);
  const auto gone = ah_to(node, 8);
  const auto ah = ah_to(node, 9);
  node.hca->destroy_ah(gone);
  rte_mbuf* pkts[] = {packet(counting(8), fabric::kNoAh, 5), packet(counting(2049), ah, 5),
                      packet(counting(8), gone, 5), packet(counting(2048), ah, 5)};
  EXPECT_EQ(node.queue->tx_burst(pkts, 4), 4);
  EXPECT_EQ(node.hca->drops().get(Drop::kIbTxInvalid), 2U);
  EXPECT_EQ(node.hca->drops().get(Drop::kIbTxTooLong), 1U);
  EXPECT_EQ(node.queue->tx_lost().packets, 3U);
  EXPECT_EQ(node.queue->tx_lost().octets, 8U + 2049 + 8);
  EXPECT_EQ(on_cable(1).size(), 1U);
}

/// All kinds of packets in one burst, sent to a cable with room for `room` frames.
struct UnsentCase {
  std::uint16_t room;
  std::uint16_t taken;  ///< Accepted packets, of the eight below.
};

TEST_F(SoftTx, UnsentPacketsComeBackAsTheyWere) {
  constexpr UnsentCase kCases[] = {{0, 1}, {1, 3}, {2, 4}, {3, 6}, {4, 8}};
  for (const UnsentCase& c : kCases) {
    SCOPED_TRACE(c.room);
    const Node node = make_node(0);
    const auto other = node.hca->create_ud_queue({});  // This second queue is in the group.
    ASSERT_TRUE(node.hca->set_qkey(**other, kQkey));
    ASSERT_TRUE(node.hca->attach(**other, broadcast_mgid(), kMlid));
    const auto far = ah_to(node, 9);
    const auto own = ah_to(node, kLid[0]);
    const auto group = group_ah(node, broadcast_mgid(), kMlid);
    const std::uint32_t qpn = (*other)->qpn();
    // invalid | wire | own port | wire, copied | group, echoed | invalid | wire | own port
    std::vector<rte_mbuf*> pkts = {packet(counting(10), fabric::kNoAh, qpn),
                                   packet(counting(21), far, qpn),
                                   packet(counting(32), own, qpn),
                                   packet(counting(43), far, qpn),
                                   packet(counting(54), group, wire::kMulticastQpn),
                                   packet(counting(65), fabric::kNoAh, qpn),
                                   packet(counting(76), far, qpn),
                                   packet(counting(87), own, qpn)};
    squeeze(pkts[3], 8);
    std::vector<Bytes> before;
    for (const rte_mbuf* m : pkts) before.push_back(bytes_of(m));
    auto* cable = Cable::get().towards[1];
    while (rte_ring_free_count(cable) > c.room) put_on_cable(1, counting(60));

    const std::uint16_t taken = node.queue->tx_burst(pkts.data(), 8);
    ASSERT_EQ(taken, c.taken);
    for (std::size_t i = taken; i < pkts.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_EQ(bytes_of(pkts[i]), before[i]);
      EXPECT_EQ(pkts[i]->data_len, before[i].size());
      EXPECT_EQ(fabric::meta_of(pkts[i]).tx.iface, 7);
    }
    std::size_t looped = test::free_all(node.receive(*other));
    EXPECT_EQ(looped, 0U + (taken > 2) + (taken > 4) + (taken > 7));
    EXPECT_EQ(node.all_drops(), 0U + (taken > 0) + (taken > 5));

    // With room again, the other packets are sent. No number is repeated or skipped.
    auto frames = on_cable(1);
    ASSERT_EQ(node.queue->tx_burst(pkts.data() + taken, static_cast<std::uint16_t>(8 - taken)),
              8 - taken);
    for (Bytes& frame : on_cable(1)) frames.push_back(std::move(frame));
    std::erase_if(frames, [](const Bytes& frame) { return frame == counting(60); });
    ASSERT_EQ(frames.size(), 4U);
    EXPECT_EQ(wire::read<UdWords>(frames[0], kLocalHeadLen)->ack_psn.host(), 0U);
    EXPECT_EQ(wire::read<UdWords>(frames[1], kLocalHeadLen)->ack_psn.host(), 2U);
    EXPECT_EQ(wire::read<UdWords>(frames[2], kGlobalHeadLen)->ack_psn.host(), 3U);
    EXPECT_EQ(wire::read<UdWords>(frames[3], kLocalHeadLen)->ack_psn.host(), 4U);
    looped += test::free_all(node.receive(*other));
    EXPECT_EQ(looped, 3U);
  }
}

TEST_F(SoftTx, SharedSegmentedAndCrampedPacketsAreCopied) {
  const Node from = make_node(0);
  const Node to = make_node(1);
  const auto ah = ah_to(from, kLid[1]);
  rte_mempool* pool = Cable::get().pool;

  rte_mbuf* shared = packet(counting(50), ah, to.queue->qpn());
  rte_mbuf_refcnt_update(shared, 1);
  rte_mbuf* clone_source = packet(counting(51), ah, to.queue->qpn());
  rte_mbuf* clone = rte_pktmbuf_clone(clone_source, pool);
  rte_mbuf* chain = packet(counting(52), ah, to.queue->qpn());
  ASSERT_EQ(rte_pktmbuf_chain(chain, packet(counting(53), ah, 0)), 0);
  rte_mbuf* no_headroom = packet(counting(54), ah, to.queue->qpn());
  squeeze(no_headroom, 41);
  rte_mbuf* no_tailroom = packet(counting(53), ah, to.queue->qpn());
  squeeze(no_tailroom, static_cast<std::uint16_t>(no_tailroom->buf_len - 53 - 6));
  rte_mbuf* just_fits = packet(counting(53), ah, to.queue->qpn());
  squeeze(just_fits, static_cast<std::uint16_t>(just_fits->buf_len - 53 - 7));

  std::vector<rte_mbuf*> pkts = {shared, clone, chain, no_headroom, no_tailroom, just_fits};
  std::vector<Bytes> before;
  for (const rte_mbuf* m : pkts) before.push_back(bytes_of(m));
  ASSERT_EQ(from.queue->tx_burst(pkts.data(), 6), 6);
  EXPECT_EQ(from.hca->tx_copies(), 5U);
  EXPECT_EQ(bytes_of(shared), before[0]) << "the other owner's octets are untouched";
  EXPECT_EQ(bytes_of(clone_source), before[1]);
  rte_pktmbuf_free(shared);
  rte_pktmbuf_free(clone_source);

  to.poll();
  const auto received = to.receive();
  ASSERT_EQ(received.size(), pkts.size());
  for (std::size_t i = 0; i < received.size(); ++i) {
    EXPECT_EQ(bytes_of(received[i]), before[i]) << i;
    rte_pktmbuf_free(received[i]);
  }
}

/// The octets around the buffer of a packet stay as they are, with the least room and a little more.
TEST_F(SoftTx, U13_U14_FramesStayInTheirBuffers) {
  constexpr std::uint16_t kGuard = 16, kLen = 53;  // three octets of padding
  const Node node = make_node(0);
  auto& queue = *static_cast<SoftUdQueue*>(node.queue);
  const auto host = ah_to(node, 9);
  const auto group = group_ah(node, broadcast_mgid(), kMlid);
  for (const bool to_group : {false, true}) {
    Bytes wanted;
    const std::uint16_t head_len = to_group ? 82 : 42;
    for (std::uint16_t spare = 0; spare < 4 * 3; ++spare) {
      SCOPED_TRACE(spare);
      rte_mbuf* m = packet(counting(kLen), to_group ? group : host, 0xff'ffff);
      const Bytes payload = bytes_of(m);
      auto* const begin = static_cast<std::byte*>(m->buf_addr);
      const std::uint16_t whole = m->buf_len;
      m->buf_addr = begin + kGuard;
      m->data_off = static_cast<std::uint16_t>(head_len + spare % 4);
      m->buf_len = static_cast<std::uint16_t>(m->data_off + kLen + 7 + spare / 4);
      std::fill_n(begin, whole, std::byte{0xee});
      std::ranges::copy(payload, rte_pktmbuf_mtod(m, std::byte*));
      queue.psn() = 5;
      rte_mbuf* sent = m;
      ASSERT_EQ(queue.tx_burst(&sent, 1), 1);
      const std::byte* const end = begin + kGuard + m->buf_len;
      EXPECT_EQ(std::count(begin, begin + kGuard, std::byte{0xee}), kGuard);
      EXPECT_EQ(std::count(end, end + kGuard, std::byte{0xee}), kGuard);
      const auto frames = on_cable(1);
      m->buf_addr = begin;  // in the pool now
      m->buf_len = whole;
      ASSERT_EQ(frames.size(), 1U);
      if (wanted.empty()) wanted = frames[0];
      EXPECT_EQ(test::to_hex(frames[0]), test::to_hex(wanted));
    }
  }
  EXPECT_EQ(node.hca->tx_copies(), 0U);
  EXPECT_EQ(node.all_drops(), 0U);
}

TEST_F(SoftTx, UnsentPlainFramesBecomePacketsAgain) {
  const Node node = make_node(0);
  for (const auto ah : {ah_to(node, 9), group_ah(node, broadcast_mgid(), kMlid)}) {
    rte_mbuf* m = packet(counting(54), ah, wire::kMulticastQpn);
    while (rte_ring_free_count(Cable::get().towards[1]) > 0) put_on_cable(1, counting(60));
    ASSERT_EQ(node.queue->tx_burst(&m, 1), 0);
    EXPECT_EQ(bytes_of(m), counting(54));
    EXPECT_EQ(m->data_len, 54);
    on_cable(1);
    ASSERT_EQ(node.queue->tx_burst(&m, 1), 1);
  }
  EXPECT_EQ(on_cable(1).size(), 1U);
}

/// A copy is made by the general path, with any layout; other packets of plain groups, from 14 octets
/// on, have a path of their own.
TEST_F(SoftTx, U14_GroupFramesAreThoseOfTheGeneralPath) {
  const Node node = make_node(0);
  auto& queue = *static_cast<SoftUdQueue*>(node.queue);
  const auto group = group_ah(node, broadcast_mgid(), kMlid);
  std::uint64_t copies = 0;
  for (std::size_t len = 0; len <= 2048; len += len < 80 || len >= 2036 ? 1 : 61) {
    SCOPED_TRACE(len);
    rte_mbuf* plain = packet(counting(len), group, wire::kMulticastQpn);
    // Former contents of the buffer, which must not be sent as padding.
    std::memset(rte_pktmbuf_mtod_offset(plain, std::byte*, len), 0xee, rte_pktmbuf_tailroom(plain));
    rte_mbuf* cramped = packet(counting(len), group, wire::kMulticastQpn);
    squeeze(cramped, kGlobalHeadLen + sizeof(UdWords) - 1);
    const std::uint32_t psn = queue.psn();
    ASSERT_EQ(queue.tx_burst(&plain, 1), 1);
    ASSERT_EQ(node.hca->tx_copies(), copies);
    queue.psn() = psn;
    ASSERT_EQ(queue.tx_burst(&cramped, 1), 1);
    ASSERT_EQ(node.hca->tx_copies(), ++copies);
    const auto frames = on_cable(1);
    ASSERT_EQ(frames.size(), 2U);
    ASSERT_EQ(test::to_hex(frames[0]), test::to_hex(frames[1]));
  }
  rte_mbuf* too_long = packet(counting(2049), group, wire::kMulticastQpn);
  ASSERT_EQ(queue.tx_burst(&too_long, 1), 1);
  EXPECT_EQ(node.hca->drops().get(Drop::kIbTxTooLong), 1U);
  EXPECT_EQ(node.all_drops(), 1U);
}

TEST_F(SoftTx, CopiesThatCannotBeMadeAreCounted) {
  rte_mempool* tiny =
      rte_pktmbuf_pool_create("tiny", 1, 0, 0, RTE_PKTMBUF_HEADROOM + 100, SOCKET_ID_ANY);
  SoftHcaConfig small = config(0);
  small.pool = tiny;
  const Node node = make_node(small);
  const auto ah = ah_to(node, 9);
  rte_mbuf* too_long = packet(counting(228 - 42 - 4 + 1), ah, 5);
  squeeze(too_long, 0);
  ASSERT_EQ(node.queue->tx_burst(&too_long, 1), 1);
  EXPECT_EQ(node.hca->drops().get(Drop::kIbTxTooLong), 1U);

  rte_mbuf* only = rte_pktmbuf_alloc(tiny);
  rte_mbuf* starved = packet(counting(20), ah, 5);
  squeeze(starved, 0);
  ASSERT_EQ(node.queue->tx_burst(&starved, 1), 1);
  EXPECT_EQ(node.hca->drops().get(Drop::kIbNoBuffer), 1U);
  EXPECT_EQ(node.all_drops(), 2U);
  rte_pktmbuf_free(only);
  EXPECT_EQ(rte_mempool_in_use_count(tiny), 0U);
  rte_mempool_free(tiny);
}

TEST_F(SoftTx, BurstsLongerThanOneChunkLeaveInOrder) {
  const Node node = make_node(0);
  const auto ah = ah_to(node, 9);
  std::vector<rte_mbuf*> pkts;
  for (std::size_t i = 0; i < 200; ++i) pkts.push_back(packet(counting(20 + i), ah, 5));
  ASSERT_EQ(node.queue->tx_burst(pkts.data(), 200), 200);
  const auto frames = on_cable(1);
  ASSERT_EQ(frames.size(), 200U);
  for (std::uint32_t i = 0; i < 200; ++i)
    EXPECT_EQ(wire::read<UdWords>(frames[i], kLocalHeadLen)->ack_psn.host(), i);
}

}  // namespace
}  // namespace ipoib::soft
