// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <random>

#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

/// Frames arrive at side 0: LID 3, GID of kGuid[0], QPN 0x48, Q_Key 0x0b1b, P_Key 0xffff.
class SoftRx : public SoftFixture {
 protected:
  void SetUp() override {
    SoftFixture::SetUp();
    node_ = make_node(0);
    ASSERT_TRUE(node_.hca->attach(*node_.queue, broadcast_mgid(), kMlid));
  }
  void TearDown() override {
    node_ = {};
    SoftFixture::TearDown();
  }
  /// Puts the frame on the cable, polls, and frees the received packets. Returns their number.
  std::size_t feed(const Bytes& frame) {
    put_on_cable(0, frame);
    node_.poll();
    std::size_t delivered = 0;
    for (rte_mbuf* m : node_.receive()) {
      rte_pktmbuf_free(m);
      ++delivered;
    }
    while (node_.hca->mad_port().receive()) ++delivered;
    return delivered;
  }
  Node node_;
};

constexpr std::size_t kEth = sizeof(EthHdr);
constexpr std::size_t kLrh = kEth;
constexpr std::size_t kGrh = kLocalHeadLen;

/// A valid frame of each shape to side 0, to be damaged. `bth`: offset of its BTH.
struct Shape {
  Bytes frame;
  std::size_t bth;
};

Shape local_shape() {
  Bytes f = vector_frame("ud-ipv4-pad0");  // To LID 4, QPN 0x49, from LID 3.
  f[kLrh + 3] = std::byte{3};
  f[kLocalHeadLen + 7] = std::byte{0x48};
  seal(f);
  return {f, kLocalHeadLen};
}
Shape global_shape() {
  Bytes f = vector_frame("ud-ipv4-grh-global");
  f[kLrh + 2] = std::byte{0};
  f[kLrh + 3] = std::byte{3};
  const wire::Gid own = wire::Gid::of(wire::kDefaultGidPrefix, kGuid[0]);
  std::copy(own.bytes.begin(), own.bytes.end(), f.begin() + kGrh + 24);
  f[kGlobalHeadLen + 7] = std::byte{0x48};
  seal(f);
  return {f, kGlobalHeadLen};
}
Shape group_shape() {
  return {vector_frame("ud-arp-request"), kGlobalHeadLen};
}
Shape mad_shape() {
  Bytes f = vector_frame("sa-path-get-response");
  f[kLrh + 2] = std::byte{0};
  f[kLrh + 3] = std::byte{3};
  seal(f);
  return {f, kLocalHeadLen};
}

using Make = Shape (*)();
constexpr Make kLocal = local_shape, kGlobal = global_shape, kGroup = group_shape, kMad = mad_shape;

TEST_F(SoftRx, U13_AcceptedWithAndWithoutGrh) {
  for (const Make make : {kLocal, kGlobal, kGroup, kMad}) EXPECT_EQ(feed(make().frame), 1U);
  EXPECT_EQ(node_.all_drops(), 0U);
}

TEST_F(SoftRx, PacketsStartAtTheirIpoibHeader) {
  struct Row {
    Make make;
    bool global, multicast;
    std::uint8_t sl;
    std::uint32_t src_qpn;
  };
  for (const Row& row : {Row{kLocal, false, false, 0, 0x48}, Row{kGlobal, true, false, 5, 0x49},
                         Row{kGroup, true, true, 0, 0x48}}) {
    const Shape shape = row.make();
    put_on_cable(0, shape.frame);
    node_.poll();
    const auto pkts = node_.receive();
    ASSERT_EQ(pkts.size(), 1U);
    rte_mbuf* m = pkts[0];
    const auto lrh = wire::read<wire::Lrh>(shape.frame, kLrh).value();
    const std::size_t at = shape.bth + sizeof(UdWords);
    const std::size_t len = kEth + lrh.packet_len() - at - wire::kIcrcLen;
    EXPECT_EQ(bytes_of(m), Bytes(shape.frame.begin() + static_cast<std::ptrdiff_t>(at),
                                 shape.frame.begin() + static_cast<std::ptrdiff_t>(at + len)));
    const auto& rx = fabric::meta_of(m).rx;
    EXPECT_EQ(rx.src_qpn, wire::read<UdWords>(shape.frame, shape.bth)->src_qp());
    EXPECT_EQ(rx.slid, lrh.slid.host());
    EXPECT_EQ(rx.sl, row.sl);
    EXPECT_EQ(rx.multicast, row.multicast);
    ASSERT_EQ(rx.grh_offset, row.global ? 60 : 0);
    if (row.global) {
      const auto* grh =
          reinterpret_cast<const wire::Grh*>(rte_pktmbuf_mtod(m, const std::byte*) - rx.grh_offset);
      EXPECT_EQ(grh->sgid, wire::read<wire::Grh>(shape.frame, kGrh)->sgid);
    }
    rte_pktmbuf_free(m);
  }
}

