// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/tcp_gro.h"

#include <rte_random.h>

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "lib/fwd/tcp_gso.h"
#include "tests/support/tcp_packets.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

using wire::TcpHdr;

/// The stage only compares the pointer to the queue with null.
class NoQueue final : public fabric::ConnectedQueue {
 public:
  NoQueue() : ConnectedQueue{0x99, fabric::Transport::kRc, nullptr} {}
};

/// The stage without a worker's loop, in a worker's context: segments from eth0 for one neighbour.
class TcpGro : public WorkerFixture {
 protected:
  static constexpr std::uint16_t kMtu = 1500;
  static constexpr std::size_t kFull = kMtu - 40;  ///< Payload of a full IPv4 segment.

  void SetUp() override {
    WorkerFixture::SetUp();
    entries[kEth0].tcp_offload = true;
    start();
    auto cache = table::NeighbourTable::create(16, rte_rand());
    auto deliveries = table::DeliveryTable::create(16, rte_rand());
    context = std::make_unique<Context>(configs[0], std::move(*cache), std::move(*deliveries));
    to.mode = table::NeighbourMode::kRc;
    to.queue = &queue;
    to.mtu = 65'520;
  }

  /// Returns the mbufs that the stage leaves of a burst.
  std::vector<rte_mbuf*> merged(const std::vector<rte_mbuf*>& pkts) {
    RoutedBurst burst;
    for (rte_mbuf* m : pkts) burst.push(m, to);
    tcp_gro(*context, context->ingress(kEth0), burst);
    return {burst.pkts.begin(), burst.pkts.begin() + burst.n};
  }
  static Bytes octets(const rte_mbuf* m) {
    Bytes out;
    EXPECT_EQ(m->ol_flags & RTE_MBUF_F_INDIRECT, 0U);
    const rte_mbuf* segment = m;
    for (unsigned i = 0; i < m->nb_segs; ++i, segment = segment->next) {
      EXPECT_GT(segment->data_len, 0);
      const auto* const data = rte_pktmbuf_mtod(segment, const std::byte*);
      out.insert(out.end(), data, data + segment->data_len);
    }
    EXPECT_EQ(segment, nullptr) << "nb_segs is the length of the chain";
    EXPECT_EQ(out.size(), m->pkt_len);
    return out;
  }
  std::vector<Bytes> gro(const std::vector<Tcp>& segments) {
    std::vector<rte_mbuf*> pkts;
    for (const Tcp& s : segments) pkts.push_back(mbuf(s.bytes()));
    std::vector<Bytes> out;
    for (rte_mbuf* m : merged(pkts)) {
      out.push_back(octets(m));
      rte_pktmbuf_free(m);
    }
    return out;
  }

  /// Returns `n` consecutive segments of one connection.
  static std::vector<Tcp> train(std::size_t n, const Tcp& first = {}, std::size_t len = kFull) {
    std::vector<Tcp> out;
    for (std::size_t i = 0; i < n; ++i) {
      Tcp t = first;
      t.seq += static_cast<std::uint32_t>(i * len);
      if (!t.v6) t.id = static_cast<std::uint16_t>(t.id + i);
      t.payload = pattern(len, static_cast<std::uint32_t>(i * len));
      out.push_back(t);
    }
    return out;
  }
  /// Expects that a change to the second of three segments keeps it, and those after it, out of the
  /// packet of the first.
  void expect_apart(const char* what, const std::function<void(Tcp&)>& change) {
    std::vector<Tcp> segments = train(3);
    change(segments[1]);
    const auto out = gro(segments);
    ASSERT_GE(out.size(), 2U) << what;
    EXPECT_EQ(out[0], segments[0].bytes()) << what;
  }

  std::unique_ptr<Context> context;
  NoQueue queue;
  table::Neighbour to = ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef);
};

TEST_F(TcpGro, SegmentsBecomeOnePacket) {
  for (const bool v6 : {false, true}) {
    const std::size_t len = v6 ? kFull - 32 : kFull - 12;  // less 12 octets of options
    auto segments = train(5, {.v6 = v6, .seq = 0xffff'f000, .options = pattern(12)}, len);
    segments[4].flags |= TcpHdr::kPsh;
    segments[4].payload.resize(101);
    const auto out = gro(segments);
    ASSERT_EQ(out.size(), 1U);
    Tcp expected = segments[0];
    expected.flags |= TcpHdr::kPsh;
    expected.payload = pattern(4 * len + 101);
    EXPECT_EQ(out[0], expected.bytes());
  }
  EXPECT_EQ(context->stats.gro_segments.get(), 10U);
  EXPECT_EQ(context->stats.joined.get(), 8U) << "two of them are the packets";
}

// A device that sends at most 30 mbufs per packet limits its length long before the neighbour's MTU
// of 65,520 octets.
TEST_F(TcpGro, InAsManyMbufsAsTheDeviceSends) {
  entries[kIb0].max_segments = 30;
  const auto segments = train(45, {.payload = {}}, 1448);
  entries[kEth0].mtu = 1488;
  const auto out = gro(segments);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].size(), 40 + 30 * 1448U);
  EXPECT_EQ(out[1].size(), 40 + 15 * 1448U);
  entries[kIb0].max_segments = 1;
  EXPECT_EQ(gro(segments).size(), 45U);
}

