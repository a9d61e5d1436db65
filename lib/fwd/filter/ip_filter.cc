// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/filter/ip_filter.h"

#include <algorithm>
#include <array>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/fwd/filter/upper_header.h"

namespace ipoib::fwd {
namespace {

struct V4 {
  using Key = FilterKey4;
  using Hdr = wire::Ipv4Hdr;
  static constexpr FilterTable::Scope kRules = FilterTable::kRules4, kPorts = FilterTable::kPorts4,
                                      kProtocol = FilterTable::kProtocol4;
  static UpperHeader upper_header(const rte_mbuf* m) noexcept { return upper_header4(m); }
};

struct V6 {
  using Key = FilterKey6;
  using Hdr = wire::Ipv6Hdr;
  static constexpr FilterTable::Scope kRules = FilterTable::kRules6, kPorts = FilterTable::kPorts6,
                                      kProtocol = FilterTable::kProtocol6;
  static UpperHeader upper_header(const rte_mbuf* m) noexcept { return upper_header6(m); }
};

/// True if the packet does not show what rules of the scope compare.
template <class V>
bool hides(const UpperHeader& upper, FilterTable::Scope scope) noexcept {
  return (upper.hides_ports && (scope & V::kPorts) != 0) ||
         (upper.hides_protocol && (scope & V::kProtocol) != 0);
}

template <class V>
typename V::Key key_of(const rte_mbuf* m, const UpperHeader& upper, table::InterfaceId iface,
                       FilterDirection direction) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod(m, const typename V::Hdr*);
  return {{upper.protocol, {}, wire::Be16{iface}, direction, upper.has_ports},
          hdr.src,
          hdr.dst,
          upper.ports};
}

/// Removes the packets whose bit is 0; `at`: moves packet i to place k.
template <class Packets, class Move>
void keep(Context& c, const Ingress& in, Packets& pkts, std::uint64_t accepted,
          const Move& move) noexcept {
  DropBin bin{c.trace, in.counters.drops};
  std::uint16_t kept = 0;
  for (std::uint16_t i = 0; i < pkts.n; ++i)
    if ((accepted >> i & 1) != 0)
      move(kept++, i);
    else
      bin.add(pkts.pkts[i], Drop::kIpFilter);
  pkts.n = kept;
}

template <bool kV4, class Packets>
void filter(Context& c, const Ingress& in, Packets& ip, Burst& groups) noexcept {
  std::array<table::InterfaceId, kMaxBurst> interfaces;
  std::fill_n(interfaces.begin(), std::max(ip.n, groups.n), in.iface);
  if (ip.n != 0)
    keep(c, in, ip, c.filter.accepted<kV4>(ip.span(), interfaces.data(), FilterDirection::kIn),
         [&ip](std::uint16_t k, std::uint16_t i) {
           ip.pkts[k] = ip.pkts[i];
           ip.dst[k] = ip.dst[i];
         });
  if (groups.n != 0)
    keep(c, in, groups,
         c.filter.accepted<kV4>(groups.span(), interfaces.data(), FilterDirection::kIn),
         [&groups](std::uint16_t k, std::uint16_t i) { groups.pkts[k] = groups.pkts[i]; });
}

}  // namespace

template <bool kV4>
[[gnu::noinline]] std::uint64_t IpFilter::accepted(std::span<rte_mbuf* const> pkts,
                                                   const table::InterfaceId* interfaces,
                                                   FilterDirection direction) noexcept {
  using V = std::conditional_t<kV4, V4, V6>;
  expects(pkts.size() <= kMaxBurst, "a bit for each packet");
  std::array<typename V::Key, kMaxBurst> keys;
  std::array<const std::uint8_t*, kMaxBurst> data;
  std::array<std::uint8_t, kMaxBurst> place;
  std::array<std::uint32_t, kMaxBurst> results;
  std::uint64_t accepted = ~std::uint64_t{0};
  std::size_t n = 0;
  for (std::size_t i = 0; i < pkts.size(); ++i) {
    const FilterTable::Scope scope = this->scope(interfaces[i], direction);
    if ((scope & V::kRules) == 0) continue;
    const UpperHeader upper = V::upper_header(pkts[i]);
    if (hides<V>(upper, scope)) [[unlikely]] {
      accepted &= ~(std::uint64_t{1} << i);
      continue;
    }
    keys[n] = key_of<V>(pkts[i], upper, interfaces[i], direction);
    data[n] = reinterpret_cast<const std::uint8_t*>(&keys[n]);
    place[n++] = static_cast<std::uint8_t>(i);
  }
  if (n == 0) return accepted;
  const std::span<const std::uint8_t*> found{data.data(), n};
  if constexpr (kV4)
    table_->classify4(found, results.data());
  else
    table_->classify6(found, results.data());
  for (std::size_t i = 0; i < n; ++i) {
    if (results[i] == 0) continue;
    const std::size_t rule = results[i] - 1;
    table_->count(worker_, rule);
    if (table_->drops(rule)) accepted &= ~(std::uint64_t{1} << place[i]);
  }
  return accepted;
}

template std::uint64_t IpFilter::accepted<true>(std::span<rte_mbuf* const>,
                                                const table::InterfaceId*,
                                                FilterDirection) noexcept;
template std::uint64_t IpFilter::accepted<false>(std::span<rte_mbuf* const>,
                                                 const table::InterfaceId*,
                                                 FilterDirection) noexcept;

void ip_filter4(Context& c, const Ingress& in, Ip4Burst& ip, Burst& groups) noexcept {
  filter<true>(c, in, ip, groups);
}

void ip_filter6(Context& c, const Ingress& in, Ip6Burst& ip, Burst& groups) noexcept {
  filter<false>(c, in, ip, groups);
}

}  // namespace ipoib::fwd
