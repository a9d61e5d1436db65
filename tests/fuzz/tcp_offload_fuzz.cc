// SPDX-License-Identifier: BSD-3-Clause
// Bursts of TCP packets of several connections, with unusual fields. TcpGso turns the packets that
// tcp_gro makes into the original packets again, octet for octet and in order within each
// connection. Packets that neither may change stay unchanged, and no packet overtakes them.
//
// Input: MTU of the port (2 octets), of the neighbour (2), number of connections, an octet for
// each connection, then packets; see Harness::packet().
#include <rte_mempool.h>
#include <rte_random.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <optional>

#include "lib/fwd/tcp_gro.h"
#include "lib/fwd/tcp_gso.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/support/eal.h"
#include "tests/support/tcp_packets.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

using ipoib::test::Input;
using ipoib::test::require;
using wire::TcpHdr;

/// A queue that does nothing. The stage only checks whether the neighbour has a queue.
class NoQueue final : public fabric::ConnectedQueue {
 public:
  NoQueue() : ConnectedQueue{0x99, fabric::Transport::kRc, nullptr} {}
};

/// Most packets are small, because the time of an input grows with its octets. TCP options fit into
/// this MTU.
constexpr unsigned kMinMtu = 128;
constexpr unsigned kMaxPackets = 3 * kMaxBurst;

/// Bits of a packet's first octet. The low three select the connection.
enum Option : unsigned {
  kEndOfBurst = 8,
  kShort = 16,     ///< The payload does not fill the MTU: length (2 octets).
  kOdd = 32,       ///< One field has another value: field, value.
  kPush = 64,      ///< The packet has PSH set.
  kSegments = 128  ///< The packet has two mbufs: length of the first (2 octets).
};

/// Addresses and ports in the order of the packet. Packets of one connection must stay in order.
using Connection = std::array<std::byte, 36>;

class Harness final : public WorkerFixture {
 public:
  static Harness& instance() {
    static auto* const harness = new Harness;
    return *harness;
  }

  void run(Input in) {
    set_mtus(in);
    std::vector<Tcp> flows(1 + in.octet() % 8);
    for (std::size_t i = 0; i < flows.size(); ++i) flows[i] = flow(in.octet(), i);
    std::vector<rte_mbuf*> pkts;
    for (unsigned n = 0; !in.empty() && n < kMaxPackets; ++n) {
      const unsigned code = in.octet();
      pkts.push_back(packet(in, code, flows[(code & 7) % flows.size()]));
      if (pkts.size() == kMaxBurst || (code & kEndOfBurst) != 0) burst(pkts);
    }
    burst(pkts);
    require(rte_mempool_avail_count(pool) == available_);
  }

 private:
  Harness() {
    require(start_eal("fuzz"));
    WorkerFixture::SetUp();
    entries[kEth0].tcp_offload = true;
    start();
    auto cache = table::NeighbourTable::create(16, rte_rand());
    auto deliveries = table::DeliveryTable::create(16, rte_rand());
    context_ = std::make_unique<Context>(configs[0], std::move(*cache), std::move(*deliveries));
    to_.mode = table::NeighbourMode::kRc;
    to_.queue = &queue_;
    available_ = rte_mempool_avail_count(pool);
  }
  void TestBody() override {}

