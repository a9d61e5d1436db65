// SPDX-License-Identifier: BSD-3-Clause
// Packets in mbufs of every layout, by seed: chains of 1 to 64 mbufs with direct, shared, external
// and attached buffers, where the first mbuf ends at any octet of the headers. Input, routing,
// fragmentation and TCP segmentation keep their octets, write into no buffer of another owner, and
// count each packet that they do not accept under one reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <memory>
#include <random>
#include <tuple>
#include <utility>

#include "lib/wire/iba.h"
#include "tests/support/seeds.h"
#include "tests/support/tcp_packets.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

enum class Kind : std::uint8_t { kDirect, kShared, kExternal, kSharedExternal, kAttached };
constexpr std::array kKinds = {Kind::kDirect, Kind::kShared, Kind::kExternal, Kind::kSharedExternal,
                               Kind::kAttached};

class Layout : public WorkerFixture {
 protected:
  static constexpr std::size_t kHeadroom = 128;
  static constexpr std::size_t kRoom = 1900;  ///< Octets of an mbuf.
  static constexpr std::uint16_t kMtu = 9000;

  void SetUp() override {
    WorkerFixture::SetUp();
    entries[kIb0].mtu = entries[kIb1].mtu = kMtu;
    entries[kEth1].tcp_offload = true;
    add_route("fd00:2::/64", {table::NextHopKind::kConnected, 0, kEth1, table::kNoNeighbour});
    start();
    for (const auto& [index, iface, to] :
         {std::tuple{0U, kIb0, "10.0.0.2"}, {1U, kIb0, "fd00:a::2"}}) {
      table::Neighbour n = ib_neighbour(iface, to, 7, 0xabcdef);
      n.mtu = kMtu;
      set_neighbour(index, n);
    }
    set_neighbour(2, eth_neighbour(kEth1, "192.168.2.20", mac(0x20)));
    set_neighbour(3, eth_neighbour(kEth1, "fd00:2::2", mac(0x20)));
    loop();
  }

  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>{0, limit - 1}(random_);
  }
  bool once_in(std::size_t n) { return below(n) == 0; }

  /// A buffer of another owner, with the content that it must keep.
  struct Watched {
    rte_mbuf* m;  ///< The other owner's reference; null: external.
    const std::byte* data;
    Bytes octets;
    std::uint16_t data_off = 0, data_len = 0;
  };
  struct External {
    std::vector<std::byte> octets;
    rte_mbuf_ext_shared_info info{};
    bool shared = false;
    bool freed = false;
  };

  void watch(rte_mbuf* m, const void* buffer, std::size_t len) {
    const auto* const at = static_cast<const std::byte*>(buffer);
    watched_.push_back({m, at, {at, at + len}});
    if (m == nullptr) return;
    watched_.back().data_off = m->data_off;
    watched_.back().data_len = m->data_len;
  }
  rte_mbuf* mbuf_of(Kind kind, std::span<const std::byte> part) {
    rte_mbuf* const m = rte_pktmbuf_alloc(pool);
    if (kind == Kind::kExternal || kind == Kind::kSharedExternal) {
      External& e = externals_.emplace_back();
      e.octets.resize(kHeadroom + part.size() + kHeadroom, std::byte{0xc3});
      e.info.free_cb = [](void*, void* self) { static_cast<External*>(self)->freed = true; };
      e.info.fcb_opaque = &e;
      e.shared = kind == Kind::kSharedExternal;
      rte_mbuf_ext_refcnt_set(&e.info, e.shared ? 2 : 1);
      rte_pktmbuf_attach_extbuf(m, e.octets.data(), RTE_BAD_IOVA,
                                static_cast<std::uint16_t>(e.octets.size()), &e.info);
      m->data_off = kHeadroom;
    }
    std::byte* const data = reinterpret_cast<std::byte*>(
        rte_pktmbuf_append(m, static_cast<std::uint16_t>(part.size())));
    std::copy(part.begin(), part.end(), data);
    if (kind == Kind::kShared) {
      rte_mbuf_refcnt_update(m, 1);
      watch(m, m->buf_addr, m->buf_len);
    }
    if (kind == Kind::kSharedExternal) watch(nullptr, m->buf_addr, m->buf_len);
    if (kind != Kind::kAttached) return m;
    rte_mbuf* const attached = rte_pktmbuf_alloc(pool);
    rte_pktmbuf_attach(attached, m);
    watch(m, m->buf_addr, m->buf_len);
    return attached;
  }
  /// The octets in a first mbuf of `first` and in up to 63 others, some of them empty.
  rte_mbuf* chain(const Bytes& bytes, std::size_t first, bool own = false) {
    std::span<const std::byte> rest{bytes};
    const bool plain = own || once_in(4);
    copied_ = false;
    const auto take = [&](std::size_t len) {
      const bool is_head = rest.size() == bytes.size();
      const Kind kind = plain ? Kind::kDirect : kKinds[below(kKinds.size())];
      copied_ |= kind == Kind::kShared ||
                 (is_head && (kind == Kind::kSharedExternal || kind == Kind::kAttached));
      rte_mbuf* const m = mbuf_of(kind, rest.first(len));
      rest = rest.subspan(len);
      return m;
    };
    rte_mbuf* const head = take(std::min(first, rest.size()));
    std::vector<std::size_t> ends(below(58));
    for (std::size_t& end : ends) end = below(rest.size() + 1);
    for (std::size_t end = kRoom; end < rest.size(); end += kRoom) ends.push_back(end);
    if (!rest.empty()) ends.push_back(rest.size());
    std::sort(ends.begin(), ends.end());
    std::size_t at = 0;
    for (const std::size_t end : ends)
      EXPECT_EQ(rte_pktmbuf_chain(head, take(end - std::exchange(at, end))), 0);
    EXPECT_LE(head->nb_segs, 64);
    return head;
  }
  /// Checks that the buffers of other owners are unchanged, and returns them.
  void give_back() {
    for (const Watched& w : watched_) {
      EXPECT_TRUE(std::equal(w.octets.begin(), w.octets.end(), w.data)) << "written by another";
      if (w.m == nullptr) continue;
      EXPECT_EQ(rte_mbuf_refcnt_read(w.m), 1) << "nobody has it but its other owner";
      EXPECT_EQ(w.m->data_off, w.data_off);
      EXPECT_EQ(w.m->data_len, w.data_len);
      w.m->next = nullptr;
      w.m->nb_segs = 1;
      rte_pktmbuf_free(w.m);
    }
    watched_.clear();
    for (const External& e : externals_) {
      EXPECT_EQ(e.freed, !e.shared);
      if (e.shared) {
        EXPECT_EQ(rte_mbuf_ext_refcnt_read(&e.info), 1);
      }
    }
    externals_.clear();
  }

  /// Sends a TCP packet to a host behind eth1: with its address, checksums made again.
  static void to_eth1(Bytes& bytes, bool v6) {
    const auto put = [&bytes](std::size_t at, std::span<const std::byte> octets) {
      std::copy(octets.begin(), octets.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    };
    const std::size_t tcp_sum = (v6 ? 40U : 20U) + offsetof(wire::TcpHdr, checksum);
    put(tcp_sum, wire::bytes_of(wire::Be16{}));
    if (v6) {
      put(24, wire::bytes_of(*wire::parse_ip("fd00:2::2")));
    } else {
      put(16, wire::bytes_of(wire::Be32{addr("192.168.2.20")}));
      put(10, wire::bytes_of(wire::Be16{}));
      put(10, wire::bytes_of(wire::Be16{wire::internet_checksum(std::span{bytes}.first(20))}));
    }
    put(tcp_sum, wire::bytes_of(wire::Be16{tcp_checksum_of(bytes)}));
  }

  /// Sends one packet into eth0 or ib1. Returns what left, without link headers; all else is
  /// checked.
  Frames out_of(const Bytes& ip, std::size_t first, std::uint16_t type, bool by_link) {
    const std::uint64_t before = all_drops();
    const std::size_t header = by_link ? 4 : 14;
    const Bytes frame = by_link ? encapsulated(type, ip) : ethernet(mac(0xa0), mac(0x10), type, ip);
    links[0].room = 1000;
    receive(by_link ? kIb1 : kEth0, chain(frame, header + first, by_link));
    loop();
    Frames out;
    for (const SentOnLink& sent : sent_by_link(kIb0))
      out.emplace_back(sent.bytes.begin() + 4, sent.bytes.end());
    for (const Bytes& sent : sent_by_port(kEth1)) out.emplace_back(sent.begin() + 14, sent.end());
    const auto up_messages = punted();
    const std::uint64_t dropped = all_drops() - before;
    EXPECT_LE(up_messages.size(), dropped) << "only errors go up";
    EXPECT_EQ(dropped, out.empty() ? 1U : 0U) << "first " << first;
    give_back();
    return out;
  }

  std::mt19937_64 random_;
  bool copied_ = false;  ///< The last chain must be copied, which puts its headers together.
  std::list<External> externals_;
  std::vector<Watched> watched_;
};

