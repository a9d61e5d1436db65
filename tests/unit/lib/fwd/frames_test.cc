// SPDX-License-Identifier: BSD-3-Clause
// Packets that leave as whole frames, and those that do not. The fake queue of ib0 checks every
// octet of the headers and makes packets of the frames again.
#include <gtest/gtest.h>

#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

constexpr fabric::AhIndex kPlain = 7, kByHandle = 1000;

class WholeFrames : public WorkerFixture {
 protected:
  /// 10.0.0.2 is a neighbour by frames, 10.0.0.3 by its handle.
  void start_with_neighbours() {
    links[0].first_by_handle = kByHandle;
    start();
    set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", kPlain, 0xabcdef));
    set_neighbour(1, ib_neighbour(kIb0, "10.0.0.3", kByHandle, 0x123));
    loop();
  }
  static Ip4 packet(std::uint16_t id, bool plain) {
    return {.dst = plain ? "10.0.0.2" : "10.0.0.3", .id = id};
  }
  /// The identifications of the packets sent on ib0, in order.
  std::vector<std::uint16_t> ids() {
    std::vector<std::uint16_t> ids;
    for (const SentOnLink& sent : sent_by_link(kIb0))
      ids.push_back(wire::read<wire::Ipv4Hdr>(sent.bytes, 4)->id.host());
    return ids;
  }
};

TEST_F(WholeFrames, AreMadeOfPlainPackets) {
  start_with_neighbours();
  feed(kEth0, to_eth0(packet(1, true).bytes()));
  const SentOnLink sent = only_sent_by_link(kIb0);
  EXPECT_EQ(links[0].frames_sent, 1U);
  EXPECT_EQ(sent.to.ah, kPlain);
  EXPECT_EQ(sent.to.qpn, 0xabcdefU);
  Ip4 wanted = packet(1, true);
  --wanted.ttl;
  EXPECT_EQ(sent.bytes, to_link(wanted.bytes()));
  EXPECT_EQ(worker().counters(kIb0).tx_bytes.get(), wanted.bytes().size());
  EXPECT_EQ(worker().counters(kIb0).tx_packets.get(), 1U);

  feed(kEth0, to_eth0(packet(2, false).bytes()));
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, kByHandle);
  EXPECT_EQ(links[0].frames_sent, 1U);
}

TEST_F(WholeFrames, EveryLengthAndPadding) {
  start_with_neighbours();
  std::uint64_t octets = 0;
  std::size_t n = 0;
  for (std::size_t payload = 0; payload <= 1480; payload += payload < 40 ? 1 : 53, ++n) {
    Ip4 ip = packet(3, true);
    ip.payload_len = payload;
    feed(kEth0, to_eth0(ip.bytes()));
    --ip.ttl;
    EXPECT_EQ(only_sent_by_link(kIb0).bytes, to_link(ip.bytes())) << payload;
    octets += ip.bytes().size();
  }
  EXPECT_EQ(links[0].frames_sent, n);
  EXPECT_EQ(worker().counters(kIb0).tx_bytes.get(), octets);
}

TEST_F(WholeFrames, KeepTheirOrderAmongOtherPackets) {
  start_with_neighbours();
  std::uint32_t random = 1;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::uint16_t> wanted;
    std::size_t plain = 0;
    links[0].room = 1000;
    for (std::uint16_t id = 0; id < 32; ++id) {
      random = random * 1'664'525 + 1'013'904'223;
      const bool is_plain = (random >> 16 & (round % 2 == 0 ? 1 : 7)) != 0;
      const Bytes frame = to_eth0(packet(id, is_plain).bytes());
      // A packet in two mbufs has no room for a frame.
      const bool chained = (random >> 24 & 7) == 0;
      receive(kEth0, chained ? mbuf(frame, {40, frame.size() - 40}) : mbuf(frame));
      plain += is_plain && !chained ? 1 : 0;
      wanted.push_back(id);
    }
    const std::size_t before = links[0].frames_sent;
    loop();
    EXPECT_EQ(ids(), wanted);
    EXPECT_EQ(links[0].frames_sent - before, plain);
  }
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(WholeFrames, AQueueThatFillsCountsWhatItLeaves) {
  start_with_neighbours();
  for (const std::size_t room : {0U, 1U, 3U, 4U, 5U, 9U, 10U}) {
    const std::uint64_t packets = worker().counters(kIb0).tx_packets.get();
    const std::uint64_t octets = worker().counters(kIb0).tx_bytes.get();
    const std::uint64_t full = drops(kIb0, Drop::kIbTxFull);
    links[0].room = room;
    for (std::uint16_t id = 0; id < 10; ++id) receive(kEth0, to_eth0(packet(id, id < 4).bytes()));
    loop();
    EXPECT_EQ(sent_by_link(kIb0).size(), room);
    EXPECT_EQ(worker().counters(kIb0).tx_packets.get() - packets, room);
    EXPECT_EQ(worker().counters(kIb0).tx_bytes.get() - octets,
              room * packet(0, true).bytes().size());
    EXPECT_EQ(drops(kIb0, Drop::kIbTxFull) - full, 10 - room);
  }
}

