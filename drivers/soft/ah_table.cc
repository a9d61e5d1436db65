// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/ah_table.h"

#include <rte_malloc.h>

#include <cstring>
#include <memory>

#include "lib/base/contract.h"

namespace ipoib::soft {
namespace {

Status check(const fabric::PortAttr& port, const fabric::AhAttr& to) {
  if (to.dlid == 0 || to.dlid == 0xffff)
    return fail(Errc::kInvalidArgument,
                "address handle to LID {:#06x}: not a valid destination LID", to.dlid);
  if (to.sl > 15)
    return fail(Errc::kInvalidArgument, "address handle with SL {}: allowed: 0-15", to.sl);
  if (to.src_path_bits >> port.lmc != 0)
    return fail(Errc::kInvalidArgument,
                "address handle with source path bits {}: the port's LMC is {}", to.src_path_bits,
                port.lmc);
  const bool multicast = wire::is_multicast_lid(to.dlid);
  if (multicast && !to.global)
    return fail(Errc::kInvalidArgument, "address handle to MLID {:#06x} without a GRH", to.dlid);
  if (to.global && to.dgid.is_multicast() != multicast)
    return fail(Errc::kInvalidArgument, "address handle to LID {:#06x}: DGID {} a multicast GID",
                to.dlid, multicast ? "is not" : "is");
  return {};
}

/// True if packets carry the handle's Q_Key, and not that of the queue pair.
bool has_own_qkey(const fabric::AhAttr& to) {
  return to.qkey && !wire::is_controlled_qkey(*to.qkey);
}

}  // namespace

AhKind make_template(const fabric::PortAttr& port, const fabric::AhAttr& to, AhTemplate& out) {
  const std::uint16_t slid = port.lid_with(to.src_path_bits);
  const EthHdr eth{.dst = mac_of_dlid(to.dlid),
                   .src = mac_of_dlid(slid),
                   .ether_type = wire::Be16{kEtherTypeIba}};
  const auto lnh = static_cast<std::uint8_t>(to.global ? wire::Lnh::kGlobal : wire::Lnh::kLocal);
  const wire::Lrh lrh{.vl_lver = 0,
                      .sl_lnh = static_cast<std::uint8_t>(to.sl << 4 | lnh),
                      .dlid = wire::Be16{to.dlid},
                      .resv_pktlen = wire::Be16{0},
                      .slid = wire::Be16{slid}};
  const bool local = port.has_lid(to.dlid);
  const bool limited = !local && limiting_mbps(to.rate, port.rate) != 0;
  const auto route = static_cast<std::uint8_t>(
      (wire::is_multicast_lid(to.dlid) ? AhKind::kMulticast : 0) | (local ? AhKind::kLocal : 0) |
      (limited ? AhKind::kLimited : 0) | (has_own_qkey(to) ? AhKind::kQkey : 0) |
      (slid != port.lid ? AhKind::kPathBits : 0));
  std::memcpy(out.head.data(), &eth, sizeof(eth));
  std::memcpy(out.head.data() + sizeof(eth), &lrh, sizeof(lrh));
  if (!to.global) return {kLocalHeadLen, route};
  const wire::Grh grh{.version_tclass_flow = wire::Grh::pack(to.tclass, to.flow_label),
                      .pay_len = wire::Be16{0},
                      .next_header = wire::Grh::kNextHeaderIba,
                      .hop_limit = to.hop_limit,
                      .sgid = port.gid(),
                      .dgid = to.dgid};
  std::memcpy(out.head.data() + kLocalHeadLen, &grh, sizeof(grh));
  return {kGlobalHeadLen, route};
}

/// The elements are those of zero octets; zero octets of a template are a handle that does not
/// exist. DPDK keeps free memory zeroed, so pages of numbers that are never used stay untouched.
template <class T>
AhTable::Memory<T> AhTable::allocate(const char* name, int socket_id, unsigned tables) {
  return Memory<T>{static_cast<T*>(rte_zmalloc_socket(
      name, std::size_t{tables} * kCapacity * sizeof(T), RTE_CACHE_LINE_SIZE, socket_id))};
}

Result<std::unique_ptr<AhTable>> AhTable::create(int socket_id, std::uint64_t tsc_hz,
                                                 fabric::Retirement& retirement, unsigned workers) {
  auto slots = allocate<AhTemplate>("soft_ah", socket_id);
  auto buckets = allocate<RateBucket>("soft_rate", socket_id, workers);
  auto qkeys = allocate<std::atomic<std::uint32_t>>("soft_qkey", socket_id);
  if (slots == nullptr || buckets == nullptr || qkeys == nullptr)
    return fail(
        Errc::kNoResources, "no memory for {} address handles ({} octets)", kCapacity,
        kCapacity * (sizeof(AhTemplate) + workers * sizeof(RateBucket) + sizeof(std::uint32_t)));
  return std::unique_ptr<AhTable>{new AhTable{std::move(slots), std::move(buckets),
                                              std::move(qkeys), socket_id, tsc_hz, retirement,
                                              workers}};
}

AhTable::AhTable(Memory<AhTemplate> slots, Memory<RateBucket> buckets,
                 Memory<std::atomic<std::uint32_t>> qkeys, int socket_id, std::uint64_t tsc_hz,
                 fabric::Retirement& retirement, unsigned workers)
    : slots_{slots.get()},
      buckets_{std::move(buckets)},
      workers_{workers},
      qkeys_{std::move(qkeys)},
      owned_{std::move(slots)},
      socket_id_{socket_id},
      tsc_hz_{tsc_hz},
      retirement_{retirement} {}

Result<fabric::AhIndex> AhTable::add(const fabric::PortAttr& port, const fabric::AhAttr& to) {
  expects_management();
  if (Status ok = check(port, to); !ok) return tl::make_unexpected(ok.error());
  reclaim();
  auto ah = static_cast<fabric::AhIndex>(attrs_.size());
  if (!free_.empty()) {
    ah = free_.back();
    free_.pop_back();
    attrs_[ah] = to;
    live_[ah] = true;
  } else if (ah < kCapacity) {
    attrs_.push_back(to);
    live_.push_back(true);
  } else {
    return fail(Errc::kNoResources,
                "all {} address handles of the port are in use or not yet reclaimed ({})",
                kCapacity, retired_.size());
  }
  if (const unsigned mbps = limiting_mbps(to.rate, port.rate); mbps != 0) limit(ah, mbps);
  if (to.qkey) qkeys_[ah].store(*to.qkey, std::memory_order_relaxed);
  slid_.store(port.lid, std::memory_order_relaxed);
  AhTemplate& slot = owned_[ah];
  const AhKind kind = make_template(port, to, slot);
  // The worker learns the number through a ring, whose release and acquire order the template too.
  slot.kind.store(kind, std::memory_order_release);
  return ah;
}

/// Fills the handle's buckets, which no worker uses yet.
void AhTable::limit(fabric::AhIndex ah, unsigned mbps) {
  for (std::size_t worker = 0; worker < workers_; ++worker)
    buckets_[worker * kCapacity + ah] = RateBucket::of(mbps, tsc_hz_);
}

void AhTable::remove(fabric::AhIndex ah) {
  expects_management();
  if (ah >= live_.size() || !live_[ah]) return;
  live_[ah] = false;
  retired_.add(ah, retirement_);
  reclaim();
}

/// Ends handles that no packet can name any more.
void AhTable::reclaim() {
  retired_.reclaim(retirement_, [this](fabric::AhIndex ah) {
    owned_[ah].kind.store({}, std::memory_order_relaxed);
    free_.push_back(ah);
  });
}

Status AhTable::rebuild(const fabric::PortAttr& port, const fabric::Grace& grace) {
  expects_management();
  auto fresh = allocate<AhTemplate>("soft_ah", socket_id_);
  if (fresh == nullptr)
    return fail(Errc::kNoResources, "no memory to rewrite {} address handles", kCapacity);
  for (fabric::AhIndex ah = 0; ah < attrs_.size(); ++ah) {
    const AhKind old = owned_[ah].kind.load(std::memory_order_relaxed);
    if (old.head_len == 0) continue;
    const AhKind kind = make_template(port, attrs_[ah], fresh[ah]);
    // A bucket in use stays, because it depends on the path alone.
    if ((kind.route & ~old.route & AhKind::kLimited) != 0)
      limit(ah, limiting_mbps(attrs_[ah].rate, port.rate));
    fresh[ah].kind.store(kind, std::memory_order_relaxed);
  }
  slots_.store(fresh.get(), std::memory_order_release);
  slid_.store(port.lid, std::memory_order_relaxed);
  version_.fetch_add(1, std::memory_order_release);
  grace.wait();
  owned_ = std::move(fresh);
  return {};
}

}  // namespace ipoib::soft
