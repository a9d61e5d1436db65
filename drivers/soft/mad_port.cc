// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/mad_port.h"

#include <algorithm>
#include <cstring>

#include "drivers/soft/ah_table.h"
#include "drivers/soft/control_mbuf.h"
#include "drivers/soft/rx_table.h"
#include "drivers/soft/soft_frame.h"
#include "lib/base/contract.h"
#include "lib/fabric/ring_ptr.h"
#include "lib/wire/icrc/icrc.h"
#include "lib/wire/smp.h"

namespace ipoib::soft {
namespace {

static_assert(SoftMadPort::kFrameLen >= kMinEthFrame && wire::kMadLen % 4 == 0,
              "a MAD needs no padding");

/// QP0 is that of subnet management, QP1 that of all other classes. Source: IBA vol 1 §13.5.1.
bool belongs_to(std::uint32_t qpn, const fabric::ReceivedMad& mad) {
  const wire::MgmtClass mgmt_class{wire::read<wire::MadHdr>(mad.bytes)->mgmt_class};
  const bool smp =
      mgmt_class == wire::MgmtClass::kSubnLid || mgmt_class == wire::MgmtClass::kSubnDr;
  return smp == (qpn == wire::kSmiQpn);
}

}  // namespace

SoftMadPort::~SoftMadPort() {
  fabric::free_mbufs_in(from_wire_);
}

/// Returns the port's own entry for a partition, as it is written into packets: full membership
/// first, because a port with limited membership takes no packet of another one.
Result<std::uint16_t> SoftMadPort::own_pkey(std::uint16_t pkey) const {
  const std::uint16_t entry = own_entry(port_, pkey);
  if (entry == 0)
    return fail(Errc::kInvalidArgument,
                "MAD with P_Key {:#06x}, which is not in the P_Key table of the port", pkey);
  return entry;
}

/// Returns the port's own entry that matched a received packet.
std::uint16_t SoftMadPort::matching_pkey(std::uint16_t pkey) const {
  const auto found =
      std::find_if(port_.pkeys.begin(), port_.pkeys.end(),
                   [pkey](std::uint16_t entry) { return wire::pkeys_match(entry, pkey); });
  return found == port_.pkeys.end() ? pkey : *found;
}

Status SoftMadPort::send(const fabric::MadAddress& to,
                         std::span<const std::byte, wire::kMadLen> mad) {
  expects_management();
  if (!wire::is_unicast_lid(to.lid) || to.sl > 15)
    return fail(Errc::kInvalidArgument, "MAD to LID {:#06x}, SL {}: invalid address", to.lid,
                to.sl);
  if (port_.state != fabric::PortState::kActive)
    return fail(Errc::kUnavailable, "MAD to LID {:#06x}: the port is not active", to.lid);
  // SMPs are in no partition.
  const Result<std::uint16_t> pkey =
      to.qpn == wire::kSmiQpn ? Result<std::uint16_t>{wire::kDefaultPkey} : own_pkey(to.pkey);
  if (!pkey) return tl::make_unexpected(pkey.error());

  if (port_.has_lid(to.lid) && to.qpn <= wire::kGsiQpn) {
    if (local_.size() >= kRingSize)
      return fail(Errc::kUnavailable, "the queue of MADs of the port to itself is full ({})",
                  local_.size());
    fabric::ReceivedMad& local = local_.emplace_back();
    local.from = {.lid = port_.lid, .sl = to.sl, .qpn = to.qpn, .pkey = *pkey};
    std::copy(mad.begin(), mad.end(), local.bytes.begin());
    return {};
  }
  rte_mbuf* m = alloc_control(pool_, reserve_);
  if (m == nullptr)
    return fail(Errc::kUnavailable, "no free mbuf for a MAD in mempool {}", pool_->name);
  if (rte_pktmbuf_tailroom(m) < kFrameLen) {
    const char* const from = m->pool->name;
    rte_pktmbuf_free(m);
    return fail(Errc::kNoResources, "mbufs of mempool {} are too small for a MAD of {} octets",
                from, kFrameLen);
  }
  fill(m, to, *pkey, mad);
  if (rte_ring_sp_enqueue(&to_wire_, m) != 0) {
    rte_pktmbuf_free(m);
    return fail(Errc::kUnavailable, "the transmit queue of MADs is full ({})", kRingSize);
  }
  return {};
}

void SoftMadPort::fill(rte_mbuf* m, const fabric::MadAddress& to, std::uint16_t pkey,
                       std::span<const std::byte, wire::kMadLen> mad) {
  AhTemplate head;
  make_template(port_, {.dlid = to.lid, .sl = to.sl, .dgid = {}}, head);
  const bool smp = to.qpn == wire::kSmiQpn;
  // MigReq is 0 on QP0 and QP1.
  const UdWords ud{.op_flags_pkey = UdWords::send_only(0, 0, pkey),
                   .resv_dest_qp = wire::Be32{to.qpn & 0xff'ffff},
                   .ack_psn = wire::Be32{psn_++ & 0xff'ffff},
                   .qkey = wire::Be32{smp ? 0 : wire::kGsiQkey},
                   .resv_src_qp = wire::Be32{smp ? wire::kSmiQpn : wire::kGsiQpn}};
  auto* frame = reinterpret_cast<std::byte*>(rte_pktmbuf_append(m, kFrameLen));
  std::memcpy(frame, head.head.data(), kLocalHeadLen);
  std::memcpy(frame + kLocalHeadLen, &ud, sizeof(ud));
  std::memcpy(frame + kLocalHeadLen + sizeof(ud), mad.data(), mad.size());

  constexpr std::size_t kIbaLen = kFrameLen - sizeof(EthHdr);
  auto* lrh = reinterpret_cast<wire::Lrh*>(frame + sizeof(EthHdr));
  lrh->resv_pktlen.set(kIbaLen / 4);
  if (smp) lrh->vl_lver = wire::kManagementVl << 4;
  const std::uint32_t icrc =
      icrc_ ? wire::icrc({frame + sizeof(EthHdr), kIbaLen - wire::kIcrcLen}) : 0;
  std::memcpy(frame + kFrameLen - wire::kIcrcLen, &icrc, wire::kIcrcLen);
}

std::optional<fabric::ReceivedMad> SoftMadPort::receive() {
  expects_management();
  for (unsigned i = 0; i < kMadsPerCall; ++i) {
    const auto arrived = next();
    if (!arrived) return std::nullopt;
    const auto& [mad, dest_qp] = *arrived;
    if (!belongs_to(dest_qp, mad)) {
      ++wrong_qp_;
      continue;
    }
    if (!agent_.serves(mad)) return mad;
    // A full queue loses the answer; the subnet manager retries.
    static_cast<void>(send({.lid = mad.from.lid, .sl = mad.from.sl, .qpn = wire::kSmiQpn},
                           wire::bytes_of(agent_.answer(mad))));
  }
  return std::nullopt;
}

std::optional<SoftMadPort::Arrived> SoftMadPort::next() {
  if (!local_.empty()) {
    const fabric::ReceivedMad local = local_.front();
    local_.pop_front();
    return Arrived{local, local.from.qpn};
  }
  void* object = nullptr;
  if (rte_ring_sc_dequeue(&from_wire_, &object) != 0) return std::nullopt;
  auto* m = static_cast<rte_mbuf*>(object);
  // The worker has checked every header and length of the frame.
  const auto* lrh = rte_pktmbuf_mtod_offset(m, const wire::Lrh*, sizeof(EthHdr));
  const std::size_t head_len = lrh->lnh() == wire::Lnh::kGlobal ? kGlobalHeadLen : kLocalHeadLen;
  const auto* ud = rte_pktmbuf_mtod_offset(m, const UdWords*, head_len);
  const std::size_t end = sizeof(EthHdr) + lrh->packet_len() - wire::kIcrcLen - ud->pad();
  fabric::ReceivedMad mad;
  mad.from = {.lid = lrh->slid.host(),
              .sl = lrh->sl(),
              .qpn = ud->src_qp(),
              .pkey = matching_pkey(ud->pkey())};
  std::memcpy(mad.bytes.data(), rte_pktmbuf_mtod_offset(m, const std::byte*, end - wire::kMadLen),
              wire::kMadLen);
  const std::uint32_t dest_qp = ud->dest_qp();
  rte_pktmbuf_free(m);
  share_.give_back(shared_mad(mad.from.lid, mad.bytes));
  return Arrived{mad, dest_qp};
}

}  // namespace ipoib::soft