TEST_F(Layout, ForwardedPacketsHaveTheirOctets) {
  ::ipoib::test::for_seeds(60, [this](std::uint64_t seed) {
    random_.seed(seed);
    const std::size_t len = once_in(3) ? below(100) : below(8800);
    const bool by_link = once_in(2);
    const Ip4 v4{.payload_len = len, .options = Bytes(4 * below(11), std::byte{1})};
    const Ip6 v6{.body = pattern(len)};
    const std::size_t header4 = 20 + v4.options.size();
    for (std::size_t first = 0; first <= header4 + 1; ++first) {
      const Frames out = out_of(v4.bytes(), first, 0x0800, by_link);
      ASSERT_EQ(out.size(), copied_ || first >= header4 ? 1U : 0U) << first;
      if (!out.empty()) {
        ASSERT_EQ(out[0], forwarded(v4)) << first;
      }
    }
    for (std::size_t first = 0; first <= 41; ++first) {
      const Frames out = out_of(v6.bytes(), first, 0x86dd, by_link);
      ASSERT_EQ(out.size(), copied_ || first >= 40 ? 1U : 0U) << first;
      if (!out.empty()) {
        ASSERT_EQ(out[0], forwarded(v6)) << first;
      }
    }
  });
}

TEST_F(Layout, PaddingIsCutOff) {
  ::ipoib::test::for_seeds(300, [this](std::uint64_t seed) {
    random_.seed(seed);
    const Ip4 v4{.payload_len = below(3000)};
    const Ip6 v6{.body = pattern(below(3000))};
    for (const bool is_v4 : {true, false}) {
      Bytes padded = is_v4 ? v4.bytes() : v6.bytes();
      padded.resize(padded.size() + 1 + below(3000), std::byte{0xee});
      const Frames out = out_of(padded, 40 + below(100), is_v4 ? 0x0800 : 0x86dd, once_in(2));
      ASSERT_EQ(out.size(), 1U);
      ASSERT_EQ(out[0], is_v4 ? forwarded(v4) : forwarded(v6));
    }
  });
}