  void set_mtus(Input& in) {
    const unsigned number = in.number(2);
    mtu_ =
        static_cast<std::uint16_t>(number < 0xf000 ? kMinMtu + number % 256 : 576 + number % 925);
    entries[kEth0].mtu = mtu_;
    to_.mtu = static_cast<std::uint16_t>(std::min<std::uint32_t>(mtu_ + in.number(2), 65'535U));
  }

  static Tcp flow(unsigned code, std::size_t i) {
    Tcp f;
    f.v6 = (code & 1) != 0;
    f.src_port = static_cast<std::uint16_t>(i);
    if ((code & 2) != 0) f.seq = 0xffff'f000;
    if ((code & 4) != 0) f.flags |= TcpHdr::kEce;
    f.options = pattern(4 * (code >> 3 & 3));
    if ((code & 32) != 0) f.tos = 2;
    f.id = (code & 64) != 0 ? 0 : 0xfff8;
    return f;
  }

  rte_mbuf* packet(Input& in, unsigned code, Tcp& f) {
    Tcp t = f;
    const std::size_t full = mtu_ - (f.v6 ? 60U : 40U) - f.options.size();
    t.payload = pattern((code & kShort) != 0 ? in.number(2) % (full + 1) : full, f.seq);
    if ((code & kPush) != 0) t.flags |= TcpHdr::kPsh;
    if ((code & kOdd) != 0) {
      const unsigned what = in.octet();
      make_odd(t, what, in.octet());
      const std::size_t len = t.bytes().size();
      if (len > mtu_) t.payload.resize(t.payload.size() - (len - mtu_));
    }
    f.seq = t.seq + static_cast<std::uint32_t>(t.payload.size());
    if (!f.v6 && f.id != 0) f.id = static_cast<std::uint16_t>(t.id + 1);
    const Bytes bytes = t.bytes();
    sent_.push_back(bytes);
    if ((code & kSegments) == 0) return mbuf(bytes);
    // The IP header is always in the first segment (ip4_input, ip6_input).
    const std::size_t first = std::max<std::size_t>(40, in.number(2) % mtu_);
    return first >= bytes.size() ? mbuf(bytes) : mbuf(bytes, {first, bytes.size() - first});
  }
  static void make_odd(Tcp& t, unsigned what, unsigned value) {
    switch (what % 16) {
      case 0: t.flags ^= static_cast<std::uint16_t>(1U << value % 9); return;
      case 1: t.checksum_off = static_cast<std::uint16_t>(value * 257 + 1); return;
      case 2: t.ttl = static_cast<std::uint8_t>(value); return;
      case 3: t.seq += value * 11; return;
      case 4: t.seq -= value; return;
      case 5: t.payload.clear(); return;
      case 6: t.flags_offset = wire::Ipv4Hdr::kMoreFragments; return;
      case 7: t.flags_offset = static_cast<std::uint16_t>(value); return;
      case 8: t.window = static_cast<std::uint16_t>(value); return;
      case 9: t.tos = static_cast<std::uint8_t>(value); return;
      case 10: t.id = static_cast<std::uint16_t>(t.id + value); return;
      case 11: t.ack += value; return;
      case 12: t.options = pattern(4 * (value % 10), value); return;
      case 13: t.ip_options = Bytes(4 * (value % 5), std::byte{1}); return;
      case 14: t.urgent = static_cast<std::uint16_t>(value); return;
      default: t.flow = value; return;
    }
  }

  /// Returns the connection of an unfragmented TCP packet without IP options, otherwise nothing.
  static std::optional<Connection> connection_of(const Bytes& packet) {
    const bool v6 = std::to_integer<unsigned>(packet[0]) >> 4 == 6;
    const std::size_t ip_len = v6 ? 40 : 20;
    if (!v6) {
      const auto hdr = *wire::read<wire::Ipv4Hdr>(packet);
      if (hdr.header_len() != ip_len || hdr.is_fragment()) return std::nullopt;
    }
    Connection c{};
    const std::size_t addresses = v6 ? 32 : 8;
    std::copy_n(&packet[ip_len - addresses], addresses + 4, c.begin());
    return c;
  }

  void burst(std::vector<rte_mbuf*>& pkts) {
    RoutedBurst routed;
    for (rte_mbuf* m : pkts) routed.push(m, to_);
    tcp_gro(*context_, context_->ingress(kEth0), routed);
    std::vector<Bytes> arrived;
    for (std::size_t i = 0; i < routed.n; ++i) {
      require(routed.to[i] == &to_);
      rte_mbuf* const m = routed.pkts[i];
      require(m->pkt_len <= std::max(to_.mtu, mtu_));
      if (m->pkt_len > mtu_)
        gso(m, arrived);
      else
        arrived.push_back(octets(m));
      rte_pktmbuf_free(m);
    }
    compare(arrived);
    pkts.clear();
    sent_.clear();
  }
  void gso(rte_mbuf* m, std::vector<Bytes>& arrived) {
    require(ip_is_valid(octets(m)));
    TcpGso gso{m, mtu_, pool};
    require(gso.possible());
    while (!gso.done()) {
      rte_mbuf* const segment = gso.next();
      require(segment != nullptr);
      arrived.push_back(octets(segment));
      rte_pktmbuf_free(segment);
    }
  }
  static Bytes octets(const rte_mbuf* m) {
    Bytes out;
    const rte_mbuf* segment = m;
    for (unsigned i = 0; i < m->nb_segs; ++i, segment = segment->next) {
      require(segment != nullptr);
      const auto* const data = rte_pktmbuf_mtod(segment, const std::byte*);
      out.insert(out.end(), data, data + segment->data_len);
    }
    require(segment == nullptr && out.size() == m->pkt_len);
    return out;
  }

  static bool same(const Bytes& a, const Bytes& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
  }
  /// A packet without a known connection may belong to any, so it keeps its place among all.
  void compare(const std::vector<Bytes>& arrived) const {
    require(arrived.size() == sent_.size());
    std::map<Connection, std::deque<const Bytes*>> by_connection;
    for (const Bytes& packet : sent_)
      if (const auto c = connection_of(packet)) by_connection[*c].push_back(&packet);
    for (std::size_t i = 0; i < arrived.size(); ++i) {
      const auto c = connection_of(arrived[i]);
      if (!c) {
        require(same(arrived[i], sent_[i]));
        continue;
      }
      auto& waiting = by_connection[*c];
      require(!waiting.empty() && same(*waiting.front(), arrived[i]));
      waiting.pop_front();
    }
  }

  std::unique_ptr<Context> context_;
  NoQueue queue_;
  table::Neighbour to_ = ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef);
  std::uint16_t mtu_ = 1500;
  unsigned available_ = 0;
  std::vector<Bytes> sent_;  ///< Packets of the burst.
};

}  // namespace
}  // namespace ipoib::fwd::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ipoib::fwd::test::Harness::instance().run(ipoib::test::Input{ipoib::test::input(data, size)});
  return 0;
}
