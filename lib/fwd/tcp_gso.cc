// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/tcp_gso.h"

#include <algorithm>
#include <cstring>

#include "lib/base/contract.h"

namespace ipoib::fwd {
namespace {

using wire::TcpHdr;

constexpr std::uint16_t kUnsegmentable = TcpHdr::kSyn | TcpHdr::kRst | TcpHdr::kUrg;
constexpr std::uint16_t kLastOnly = TcpHdr::kFin | TcpHdr::kPsh;
constexpr std::uint16_t kFirstOnly = TcpHdr::kCwr;

/// Returns the value that, added to right checksums, makes them as wrong as the packet's.
std::uint16_t checksum_error(const TcpPacket& packet) noexcept {
  OnesSum sum = packet.header_sum();
  sum.add(packet.m, packet.header_len, packet.payload_len());
  const std::uint16_t all = sum.folded();
  return all == 0xffff ? std::uint16_t{0} : all;
}

}  // namespace

TcpGso::TcpGso(rte_mbuf* m, std::uint16_t mtu, rte_mempool* pool) noexcept
    : packet_{m}, pool_{pool}, from_{m}, from_at_{packet_.header_len} {
  if (packet_.kind != TcpKind::kTcp || (packet_.tcp().flags() & kUnsegmentable) != 0) return;
  const std::uint32_t max =
      std::min<std::uint32_t>(mtu, rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM);
  if (max <= packet_.header_len) return;
  room_ = max - packet_.header_len;
  error_ = checksum_error(packet_);
}

rte_mbuf* TcpGso::next() noexcept {
  expects(!done(), "there is more to cut");
  rte_mbuf* const m = rte_pktmbuf_alloc(pool_);
  if (m == nullptr) return nullptr;
  const std::uint32_t len = std::min(room_, packet_.payload_len() - at_);
  auto* const data = rte_pktmbuf_mtod(m, std::byte*);
  std::memcpy(data, rte_pktmbuf_mtod(packet_.m, const std::byte*), packet_.header_len);
  copy_payload(data + packet_.header_len, len);
  m->data_len = static_cast<std::uint16_t>(packet_.header_len + len);
  m->pkt_len = m->data_len;

  OnesSum payload;
  payload.add({data + packet_.header_len, len});
  TcpPacket segment = packet_;
  segment.m = m;
  finish(segment, payload.folded());
  at_ += len;
  ++n_;
  return m;
}

void TcpGso::copy_payload(std::byte* to, std::uint32_t len) noexcept {
  while (len != 0) {
    if (from_at_ >= from_->data_len) {
      from_at_ -= from_->data_len;
      from_ = from_->next;
      continue;
    }
    const std::uint32_t n = std::min<std::uint32_t>(len, from_->data_len - from_at_);
    std::memcpy(to, rte_pktmbuf_mtod_offset(from_, const std::byte*, from_at_), n);
    to += n;
    len -= n;
    from_at_ += n;
  }
}

/// Turns headers copied from the packet into those of the segment.
void TcpGso::finish(const TcpPacket& segment, std::uint16_t payload_sum) const noexcept {
  TcpHdr& tcp = segment.tcp();
  const std::uint32_t len = segment.payload_len();
  const bool last = at_ + len == packet_.payload_len();
  tcp.seq.set(tcp.seq.host() + at_);
  tcp.set_flags(static_cast<std::uint16_t>(tcp.flags() & ~(n_ != 0 ? kFirstOnly : 0) &
                                           ~(last ? 0 : kLastOnly)));
  if (!segment.v6) segment.ip4().id.set(ip4_id_after(packet_.ip4(), n_));
  segment.set_ip_len();

  tcp.checksum = {};
  OnesSum sum = segment.header_sum();
  sum.add(payload_sum, len);
  OnesSum wrong;
  wrong.add_word(sum.checksum());
  wrong.add(error_, sizeof(error_));
  tcp.checksum.set(error_ == 0 ? sum.checksum() : __builtin_bswap16(wrong.folded()));
}

}  // namespace ipoib::fwd