struct SpoilCase {
  const char* what;
  Make make;
  Drop reason;
  void (*spoil)(Shape&);
  /// The ICRC is corrected, so that only the fault itself is left.
  bool sealed = true;
};

void set_pktlen(Bytes& f, std::size_t words) {
  f[kLrh + 4] = static_cast<std::byte>(words >> 8);
  f[kLrh + 5] = static_cast<std::byte>(words);
}
void set(Bytes& f, std::size_t at, unsigned value) {
  f[at] = static_cast<std::byte>(value);
}
/// Makes the frame this long, and its packet length so many words.
void resize(Shape& s, std::size_t octets, std::size_t words) {
  s.frame.resize(octets);
  set_pktlen(s.frame, words);
}

const SpoilCase kSpoilCases[] = {
    {"half an Ethernet header", kLocal, Drop::kIbRunt, [](Shape& s) { s.frame.resize(13); }, false},
    {"no whole LRH", kLocal, Drop::kIbRunt, [](Shape& s) { s.frame.resize(kEth + 7); }, false},
    {"ends before the BTH", kLocal, Drop::kIbRunt, [](Shape& s) { resize(s, 60, 5); }, false},
    {"GRH but ends before the BTH", kGlobal, Drop::kIbRunt,
     [](Shape& s) { resize(s, kEth + 60, 15); }, false},
    {"ends before the DETH", kLocal, Drop::kIbRunt, [](Shape& s) { resize(s, 60, 7); }},
    {"LVer 1", kLocal, Drop::kIbVersion, [](Shape& s) { set(s.frame, kLrh, 0x01); }},
    {"IPVer 4", kGlobal, Drop::kIbVersion, [](Shape& s) { set(s.frame, kGrh, 0x4a); }},
    {"NxtHdr 17", kGlobal, Drop::kIbVersion, [](Shape& s) { set(s.frame, kGrh + 6, 17); }},
    {"TVer 1", kLocal, Drop::kIbVersion, [](Shape& s) { s.frame[s.bth + 1] |= std::byte{1}; }},
    {"PktLen beyond the frame", kLocal, Drop::kIbLength, [](Shape& s) { set_pktlen(s.frame, 25); },
     false},
    {"PktLen short of the frame", kLocal, Drop::kIbLength,
     [](Shape& s) { set_pktlen(s.frame, 23); }},
    {"PayLen wrong", kGlobal, Drop::kIbLength, [](Shape& s) { set(s.frame, kGrh + 5, 0x54); }},
    {"pad beyond the payload", kLocal, Drop::kIbLength,
     [](Shape& s) {
       resize(s, 60, 8);
       s.frame[s.bth + 1] |= std::byte{0x30};
     }},
    {"MAD of 252 octets", kMad, Drop::kIbLength,
     [](Shape& s) { resize(s, s.frame.size() - 4, 71); }},
    {"payload above the MTU", kLocal, Drop::kIbLength,
     [](Shape& s) { resize(s, kEth + 8 + 20 + 2052 + 4, 521); }},
    {"EtherType IPv4", kLocal, Drop::kIbNotIba,
     [](Shape& s) { set(s.frame, 12, 0x08), set(s.frame, 13, 0); }},
    {"raw packet", kLocal, Drop::kIbNotIba, [](Shape& s) { s.frame[kLrh + 1] &= std::byte{0xfc}; }},
    {"IP without transport", kLocal, Drop::kIbNotIba,
     [](Shape& s) { s.frame[kLrh + 1] = (s.frame[kLrh + 1] & std::byte{0xfc}) | std::byte{1}; }},
    {"another port's LID", kLocal, Drop::kIbLid, [](Shape& s) { set(s.frame, kLrh + 3, 5); }},
    {"LID 0", kLocal, Drop::kIbLid, [](Shape& s) { set(s.frame, kLrh + 3, 0); }},
    {"permissive LID", kLocal, Drop::kIbLid,
     [](Shape& s) { set(s.frame, kLrh + 2, 0xff), set(s.frame, kLrh + 3, 0xff); }},
    {"MLID of no group of ours", kGroup, Drop::kIbLid, [](Shape& s) { set(s.frame, kLrh + 3, 1); }},
    {"another port's GID", kGlobal, Drop::kIbGid, [](Shape& s) { set(s.frame, kGrh + 39, 0); }},
    {"MGID to a unicast LID", kGlobal, Drop::kIbGid,
     [](Shape& s) { set(s.frame, kGrh + 24, 0xff); }},
    {"unicast GID to an MLID", kGroup, Drop::kIbGid,
     [](Shape& s) { set(s.frame, kGrh + 24, 0xfe); }},
    {"MLID without GRH", kLocal, Drop::kIbGid,
     [](Shape& s) { set(s.frame, kLrh + 2, 0xc0), set(s.frame, kLrh + 3, 0); }},
    {"MGID that shares our MLID", kGroup, Drop::kIbMgid,
     [](Shape& s) { set(s.frame, kGrh + 39, 0xfe); }},
    {"RC SEND", kLocal, Drop::kIbOpcode, [](Shape& s) { set(s.frame, s.bth, 0x04); }},
    {"UC SEND", kGlobal, Drop::kIbOpcode, [](Shape& s) { set(s.frame, s.bth, 0x24); }},
    {"RC ACK, shorter than UD headers", kLocal, Drop::kIbOpcode,
     [](Shape& s) {
       resize(s, 60, 7);
       set(s.frame, s.bth, 0x11);
     }},
    {"no such QP", kLocal, Drop::kIbQpn, [](Shape& s) { set(s.frame, s.bth + 7, 0x47); }},
    {"QP0", kMad, Drop::kIbQpn, [](Shape& s) { set(s.frame, s.bth + 7, 0); }},
    {"multicast QPN to a unicast LID", kLocal, Drop::kIbQpn,
     [](Shape& s) {
       for (std::size_t i : std::array<std::size_t, 3>{5, 6, 7}) set(s.frame, s.bth + i, 0xff);
     }},
    {"unicast QPN to a group", kGroup, Drop::kIbQpn,
     [](Shape& s) {
       set(s.frame, s.bth + 5, 0);
       set(s.frame, s.bth + 6, 0);
       set(s.frame, s.bth + 7, 0x48);
     }},
    {"P_Key of another partition", kLocal, Drop::kIbPkey,
     [](Shape& s) { set(s.frame, s.bth + 3, 0xfe); }},
    {"P_Key base 0", kLocal, Drop::kIbPkey,
     [](Shape& s) { set(s.frame, s.bth + 2, 0x80), set(s.frame, s.bth + 3, 0); }},
    {"P_Key of another partition, group", kGroup, Drop::kIbPkey,
     [](Shape& s) { set(s.frame, s.bth + 3, 1); }},
    {"P_Key of another partition, MAD", kMad, Drop::kIbPkey,
     [](Shape& s) { set(s.frame, s.bth + 3, 1); }},
    {"Q_Key of another link", kLocal, Drop::kIbQkey,
     [](Shape& s) { set(s.frame, s.bth + 15, 0x1c); }},
    {"Q_Key of another link, group", kGroup, Drop::kIbQkey,
     [](Shape& s) { set(s.frame, s.bth + 12, 0x80); }},
    {"Q_Key not QP1's", kMad, Drop::kIbQkey, [](Shape& s) { set(s.frame, s.bth + 12, 0); }},
    {"payload changed", kLocal, Drop::kIbIcrc,
     [](Shape& s) { s.frame[s.bth + 30] ^= std::byte{1}; }, false},
    {"SL changed, no GRH", kLocal, Drop::kIbIcrc,
     [](Shape& s) { s.frame[kLrh + 1] ^= std::byte{0x10}; }, false},
    {"ICRC changed", kGroup, Drop::kIbIcrc, [](Shape& s) { s.frame.back() ^= std::byte{0x80}; },
     false},
    {"MAD changed", kMad, Drop::kIbIcrc, [](Shape& s) { s.frame[100] ^= std::byte{4}; }, false},
};

