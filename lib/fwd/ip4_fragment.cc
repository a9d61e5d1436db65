#include "lib/fwd/ip4_fragment.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "lib/fwd/ip4_header.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {
namespace {

using wire::Ipv4Hdr;

constexpr std::size_t kMaxHeaderLen = 60;
constexpr std::byte kEndOfOptions{0};
constexpr std::byte kNoOperation{1};
constexpr std::byte kCopiedFlag{0x80};

/// A header in the making: fixed part and options.
struct Header {
  alignas(4) std::array<std::byte, kMaxHeaderLen> bytes{};
  std::size_t len = sizeof(Ipv4Hdr);

  Ipv4Hdr& fixed() noexcept { return *reinterpret_cast<Ipv4Hdr*>(bytes.data()); }
};

Header whole_header(const rte_mbuf* m) noexcept {
  const auto* const data = rte_pktmbuf_mtod(m, const std::byte*);
  Header h;
  h.len = rte_pktmbuf_mtod(m, const Ipv4Hdr*)->header_len();
  std::memcpy(h.bytes.data(), data, h.len);
  return h;
}

/// Header of all fragments but the first: options with the copied flag, padded to 4 octets. An
/// option whose length makes no sense ends the list.
Header later_header(const Header& first) noexcept {
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

/// Copies `len` octets of `m` from `at` on, over any number of segments.
void copy_payload(const rte_mbuf* m, std::size_t at, std::size_t len, std::byte* to) noexcept {
  const void* const from =
      rte_pktmbuf_read(m, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(len), to);
  if (from != to) std::memcpy(to, from, len);
}

}  // namespace

bool ip4_fragment(rte_mbuf* m, std::uint16_t mtu, rte_mempool* pool, Burst& out) noexcept {
  mtu = std::min(
      mtu, static_cast<std::uint16_t>(rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM));
  Header first = whole_header(m);
  Header later = later_header(first);
  if (mtu < first.len + 8) return false;

  const std::size_t payload_len = m->pkt_len - first.len;
  // Offset and "more fragments" of a packet that is itself a fragment carry over.
  const std::uint16_t flags_offset = first.fixed().flags_offset.host();
  const std::size_t offset = flags_offset & Ipv4Hdr::kOffsetMask;
  if (offset + payload_len / 8 > Ipv4Hdr::kOffsetMask) return false;

  const std::size_t first_room = (mtu - first.len) & ~std::size_t{7};
  const std::size_t later_room = (mtu - later.len) & ~std::size_t{7};
  const std::size_t later_len = payload_len - std::min(first_room, payload_len);
  const std::size_t n = 1 + (later_len + later_room - 1) / later_room;
  if (n > kMaxBurst || rte_pktmbuf_alloc_bulk(pool, out.pkts.data(), static_cast<unsigned>(n)) != 0)
    return false;

  std::size_t at = 0;
  for (out.n = 0; out.n < n; ++out.n) {
    Header& header = out.n == 0 ? first : later;
    const std::size_t len = std::min(payload_len - at, out.n == 0 ? first_room : later_room);
    Ipv4Hdr& hdr = header.fixed();
    const bool more = at + len < payload_len;
    hdr.flags_offset.set(
        static_cast<std::uint16_t>((flags_offset + at / 8) | (more ? Ipv4Hdr::kMoreFragments : 0)));
    hdr.total_len.set(static_cast<std::uint16_t>(header.len + len));
    set_ip4_checksum(hdr, header.len);

    rte_mbuf* const fragment = out.pkts[out.n];
    auto* const data = rte_pktmbuf_mtod(fragment, std::byte*);
    std::memcpy(data, header.bytes.data(), header.len);
    copy_payload(m, first.len + at, len, data + header.len);
    fragment->data_len = static_cast<std::uint16_t>(header.len + len);
    fragment->pkt_len = fragment->data_len;
    at += len;
  }
  return true;
}

}  // namespace ipoib::fwd