TEST_F(WholeFrames, MoreThanABurstOfThem) {
  settings.burst = 64;
  start_with_neighbours();
  set_neighbour(2, ib_neighbour(kIb1, "10.1.0.2", kPlain, 5));
  for (std::uint16_t id = 0; id < 64; ++id) receive(kEth0, to_eth0(packet(id, id != 9).bytes()));
  for (std::uint16_t id = 64; id < 100; ++id) receive(kIb1, to_link(packet(id, id != 70).bytes()));
  loop();
  std::vector<std::uint16_t> wanted(100);
  for (std::uint16_t id = 0; id < 100; ++id) wanted[id] = id;
  EXPECT_EQ(ids(), wanted);
  EXPECT_EQ(links[0].frames_sent, 98U);
}

TEST_F(WholeFrames, WithoutKeysPacketsTakeTheirHandles) {
  start_with_neighbours();
  links[0].has_keys = false;
  feed(kEth0, to_eth0(packet(1, true).bytes()));
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, kPlain);
  EXPECT_EQ(links[0].frames_sent, 0U);
  links[0].has_keys = true;
  feed(kEth0, to_eth0(packet(1, true).bytes()));
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, kPlain);
  EXPECT_EQ(links[0].frames_sent, 1U);
}

TEST_F(WholeFrames, FollowTheHeads) {
  start_with_neighbours();
  feed(kEth0, to_eth0(packet(1, true).bytes()));
  // All heads change, as with a new LID. The fake expects the new one in each frame.
  links[0].generation = 0x77;
  links[0].heads_version = 1;
  feed(kEth0, to_eth0(packet(2, true).bytes()));
  EXPECT_EQ(links[0].frames_sent, 2U);
  // The plain handle is not plain any more, and the other one is.
  links[0].first_by_handle = kPlain;
  links[0].heads_version = 2;
  feed(kEth0, to_eth0(packet(3, true).bytes()));
  EXPECT_EQ(links[0].frames_sent, 2U);
  links[0].first_by_handle = kByHandle + 1;
  links[0].heads_version = 3;
  feed(kEth0, to_eth0(packet(4, false).bytes()));
  EXPECT_EQ(links[0].frames_sent, 3U);
  EXPECT_EQ(ids(), (std::vector<std::uint16_t>{1, 2, 3, 4}));
}

TEST_F(WholeFrames, ANewHandleOfANeighbourIsUsed) {
  start_with_neighbours();
  set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", 8, 0x55));
  feed(kEth0, to_eth0(packet(1, true).bytes()));
  const SentOnLink sent = only_sent_by_link(kIb0);
  EXPECT_EQ(sent.to.ah, 8U);
  EXPECT_EQ(sent.to.qpn, 0x55U);
  set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", kByHandle, 0x56));
  feed(kEth0, to_eth0(packet(1, true).bytes()));
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, kByHandle);
  EXPECT_EQ(links[0].frames_sent, 1U);
}

