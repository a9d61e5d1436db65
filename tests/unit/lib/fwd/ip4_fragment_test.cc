// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip4_fragment.h"

#include <rte_mbuf.h>

#include <gtest/gtest.h>

#include <random>

#include "lib/fwd/ip4_header.h"
#include "tests/support/mbufs.h"
#include "tests/support/packets.h"

namespace ipoib::fwd::test {
namespace {

using wire::Ipv4Hdr;

class Ip4Fragment : public testing::Test {
 protected:
  void SetUp() override {
    pool_ = rte_pktmbuf_pool_create("fragments", 127, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, -1);
    ASSERT_NE(pool_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(rte_mempool_avail_count(pool_), 127U) << "packets leaked";
    rte_mempool_free(pool_);
  }

  rte_mbuf* packet(const Bytes& bytes, std::size_t first_segment = 0) {
    const std::size_t split = first_segment == 0 ? bytes.size() : first_segment;
    const std::span<const std::byte> octets{bytes};
    rte_mbuf* const head = ipoib::test::mbuf_of(pool_, octets.first(split));
    if (split != octets.size()) {
      EXPECT_EQ(rte_pktmbuf_chain(head, ipoib::test::mbuf_of(pool_, octets.subspan(split))), 0);
    }
    return head;
  }

  /// Returns the fragments as octets, or none if the packet is refused.
  std::vector<Bytes> fragment(const Bytes& bytes, std::uint16_t mtu, std::size_t split = 0) {
    rte_mbuf* const m = packet(bytes, split);
    std::vector<Bytes> out;
    Ip4Fragmenter fragmenter{m, mtu, pool_};
    while (!fragmenter.done()) {
      Burst burst;
      if (!fragmenter.next(burst)) break;
      EXPECT_GT(burst.n, 0);
      for (rte_mbuf* f : burst.span()) {
        const auto* const data = rte_pktmbuf_mtod(f, const std::byte*);
        out.emplace_back(data, data + f->data_len);
        EXPECT_EQ(f->pkt_len, f->data_len);
        rte_pktmbuf_free(f);
      }
    }
    rte_pktmbuf_free(m);
    return out;
  }

  static Ipv4Hdr header(const Bytes& bytes) { return *wire::read<Ipv4Hdr>(bytes); }

  /// Reassembles fragments as a receiver does, and checks each of them.
  static Bytes payload_of(const std::vector<Bytes>& fragments, std::uint16_t mtu,
                          std::uint16_t offset, bool more_after) {
    Bytes payload;
    for (std::size_t i = 0; i < fragments.size(); ++i) {
      const Ipv4Hdr hdr = header(fragments[i]);
      const bool last = i + 1 == fragments.size();
      EXPECT_LE(fragments[i].size(), mtu);
      EXPECT_EQ(hdr.total_len.host(), fragments[i].size());
      EXPECT_EQ(wire::internet_checksum(std::span{fragments[i]}.first(hdr.header_len())), 0);
      EXPECT_EQ((hdr.flags_offset.host() & Ipv4Hdr::kOffsetMask), offset + payload.size() / 8);
      EXPECT_EQ((hdr.flags_offset.host() & Ipv4Hdr::kMoreFragments) != 0, !last || more_after);
      EXPECT_EQ(payload.size() % 8, 0U);
      payload.insert(payload.end(),
                     fragments[i].begin() + static_cast<std::ptrdiff_t>(hdr.header_len()),
                     fragments[i].end());
    }
    return payload;
  }

  rte_mempool* pool_ = nullptr;
};

TEST_F(Ip4Fragment, P05_PutTogetherAgainGivesTheSame) {
  for (const auto mtu : std::vector<std::uint16_t>{68, 69, 75, 76, 576, 1280, 1500}) {
    for (std::size_t len = mtu - 19U; len < mtu + 40U; ++len) {
      const Bytes whole = Ip4{.payload_len = len}.bytes();
      const auto parts = fragment(whole, mtu, 60);
      ASSERT_GE(parts.size(), 2U);
      EXPECT_EQ(payload_of(parts, mtu, 0, false), Bytes(whole.begin() + 20, whole.end()));
    }
  }
}

TEST_F(Ip4Fragment, P05_FragmentOfAFragmentKeepsOffsetAndMore) {
  for (const std::uint16_t more : {std::uint16_t{0}, Ipv4Hdr::kMoreFragments}) {
    const Bytes whole =
        Ip4{.payload_len = 800, .flags_offset = static_cast<std::uint16_t>(more | 185)}.bytes();
    const auto parts = fragment(whole, 300);
    ASSERT_EQ(parts.size(), 3U);
    EXPECT_EQ(payload_of(parts, 300, 185, more != 0), Bytes(whole.begin() + 20, whole.end()));
  }
}

TEST_F(Ip4Fragment, P05_OnlyCopiedOptionsGoIntoLaterFragments) {
  // The options are record route (7, not copied), no-operation, router alert (0x94, copied) and end
  // of list.
  Bytes options(12);
  const std::vector<int> octets = {7, 3, 4, 1, 0x94, 4, 0, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < octets.size(); ++i) options[i] = static_cast<std::byte>(octets[i]);
  const Bytes whole = Ip4{.payload_len = 200, .options = options}.bytes();
  const auto parts = fragment(whole, 100);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(header(parts[0]).header_len(), 32U);
  EXPECT_TRUE(std::equal(options.begin(), options.end(), parts[0].begin() + 20));
  for (std::size_t i = 1; i < parts.size(); ++i) {
    EXPECT_EQ(header(parts[i]).header_len(), 24U);
    EXPECT_TRUE(std::equal(options.begin() + 4, options.begin() + 8, parts[i].begin() + 20));
  }
  EXPECT_EQ(payload_of(parts, 100, 0, false), Bytes(whole.begin() + 32, whole.end()));
}

TEST_F(Ip4Fragment, OptionsThatMakeNoSenseDoNoHarm) {
  std::independent_bits_engine<std::mt19937, 8, unsigned> random{3};
  for (int i = 0; i < 2000; ++i) {
    Bytes options(4 * (1 + random() % 10));
    for (std::byte& b : options) b = static_cast<std::byte>(random());
    const Bytes whole = Ip4{.payload_len = 300, .options = options}.bytes();
    const auto parts = fragment(whole, 120);
    ASSERT_GE(parts.size(), 3U);
    const auto header_len = static_cast<std::ptrdiff_t>(20 + options.size());
    ASSERT_EQ(payload_of(parts, 120, 0, false), Bytes(whole.begin() + header_len, whole.end()));
  }
}

/// Packets with more fragments than one burst holds are sent to the last octet.
TEST_F(Ip4Fragment, LongPacketsAreCutAsOftenAsTheyNeed) {
  for (const std::size_t n : {64U, 65U, 128U, 129U, 200U}) {
    const Bytes whole = Ip4{.payload_len = n * 8}.bytes();
    const auto parts = fragment(whole, 28);
    EXPECT_EQ(parts.size(), n);
    EXPECT_EQ(payload_of(parts, 28, 0, false), Bytes(whole.begin() + 20, whole.end()));
  }
}

TEST_F(Ip4Fragment, RefusesWhatCannotBeDone) {
  EXPECT_TRUE(fragment(Ip4{.payload_len = 100}.bytes(), 27).empty()) << "no room for 8 octets";
  EXPECT_FALSE(fragment(Ip4{.payload_len = 100}.bytes(), 28).empty());
  EXPECT_TRUE(fragment(Ip4{.payload_len = 0, .options = Bytes(40)}.bytes(), 59).empty());
  // The end of the last fragment would lie beyond 65,535 octets.
  EXPECT_TRUE(fragment(Ip4{.payload_len = 1000, .flags_offset = 8191 - 100}.bytes(), 500).empty());
  EXPECT_FALSE(fragment(Ip4{.payload_len = 1000, .flags_offset = 8191 - 125}.bytes(), 500).empty());
}

TEST_F(Ip4Fragment, FragmentsAreNoLargerThanAnMbuf) {
  const Bytes whole = Ip4{.payload_len = 4000}.bytes();
  const auto parts = fragment(whole, 3000, 2000);
  EXPECT_EQ(parts.size(), 2U) << "2,048 octets in an mbuf";
  EXPECT_EQ(payload_of(parts, 2048, 0, false), Bytes(whole.begin() + 20, whole.end()));
}

TEST_F(Ip4Fragment, RefusesWithoutMbufs) {
  rte_mempool* const small = rte_pktmbuf_pool_create("small", 15, 0, 0, 128 + 256, -1);
  ASSERT_NE(small, nullptr);
  rte_mbuf* const m = packet(Ip4{.payload_len = 1000}.bytes());
  Burst out;
  Ip4Fragmenter fits{m, 500, small};
  EXPECT_TRUE(fits.next(out)) << "5 of 15, of 256 octets";
  EXPECT_EQ(out.n, 5);
  EXPECT_TRUE(fits.done());
  rte_pktmbuf_free_bulk(out.pkts.data(), out.n);
  out.n = 0;
  Ip4Fragmenter too_many{m, 60, small};
  EXPECT_FALSE(too_many.next(out)) << "25 of 15";
  EXPECT_FALSE(too_many.done());
  EXPECT_EQ(out.n, 0);
  EXPECT_EQ(rte_mempool_avail_count(small), 15U);
  rte_pktmbuf_free(m);
  rte_mempool_free(small);
}

}  // namespace
}  // namespace ipoib::fwd::test