TEST_F(TcpGro, AsLargeAsTheNeighbourTakes) {
  const std::size_t most = (65'520 - 40) / kFull;
  auto out = gro(train(most + 3));
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].size(), 40 + most * kFull);
  EXPECT_EQ(out[1].size(), 40 + 3 * kFull);
  to.mtu = 40 + 2 * kFull;
  EXPECT_EQ(gro(train(4)).size(), 2U);
  to.mtu = 40 + 2 * kFull - 1;
  EXPECT_EQ(gro(train(4)).size(), 4U);
}

TEST_F(TcpGro, OnlyForNeighboursWithAConnection) {
  EXPECT_EQ(gro(train(4)).size(), 1U);
  to.queue = nullptr;
  EXPECT_EQ(gro(train(4)).size(), 4U);
}

TEST_F(TcpGro, PshAndAShortSegmentEndAPacket) {
  auto segments = train(4);
  segments[1].flags |= TcpHdr::kPsh;
  auto out = gro(segments);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(view(out[0]).hdr.flags(), TcpHdr::kAck | TcpHdr::kPsh);
  EXPECT_EQ(view(out[1]).hdr.flags(), TcpHdr::kAck);

  segments = train(4);
  segments[1].payload.resize(kFull - 1);
  for (const std::size_t i : {std::size_t{2}, std::size_t{3}}) --segments[i].seq;
  out = gro(segments);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].size(), 40 + 2 * kFull - 1);
}

TEST_F(TcpGro, SegmentsThatDoNotFillThePortsMtuStayAlone) {
  EXPECT_EQ(gro(train(4, {}, kFull - 1)).size(), 4U);
  entries[kEth0].mtu = kMtu - 1;
  EXPECT_EQ(gro(train(4, {}, kFull - 1)).size(), 1U);
}

TEST_F(TcpGro, WhatDiffersStaysApart) {
  for (const std::uint16_t flag : {TcpHdr::kFin, TcpHdr::kSyn, TcpHdr::kRst, TcpHdr::kUrg,
                                   TcpHdr::kEce, TcpHdr::kCwr, std::uint16_t{0x100}})
    expect_apart("flag", [&](Tcp& t) { t.flags |= flag; });
  expect_apart("no ACK", [](Tcp& t) { t.flags = 0; });
  expect_apart("pure ACK", [](Tcp& t) { t.payload.clear(); });
  expect_apart("a gap", [](Tcp& t) { ++t.seq; });
  expect_apart("an overlap", [](Tcp& t) { --t.seq; });
  expect_apart("acknowledgement", [](Tcp& t) { ++t.ack; });
  expect_apart("window", [](Tcp& t) { ++t.window; });
  expect_apart("urgent pointer", [](Tcp& t) { ++t.urgent; });
  expect_apart("TTL", [](Tcp& t) { --t.ttl; });
  expect_apart("ECN", [](Tcp& t) { t.tos = 3; });
  expect_apart("may be fragmented", [](Tcp& t) { t.flags_offset = 0; });
  expect_apart("identification", [](Tcp& t) { ++t.id; });
  expect_apart("other options", [](Tcp& t) {
    t.options = pattern(4);
    t.payload.resize(kFull - 4);
  });
  expect_apart("longer", [](Tcp& t) { t.payload = pattern(kFull + 1, kFull); });
  expect_apart("wrong checksum", [](Tcp& t) { t.checksum_off = 1; });
  expect_apart("IP options", [](Tcp& t) {
    t.ip_options = Bytes(4, std::byte{1});
    t.payload.resize(kFull - 4);
  });
  expect_apart("fragment", [](Tcp& t) { t.flags_offset = wire::Ipv4Hdr::kMoreFragments; });
  for (const bool v6 : {false, true}) {
    auto segments = train(3, {.v6 = v6, .options = pattern(12)}, v6 ? kFull - 32 : kFull - 12);
    segments[1].options[8] = std::byte{0xee};
    EXPECT_EQ(gro(segments).size(), 3U) << "another time stamp";
  }
  auto segments = train(2, {.v6 = true}, kFull - 20);
  segments[1].flow = 1;
  EXPECT_EQ(gro(segments).size(), 2U) << "flow label";
}