TEST_F(WholeFrames, ANeighbourWithALargerMtuThanTheDeviceHasNone) {
  entries[kIb0].mtu = 4092;
  start_with_neighbours();
  table::Neighbour to = ib_neighbour(kIb0, "10.0.0.2", kPlain, 5);
  to.mtu = 2045;
  set_neighbour(0, to);
  feed(kEth0, to_eth0(packet(1, true).bytes()));
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, kPlain);
  EXPECT_EQ(links[0].frames_sent, 0U);
}

TEST_F(WholeFrames, AnotherWorkersLinkGetsPackets) {
  share_between_two_workers();
  start_with_neighbours();
  feed(kEth0, to_eth0(packet(1, true).bytes()));
  loop();
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, kPlain);
  EXPECT_EQ(links[0].frames_sent, 0U);
}

/// Frames to groups: 239.1.0.0, 239.1.0.1, ... and ff15::1.
class GroupFrames : public WorkerFixture {
 protected:
  static constexpr fabric::AhIndex kFirst = 500, kOdd = 600;
  void SetUp() override {
    WorkerFixture::SetUp();
    links[0].first_by_handle = kByHandle;
    links[0].first_group = kFirst;
    links[0].first_odd = kOdd;
    links[0].generation = 0x77;
    start();
  }
  static std::string group(fabric::AhIndex ah) { return "239.1.0." + std::to_string(ah % 256); }
  void join(table::NeighbourIndex i, std::string_view group, fabric::AhIndex ah) {
    set_delivery(kEth0, group, false, std::uint64_t{1} << kIb0);
    set_neighbour(i, ib_neighbour(kIb0, group, ah, 0xff'ffff));
    loop();
  }
  void receive_for(std::string_view group, std::size_t payload_len = 26) {
    Ip4 ip{.src = "10.9.0.1", .dst = group, .payload_len = payload_len};
    receive(kEth0,
            ethernet(wire::group_mac(*wire::parse_ip(group)), mac(0x10), 0x0800, ip.bytes()));
  }
  /// Sends one packet to each of the groups, and returns the handles in the order of leaving.
  std::vector<fabric::AhIndex> send_to(const std::vector<fabric::AhIndex>& groups) {
    for (const fabric::AhIndex ah : groups) receive_for(group(ah));
    loop();
    std::vector<fabric::AhIndex> handles;
    for (const SentOnLink& sent : sent_by_link(kIb0)) handles.push_back(sent.to.ah);
    return handles;
  }
};

TEST_F(GroupFrames, EveryLengthAndPadding) {
  join(0, group(kFirst), kFirst);
  std::uint64_t octets = 0;
  std::size_t n = 0;
  for (std::size_t payload = 0; payload <= 1480; payload += payload < 40 ? 1 : 53, ++n) {
    const std::string to = group(kFirst);
    receive_for(to, payload);
    loop();
    const SentOnLink sent = only_sent_by_link(kIb0);
    Ip4 ip{.src = "10.9.0.1", .dst = to, .payload_len = payload};
    --ip.ttl;
    EXPECT_EQ(sent.bytes, to_link(ip.bytes())) << payload;
    EXPECT_EQ(sent.to.ah, kFirst);
    EXPECT_EQ(sent.to.qpn, 0xff'ffffU);
    octets += ip.bytes().size();
  }
  EXPECT_EQ(links[0].frames_sent, n);
  EXPECT_EQ(worker().counters(kIb0).tx_bytes.get(), octets);
}

TEST_F(GroupFrames, HaveTheGrhOfTheFirstGroup) {
  for (std::size_t word = 0; word < 4; ++word) {
    links[0].odd_word = word;
    links[0].frames_sent = 0;
    for (const auto ah : {kFirst, kFirst + 1, kOdd, kByHandle}) join(ah, group(ah), ah);
    EXPECT_EQ(send_to({kFirst, kOdd, kFirst + 1, kByHandle, kFirst}),
              (std::vector<fabric::AhIndex>{kFirst, kOdd, kFirst + 1, kByHandle, kFirst}));
    EXPECT_EQ(links[0].frames_sent, 3U) << "the others left by their handles, word " << word;
  }
  // The groups with the other GRH are now the only ones, after a change of the port.
  links[0].frames_sent = 3;
  links[0].first_odd = kFirst;
  links[0].heads_version = 1;
  EXPECT_EQ(send_to({kFirst, kOdd}), (std::vector<fabric::AhIndex>{kFirst, kOdd}));
  EXPECT_EQ(links[0].frames_sent, 5U);
}

/// Two links whose devices take frames.
class TwoLinks : public GroupFrames {
 protected:
  void SetUp() override {
    second.first_group = kFirst;
    ud_queues[1] = &second;
    GroupFrames::SetUp();
  }
  void TearDown() override {
    for (rte_mbuf* m : second.sent) rte_pktmbuf_free(m);
    second.sent.clear();
    GroupFrames::TearDown();
  }
  FakeUdQueue second{FakeUdQueue::Takes::kFrames, 0x777};
};

TEST_F(TwoLinks, HaveTheirOwnGrh) {
  for (const table::InterfaceId iface : {kIb0, kIb1}) {
    const std::string to = group(iface == kIb0 ? kFirst : kFirst + 1);
    set_delivery(kEth0, to, false, std::uint64_t{1} << iface);
    set_neighbour(iface, ib_neighbour(iface, to, kFirst, 0xff'ffff));
  }
  loop();
  receive_for(group(kFirst));
  receive_for(group(kFirst + 1));
  loop();
  EXPECT_EQ(links[0].frames_sent, 1U);
  EXPECT_EQ(second.frames_sent, 1U);
  EXPECT_EQ(second.sent.size(), 1U);
}

TEST_F(GroupFrames, EachVersionOfIpHasItsOwn) {
  join(0, "ff15::1", kOdd);
  join(1, group(kFirst), kFirst);
  join(2, group(kOdd), kOdd);
  EXPECT_EQ(send_to({kFirst, kOdd}), (std::vector<fabric::AhIndex>{kFirst, kOdd}));
  EXPECT_EQ(links[0].frames_sent, 1U) << "that of IPv6 does not count for IPv4";
  const Bytes ip = Ip6{.dst = "ff15::1"}.bytes();
  receive(kEth0, ethernet(wire::group_mac(*wire::parse_ip("ff15::1")), mac(0x10), 0x86dd, ip));
  loop();
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, kOdd);
  EXPECT_EQ(links[0].frames_sent, 2U);
}

TEST_F(GroupFrames, NoneWhileOtherQueuePairsNeedCopies) {
  join(0, group(kFirst), kFirst);
  set_neighbour(1, ib_neighbour(kIb0, "10.0.0.2", kPlain, 5));
  loop();
  links[0].takes_groups = false;
  EXPECT_EQ(send_to({kFirst}), std::vector<fabric::AhIndex>{kFirst});
  EXPECT_EQ(links[0].frames_sent, 0U);
  feed(kEth0, to_eth0(Ip4{.dst = "10.0.0.2"}.bytes()));
  EXPECT_EQ(links[0].frames_sent, 1U) << "hosts still get frames";
  links[0].takes_groups = true;
  EXPECT_EQ(send_to({kFirst}).size(), 2U);
  EXPECT_EQ(links[0].frames_sent, 2U);
}

TEST_F(GroupFrames, NeedRoomForTheGrh) {
  join(0, group(kFirst), kFirst);
  for (const std::uint32_t missing : {0U, 1U}) {
    const Ip4 ip{.src = "10.9.0.1", .dst = "239.1.0.244"};
    ASSERT_EQ(group(kFirst), ip.dst);
    const Bytes frame =
        ethernet(wire::group_mac(*wire::parse_ip(ip.dst)), mac(0x10), 0x0800, ip.bytes());
    rte_mbuf* const m = mbuf(frame);
    m->data_off = static_cast<std::uint16_t>(fabric::kFrameRoom + 40 - RTE_ETHER_HDR_LEN - missing);
    std::memcpy(rte_pktmbuf_mtod(m, void*), frame.data(), frame.size());
    feed(kEth0, m);
    EXPECT_EQ(only_sent_by_link(kIb0).to.ah, kFirst);
    EXPECT_EQ(links[0].frames_sent, 1U) << missing;
  }
}

}  // namespace
}  // namespace ipoib::fwd::test