TEST_F(SoftRx, U36_EveryReasonToDiscardIsCountedOnceUnderItsName) {
  for (const SpoilCase& c : kSpoilCases) {
    SCOPED_TRACE(c.what);
    Shape shape = c.make();
    c.spoil(shape);
    if (c.sealed && shape.frame.size() > kEth + 8) seal(shape.frame);
    const auto before = node_.hca->drops().get(c.reason);
    const auto all_before = node_.all_drops();
    EXPECT_EQ(feed(shape.frame), 0U);
    EXPECT_EQ(node_.hca->drops().get(c.reason), before + 1) << drop_name(c.reason);
    EXPECT_EQ(node_.all_drops(), all_before + 1);
    EXPECT_EQ(mbufs_in_use(), 0U);
  }
}

/// Bits of the headers from the EtherType to the DETH that may change, if the ICRC fits: VL, SL and
/// the reserved bits behind it and before the length, SLID, Immediate in the opcode, SE, M, padding,
/// the P_Key's membership, FECN and BECN, AckReq and PSN, and DETH except the Q_Key.
constexpr std::array<std::uint8_t, 30> kFreeBits = {
    0,    0,                                                              // EtherType
    0xf0, 0xfc, 0,    0, 0xf8, 0,    0xff, 0xff,                          // LRH
    0x01, 0xf0, 0x80, 0, 0xff, 0,    0,    0,    0xff, 0xff, 0xff, 0xff,  // BTH
    0,    0,    0,    0, 0xff, 0xff, 0xff, 0xff};                         // DETH

