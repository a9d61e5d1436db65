// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/generate.h"

#include <bit>
#include <cstring>

#include "lib/base/contract.h"
#include "lib/fwd/ip_route.h"
#include "lib/fwd/time_stamp.h"

namespace ipoib::fwd {
namespace {

static_assert(std::endian::native == std::endian::little);

/// Returns the checksum for a sum of words in memory order. Source: RFC 1071.
std::uint16_t checksum_of(std::uint32_t sum) noexcept {
  return static_cast<std::uint16_t>(~wire::fold_carries(sum));
}

std::uint32_t sum_of(const TimeStamp& stamp) noexcept {
  std::array<std::uint16_t, sizeof(stamp) / 2> words;
  std::memcpy(words.data(), &stamp, sizeof(stamp));
  std::uint32_t sum = 0;
  for (const std::uint16_t word : words) sum += word;
  return sum;
}

void put(std::byte* at, std::uint16_t word) noexcept {
  std::memcpy(at, &word, sizeof(word));
}

struct V4 {
  using Hdr = wire::Ipv4Hdr;
  using Routed = Ip4Burst;

  static void set_lengths(std::byte* data, const FlowTemplate& flow, std::uint16_t size,
                          std::uint16_t id) noexcept {
    const std::uint16_t len = __builtin_bswap16(size), be_id = __builtin_bswap16(id);
    put(data + offsetof(Hdr, total_len), len);
    put(data + offsetof(Hdr, id), be_id);
    put(data + offsetof(Hdr, checksum), checksum_of(flow.ip_sum + len + be_id));
  }
  static void push(Routed& out, rte_mbuf* m, const FlowTemplate& flow) noexcept {
    out.push(m, flow.dst4);
  }
  static void send(Context& c, const Ingress& in, Routed& pkts) noexcept {
    ip4_route(c, in, pkts, Ttl::kKeep);
  }
};

struct V6 {
  using Hdr = wire::Ipv6Hdr;
  using Routed = Ip6Burst;

  static void set_lengths(std::byte* data, const FlowTemplate&, std::uint16_t size,
                          std::uint16_t) noexcept {
    put(data + offsetof(Hdr, payload_len),
        __builtin_bswap16(static_cast<std::uint16_t>(size - sizeof(Hdr))));
  }
  static void push(Routed& out, rte_mbuf* m, const FlowTemplate& flow) noexcept {
    wire::IpAddr dst;
    std::memcpy(&dst, &flow.header[offsetof(Hdr, dst)], sizeof(dst));
    out.push(m, dst);
  }
  static void send(Context& c, const Ingress& in, Routed& pkts) noexcept {
    ip6_route(c, in, pkts, Ttl::kKeep);
  }
};

/// Writes the whole packet; octets after the time stamp are zero, which the checksum assumes.
template <class V>
void make(rte_mbuf* m, const FlowTemplate& flow, std::uint16_t size, std::uint16_t id,
          const TimeStamp& stamp) noexcept {
  constexpr std::size_t kHeader = sizeof(typename V::Hdr) + sizeof(wire::UdpHdr);
  m->data_len = size;
  m->pkt_len = size;
  auto* const data = rte_pktmbuf_mtod(m, std::byte*);
  std::memcpy(data, flow.header.data(), kHeader);
  V::set_lengths(data, flow, size, id);
  std::memcpy(data + kHeader, &stamp, sizeof(stamp));
  std::memset(data + kHeader + sizeof(stamp), 0, size - kHeader - sizeof(stamp));

  std::byte* const udp = data + sizeof(typename V::Hdr);
  const std::uint16_t len =
      __builtin_bswap16(static_cast<std::uint16_t>(size - sizeof(typename V::Hdr)));
  put(udp + offsetof(wire::UdpHdr, len), len);
  const std::uint16_t sum = checksum_of(flow.udp_sum + 2U * len + sum_of(stamp));
  put(udp + offsetof(wire::UdpHdr, checksum),
      sum != 0 ? sum : 0xffff);  // 0 means no checksum
}

}  // namespace

template <class V>
void GeneratorState::fill_and_send(Context& c, const Generator& g, std::uint64_t tsc,
                                   const Burst& made) noexcept {
  typename V::Routed out;
  TimeStamp stamp{};
  if (g.stamped()) {
    stamp.stream.set(g.run_id() | worker_);
    stamp.tsc.set(tsc);
  }
  for (rte_mbuf* m : made.span()) {
    if (flow_ >= g.flows().size()) flow_ = 0;
    if (size_ >= g.sizes().size()) size_ = 0;
    const FlowTemplate& flow = g.flows()[flow_++];
    if (g.stamped()) stamp.sequence.set(sequence_++);
    make<V>(m, flow, g.sizes()[size_++], ip_id_++, stamp);
    V::push(out, m, flow);
  }
  c.trace.begin(made.span(), table::kNoInterface, Tracer::StartsAt::kIp);
  c.trace.entered(made.span(), msg::trace::Stage::kGenerate);
  V::send(c, c.ingress(table::kNoInterface), out);
}

std::uint32_t GeneratorState::paced(Context& c, const Generator& g, std::uint64_t tsc,
                                    std::uint16_t burst) noexcept {
  if (g.waiting()) return 0;
  if (!g.pace().limited()) return send(c, g, tsc, burst);
  pacer_.refill(g.pace(), tsc);
  std::uint16_t n = 0;
  std::size_t size = size_;
  for (; n < burst; ++n, ++size) {
    if (size >= g.sizes().size()) size = 0;
    if (!pacer_.take(g.pace(), g.sizes()[size])) break;
  }
  return n != 0 ? send(c, g, tsc, n) : 0;
}

std::uint32_t GeneratorState::send(Context& c, const Generator& g, std::uint64_t tsc,
                                   std::uint16_t n) noexcept {
  expects(n <= kMaxBurst, "the packets are a burst");
  Burst made;
  if (rte_pktmbuf_alloc_bulk(c.fragment_pool, made.pkts.data(), n) != 0) [[unlikely]] {
    c.stats.no_mbuf.add(n);
    return 0;
  }
  made.n = n;
  c.stats.generated.add(n);
  if (g.stamped()) c.stats.stamped.add(n);
  if (g.is_v4())
    fill_and_send<V4>(c, g, tsc, made);
  else
    fill_and_send<V6>(c, g, tsc, made);
  return n;
}

}  // namespace ipoib::fwd
