// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip4_fragment.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "lib/base/contract.h"
#include "lib/fwd/ip4_header.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {
namespace {

using wire::Ipv4Hdr;

constexpr std::byte kEndOfOptions{0};
constexpr std::byte kNoOperation{1};
constexpr std::byte kCopiedFlag{0x80};

/// Copies `len` octets of `m` from `at` on, across any number of segments.
void copy_payload(const rte_mbuf* m, std::size_t at, std::size_t len, std::byte* to) noexcept {
  const void* const from =
      rte_pktmbuf_read(m, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(len), to);
  if (from != to) std::memcpy(to, from, len);
}

}  // namespace

Ip4Fragmenter::Header Ip4Fragmenter::whole_header(const rte_mbuf* m) noexcept {
  const auto* const data = rte_pktmbuf_mtod(m, const std::byte*);
  Header h;
  h.len = rte_pktmbuf_mtod(m, const Ipv4Hdr*)->header_len();
  std::memcpy(h.bytes.data(), data, h.len);
  return h;
}

/// Returns the header of all fragments except the first: options with the copied flag, padded to 4
/// octets. An option with an invalid length ends the list.
Ip4Fragmenter::Header Ip4Fragmenter::later_header(const Header& first) noexcept {
  Header h;
  std::memcpy(h.bytes.data(), first.bytes.data(), sizeof(Ipv4Hdr));
  std::span<const std::byte> options{first.bytes.data() + sizeof(Ipv4Hdr),
                                     first.len - sizeof(Ipv4Hdr)};
  while (!options.empty() && options[0] != kEndOfOptions) {
    if (options[0] == kNoOperation) {
      options = options.subspan(1);
      continue;
    }
    const std::size_t len = options.size() < 2 ? 0 : std::to_integer<std::size_t>(options[1]);
    if (len < 2 || len > options.size()) break;
    if ((options[0] & kCopiedFlag) != std::byte{0}) {
      std::memcpy(h.bytes.data() + h.len, options.data(), len);
      h.len += len;
    }
    options = options.subspan(len);
  }
  h.len = (h.len + 3) & ~std::size_t{3};
  h.fixed().version_ihl = static_cast<std::uint8_t>(0x40 | h.len / 4);
  return h;
}

Ip4Fragmenter::Ip4Fragmenter(const rte_mbuf* m, std::uint16_t mtu, rte_mempool* pool) noexcept
    : m_{m},
      pool_{pool},
      first_{whole_header(m)},
      later_{later_header(first_)},
      payload_len_{m->pkt_len - first_.len},
      flags_offset_{first_.fixed().flags_offset.host()} {
  const std::size_t room =
      std::min<std::size_t>(mtu, rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM);
  // Offset and "more fragments" of a packet that is itself a fragment carry over.
  const std::size_t offset = flags_offset_ & Ipv4Hdr::kOffsetMask;
  if (room < first_.len + 8 || offset + payload_len_ / 8 > Ipv4Hdr::kOffsetMask) return;
  first_room_ = (room - first_.len) & ~std::size_t{7};
  later_room_ = (room - later_.len) & ~std::size_t{7};
}

bool Ip4Fragmenter::next(Burst& out) noexcept {
  expects(!done() && out.n == 0, "there is more to cut, into an empty burst");
  if (first_room_ == 0) return false;
  const std::size_t left = payload_len_ - at_;
  const std::size_t in_first = at_ == 0 ? std::min(first_room_, left) : 0;
  const std::size_t later = (left - in_first + later_room_ - 1) / later_room_;
  const std::size_t n = std::min<std::size_t>((at_ == 0 ? 1 : 0) + later, kMaxBurst);
  if (rte_pktmbuf_alloc_bulk(pool_, out.pkts.data(), static_cast<unsigned>(n)) != 0) return false;
  for (; out.n < n; ++out.n) fill(out.pkts[out.n]);
  return true;
}

void Ip4Fragmenter::fill(rte_mbuf* fragment) noexcept {
  Header& header = at_ == 0 ? first_ : later_;
  const std::size_t len = std::min(payload_len_ - at_, at_ == 0 ? first_room_ : later_room_);
  Ipv4Hdr& hdr = header.fixed();
  const bool more = at_ + len < payload_len_;
  hdr.flags_offset.set(
      static_cast<std::uint16_t>((flags_offset_ + at_ / 8) | (more ? Ipv4Hdr::kMoreFragments : 0)));
  hdr.total_len.set(static_cast<std::uint16_t>(header.len + len));
  set_ip4_checksum(hdr, header.len);

  auto* const data = rte_pktmbuf_mtod(fragment, std::byte*);
  std::memcpy(data, header.bytes.data(), header.len);
  copy_payload(m_, first_.len + at_, len, data + header.len);
  fragment->data_len = static_cast<std::uint16_t>(header.len + len);
  fragment->pkt_len = fragment->data_len;
  at_ += len;
}

}  // namespace ipoib::fwd