TEST_F(SoftRx, U36_EveryBitOfTheHeadersIsCheckedOrFree) {
  const Shape good = local_shape();
  for (std::size_t bit = 0; bit < kFreeBits.size() * 8; ++bit) {
    SCOPED_TRACE(bit);
    Shape other = good;
    other.frame[12 + bit / 8] ^= std::byte{1} << bit % 8;
    const auto lrh = wire::read<wire::Lrh>(other.frame, kLrh).value();
    if (kEth + lrh.packet_len() <= other.frame.size()) seal(other.frame);
    const bool free = (kFreeBits[bit / 8] >> bit % 8 & 1) != 0;
    const auto drops = node_.all_drops();
    put_on_cable(0, good.frame);
    EXPECT_EQ(feed(other.frame), free ? 2U : 1U) << "the good one before it arrives, too";
    EXPECT_EQ(node_.all_drops(), drops + (free ? 0 : 1));
  }
}

// The fast path takes frames of several queue pairs together, until one needs the full checks.
TEST_F(SoftRx, U36_MixedBurstsKeepTheOrderOfEachQueuePair) {
  enum Kind : std::uint8_t { kPlain, kWithGrh, kBadIcrc, kBadQkey, kBadLength, kKinds };
  const std::array queues{node_.queue, node_.hca->create_ud_queue({}).value()};
  ASSERT_TRUE(node_.hca->set_qkey(*queues[1], kQkey));
  std::mt19937 random{4392};
  std::array<std::vector<std::uint32_t>, 2> sent;
  std::array<std::vector<std::uint32_t>, 2> received;
  std::array<std::uint64_t, kKinds> count{};
  for (std::uint32_t number = 1; number <= 20'000;) {
    for (auto n = 1 + random() % 64; n-- > 0; ++number) {
      const Kind kind = random() % 2 == 0 ? kPlain : static_cast<Kind>(random() % kKinds);
      const auto to = random() % 4 == 0 ? 1U : 0U;
      Shape shape = kind == kWithGrh ? global_shape() : local_shape();
      set(shape.frame, shape.bth + 7, queues[to]->qpn() & 0xff);
      if (kind == kBadQkey) set(shape.frame, shape.bth + 15, 0x1c);
      if (kind == kBadLength) set_pktlen(shape.frame, 23);
      for (const std::size_t octet : {0U, 1U, 2U})
        set(shape.frame, shape.bth + 19 - octet, number >> 8 * octet & 0xff);
      seal(shape.frame);
      if (kind == kBadIcrc) shape.frame[shape.bth + 30] ^= std::byte{1};
      ++count[kind];
      if (kind == kPlain || kind == kWithGrh) sent[to].push_back(number);
      put_on_cable(0, shape.frame);
    }
    node_.poll();
    for (const std::size_t to : {0U, 1U})
      for (rte_mbuf* m : node_.receive(queues[to])) {
        received[to].push_back(fabric::meta_of(m).rx.src_qpn);
        rte_pktmbuf_free(m);
      }
  }
  EXPECT_EQ(received, sent);
  EXPECT_EQ(node_.hca->drops().get(Drop::kIbIcrc), count[kBadIcrc]);
  EXPECT_EQ(node_.hca->drops().get(Drop::kIbQkey), count[kBadQkey]);
  EXPECT_EQ(node_.hca->drops().get(Drop::kIbLength), count[kBadLength]);
  EXPECT_EQ(mbufs_in_use(), 0U);
}

