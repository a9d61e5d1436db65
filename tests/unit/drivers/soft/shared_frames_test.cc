// SPDX-License-Identifier: BSD-3-Clause
// Frames of connected queue pairs that share the buffers of their messages.
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/unit/drivers/soft/connected_fixture.h"

namespace ipoib::soft {
namespace {

constexpr std::size_t kMtu = 2048;

class SharedFrames : public ConnectedFixture {
 protected:
  static unsigned shares() { return rte_mempool_in_use_count(share_pool()); }
  /// Gives the message to side 0, and polls.
  void give(rte_mbuf* message) const {
    ASSERT_EQ(peers[0].queue->tx_burst(&message, 1), 1);
    peers[0].poll();
  }
  /// Lets the ACK of side 1 time out.
  void time_out() {
    sim_tsc += 2 * wire::ack_timeout_ns(Connection{}.send.ack_timeout);
    peers[0].poll();
  }
};

TEST_F(SharedFrames, C08_FramesAreThoseOfCopies) {
  for (const auto transport : {fabric::Transport::kRc, fabric::Transport::kUc})
    for (const bool global : {false, true})
      for (const std::size_t len : {511UL, 512UL, 2045UL, 2048UL, 2049UL, 5000UL}) {
        SCOPED_TRACE(len);
        const Connection setup{.transport = transport, .global = global};
        connect(setup);
        ASSERT_TRUE(send(0, pattern(1, len), 100));
        EXPECT_EQ(shares(), 0U) << "a payload in several mbufs is copied";
        const auto copies = cut(1);
        clear();
        connect(setup);
        ASSERT_TRUE(send(0, pattern(1, len), kMtu));
        EXPECT_EQ(shares(), len / kMtu + (len % kMtu >= 512 ? 1 : 0))
            << "short payloads are copied";
        EXPECT_EQ(cut(1), copies) << "octet for octet";
        clear();
      }
}

TEST_F(SharedFrames, C11_RepeatedFrameIsACopyWhileTheDeviceHasTheFirst) {
  connect({});
  ASSERT_TRUE(send(0, pattern(1, 3 * kMtu), kMtu));
  EXPECT_EQ(shares(), 3U);
  time_out();
  EXPECT_EQ(peers[0].info().counters.tx_repeated, 3U);
  EXPECT_EQ(shares(), 3U) << "the frames in the ring of the device are not written again";
  const auto frames = cut(1);
  ASSERT_EQ(frames.size(), 6U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(frames[i], frames[3 + i]);
  EXPECT_EQ(shares(), 0U);
  time_out();
  EXPECT_EQ(shares(), 3U);
}

// On a ring the frames themselves arrive, with buffers that the sender still has.
TEST_F(SharedFrames, C11_ReceiverMayWriteToItsPackets) {
  connect({});
  const Bytes sent = pattern(1, 2 * kMtu);
  ASSERT_TRUE(send(0, sent, kMtu));
  run([&] { return peers[1].info().counters.rx_messages == 1; }, 10);
  rte_mbuf* got = nullptr;
  ASSERT_EQ(peers[1].rx->rx_burst(&got, 1), 1);
  EXPECT_EQ(bytes_of(got), sent);
  for (rte_mbuf* m = got; m != nullptr; m = m->next) {
    EXPECT_TRUE(RTE_MBUF_DIRECT(m));
    EXPECT_EQ(rte_mbuf_refcnt_read(m), 1);
    std::memset(rte_pktmbuf_mtod(m, void*), 0xff, m->data_len);
  }
  rte_pktmbuf_free(got);
  (void)cut(0);  // The ACK is lost.
  time_out();
  const auto again = cut(1);
  ASSERT_EQ(again.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(std::ranges::equal(std::span{again[i]}.last(kMtu + wire::kIcrcLen).first(kMtu),
                                   std::span{sent}.subspan(i * kMtu, kMtu)));
}

TEST_F(SharedFrames, C08_BufferWithoutRoomIsCopied) {
  connect({});
  const Bytes octets = pattern(1, kMtu);
  const std::uint16_t buffer = rte_pktmbuf_data_room_size(pool());
  constexpr std::uint16_t kHead = kLocalHeadLen + sizeof(wire::Bth);
  struct Case {
    std::uint16_t data_off;
    bool shared;
  };
  const Case kCases[] = {{kHead, true},
                         {kHead - 1, false},
                         {static_cast<std::uint16_t>(buffer - kMtu - 4), true},
                         {static_cast<std::uint16_t>(buffer - kMtu - 3), false}};
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.data_off);
    rte_mbuf* const m = rte_pktmbuf_alloc(pool());
    m->data_off = c.data_off;
    m->data_len = kMtu;
    m->pkt_len = kMtu;
    std::ranges::copy(octets, rte_pktmbuf_mtod(m, std::byte*));
    give(m);
    EXPECT_EQ(shares(), c.shared ? 1U : 0U);
    run(3);
    const auto got = receive(1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0], octets);
  }
}

TEST_F(SharedFrames, C08_BufferOfAnotherOwnerIsNotWritten) {
  connect({});
  for (const bool clone : {false, true}) {
    SCOPED_TRACE(clone);
    rte_mbuf* const mine = message(pattern(1, kMtu));
    const auto buffer = [&] {
      const auto* const begin = static_cast<const std::byte*>(mine->buf_addr);
      return Bytes{begin, begin + mine->buf_len};
    };
    const Bytes before = buffer();
    rte_mbuf* given = mine;
    if (clone)
      given = rte_pktmbuf_clone(mine, pool());
    else
      rte_mbuf_refcnt_update(mine, 1);
    give(given);
    EXPECT_EQ(shares(), 0U);
    run(3);
    EXPECT_EQ(receive(1).size(), 1U);
    EXPECT_EQ(buffer(), before) << "head- and tailroom too";
    rte_pktmbuf_free(mine);
  }
}

// The mbufs of one message: shared and copied payloads follow each other.
TEST_F(SharedFrames, C08_MbufsOfOtherLengthsMayStandBetween) {
  connect({});
  const std::vector<std::size_t> segments{1000, 1048, kMtu, 3000, 1096, kMtu, 0, kMtu, 700};
  Bytes all;
  rte_mbuf* first = nullptr;
  for (const std::size_t len : segments) {
    const Bytes part = pattern(static_cast<std::uint32_t>(all.size()), len);
    rte_mbuf* const m = message(std::span{part}.first(std::min<std::size_t>(len, 2048)));
    all.insert(all.end(), part.begin(), part.end());
    if (first == nullptr)
      first = m;
    else
      ASSERT_EQ(rte_pktmbuf_chain(first, m), 0);
    if (len > 2048) {
      ASSERT_EQ(rte_pktmbuf_chain(first, message(std::span{part}.subspan(2048))), 0);
    }
  }
  give(first);
  EXPECT_EQ(shares(), 4U) << "2,048 octets twice, those of the 3,000, and the last 700";
  run(3);
  const auto got = receive(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0], all);
}

