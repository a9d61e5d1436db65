// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/spread.h"

#include <rte_cycles.h>
#include <rte_ether.h>
#include <rte_ring.h>

#include <algorithm>
#include <bit>
#include <cstddef>

#include "lib/base/hash_seed.h"
#include "lib/fabric/segments.h"
#include "lib/fwd/flow_hash.h"
#include "lib/fwd/handoff.h"
#include "lib/wire/ipoib.h"

namespace ipoib::fwd {

using wire::EtherType;
using wire::Ipv4Hdr;
using wire::Ipv6Hdr;

Spread::Spread(const WorkerConfig& config)
    : number_{config.number},
      seed_{secret_seed()},
      targets_(config.number + 1),
      longest_pause_{rte_get_tsc_hz() / kPauses},
      rcu_{config.rcu} {
  targets_.resize(std::max(targets_.size(), config.handoff_out.size()));
  for (std::size_t i = 0; i < config.handoff_out.size(); ++i) {
    targets_[i].ring = config.handoff_out[i];
    if (i < kMaxWorkers && (i == number_ || targets_[i].ring != nullptr))
      reachable_ |= std::uint64_t{1} << i;
  }
  for (const rte_ring* const ring : config.handoffs) rings_.emplace_back(*ring);
}

/// The packets of earlier loops have left for the devices and rings.
bool Spread::change(std::uint64_t wanted, std::uint64_t tsc) noexcept {
  if (round_ == 0) {
    deadline_ = tsc + longest_pause_;
    begin_round();
  }
  while (tsc < deadline_) {
    if (!round_is_over()) return false;
    if (round_ == kRounds) break;
    begin_round();
  }
  use(wanted);
  return true;
}

void Spread::begin_round() noexcept {
  ++round_;
  passed_ = 0;
  for (fabric::RingMark& ring : rings_) ring.set();
}

/// True if all packets that were in rings when the round began have been taken, and every worker has
/// ended the loop in which it took them.
bool Spread::round_is_over() noexcept {
  if (passed_ <= rings_.size()) {
    while (passed_ < rings_.size() && rings_[passed_].has_passed()) ++passed_;
    if (passed_ < rings_.size()) return false;
    ++passed_;
    loops_ = rte_rcu_qsbr_start(rcu_);
  }
  return rte_rcu_qsbr_check(rcu_, loops_, false) == 1;
}

void Spread::use(std::uint64_t workers) noexcept {
  round_ = 0;
  workers_ = workers;
  n_chosen_ = 0;
  for (; workers != 0; workers &= workers - 1)
    chosen_[n_chosen_++] = static_cast<std::uint8_t>(std::countr_zero(workers));
}

Spread::LinkHeader Spread::link_header_of(const InterfaceEntry& entry) noexcept {
  if (entry.kind == InterfaceKind::kEthernet) return {RTE_ETHER_HDR_LEN, 2 * RTE_ETHER_ADDR_LEN};
  if (entry.encapsulation == wire::Encapsulation::kTypeFirst)
    return {sizeof(wire::IpoibHdr), offsetof(wire::IpoibHdr, type)};
  return {sizeof(wire::IbarpHdr), offsetof(wire::IbarpHdr, type)};
}

/// The headers are not checked yet.
Spread::Target& Spread::target_of(const rte_mbuf* m, const LinkHeader& header) noexcept {
  if (m->data_len < header.len + sizeof(Ipv4Hdr) || fabric::is_shared(m)) return targets_[number_];
  const auto type = rte_pktmbuf_mtod_offset(m, const wire::Be16*, header.type_at)->host();
  const auto version = *rte_pktmbuf_mtod_offset(m, const std::uint8_t*, header.len) >> 4;
  std::uint32_t hash;
  if (EtherType{type} == EtherType::kIpv4 && version == 4) {
    const auto protocol = rte_pktmbuf_mtod_offset(m, const Ipv4Hdr*, header.len)->protocol;
    if (wire::IpProto{protocol} == wire::IpProto::kIgmp) return targets_[number_];
    hash = flow_hash4(m, seed_, header.len);
  } else if (EtherType{type} == EtherType::kIpv6 && version == 6 &&
             m->data_len >= header.len + sizeof(Ipv6Hdr)) {
    const auto next = rte_pktmbuf_mtod_offset(m, const Ipv6Hdr*, header.len)->next_header;
    if (wire::IpProto{next} == wire::IpProto::kIcmpv6 || next == wire::kHopByHop)
      return targets_[number_];
    hash = flow_hash6(m, seed_, header.len);
  } else {
    return targets_[number_];
  }
  return targets_[chosen_[std::uint64_t{hash} * n_chosen_ >> 32]];
}

void Spread::hand_on(Context& c, const Ingress& in, Burst& rx) noexcept {
  const LinkHeader header = link_header_of(c.interfaces[in.iface]);
  std::uint16_t kept = 0;
  for (rte_mbuf* m : rx.span()) {
    Target& target = target_of(m, header);
    if (target.ring == nullptr) {
      rx.pkts[kept++] = m;
      continue;
    }
    target.burst.push(m);
  }
  rx.n = kept;
  for (std::uint32_t i = 0; i < n_chosen_; ++i)
    if (Target& target = targets_[chosen_[i]]; target.burst.n != 0)
      flush(c, in, target, chosen_[i]);
}

void Spread::flush(Context& c, const Ingress& in, Target& target, unsigned worker) noexcept {
  const std::span<rte_mbuf* const> pkts = target.burst.span();
  std::array<HandoffItem, kMaxBurst> items;
  for (std::size_t i = 0; i < pkts.size(); ++i) items[i] = HandoffItem::received(pkts[i], in.iface);
  c.trace.leaving(pkts, false);
  const auto n = static_cast<std::uint16_t>(rte_ring_sp_enqueue_burst(
      target.ring, reinterpret_cast<void* const*>(items.data()), target.burst.n, nullptr));
  c.trace.left({.iface = table::kNoInterface,
                .mode = table::NeighbourMode::kEthernet,
                .handoff = true,
                .worker = static_cast<std::uint8_t>(worker),
                .taken = n,
                .lost = 0,
                .unsent = Drop::kHandoffRingFull});
  c.stats.handed_on.add(n);
  if (n < pkts.size()) [[unlikely]]
    DropBin{c.trace, in.counters.drops}.add(pkts.subspan(n), Drop::kHandoffRingFull);
  target.burst.n = 0;
}

}  // namespace ipoib::fwd