TEST_F(SoftRx, WhatTheIcrcLeavesOutMayChangeOnTheWay) {
  Shape local = local_shape();
  local.frame[kLrh] |= std::byte{0x70};          // VL
  local.frame[local.bth + 4] = std::byte{0xc0};  // FECN, BECN
  EXPECT_EQ(feed(local.frame), 1U);
  Shape global = global_shape();
  set(global.frame, kGrh + 7, 1);  // HopLmt
  EXPECT_EQ(feed(global.frame), 1U);
}

TEST_F(SoftRx, ImmediateDataIsStripped) {
  Shape shape = local_shape();
  set(shape.frame, shape.bth, 0x65);
  seal(shape.frame);
  put_on_cable(0, shape.frame);
  node_.poll();
  const auto pkts = node_.receive();
  ASSERT_EQ(pkts.size(), 1U);
  const auto at = static_cast<std::ptrdiff_t>(shape.bth + sizeof(UdWords) + 4);
  EXPECT_EQ(bytes_of(pkts[0]), Bytes(shape.frame.begin() + at, shape.frame.end() - 4));
  rte_pktmbuf_free(pkts[0]);
}

TEST_F(SoftRx, EveryTruncationIsCounted) {
  for (const Make make : {kLocal, kGlobal, kGroup, kMad}) {
    const Shape shape = make();
    for (std::size_t len = 0; len < shape.frame.size(); ++len) {
      const auto before = node_.all_drops();
      EXPECT_EQ(
          feed(Bytes(shape.frame.begin(), shape.frame.begin() + static_cast<std::ptrdiff_t>(len))),
          0U);
      EXPECT_EQ(node_.all_drops(), before + 1) << len;
    }
  }
}