TEST_F(TcpGro, AWrongChecksumOfTheFirstIsItsOwn) {
  auto segments = train(3);
  segments[0].checksum_off = 5;
  const auto out = gro(segments);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0], segments[0].bytes());
  EXPECT_EQ(tcp_checksum_of(out[1]), 0);
}

TEST_F(TcpGro, ADeviceMayHaveVerifiedTheChecksum) {
  // The stage does not sum up the payload again: it derives the checksum of the merged packet from
  // those of the segments.
  auto segments = train(2);
  segments[1].checksum_off = 7;
  std::vector<rte_mbuf*> pkts;
  for (const Tcp& s : segments) {
    pkts.push_back(mbuf(s.bytes()));
    pkts.back()->ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  }
  const auto out = merged(pkts);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_NE(tcp_checksum_of(octets(out[0])), 0) << "derived, so as wrong as it was";
  rte_pktmbuf_free(out[0]);
}

TEST_F(TcpGro, IdentificationMayBeNone) {
  auto segments = train(4);
  for (Tcp& t : segments) t.id = 0;
  EXPECT_EQ(gro(segments).size(), 1U);
  for (Tcp& t : segments) t.flags_offset = 0;
  EXPECT_EQ(gro(segments).size(), 4U) << "may be fragmented, so they must differ";
  for (Tcp& t : segments) t.id = 9;
  EXPECT_EQ(gro(segments).size(), 4U);
}

TEST_F(TcpGro, ConnectionsMixAndKeepTheirOrder) {
  const auto a = train(4, {.src_port = 1}), b = train(4, {.src_port = 2});
  const auto c = train(4, {.v6 = true, .src_port = 1}, kFull - 20);
  std::vector<Tcp> mixed;
  for (std::size_t i = 0; i < 4; ++i) {
    mixed.push_back(a[i]);
    mixed.push_back(b[i]);
    mixed.push_back(c[i]);
  }
  mixed.insert(mixed.begin() + 6, Tcp{.src_port = 2, .seq = 1000 + 2 * kFull, .payload = {}});
  const auto out = gro(mixed);
  ASSERT_EQ(out.size(), 5U) << "the pure ACK parts b";
  EXPECT_EQ(view(out[0]).payload.size(), 4 * kFull);
  EXPECT_EQ(view(out[1]).payload.size(), 2 * kFull);
  EXPECT_EQ(view(out[2]).payload.size(), 4 * (kFull - 20));
  EXPECT_EQ(view(out[3]).payload.size(), 0U);
  EXPECT_EQ(view(out[4]).payload.size(), 2 * kFull);
}

TEST_F(TcpGro, ManyConnectionsLoseNothing) {
  std::vector<Tcp> mixed;
  for (std::size_t i = 0; i < 4; ++i)
    for (std::uint16_t port = 0; port < 16; ++port)
      mixed.push_back(train(4, {.src_port = port})[i]);
  std::map<std::uint16_t, Bytes> streams;
  for (const Bytes& packet : gro(mixed))
    append(streams[view(packet).hdr.src_port.host()], view(packet).payload);
  ASSERT_EQ(streams.size(), 16U);
  for (const auto& [port, stream] : streams) EXPECT_EQ(stream, pattern(4 * kFull)) << port;
}

TEST_F(TcpGro, SegmentsMayLieInPiecesThemselves) {
  const auto segments = train(3);
  std::vector<rte_mbuf*> pkts;
  for (const Tcp& s : segments) pkts.push_back(mbuf(s.bytes(), {500, 600, 400}));
  const auto out = merged(pkts);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0]->nb_segs, 9);
  Tcp expected = segments[0];
  expected.payload = pattern(3 * kFull);
  EXPECT_EQ(octets(out[0]), expected.bytes());
  rte_pktmbuf_free(out[0]);
}

