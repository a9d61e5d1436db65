// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/tcp_gso.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/tcp_packets.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

using wire::TcpHdr;

class TcpGsoTest : public WorkerFixture {
 protected:
  /// Returns the segments as octets, or none if the packet cannot be cut.
  std::vector<Bytes> gso(const Bytes& packet, std::uint16_t mtu,
                         const std::vector<std::size_t>& segments = {}) {
    return gso(mbuf(packet, segments), mtu);
  }
  std::vector<Bytes> gso(rte_mbuf* m, std::uint16_t mtu) {
    std::vector<Bytes> out;
    TcpGso gso{m, mtu, pool};
    while (gso.possible() && !gso.done()) {
      rte_mbuf* const segment = gso.next();
      if (segment == nullptr) break;
      EXPECT_EQ(segment->nb_segs, 1);
      EXPECT_EQ(segment->pkt_len, segment->data_len);
      const auto* const data = rte_pktmbuf_mtod(segment, const std::byte*);
      out.emplace_back(data, data + segment->data_len);
      rte_pktmbuf_free(segment);
    }
    rte_pktmbuf_free(m);
    return out;
  }
};

TEST_F(TcpGsoTest, SegmentsAreWhatItsSenderWouldHaveSent) {
  for (const bool v6 : {false, true}) {
    const std::size_t room = 600U - (v6 ? 40 : 20) - 20 - 12;
    Tcp whole{.v6 = v6,
              .seq = 0xffff'ff00,  // wraps around
              .flags = TcpHdr::kAck | TcpHdr::kPsh | TcpHdr::kFin | TcpHdr::kCwr | TcpHdr::kEce,
              .options = pattern(12),
              .payload = pattern(3 * room + 7),
              .tos = 2,
              .id = 0xfffe,
              .flow = 0x2'3456};
    const auto segments = gso(whole.bytes(), 600);
    ASSERT_EQ(segments.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
      Tcp expected = whole;
      expected.seq += static_cast<std::uint32_t>(i * room);
      expected.id = static_cast<std::uint16_t>(whole.id + i);
      expected.flags = TcpHdr::kAck | TcpHdr::kEce;
      if (i == 0) expected.flags |= TcpHdr::kCwr;
      if (i == 3) expected.flags |= TcpHdr::kPsh | TcpHdr::kFin;
      const auto from = whole.payload.begin() + static_cast<std::ptrdiff_t>(i * room);
      expected.payload.assign(
          from, i == 3 ? whole.payload.end() : from + static_cast<std::ptrdiff_t>(room));
      EXPECT_EQ(segments[i], expected.bytes()) << i << (v6 ? " IPv6" : " IPv4");
    }
  }
}

TEST_F(TcpGsoTest, IdentificationCountsUnlessNoneIsGiven) {
  const auto ids = [&](std::uint16_t id, std::uint16_t flags_offset) {
    std::vector<std::uint16_t> out;
    const Tcp whole{.payload = pattern(1000), .id = id, .flags_offset = flags_offset};
    for (const Bytes& segment : gso(whole.bytes(), 540)) out.push_back(view(segment).id);
    return out;
  };
  using Ids = std::vector<std::uint16_t>;
  EXPECT_EQ(ids(7, wire::Ipv4Hdr::kDontFragment), (Ids{7, 8}));
  EXPECT_EQ(ids(0, wire::Ipv4Hdr::kDontFragment), (Ids{0, 0})) << "atomic datagrams without one";
  EXPECT_EQ(ids(0, 0), (Ids{0, 1})) << "a fragment's receiver goes by it";
}

TEST_F(TcpGsoTest, RefusesWhatIsNotToBeCut) {
  const Bytes data = pattern(1000);
  EXPECT_EQ(gso(Tcp{.payload = data}.bytes(), 600).size(), 2U);
  const std::vector<std::pair<const char*, Bytes>> rows = {
      {"SYN", Tcp{.flags = TcpHdr::kSyn, .payload = data}.bytes()},
      {"RST", Tcp{.flags = TcpHdr::kRst, .payload = data}.bytes()},
      {"urgent", Tcp{.flags = TcpHdr::kAck | TcpHdr::kUrg, .payload = data}.bytes()},
      {"IPv4 options", Tcp{.payload = data, .ip_options = Bytes(4, std::byte{1})}.bytes()},
      {"first fragment",
       Tcp{.payload = data, .flags_offset = wire::Ipv4Hdr::kMoreFragments}.bytes()},
      {"last fragment", Tcp{.payload = data, .flags_offset = 100}.bytes()},
      {"UDP", Ip4{.payload_len = 1000}.bytes()},
      {"UDP of IPv6", Ip6{.body = pattern(1000)}.bytes()},
      {"IPv6 fragment", Ip6{.body = pattern(1000), .next_header = 44}.bytes()},
      {"ports only", Ip4{.payload_len = 4, .protocol = wire::IpProto::kTcp}.bytes()}};
  for (const auto& [what, packet] : rows) EXPECT_TRUE(gso(packet, 600).empty()) << what;

  Bytes odd = Tcp{.payload = data}.bytes();
  odd[20 + 12] = std::byte{0x40};
  EXPECT_TRUE(gso(odd, 600).empty()) << "TCP header of 16 octets";
  const Bytes packet = Tcp{.payload = data}.bytes();
  EXPECT_TRUE(gso(packet, 40).empty()) << "no room for payload";
  EXPECT_EQ(gso(packet, 41).size(), 1000U);
  EXPECT_TRUE(gso(packet, 600, {39, 1001}).empty()) << "headers not in the first segment";
  EXPECT_EQ(gso(packet, 600, {40, 1000}).size(), 2U);
}

TEST_F(TcpGsoTest, SegmentsAreNoLargerThanAnMbuf) {
  const Tcp whole{.payload = pattern(9000)};
  const Bytes bytes = whole.bytes();
  const auto segments = gso(bytes, 9000, {2000, 2000, 2000, 2000, bytes.size() - 8000});
  ASSERT_EQ(segments.size(), 5U) << "2,048 octets in an mbuf";
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(segments[i].size(), 2048U);
}

TEST_F(TcpGsoTest, WithoutMbufsItCanGoOnLater) {
  rte_mbuf* const m = mbuf(Tcp{.payload = pattern(1500)}.bytes());
  std::vector<rte_mbuf*> all(rte_mempool_avail_count(pool));
  TcpGso gso{m, 560, pool};
  ASSERT_TRUE(gso.possible());
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool, all.data(), static_cast<unsigned>(all.size())), 0);
  EXPECT_EQ(gso.next(), nullptr);
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
  std::size_t n = 0;
  for (; !gso.done(); ++n) rte_pktmbuf_free(gso.next());
  EXPECT_EQ(n, 3U);
  rte_pktmbuf_free(m);
}