TEST_F(SoftRx, RandomOctetsChangeNothingButCounters) {
  std::mt19937 random{4391};
  std::size_t fed = 0;
  std::size_t delivered = 0;
  for (int round = 0; round < 20'000; ++round) {
    Shape shape = std::array{kLocal, kGlobal, kGroup, kMad}[random() % 4]();
    for (auto n = 1 + random() % 6; n-- > 0;) {
      const std::size_t span = random() % 2 == 0 ? shape.bth + sizeof(UdWords) : shape.frame.size();
      shape.frame[random() % span] = static_cast<std::byte>(random());
    }
    if (random() % 4 == 0) shape.frame.resize(random() % 400);
    const auto* lrh = reinterpret_cast<const wire::Lrh*>(shape.frame.data() + kEth);
    const bool sealable = shape.frame.size() >= 100 && lrh->packet_len() >= 68 &&
                          kEth + lrh->packet_len() <= shape.frame.size();
    if (sealable && random() % 2 == 0) seal(shape.frame);
    ++fed;
    delivered += feed(shape.frame);
  }
  EXPECT_EQ(delivered + node_.all_drops(), fed);
  EXPECT_GT(delivered, 0U);
  EXPECT_EQ(mbufs_in_use(), 0U);
}

TEST_F(SoftRx, U36_PkeysMatchWhenOneSideIsAFullMember) {
  struct Row {
    std::uint16_t packet, queue;
    bool match;
  };
  for (const Row& row :
       {Row{0x8001, 0x8001, true}, Row{0x0001, 0x8001, true}, Row{0x8001, 0x0001, true},
        Row{0x0001, 0x0001, false}, Row{0x8002, 0x8001, false}, Row{0x7fff, 0xffff, true},
        Row{0x0000, 0x8001, false}}) {
    node_ = {};
    SoftHcaConfig with = config(0);
    with.attr.pkeys = {row.queue};
    node_ = make_node(with);
    Shape shape = local_shape();
    set(shape.frame, shape.bth + 2, row.packet >> 8);
    set(shape.frame, shape.bth + 3, row.packet & 0xff);
    seal(shape.frame);
    EXPECT_EQ(feed(shape.frame), row.match ? 1U : 0U) << row.packet << " to " << row.queue;
    EXPECT_EQ(node_.hca->drops().get(Drop::kIbPkey), row.match ? 0U : 1U);
  }
}

TEST_F(SoftRx, M06_GroupsThatShareAnMlidAreToldApartByMgid) {
  const wire::Gid other = gid_of("ff12401bffff00000000000001010203");
  const auto second = node_.hca->create_ud_queue({});
  ASSERT_TRUE(second && node_.hca->set_qkey(**second, kQkey));
  ASSERT_TRUE(node_.hca->attach(**second, other, kMlid));
  Shape shape = group_shape();
  std::copy(other.bytes.begin(), other.bytes.end(), shape.frame.begin() + kGrh + 24);
  seal(shape.frame);
  EXPECT_EQ(feed(shape.frame), 0U) << "not the first queue's group";
  const auto pkts = node_.receive(*second);
  ASSERT_EQ(pkts.size(), 1U);
  rte_pktmbuf_free(pkts[0]);
}

TEST_F(SoftRx, EveryAttachedQueueGetsItsOwnCopy) {
  constexpr std::size_t kQueues = 200;  // A machine word has fewer bits.
  std::vector<fabric::UdQueue*> queues{node_.queue};
  while (queues.size() < kQueues) {
    queues.push_back(node_.hca->create_ud_queue({}).value());
    ASSERT_TRUE(node_.hca->set_qkey(*queues.back(), queues.size() == 3 ? 77 : kQkey));
    ASSERT_TRUE(node_.hca->attach(*queues.back(), broadcast_mgid(), kMlid));
  }
  const Shape shape = group_shape();
  put_on_cable(0, shape.frame);
  node_.poll();
  std::vector<rte_mbuf*> got;
  for (fabric::UdQueue* queue : queues)
    for (rte_mbuf* m : node_.receive(queue)) got.push_back(m);
  ASSERT_EQ(got.size(), kQueues - 1) << "the queue with another Q_Key gets none";
  for (rte_mbuf* m : got) {
    EXPECT_EQ(m->nb_segs, 1);
    EXPECT_EQ(rte_mbuf_refcnt_read(m), 1);
    EXPECT_EQ(bytes_of(m), bytes_of(got[0]));
    EXPECT_TRUE(fabric::meta_of(m).rx.multicast);
    const auto* grh = reinterpret_cast<const wire::Grh*>(rte_pktmbuf_mtod(m, const std::byte*) -
                                                         fabric::meta_of(m).rx.grh_offset);
    EXPECT_EQ(grh->dgid, broadcast_mgid());
  }
  EXPECT_NE(got[0]->buf_addr, got[1]->buf_addr);
  for (rte_mbuf* m : got) rte_pktmbuf_free(m);
  EXPECT_EQ(node_.all_drops(), 0U);
}

