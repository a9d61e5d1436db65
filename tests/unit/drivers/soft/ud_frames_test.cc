// SPDX-License-Identifier: BSD-3-Clause
// Whole frames that a worker writes: they are those that the HCA would make of the same packets.
#include <cstring>
#include <optional>

#include "lib/table/neighbour.h"
#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

using table::Neighbour;

constexpr std::uint32_t kIpoib = 0x0000'0008;  // IPv4, in memory order

class SoftFrames : public SoftFixture {
 protected:
  static SoftUdQueue& queue_of(const Node& node) { return static_cast<SoftUdQueue&>(*node.queue); }
  static std::optional<fabric::FrameKeys> keys_of(const Node& node) {
    fabric::FrameKeys keys;
    if (!node.queue->frames()->keys(*node.queue, keys)) return std::nullopt;
    return keys;
  }
  static std::optional<Neighbour> neighbour(const Node& node, fabric::AhIndex ah,
                                            std::uint32_t qpn) {
    fabric::FrameHead head;
    if (!node.queue->frames()->head(*node.queue, ah, head)) return std::nullopt;
    Neighbour to;
    to.mtu = 0xabcd;  // its octets are in the headroom before the frame
    to.mac = head.mac;
    to.lrh = head.lrh;
    to.mgid_mid = head.mgid_mid;
    to.mgid_low = head.mgid_low;
    to.qpn = qpn;
    return to;
  }
  template <class Grh = fabric::NoGrh>
  static rte_mbuf* frame(const Node& node, const Bytes& ip, const Neighbour& to,
                         const Grh& grh = {}) {
    rte_mbuf* const m = packet(ip, fabric::kNoAh, 0);
    std::memset(rte_pktmbuf_mtod(m, std::byte*) + ip.size(), 0xee, 16);  // former contents
    const fabric::FrameKeys keys = keys_of(node).value();
    EXPECT_TRUE(fabric::has_frame_room<Grh>(m, m->pkt_len));
    fabric::write_frame(m, rte_pktmbuf_mtod(m, std::byte*), m->pkt_len, to, keys, grh,
                        keys.last_word(kIpoib), (*keys.psn)++);
    EXPECT_EQ(fabric::ip_len_of_frame(m), ip.size());
    return m;
  }
  /// Sends a packet in three ways, with the same PSN: in two mbufs, of which the HCA makes a frame
  /// step by step; in one mbuf; as a whole frame. Returns the frame, which must be the same.
  static Bytes each_way(const Node& node, const Bytes& ip, fabric::AhIndex ah, std::uint32_t qpn) {
    const std::uint32_t psn = queue_of(node).psn();
    Bytes payload = {std::byte{0x08}, std::byte{0}, std::byte{0}, std::byte{0}};
    payload.insert(payload.end(), ip.begin(), ip.end());
    rte_mbuf* const whole = packet(payload, ah, qpn);
    rte_mbuf* const chain = packet({payload.begin(), payload.begin() + 9}, ah, qpn);
    EXPECT_EQ(rte_pktmbuf_chain(chain, packet({payload.begin() + 9, payload.end()}, ah, qpn)), 0);
    for (rte_mbuf* m : {chain, whole}) {
      queue_of(node).psn() = psn;
      EXPECT_EQ(node.queue->tx_burst(&m, 1), 1);
    }
    queue_of(node).psn() = psn;
    fabric::FrameHead head;
    EXPECT_TRUE(node.queue->frames()->head(*node.queue, ah, head));
    const Neighbour to = neighbour(node, ah, qpn).value();
    rte_mbuf* m = head.group ? frame(node, ip, to, *head.group) : frame(node, ip, to);
    EXPECT_EQ(node.queue->frames()->tx_burst(*node.queue, &m, 1), 1);
    EXPECT_EQ(queue_of(node).psn(), psn + 1);
    const auto cable = on_cable(1);
    EXPECT_EQ(cable.size(), 3U);
    EXPECT_EQ(test::to_hex(cable.at(1)), test::to_hex(cable.at(0))) << ip.size();
    EXPECT_EQ(test::to_hex(cable.at(2)), test::to_hex(cable.at(0))) << ip.size();
    return cable.at(0);
  }
};

