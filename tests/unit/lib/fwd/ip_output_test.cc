// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip_output.h"

#include <rte_ring.h>

#include <gtest/gtest.h>

#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

class Ip4Output : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    start();
    set_neighbour(0, eth_neighbour(kEth0, "192.168.1.10", mac(0x10)));
    set_neighbour(1, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    loop();
  }
  using WorkerFixture::feed;
  void feed(const Ip4& packet) { feed(kEth0, to_eth0(packet.bytes())); }
  void expect_too_big(const Ip4& packet, std::uint16_t mtu) {
    const Punted p = only_punted();
    EXPECT_EQ(p.message.kind, msg::Up::Kind::kIcmpError);
    EXPECT_EQ(p.message.icmp_type, 3);
    EXPECT_EQ(p.message.icmp_code, 4);
    EXPECT_EQ(p.message.mtu, mtu);
    EXPECT_EQ(p.bytes, forwarded(packet));
  }
};

TEST_F(Ip4Output, P05_PacketOfExactlyTheMtuPasses) {
  entries[kIb0].mtu = 500;
  feed({.payload_len = 480, .flags_offset = wire::Ipv4Hdr::kDontFragment});
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(Ip4Output, P05_TooBigAndNotToBeFragmentedIsToldToTheSender) {
  entries[kIb0].mtu = 500;
  const Ip4 packet{.payload_len = 481, .flags_offset = wire::Ipv4Hdr::kDontFragment};
  feed(packet);
  expect_drop(kEth0, Drop::kIpTooBig);
  expect_too_big(packet, 500);
  EXPECT_TRUE(sent_by_link(kIb0).empty());
}

TEST_F(Ip4Output, TheSmallerOfLinkAndNeighbourMtuHolds) {
  auto neighbour = ib_neighbour(kIb0, "10.0.0.2", 7, 1);
  neighbour.mtu = 400;
  set_neighbour(1, neighbour);
  const Ip4 packet{.payload_len = 400, .flags_offset = wire::Ipv4Hdr::kDontFragment};
  feed(packet);
  expect_too_big(packet, 400);
}

TEST_F(Ip4Output, P05_FragmentsWhereItMay) {
  entries[kIb0].mtu = 500;
  const Ip4 packet{.payload_len = 1000};
  feed(packet);
  const auto sent = sent_by_link(kIb0);
  // A fragment carries 480 octets: the most that fits, in multiples of 8.
  const std::vector<std::pair<std::size_t, std::uint16_t>> parts = {
      {480, 0x2000}, {480, 0x2000 | 60}, {40, 120}};
  ASSERT_EQ(sent.size(), parts.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Ip4 fragment{.ttl = 63,
                       .payload_len = parts[i].first,
                       .flags_offset = parts[i].second,
                       .first_payload = static_cast<std::uint8_t>(at)};
    EXPECT_EQ(sent[i].bytes, to_link(fragment.bytes())) << i;
    EXPECT_EQ(sent[i].to.ah, 7U);
    at += parts[i].first;
  }
  EXPECT_EQ(all_drops(), 0U);
  EXPECT_EQ(worker().counters(kIb0).tx_packets.get(), 3U);
  EXPECT_EQ(worker().counters(kIb0).tx_bytes.get(), 1060U);
}

TEST_F(Ip4Output, ManyFragmentsOfManyPacketsAllLeave) {
  entries[kIb0].mtu = 68;
  for (int i = 0; i < 8; ++i) receive(kEth0, to_eth0(Ip4{.payload_len = 1400}.bytes()));
  loop();
  EXPECT_EQ(sent_by_link(kIb0).size(), 8U * 30);
  EXPECT_EQ(all_drops(), 0U);
}

/// The longest packet that arrives without a connection needs more fragments than a burst holds.
TEST_F(Ip4Output, TheLongestPacketIsCutForTheSmallestLinks) {
  entries[kIb0].mtu = 576;
  const Bytes frame = to_eth0(Ip4{.payload_len = 65'500}.bytes());
  std::vector<std::size_t> segments(frame.size() / 2000, 2000);
  segments.push_back(frame.size() % 2000);
  feed(kEth0, mbuf(frame, segments));
  EXPECT_EQ(sent_by_link(kIb0).size(), (65'500U + 551) / 552);
  EXPECT_EQ(all_drops(), 0U);
}

/// The remaining fragments are useless after one is lost, so the packet counts as one loss.
TEST_F(Ip4Output, WithoutMbufsForTheRestThePacketIsCountedOnce) {
  entries[kIb0].mtu = 576;
  const Bytes frame = to_eth0(Ip4{.payload_len = 65'500}.bytes());
  std::vector<std::size_t> segments(frame.size() / 2000, 2000);
  segments.push_back(frame.size() % 2000);
  receive(kEth0, mbuf(frame, segments));
  std::vector<rte_mbuf*> taken(rte_mempool_avail_count(pool) - 100);
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool, taken.data(), static_cast<unsigned>(taken.size())), 0);
  loop();
  EXPECT_EQ(sent_by_link(kIb0).size(), 64U);
  expect_drop(kEth0, Drop::kIpFragmentFailed);
  rte_pktmbuf_free_bulk(taken.data(), static_cast<unsigned>(taken.size()));
}

TEST_F(Ip4Output, MtuWithoutRoomIsCounted) {
  entries[kIb0].mtu = 27;
  feed({});
  expect_drop(kEth0, Drop::kIpFragmentFailed);
}

TEST_F(Ip4Output, NoHeadroomIsCounted) {
  rte_mbuf* const m = mbuf(to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.1.10"}.bytes()));
  // Removal of the IPoIB header leaves 4 octets of headroom; the Ethernet header needs 14.
  std::memmove(m->buf_addr, rte_pktmbuf_mtod(m, void*), m->data_len);
  m->data_off = 0;
  feed(kIb0, m);
  expect_drop(kIb0, Drop::kNoMbuf);
}

TEST_F(Ip4Output, NoHeadroomForTheLinkIsCounted) {
  send_routed(Ip4{}.bytes());
  // The message holds the packet; the test removes its headroom.
  msg::Down message{};
  ASSERT_EQ(rte_ring_sc_dequeue_elem(down[0], &message, sizeof(message)), 0);
  std::memmove(message.mbuf->buf_addr, rte_pktmbuf_mtod(message.mbuf, void*),
               message.mbuf->data_len);
  message.mbuf->data_off = 0;
  send_down(message);
  loop();
  expect_drop(table::kNoInterface, Drop::kNoMbuf);
}

}  // namespace
}  // namespace ipoib::fwd::test
