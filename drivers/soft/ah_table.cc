#include "drivers/soft/ah_table.h"

#include <rte_malloc.h>

#include <cstring>
#include <memory>

namespace ipoib::soft {
namespace {

Status check(const fabric::AhAttr& to) {
  if (to.dlid == 0 || to.dlid == 0xffff)
    return fail(Errc::kInvalidArgument,
                "address handle to LID {:#06x}: no packet can be sent there", to.dlid);
  if (to.sl > 15)
    return fail(Errc::kInvalidArgument, "address handle with SL {}: the largest is 15", to.sl);
  const bool multicast = wire::is_multicast_lid(to.dlid);
  if (multicast && !to.global)
    return fail(Errc::kInvalidArgument, "address handle to MLID {:#06x} without a GRH", to.dlid);
  if (to.global && to.dgid.is_multicast() != multicast)
    return fail(Errc::kInvalidArgument, "address handle to LID {:#06x}: DGID {} a multicast GID",
                to.dlid, multicast ? "is not" : "is");
  return {};
}

}  // namespace

std::uint8_t make_template(const fabric::PortAttr& port, const fabric::AhAttr& to,
                           AhTemplate& out) {
  const EthHdr eth{.dst = mac_of_dlid(to.dlid),
                   .src = mac_of_dlid(port.lid),
                   .ether_type = wire::Be16{kEtherTypeIba}};
  const auto lnh = static_cast<std::uint8_t>(to.global ? wire::Lnh::kGlobal : wire::Lnh::kLocal);
  const wire::Lrh lrh{.vl_lver = 0,
                      .sl_lnh = static_cast<std::uint8_t>(to.sl << 4 | lnh),
                      .dlid = wire::Be16{to.dlid},
                      .resv_pktlen = wire::Be16{0},
                      .slid = wire::Be16{port.lid}};
  out.route = wire::is_multicast_lid(to.dlid) ? AhTemplate::kMulticast
              : is_own_lid(port, to.dlid)     ? AhTemplate::kLocal
                                              : AhTemplate::kWire;
  std::memcpy(out.head.data(), &eth, sizeof(eth));
  std::memcpy(out.head.data() + sizeof(eth), &lrh, sizeof(lrh));
  if (!to.global) return kLocalHeadLen;
  const wire::Grh grh{.version_tclass_flow = wire::Grh::pack(to.tclass, to.flow_label),
                      .pay_len = wire::Be16{0},
                      .next_header = wire::Grh::kNextHeaderIba,
                      .hop_limit = to.hop_limit,
                      .sgid = port.gid(),
                      .dgid = to.dgid};
  std::memcpy(out.head.data() + kLocalHeadLen, &grh, sizeof(grh));
  return kGlobalHeadLen;
}

Result<std::unique_ptr<AhTable>> AhTable::create(int socket_id) {
  void* memory =
      rte_zmalloc_socket("soft_ah", kCapacity * sizeof(AhTemplate), alignof(AhTemplate), socket_id);
  if (memory == nullptr)
    return fail(Errc::kNoResources, "no memory for {} address handles ({} octets)", kCapacity,
                kCapacity * sizeof(AhTemplate));
  return std::unique_ptr<AhTable>{new AhTable{static_cast<AhTemplate*>(memory)}};
}

AhTable::AhTable(AhTemplate* slots) : slots_{slots} {
  std::uninitialized_value_construct_n(slots_, kCapacity);
  free_.reserve(kCapacity);
  for (fabric::AhIndex i = kCapacity; i-- > 0;) free_.push_back(i);
}

AhTable::~AhTable() {
  rte_free(slots_);
}

Result<fabric::AhIndex> AhTable::add(const fabric::PortAttr& port, const fabric::AhAttr& to,
                                     const Grace& grace) {
  if (Status ok = check(to); !ok) return tl::make_unexpected(ok.error());
  retired_.reclaim(grace, [this](fabric::AhIndex ah) { free_.push_back(ah); });
  if (free_.empty())
    return fail(Errc::kNoResources, "all {} address handles of the port are in use", kCapacity);
  const fabric::AhIndex ah = free_.back();
  free_.pop_back();
  AhTemplate& slot = slots_[ah];
  const std::uint8_t len = make_template(port, to, slot);
  // The worker learns the number through a ring, whose release and acquire order the template too.
  slot.len.store(len, std::memory_order_release);
  return ah;
}

void AhTable::remove(fabric::AhIndex ah, const Grace& grace) {
  if (const AhTemplate* slot = nullptr; find(ah, slot) == 0) return;
  slots_[ah].len.store(0, std::memory_order_relaxed);
  retired_.add(ah, grace);
}

}  // namespace ipoib::soft
