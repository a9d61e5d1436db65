// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/umad/port_watch.h"

#include <algorithm>
#include <utility>

#include "lib/wire/iba.h"

namespace ipoib::umad {
namespace {

constexpr std::uint16_t kPermissive = wire::kPermissiveLid;

/// Makes a question to the agent of the sending port: a directed route without hops.
wire::Smp question(std::uint32_t tid, wire::SmpAttr attr, std::uint32_t modifier) {
  wire::Smp smp = wire::smp_get(wire::MgmtClass::kSubnDr, attr, modifier, tid);
  smp.dr_slid.set(kPermissive);
  smp.dr_dlid.set(kPermissive);
  return smp;
}

fabric::PortState state_of(const wire::PortInfo& port) {
  const std::uint8_t state = port.state();
  return state >= 1 && state <= 4 ? static_cast<fabric::PortState>(state)
                                  : fabric::PortState::kDown;
}

/// Returns the code of the MTU in use, NeighborMTU. It means nothing until a subnet manager has set
/// it; the port can only carry MTUCap anyway.
std::uint8_t active_mtu(const wire::PortInfo& port) {
  const bool set = wire::mtu_octets(port.neighbor_mtu()) != 0;
  return set ? std::min(port.neighbor_mtu(), port.mtu_cap()) : port.mtu_cap();
}

}  // namespace

void PortWatch::tick(TimePoint now, const SmpSender& send) {
  if (now < next_) return;
  next_ = now + kPeriod;
  if (!outstanding_.empty() && !silent() && ++missed_ == kMaxMissed) {
    fabric::PortAttr down = attr_;
    down.state = fabric::PortState::kDown;
    become(std::move(down));
  }
  outstanding_.clear();
  ask(wire::SmpAttr::kNodeInfo, 0, send);
}

void PortWatch::ask(wire::SmpAttr attr, std::uint32_t modifier, const SmpSender& send) {
  const std::uint32_t tid = ++tid_;
  outstanding_.emplace(tid, Question{attr, modifier});
  // A question that cannot be sent counts as not answered.
  static_cast<void>(send(kPermissive, 0, question(tid, attr, modifier)));
}

bool PortWatch::on_answer(const wire::Smp& smp, const SmpSender& send) {
  const auto it = outstanding_.find(static_cast<std::uint32_t>(smp.mad.tid.host()));
  if (it == outstanding_.end() ||
      smp.mad.attr_id.host() != static_cast<std::uint16_t>(it->second.attr))
    return false;
  if ((smp.mad.status.host() & ~wire::kSmpReturning) != 0) return true;  // Counts as no answer.
  const std::uint32_t modifier = it->second.modifier;
  outstanding_.erase(it);
  take(smp, modifier, send);
  if (outstanding_.empty()) conclude();
  return true;
}

void PortWatch::take(const wire::Smp& smp, std::uint32_t modifier, const SmpSender& send) {
  switch (static_cast<wire::SmpAttr>(smp.mad.attr_id.host())) {
    case wire::SmpAttr::kNodeInfo: {
      node_ = *wire::read<wire::NodeInfo>(smp.data);
      constexpr std::size_t kBlock = wire::PkeyBlock::kEntries;
      const std::size_t blocks = (std::size_t{node_.partition_cap.host()} + kBlock - 1) / kBlock;
      table_.assign(blocks * kBlock, 0);
      ask(wire::SmpAttr::kPortInfo, node_.local_port, send);
      for (std::uint32_t i = 0; i < blocks; ++i) ask(wire::SmpAttr::kPkeyTable, i, send);
      break;
    }
    case wire::SmpAttr::kPortInfo: port_ = *wire::read<wire::PortInfo>(smp.data); break;
    case wire::SmpAttr::kPkeyTable: {
      const auto block = *wire::read<wire::PkeyBlock>(smp.data);
      for (std::size_t i = 0; i < block.pkeys.size(); ++i)
        table_[modifier * block.pkeys.size() + i] = block.pkeys[i].host();
      break;
    }
    case wire::SmpAttr::kSmInfo: break;  // Never asked here.
  }
}

/// All questions of a round are answered.
void PortWatch::conclude() {
  missed_ = 0;
  // An entry that moves over a hole changes no attribute of the port, but indices of P_Keys.
  if (std::exchange(pkeys_, table_) != table_) events_.add(fabric::PortEvent::kPkeyChange);
  pkey_violations_.see(port_.pkey_violations.host());
  qkey_violations_.see(port_.qkey_violations.host());
  fabric::PortAttr next;
  next.guid = node_.port_guid.host();
  next.gid_prefix = port_.gid_prefix.host();
  next.lid = port_.lid.host();
  next.lmc = port_.lmc();
  next.sm_lid = port_.sm_lid.host();
  next.sm_sl = port_.sm_sl();
  next.mtu = active_mtu(port_);
  if (const std::uint8_t rate = wire::port_rate(port_); rate != 0) next.rate = rate;
  next.state = state_of(port_);
  next.pkeys.clear();
  // The subnet manager may leave holes, and entries that are no partition.
  std::copy_if(table_.begin(), table_.end(), std::back_inserter(next.pkeys),
               [](std::uint16_t pkey) { return (pkey & ~wire::kFullMemberBit) != 0; });
  become(std::move(next));
}

void PortWatch::become(fabric::PortAttr next) {
  using fabric::PortState;
  const bool was = attr_.state == PortState::kActive;
  const bool is = next.state == PortState::kActive;
  events_.add_changes(attr_, next);
  if (was != is) events_.add(is ? fabric::PortEvent::kPortActive : fabric::PortEvent::kPortDown);
  attr_ = std::move(next);
}

void PortWatch::lose() {
  outstanding_.clear();
  missed_ = 0;
  next_ = {};
  fabric::PortAttr down = attr_;
  down.state = fabric::PortState::kDown;
  become(std::move(down));
}

std::uint16_t PortWatch::pkey(std::uint16_t index) const {
  return index < pkeys_.size() && pkeys_[index] != 0 ? pkeys_[index] : wire::kDefaultPkey;
}

int PortWatch::pkey_index(std::uint16_t pkey) const {
  int found = -1;
  for (std::size_t i = 0; i < pkeys_.size(); ++i) {
    if (!wire::same_partition(pkeys_[i], pkey) || (pkeys_[i] & 0x7fff) == 0) continue;
    if (found < 0 || pkeys_[i] > pkeys_[static_cast<std::size_t>(found)])
      found = static_cast<int>(i);
  }
  return found;
}

}  // namespace ipoib::umad