TEST_F(SoftFrames, U13_U14_AreThoseOfPackets) {
  for (const bool icrc : {true, false}) {
    SoftHcaConfig c = config(0);
    c.icrc = icrc;
    const Node node = make_node(c);
    ASSERT_TRUE(node.hca->set_qkey(*node.queue, 0x1234'5678));
    std::uint32_t qpn = 0x00ff'fffe;
    for (const std::uint8_t sl : {std::uint8_t{0}, std::uint8_t{9}}) {
      fabric::AhAttr to;
      to.dlid = static_cast<std::uint16_t>(0xbf01 + sl);
      to.sl = sl;
      const auto ah = node.hca->create_ah(to).value();
      for (std::size_t len = 20; len <= 2044; len += len < 90 || len > 2030 ? 1 : 97) {
        queue_of(node).psn() = static_cast<std::uint32_t>(0x00ff'ffff + len);  // it wraps
        each_way(node, counting(len), ah, qpn);
        if (HasFailure()) return;
        qpn = (qpn * 3 + 1) & 0xff'ffff;
      }
    }
    EXPECT_EQ(node.all_drops(), 0U);
  }
}

TEST_F(SoftFrames, U13_U14_ToGroupsAreThoseOfPackets) {
  for (const bool icrc : {true, false}) {
    SoftHcaConfig c = config(0);
    c.icrc = icrc;
    const Node node = make_node(c);
    for (const bool odd : {false, true}) {
      fabric::AhAttr to;
      to.dlid = odd ? 0xfffe : 0xc000;
      to.sl = odd ? 15 : 0;
      to.global = true;
      to.dgid =
          gid_of(odd ? "ff15601bffff0db8123456789abcdef0" : "ff12401bffff00000000000001020304");
      to.hop_limit = odd ? 0xfe : 0;
      to.tclass = odd ? 0xa5 : 0;
      to.flow_label = odd ? 0xf'edcb : 0;
      const auto ah = node.hca->create_ah(to).value();
      for (std::size_t len = 20; len <= 2044; len += len < 30 || len > 2038 ? 1 : 97) {
        queue_of(node).psn() = static_cast<std::uint32_t>(0x00ff'ffff + len);
        each_way(node, counting(len), ah, 0xff'ffff);
        if (HasFailure()) return;
      }
    }
    EXPECT_EQ(node.all_drops(), 0U);
  }
}

TEST_F(SoftFrames, ToGroupsOnlyWithoutOtherLinksInThePartition) {
  const Node node = make_node(0);
  EXPECT_TRUE(keys_of(node).value().groups);
  fabric::UdQueue* const other = node.hca->create_ud_queue({}).value();
  EXPECT_FALSE(keys_of(node).value().groups) << "its members get copies";
  node.hca->destroy_ud_queue(*other);
  EXPECT_TRUE(keys_of(node).value().groups);
}

TEST_F(SoftFrames, FollowPkeyQkeyAndLid) {
  const Node node = make_node(0);
  const auto ah = ah_to(node, kLid[1]);
  const auto same = [&] { return each_way(node, counting(51), ah, 7); };
  const Bytes first = same();
  ASSERT_TRUE(node.hca->set_qkey(*node.queue, 0x7fff'0001));
  const Bytes second = same();
  EXPECT_NE(first, second);
  const auto& version = node.queue->frames()->heads_version(*node.queue);
  const std::uint32_t before = version.load();
  ASSERT_TRUE(node.hca->change_port({.pkeys = {{0x7fff}}}));  // limited from now on
  const Bytes third = same();
  EXPECT_NE(second, third);
  EXPECT_EQ(version.load(), before) << "heads have no keys";
  ASSERT_TRUE(node.hca->change_port({.lid = 0x1234}));
  EXPECT_NE(version.load(), before);
  EXPECT_NE(same(), third);
}

TEST_F(SoftFrames, NoneWithoutPkeyOrPort) {
  const Node node = make_node(0);
  EXPECT_TRUE(keys_of(node));
  ASSERT_TRUE(node.hca->change_port({.pkeys = {{0x8001}}}));
  EXPECT_FALSE(keys_of(node));
  ASSERT_TRUE(node.hca->change_port({.pkeys = {{0xffff}}}));
  EXPECT_TRUE(keys_of(node));
  ASSERT_TRUE(node.hca->change_port({.up = false}));
  EXPECT_FALSE(keys_of(node));
}

TEST_F(SoftFrames, OnlyPlainHandlesHaveHeads) {
  const Node node = make_node(0);
  const auto has_head = [&](const fabric::AhAttr& to) {
    return neighbour(node, node.hca->create_ah(to).value(), 1).has_value();
  };
  fabric::AhAttr plain;
  plain.dlid = 9;
  EXPECT_TRUE(has_head(plain));
  fabric::AhAttr to = plain;
  to.qkey = 5;
  EXPECT_FALSE(has_head(to)) << "a Q_Key of its own";
  to = plain;
  to.dlid = kLid[0];
  EXPECT_FALSE(has_head(to)) << "the port itself";
  to = plain;
  to.rate = 2;  // 2.5 Gb/s
  EXPECT_FALSE(has_head(to)) << "a rate";
  to = plain;
  to.global = true;
  to.dgid = gid_of("fe800000000000000002c90300a1b207");
  EXPECT_FALSE(has_head(to)) << "a GRH";
  to.dlid = kMlid;
  to.dgid = broadcast_mgid();
  EXPECT_TRUE(has_head(to)) << "a group";
  to.qkey = 5;
  EXPECT_FALSE(has_head(to)) << "a group with a Q_Key of its own";
  to.qkey = std::nullopt;
  to.rate = 2;
  EXPECT_FALSE(has_head(to)) << "a group with a rate";
  EXPECT_FALSE(neighbour(node, fabric::kNoAh, 1));
  const auto removed = node.hca->create_ah(plain).value();
  node.hca->destroy_ah(removed);
  EXPECT_FALSE(neighbour(node, removed, 1));
}

TEST_F(SoftFrames, ReachThePeer) {
  const Node from = make_node(0);
  const Node to = make_node(1);
  const Neighbour peer = neighbour(from, ah_to(from, kLid[1]), to.queue->qpn()).value();
  std::vector<rte_mbuf*> frames;
  for (std::size_t i = 0; i < 64; ++i) frames.push_back(frame(from, counting(20 + i), peer));
  ASSERT_EQ(from.queue->frames()->tx_burst(*from.queue, frames.data(), 64), 64);
  to.poll();
  const auto pkts = to.receive();
  ASSERT_EQ(pkts.size(), 64U);
  for (std::size_t i = 0; i < pkts.size(); ++i) {
    const Bytes got = bytes_of(pkts[i]);
    EXPECT_EQ(Bytes(got.begin() + 4, got.end()), counting(20 + i));
    rte_pktmbuf_free(pkts[i]);
  }
  EXPECT_EQ(from.all_drops() + to.all_drops(), 0U);
}

TEST_F(SoftFrames, NotTakenByAFullCable) {
  const Node node = make_node(0);
  const Neighbour peer = neighbour(node, ah_to(node, kLid[1]), 7).value();
  std::size_t taken = 0;
  for (std::uint16_t now = 1; now == 1; taken += now) {
    rte_mbuf* m = frame(node, counting(40), peer);
    now = node.queue->frames()->tx_burst(*node.queue, &m, 1);
    if (now == 0) {
      EXPECT_EQ(fabric::ip_len_of_frame(m), 40U) << "it stays a frame";
      rte_pktmbuf_free(m);
    }
  }
  EXPECT_EQ(taken, Cable::kCableLen);
}

TEST_F(SoftFrames, NeedRoomAndAnMbufOfTheirOwn) {
  rte_mbuf* const m = packet(counting(60), fabric::kNoAh, 0);
  EXPECT_TRUE(fabric::has_frame_room<fabric::NoGrh>(m, m->pkt_len));
  const std::uint16_t off = m->data_off;
  m->data_off = fabric::kFrameRoom;
  EXPECT_TRUE(fabric::has_frame_room<fabric::NoGrh>(m, m->pkt_len));
  m->data_off = fabric::kFrameRoom - 1;
  EXPECT_FALSE(fabric::has_frame_room<fabric::NoGrh>(m, m->pkt_len)) << "headroom";
  m->data_off = static_cast<std::uint16_t>(m->buf_len - 60 - fabric::kFrameTailRoom);
  EXPECT_TRUE(fabric::has_frame_room<fabric::NoGrh>(m, m->pkt_len));
  ++m->data_off;
  EXPECT_FALSE(fabric::has_frame_room<fabric::NoGrh>(m, m->pkt_len)) << "tailroom";
  m->data_off = off;
  rte_mbuf_refcnt_update(m, 1);
  EXPECT_FALSE(fabric::has_frame_room<fabric::NoGrh>(m, m->pkt_len)) << "shared";
  rte_mbuf_refcnt_update(m, -1);
  rte_mbuf* const clone = rte_pktmbuf_clone(m, Cable::get().pool);
  EXPECT_FALSE(fabric::has_frame_room<fabric::NoGrh>(clone, clone->pkt_len)) << "indirect";
  rte_pktmbuf_free(clone);
  ASSERT_EQ(rte_pktmbuf_chain(m, packet(counting(60), fabric::kNoAh, 0)), 0);
  EXPECT_FALSE(fabric::has_frame_room<fabric::NoGrh>(m, m->pkt_len)) << "two segments";
  rte_pktmbuf_free(m);
}

}  // namespace
}  // namespace ipoib::soft