TEST_F(Layout, FragmentsMakeUpThePacket) {
  ::ipoib::test::for_seeds(100, [this](std::uint64_t seed) {
    random_.seed(seed);
    const Ip4 ip{.dst = "192.168.2.20", .payload_len = 1500 + below(7000)};
    const Bytes whole = ip.bytes();
    for (std::size_t first = 0; first <= 24; ++first) {
      const Frames out = out_of(whole, first, 0x0800, once_in(2));
      ASSERT_EQ(out.empty(), !copied_ && first < 20) << first;
      Bytes payload;
      for (const Bytes& fragment : out) {
        ASSERT_LE(fragment.size(), 1500U);
        ASSERT_TRUE(ip_is_valid(fragment));
        const auto hdr = *wire::read<wire::Ipv4Hdr>(fragment);
        ASSERT_EQ(hdr.ttl, 63);
        ASSERT_EQ(hdr.id.host(), ip.id);
        ASSERT_EQ((hdr.flags_offset.host() & wire::Ipv4Hdr::kOffsetMask) * 8U, payload.size());
        ASSERT_EQ((hdr.flags_offset.host() & wire::Ipv4Hdr::kMoreFragments) != 0,
                  &fragment != &out.back());
        payload.insert(payload.end(), fragment.begin() + 20, fragment.end());
      }
      if (!out.empty()) {
        ASSERT_EQ(payload, Bytes(whole.begin() + 20, whole.end()));
      }
    }
  });
}