TEST_F(SharedFrames, C11_AcknowledgedBufferIsKeptForTheDevice) {
  connect({});
  const Bytes octets = pattern(1, kMtu);
  ASSERT_TRUE(send(0, octets, kMtu));
  rte_mbuf* const frame = sent_frame(0);
  ASSERT_NE(frame, nullptr);
  const Bytes before = bytes_of(frame);
  put(1, before);
  peers[1].poll();
  for (const Bytes& ack : cut(0)) put(0, ack);
  peers[0].poll();
  ASSERT_EQ(peers[0].info().counters.tx_done, 1U);
  EXPECT_EQ(receive(1).size(), 1U);
  EXPECT_EQ(mbufs_in_use(), 1U) << "the buffer of the frame";
  std::vector<rte_mbuf*> others;  // None of them may be that buffer.
  while (rte_mbuf* const m = rte_pktmbuf_alloc(pool())) {
    std::memset(m->buf_addr, 0xee, m->buf_len);
    others.push_back(m);
  }
  EXPECT_EQ(bytes_of(frame), before);
  for (rte_mbuf* const m : others) rte_pktmbuf_free(m);
  rte_pktmbuf_free(frame);
}

TEST_F(SharedFrames, C08_FramesToTheOwnPortAreCopies) {
  make_hcas();
  SoftHca& hca = *peers[0].hca;
  fabric::ConnectedQueue* const ends[2] = {make_queue(0, {}), make_queue(0, {})};
  for (int end : {0, 1}) {
    fabric::ReadyToReceive attr{.peer_qpn = ends[1 - end]->qpn(), .path_mtu = 4};
    attr.path.dlid = kPeerLid[0];
    ASSERT_TRUE(hca.set_ready_to_receive(*ends[end], attr));
    ASSERT_TRUE(hca.set_ready_to_send(*ends[end], {.ack_timeout = 8}));
  }
  rte_mbuf* m = message(pattern(1, 2 * kMtu), kMtu);
  ASSERT_EQ(ends[0]->tx_burst(&m, 1), 1);
  EXPECT_EQ(shares(), 0U);
  for (int i = 0; i < 3; ++i) peers[0].poll();
  const auto got = receive(0);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0], pattern(1, 2 * kMtu));
}

TEST_F(SharedFrames, C15_EmptyPoolOnlyMeansCopies) {
  connect({});
  std::array<rte_mbuf*, kShares> all{};
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(share_pool(), all.data(), kShares), 0);
  ASSERT_TRUE(send(0, pattern(1, 5000), kMtu));
  run(3);
  const auto got = receive(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0], pattern(1, 5000));
  EXPECT_EQ(peers[0].all_drops(), 0U);
  EXPECT_EQ(peers[0].hca->tx_copies(), 3U) << "counted";
  // Without mbufs for copies there are none to count.
  std::vector<rte_mbuf*> rest;
  rte_mbuf* m = message(pattern(2, kMtu));
  while (rte_mbuf* const other = rte_pktmbuf_alloc(pool())) rest.push_back(other);
  give(m);
  for (int i = 0; i < 10; ++i) peers[0].poll();
  EXPECT_EQ(peers[0].hca->tx_copies(), 3U);
  rte_pktmbuf_free_bulk(rest.data(), static_cast<unsigned>(rest.size()));
  run(3);
  EXPECT_EQ(peers[0].hca->tx_copies(), 4U);
  EXPECT_EQ(receive(1).size(), 1U);
  rte_pktmbuf_free_bulk(all.data(), kShares);
}

// A packet of the message may be meant for offloads of another device.
TEST_F(SharedFrames, C08_FrameAsksForNoOffload) {
  connect({});
  rte_mbuf* const m = message(pattern(1, kMtu));
  m->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_VLAN;
  give(m);
  rte_mbuf* const frame = sent_frame(0);
  ASSERT_NE(frame, nullptr);
  EXPECT_EQ(frame->ol_flags, RTE_MBUF_F_INDIRECT);
  rte_pktmbuf_free(frame);
}

}  // namespace
}  // namespace ipoib::soft