TEST_F(SoftRx, SegmentedFramesAreJoinedOrCounted) {
  const Shape shape = local_shape();
  const std::span<const std::byte> all{shape.frame};
  for (const bool fits : {true, false}) {
    rte_mbuf* m = packet(all.first(20), fabric::kNoAh, 0);
    ASSERT_EQ(rte_pktmbuf_chain(m, packet(all.subspan(20), fabric::kNoAh, 0)), 0);
    while (!fits && m->pkt_len <= rte_pktmbuf_data_room_size(Cable::get().pool))
      ASSERT_EQ(rte_pktmbuf_chain(m, packet(Bytes(1000), fabric::kNoAh, 0)), 0);
    ASSERT_EQ(rte_ring_enqueue(Cable::get().towards[0], m), 0);
    node_.poll();
    const auto pkts = node_.receive();
    EXPECT_EQ(pkts.size(), fits ? 1U : 0U);
    for (rte_mbuf* got : pkts) rte_pktmbuf_free(got);
    EXPECT_EQ(node_.hca->drops().get(Drop::kIbNoBuffer), fits ? 0U : 1U);
  }
}

// Bonding and ring devices deliver mbufs that other owners read.
TEST_F(SoftRx, SharedFrameIsCopiedBeforeItIsDelivered) {
  const Shape shape = local_shape();
  rte_mbuf* const theirs = packet(shape.frame, fabric::kNoAh, 0);
  rte_mbuf_refcnt_update(theirs, 1);
  rte_mbuf* const clone = rte_pktmbuf_clone(theirs, Cable::get().pool);
  for (rte_mbuf* frame : {theirs, clone}) {
    ASSERT_EQ(rte_ring_enqueue(Cable::get().towards[0], frame), 0);
    node_.poll();
    const auto pkts = node_.receive();
    ASSERT_EQ(pkts.size(), 1U);
    EXPECT_TRUE(fabric::is_sole_mbuf(pkts[0]));
    EXPECT_NE(pkts[0]->buf_addr, theirs->buf_addr);
    rte_pktmbuf_free(pkts[0]);
  }
  EXPECT_EQ(bytes_of(theirs), shape.frame) << "with its headers";
  EXPECT_EQ(node_.all_drops(), 0U);
  rte_pktmbuf_free(theirs);
}

TEST_F(SoftRx, QueueNobodyReadsLosesItsOwnPacketsOnly) {
  const auto busy = node_.hca->create_ud_queue({}).value();
  ASSERT_TRUE(node_.hca->set_qkey(*busy, kQkey));
  const Shape idle_frame = local_shape();
  Shape busy_frame = local_shape();
  set(busy_frame.frame, busy_frame.bth + 7, busy->qpn() & 0xff);
  seal(busy_frame.frame);
  std::size_t delivered = 0;
  for (unsigned i = 0; i < SoftUdQueue::kRxRingSize + 40; ++i) {
    put_on_cable(0, idle_frame.frame);
    put_on_cable(0, busy_frame.frame);
    node_.poll();
    for (rte_mbuf* m : node_.receive(busy)) {
      rte_pktmbuf_free(m);
      ++delivered;
    }
  }
  EXPECT_EQ(delivered, SoftUdQueue::kRxRingSize + 40);
  EXPECT_EQ(node_.hca->drops().get(Drop::kIbNoBuffer), 40U);
}

