// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/tcp_gro.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>

#include "lib/base/contract.h"
#include "lib/fwd/link_output.h"
#include "lib/fwd/tcp_packet.h"

namespace ipoib::fwd {
namespace {

using table::Neighbour;
using wire::TcpHdr;

/// Limits of the neighbour's connection.
struct Room {
  std::uint16_t mtu = 0;       ///< Octets of the largest packet; 0: no connection.
  std::uint16_t segments = 0;  ///< Mbufs of the longest chain.

  [[nodiscard]] static Room of(const Context& c, const Neighbour& to) noexcept {
    if (to.queue == nullptr) return {};
    const InterfaceEntry& entry = c.interfaces[to.iface];
    return {mtu_of(to, entry), entry.max_segments.load(std::memory_order_relaxed)};
  }
};

template <std::size_t kLen>
bool same(const void* a, const void* b) noexcept {
  return std::memcmp(a, b, kLen) == 0;
}

bool same_flow(const TcpPacket& a, const TcpPacket& b) noexcept {
  constexpr std::size_t kPorts = offsetof(TcpHdr, seq);
  if (a.v6 != b.v6 || !same<kPorts>(&a.tcp(), &b.tcp())) return false;
  return a.v6 ? same<2 * sizeof(wire::IpAddr)>(&a.ip6().src, &b.ip6().src)
              : same<2 * sizeof(wire::Be32)>(&a.ip4().src, &b.ip4().src);
}

/// Compares packets of one flow: all header fields that must be equal, and the flags except PSH.
bool alike(const TcpPacket& a, const TcpPacket& b) noexcept {
  if (a.header_len != b.header_len) return false;
  if (a.v6) {
    if (a.ip6().version_class_flow != b.ip6().version_class_flow ||
        a.ip6().hop_limit != b.ip6().hop_limit)
      return false;
  } else if (a.ip4().tos != b.ip4().tos || a.ip4().ttl != b.ip4().ttl ||
             a.ip4().flags_offset != b.ip4().flags_offset) {
    return false;
  }
  const TcpHdr &s = a.tcp(), &t = b.tcp();
  return s.ack == t.ack && s.window == t.window && s.urgent == t.urgent &&
         ((s.flags() ^ t.flags()) & ~TcpHdr::kPsh) == 0 &&
         std::memcmp(&s + 1, &t + 1,
                     static_cast<std::size_t>(a.header_len - a.ip_len) - sizeof(TcpHdr)) == 0;
}

/// Payload sum according to the segment's checksum, whether or not that is right.
std::uint16_t claimed_payload_sum(const TcpPacket& p) noexcept {
  return static_cast<std::uint16_t>(~p.header_sum().folded());
}

bool checksum_is_valid(const TcpPacket& p) noexcept {
  if ((p.m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD) return true;
  OnesSum sum = p.header_sum();
  sum.add(p.m, p.header_len, p.payload_len());
  return sum.folded() == 0xffff;
}

/// A packet under construction.
class Flow {
 public:
  Flow() noexcept = default;
  Flow(const TcpPacket& head, const Neighbour* to, const Room& room) noexcept
      : head_{head}, to_{to}, room_{room} {}

  [[nodiscard]] bool holds(const TcpPacket& p, const Neighbour* to) const noexcept {
    return to == to_ && same_flow(head_, p);
  }
  /// Returns true if the segment is part of the packet now. No mbuf of a chain may be empty.
  bool append(const TcpPacket& p) noexcept {
    const std::uint32_t len = p.payload_len();
    if (p.m->data_len == p.header_len || len > segment_len() ||
        head_.m->pkt_len + len > room_.mtu ||
        std::uint32_t{head_.m->nb_segs} + p.m->nb_segs > room_.segments || !alike(head_, p) ||
        p.tcp().seq.host() != head_.tcp().seq.host() + head_.payload_len())
      return false;
    if (!head_.v6 && p.ip4().id.host() != ip4_id_after(head_.ip4(), n_)) return false;
    if (n_ == 1 && !begin()) return false;
    if (!checksum_is_valid(p)) return false;
    payload_.add(claimed_payload_sum(p), len);
    ended_ = len != segment_len() || (p.tcp().flags() & TcpHdr::kPsh) != 0;
    pushed_ = (p.tcp().flags() & TcpHdr::kPsh) != 0;
    chain(p);
    ++n_;
    return true;
  }
  [[nodiscard]] bool ended() const noexcept { return ended_; }

  /// Writes the headers of the merged packet. Returns its number of segments, or 0 for a single
  /// one.
  std::uint16_t finish() noexcept {
    if (n_ < 2) return 0;
    TcpHdr& tcp = head_.tcp();
    if (pushed_) tcp.set_flags(tcp.flags() | TcpHdr::kPsh);
    head_.set_ip_len();
    tcp.checksum = {};
    OnesSum sum = head_.header_sum();
    sum.add(payload_.folded(), 0);
    tcp.checksum.set(sum.checksum());
    return n_;
  }

 private:
  /// Checks the first segment, once there is a second.
  bool begin() noexcept {
    last_ = rte_pktmbuf_lastseg(head_.m);
    segment_len_ = head_.payload_len();
    if (!checksum_is_valid(head_)) return false;
    payload_.add(claimed_payload_sum(head_), segment_len_);
    return true;
  }
  [[nodiscard]] std::uint32_t segment_len() const noexcept {
    return n_ == 1 ? head_.payload_len() : segment_len_;
  }
  void chain(const TcpPacket& p) noexcept {
    rte_mbuf* const m = p.m;
    rte_mbuf* const end = rte_pktmbuf_lastseg(m);
    head_.m->pkt_len += p.payload_len();
    head_.m->nb_segs = static_cast<std::uint16_t>(head_.m->nb_segs + m->nb_segs);
    strip(m, p.header_len);
    last_->next = m;
    last_ = end;
  }

  TcpPacket head_;
  const Neighbour* to_ = nullptr;
  rte_mbuf* last_ = nullptr;       ///< Last mbuf of the chain.
  OnesSum payload_;                ///< Sum of the whole payload.
  std::uint32_t segment_len_ = 0;  ///< Octets of payload of each segment except the last.
  Room room_;
  std::uint16_t n_ = 1;
  bool ended_ = false;
  bool pushed_ = false;
};

/// The latest packets under construction; only a few connections send at once in one burst.
class Flows {
 public:
  explicit Flows(WorkerStats& stats) noexcept : stats_{stats} {}
  Flows(const Flows&) = delete;
  Flows& operator=(const Flows&) = delete;
  ~Flows() { close_all(); }

  Flow* find(const TcpPacket& p, const Neighbour* to) noexcept {
    const auto end = flows_.begin() + n_;
    const auto it = std::find_if(flows_.begin(), end, [&](Flow& f) { return f.holds(p, to); });
    return it == end ? nullptr : &*it;
  }
  void open(const TcpPacket& head, const Neighbour* to, const Room& room) noexcept {
    if (n_ == kMaxFlows) close(flows_[next_out_++ % kMaxFlows]);
    flows_[n_++] = Flow{head, to, room};
  }
  void close(Flow& flow) noexcept {
    count(flow.finish());
    flow = flows_[--n_];
  }
  void close_all() noexcept {
    while (n_ != 0) close(flows_[n_ - 1U]);
  }

 private:
  static constexpr std::uint8_t kMaxFlows = 8;

  void count(std::uint16_t segments) noexcept {
    if (segments == 0) return;
    stats_.gro_segments.add(segments);
    stats_.joined.add(segments - 1U);
  }

  WorkerStats& stats_;
  std::array<Flow, kMaxFlows> flows_;
  std::uint8_t n_ = 0;
  std::uint8_t next_out_ = 0;
};

/// True if further segments may be merged into the packet.
bool may_lead(const TcpPacket& p, std::uint16_t port_mtu) noexcept {
  const std::uint16_t flags = p.tcp().flags();
  return p.m->pkt_len == port_mtu && p.payload_len() != 0 && p.m->data_len > p.header_len &&
         (flags == TcpHdr::kAck || flags == (TcpHdr::kAck | TcpHdr::kEce));
}

void merge(Context& c, const Ingress& in, RoutedBurst& pkts) noexcept {
  const std::uint16_t port_mtu = c.interfaces[in.iface].mtu.load(std::memory_order_relaxed);
  Flows flows{c.stats};
  std::uint16_t kept = 0;
  const auto keep = [&](std::size_t i) {
    pkts.pkts[kept] = pkts.pkts[i];
    pkts.to[kept++] = pkts.to[i];
  };
  for (std::size_t i = 0; i < pkts.n; ++i) {
    const Neighbour* const to = pkts.to[i];
    const Room room = Room::of(c, *to);
    if (room.mtu <= port_mtu) {
      keep(i);
      continue;
    }
    const TcpPacket p{pkts.pkts[i]};
    if (p.kind != TcpKind::kTcp) {
      // It may belong to any connection, and later packets of that must not overtake it.
      if (p.kind == TcpKind::kSkip) flows.close_all();
      keep(i);
      continue;
    }
    Flow* const flow = flows.find(p, to);
    if (flow != nullptr && flow->append(p)) {
      if (flow->ended()) flows.close(*flow);
      continue;
    }
    if (flow != nullptr) flows.close(*flow);
    keep(i);
    if (may_lead(p, port_mtu)) flows.open(p, to, room);
  }
  pkts.n = kept;
}

}  // namespace

void tcp_gro(Context& c, const Ingress& in, RoutedBurst& pkts) noexcept {
  expects(gro_enabled(c, in), "packets that came by there are merged");
  if (!c.trace.active()) [[likely]]
    return merge(c, in, pkts);
  const RoutedBurst before = pkts;
  merge(c, in, pkts);
  c.trace.merged(before, pkts);
}

}  // namespace ipoib::fwd