/// Random connections with losses and damage of any kind are merged and cut again. Each has the
/// same packets in the same order, octet for octet, damaged ones included.
class TcpGroLife : public TcpGro {
 protected:
  void live(unsigned seed) {
    random_.seed(seed);
    const std::size_t nb_flows = 1 + upto(9);
    const auto port_mtu = static_cast<std::uint16_t>(576 + upto(924));
    entries[kEth0].mtu = port_mtu;
    to.mtu = static_cast<std::uint16_t>(port_mtu + upto(65'535U - port_mtu));
    std::vector<Tcp> flows;
    for (std::size_t i = 0; i < nb_flows; ++i) flows.push_back(flow(i));
    std::map<std::uint16_t, std::vector<Bytes>> sent, arrived;
    for (int burst = 0; burst < 4; ++burst) {
      std::vector<rte_mbuf*> pkts;
      Tcp* f = &flows[0];
      for (std::size_t n = 1 + upto(63); pkts.size() < n;) {
        if (upto(3) == 0) f = &flows[upto(nb_flows - 1)];
        pkts.push_back(take(send(*f, port_mtu), sent));
      }
      for (rte_mbuf* m : merged(pkts)) receive(m, port_mtu, arrived);
    }
    ASSERT_EQ(arrived, sent);
  }

 private:
  std::size_t upto(std::size_t n) { return random_() % (n + 1); }
  bool rarely() { return upto(19) == 0; }

  Tcp flow(std::size_t i) {
    return {.v6 = upto(1) != 0,
            .src_port = static_cast<std::uint16_t>(i),
            .seq = static_cast<std::uint32_t>(random_()),
            .flags = static_cast<std::uint16_t>(TcpHdr::kAck | (rarely() ? TcpHdr::kEce : 0)),
            .options = pattern(4 * upto(3)),
            .id = static_cast<std::uint16_t>(upto(1) != 0 ? 0 : 0xfff0 + upto(15))};
  }
  /// Returns the next packet of a connection, usually a full segment.
  Bytes send(Tcp& f, std::uint16_t port_mtu) {
    Tcp t = f;
    const std::size_t full = port_mtu - (f.v6 ? 60U : 40U) - f.options.size();
    t.payload = pattern(rarely() ? upto(full) : full, f.seq);
    switch (upto(99)) {
      case 0: t.flags |= TcpHdr::kFin; break;
      case 1: t.flags |= TcpHdr::kCwr; break;
      case 2: t.checksum_off = static_cast<std::uint16_t>(1 + upto(0xfffd)); break;
      case 3: --t.ttl; break;
      case 4: t.seq += static_cast<std::uint32_t>(upto(5000)); break;
      case 5: t.seq -= static_cast<std::uint32_t>(full); break;
      case 6: t.payload.clear(); break;
      case 7: t.flags_offset = wire::Ipv4Hdr::kMoreFragments; break;
      case 8: t.window ^= 1; break;
      case 9: t.tos = 3; break;
      case 10: ++t.id; break;
      case 11: t.flags = TcpHdr::kSyn; break;
      default: break;
    }
    if (upto(9) == 0) t.flags |= TcpHdr::kPsh;
    f.seq = t.seq + static_cast<std::uint32_t>(t.payload.size());
    if (rarely()) ++f.ack;
    if (f.id != 0) ++f.id;
    return t.bytes();
  }
  rte_mbuf* take(const Bytes& packet, std::map<std::uint16_t, std::vector<Bytes>>& sent) {
    sent[view(packet).hdr.src_port.host()].push_back(packet);
    if (upto(3) != 0 || packet.size() < 200) return mbuf(packet);
    const std::size_t first = 100 + upto(packet.size() - 101);
    return mbuf(packet, {first, packet.size() - first});
  }
  void receive(rte_mbuf* m, std::uint16_t port_mtu,
               std::map<std::uint16_t, std::vector<Bytes>>& arrived) {
    const Bytes whole = octets(m);
    auto& packets = arrived[view(whole).hdr.src_port.host()];
    if (whole.size() <= port_mtu) {
      packets.push_back(whole);
    } else {
      EXPECT_LE(whole.size(), to.mtu);
      EXPECT_TRUE(ip_is_valid(whole));
      EXPECT_EQ(tcp_checksum_of(whole), 0);
      TcpGso gso{m, port_mtu, pool};
      EXPECT_TRUE(gso.possible());
      while (gso.possible() && !gso.done()) {
        rte_mbuf* const segment = gso.next();
        packets.push_back(octets(segment));
        rte_pktmbuf_free(segment);
      }
    }
    rte_pktmbuf_free(m);
  }

  std::mt19937 random_;
};

TEST_F(TcpGroLife, CutAgainAreThePacketsThatWere) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    ASSERT_NO_FATAL_FAILURE(live(seed)) << "seed " << seed;
  }
  EXPECT_GT(context->stats.gro_segments.get(), 5000U);
}

}  // namespace
}  // namespace ipoib::fwd::test