// Two queue pairs receive good frames and damaged ones. Some are checked together, others alone.
TEST_F(SoftRx, BurstsKeepTheirOrderAndLoseWhatIsSpoilt) {
  fabric::UdQueue* const queues[] = {node_.queue, node_.hca->create_ud_queue({}).value()};
  ASSERT_TRUE(node_.hca->set_qkey(*queues[1], kQkey));
  std::mt19937 random{7};
  std::uint64_t spoilt = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::uint8_t> expected[2];
    const unsigned n = 1 + random() % UdDatapath::kBurst;
    for (unsigned i = 0; i < n; ++i) {
      Shape shape = random() % 8 == 0 ? global_shape() : local_shape();
      const unsigned to = random() % 4 == 0 ? 1 : 0;
      set(shape.frame, shape.bth + 7, queues[to]->qpn() & 0xff);
      const std::size_t mark = shape.bth + sizeof(UdWords);
      set(shape.frame, mark, i);
      seal(shape.frame);
      if (random() % 8 == 0) {
        shape.frame[mark + 1] ^= std::byte{0x10};
        ++spoilt;
      } else {
        expected[to].push_back(static_cast<std::uint8_t>(i));
      }
      put_on_cable(0, shape.frame);
    }
    node_.poll();
    for (const unsigned to : {0U, 1U}) {
      std::vector<std::uint8_t> found;
      for (rte_mbuf* m : node_.receive(queues[to])) {
        found.push_back(*rte_pktmbuf_mtod(m, const std::uint8_t*));
        rte_pktmbuf_free(m);
      }
      ASSERT_EQ(found, expected[to]) << round;
    }
  }
  EXPECT_EQ(node_.hca->drops().get(Drop::kIbIcrc), spoilt);
  EXPECT_EQ(node_.all_drops(), spoilt);
}

TEST_F(SoftRx, ReadsNoMoreThanItIsAskedFor) {
  for (int i = 0; i < 20; ++i) put_on_cable(0, local_shape().frame);
  for (const std::size_t burst : {5U, 1U, 14U}) {
    node_.hca->poll_function()(*node_.hca, 0, static_cast<std::uint16_t>(burst));
    const auto pkts = node_.receive();
    EXPECT_EQ(pkts.size(), burst);
    for (rte_mbuf* m : pkts) rte_pktmbuf_free(m);
  }
}

TEST_F(SoftRx, SmallReceiveBurstsLoseNothing) {
  constexpr std::size_t kFrames = 240;
  const Shape shape = local_shape();
  for (std::size_t i = 0; i < kFrames; ++i) put_on_cable(0, shape.frame);
  std::size_t delivered = 0;
  for (std::size_t loops = 0; loops < kFrames; ++loops) {
    node_.poll();
    rte_mbuf* pkts[4];
    const std::uint16_t nb_rx = node_.queue->rx_burst(pkts, 4);
    rte_pktmbuf_free_bulk(pkts, nb_rx);
    delivered += nb_rx;
  }
  EXPECT_EQ(delivered, kFrames);
  EXPECT_EQ(node_.all_drops(), 0U);
}

TEST_F(SoftRx, StaleOffloadFlagsOfTheCableAreGone) {
  rte_mbuf* m = packet(local_shape().frame, fabric::kNoAh, 0);
  m->ol_flags |= RTE_MBUF_F_RX_IP_CKSUM_BAD | RTE_MBUF_F_RX_L4_CKSUM_BAD;
  ASSERT_EQ(rte_ring_enqueue(Cable::get().towards[0], m), 0);
  node_.poll();
  const auto pkts = node_.receive();
  ASSERT_EQ(pkts.size(), 1U);
  EXPECT_EQ(pkts[0]->ol_flags & (RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_L4_CKSUM_MASK), 0U);
  rte_pktmbuf_free(pkts[0]);
}

}  // namespace
}  // namespace ipoib::soft