TEST_F(Layout, TcpSegmentsMakeUpTheStream) {
  ::ipoib::test::for_seeds(60, [this](std::uint64_t seed) {
    random_.seed(seed);
    Tcp tcp{.v6 = once_in(2), .options = Bytes(4 * below(11), std::byte{1})};
    tcp.payload = pattern(1500 + below(7000));
    Bytes whole = tcp.bytes();
    to_eth1(whole, tcp.v6);
    const std::size_t ip_len = tcp.v6 ? 40 : 20;
    const std::size_t headers = ip_len + 20 + tcp.options.size();
    for (std::size_t first = 0; first <= headers + 1; ++first) {
      const Frames out = out_of(whole, first, tcp.v6 ? 0x86dd : 0x0800, once_in(2));
      // TCP with headers that are not complete in the first mbuf is not cut, and says so.
      ASSERT_EQ(out.empty(), !copied_ && first < headers) << first;
      Bytes stream;
      for (const Bytes& segment : out) {
        ASSERT_LE(segment.size(), 1500U);
        ASSERT_TRUE(ip_is_valid(segment));
        ASSERT_EQ(tcp_checksum_of(segment), 0);
        const TcpView v = view(segment);
        ASSERT_EQ(v.hdr.seq.host(), tcp.seq + stream.size());
        append(stream, v.payload);
      }
      if (!out.empty()) {
        ASSERT_EQ(stream, tcp.payload);
      }
    }
  });
}

TEST_F(Layout, ASharedPacketOfALinkKeepsItsGrh) {
  wire::Gid own;
  own.bytes.fill(std::byte{0x5b});
  entries[kIb0].set_gid(own);
  rte_mbuf* const m = mbuf(encapsulated(0x0800, Ip4{.dst = "239.1.1.1"}.bytes()));
  wire::Grh grh{};
  grh.sgid = own;
  std::memcpy(rte_pktmbuf_mtod(m, std::byte*) - 60, &grh, sizeof(grh));
  rte_mbuf_refcnt_update(m, 1);
  receive(kIb0, m, true);
  fabric::meta_of(m).rx.grh_offset = 60;
  fabric::meta_of(m).rx.src_qpn = links[0].qpn();
  loop();
  expect_drop(kIb0, Drop::kIpoibOwnMulticast);
  EXPECT_EQ(rte_mbuf_refcnt_read(m), 1);
  rte_pktmbuf_free(m);
}

TEST_F(Layout, ASharedPacketIsCountedWhenItCannotBeCopied) {
  rte_mbuf* const m = mbuf(ethernet(mac(0xa0), mac(0x10), 0x0800, Ip4{}.bytes()));
  rte_mbuf_refcnt_update(m, 1);
  receive(kEth0, m);
  receive(kEth0, ethernet(mac(0xa0), mac(0x10), 0x0800, Ip4{}.bytes()));
  std::vector<rte_mbuf*> all;
  for (rte_mbuf* taken; (taken = rte_pktmbuf_alloc(pool)) != nullptr;) all.push_back(taken);
  loop();
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U) << "the next one is nobody else's";
  expect_drop(kEth0, Drop::kNoMbuf);
  rte_pktmbuf_free(m);
}

}  // namespace
}  // namespace ipoib::fwd::test