/// Random packets in random mbufs. The segments contain the same stream; a correct checksum stays
/// correct, and a wrong one is wrong in every segment.
TEST_F(TcpGsoTest, AnyPacketGivesItsStream) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random{seed};
    const auto upto = [&](std::size_t n) { return random() % (n + 1); };
    const Tcp whole{.v6 = upto(1) != 0,
                    .seq = static_cast<std::uint32_t>(random()),
                    .options = pattern(4 * upto(10), static_cast<std::uint32_t>(random() % 99)),
                    .payload = pattern(1 + upto(30'000), static_cast<std::uint32_t>(seed)),
                    .checksum_off = static_cast<std::uint16_t>(upto(1) * (1 + upto(0xfffd))),
                    .id = static_cast<std::uint16_t>(random())};
    const Bytes bytes = whole.bytes();
    const bool right = tcp_checksum_of(bytes) == 0;
    std::vector<std::size_t> pieces;
    for (std::size_t left = bytes.size(); left != 0; left -= pieces.back())
      pieces.push_back(std::min(left, pieces.empty() ? 100 + upto(1900) : 1 + upto(1999)));
    const auto mtu = static_cast<std::uint16_t>(200 + upto(1800));
    Bytes stream;
    for (const Bytes& segment : gso(mbuf(bytes, pieces), mtu)) {
      const TcpView v = view(segment);
      ASSERT_LE(segment.size(), mtu) << "seed " << seed;
      ASSERT_TRUE(ip_is_valid(segment)) << "seed " << seed;
      ASSERT_EQ(tcp_checksum_of(segment) == 0, right) << "seed " << seed;
      ASSERT_EQ(v.hdr.seq.host(), whole.seq + static_cast<std::uint32_t>(stream.size()));
      append(stream, v.payload);
    }
    ASSERT_EQ(stream, whole.payload) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ipoib::fwd::test
