// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/port.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "lib/wire/iba.h"
#include "lib/wire/smp.h"

namespace ipoib::verbs {
namespace {

fabric::PortState state_of(ibv_port_state state) {
  using fabric::PortState;
  switch (state) {
    case IBV_PORT_INIT: return PortState::kInit;
    case IBV_PORT_ARMED: return PortState::kArmed;
    case IBV_PORT_ACTIVE:
    case IBV_PORT_ACTIVE_DEFER: return PortState::kActive;
    default: return PortState::kDown;
  }
}

/// Verbs have one field for both speed fields of a PortInfo: extended speeds are in the upper half,
/// and FDR-10, which has no field of its own, is 8.
std::uint8_t rate_of(const ibv_port_attr& port) {
  constexpr std::uint8_t kFdr10 = 8;
  const std::uint8_t speed = port.active_speed == kFdr10 ? 4 : port.active_speed & 0x7;
  wire::PortInfo info{};
  info.width_active = port.active_width;
  info.speed_active = static_cast<std::uint8_t>(speed << 4);
  info.speed_ext_active = port.active_speed & 0xf0;
  const std::uint8_t rate = wire::port_rate(info);
  return rate != 0 ? rate : fabric::PortAttr{}.rate;
}

wire::Gid gid_of(const ibv_gid& raw) {
  wire::Gid gid;
  std::memcpy(gid.bytes.data(), raw.raw, sizeof(raw.raw));
  return gid;
}

bool is_link_local(const wire::Gid& gid) {
  return gid.prefix() >> 54 == wire::kDefaultGidPrefix >> 54;
}

struct OwnGid {
  wire::Gid gid;
  std::uint8_t index;
  unsigned netdev;
};

std::optional<OwnGid> find_gid(const Device& device, std::uint8_t port, int entries) {
  ibv_gid_entry entry{};
  for (int i = 0; i < std::min(entries, 256); ++i) {
    if (ibv_query_gid_ex(device.context(), port, static_cast<std::uint32_t>(i), &entry, 0) != 0)
      continue;
    const wire::Gid gid = gid_of(entry.gid);
    const bool usable = device.ethernet()
                            ? entry.gid_type == IBV_GID_TYPE_ROCE_V2 && is_link_local(gid)
                            : gid.guid() != 0;
    if (usable) return OwnGid{gid, static_cast<std::uint8_t>(i), entry.ndev_ifindex};
  }
  return std::nullopt;
}

std::vector<std::uint16_t> read_pkeys(const Device& device, std::uint8_t port, int entries) {
  std::vector<std::uint16_t> pkeys;
  for (int i = 0; i < entries; ++i) {
    __be16 raw = 0;
    if (ibv_query_pkey(device.context(), port, i, &raw) != 0) break;
    pkeys.push_back(__builtin_bswap16(raw));
  }
  return pkeys;
}

}  // namespace

Result<PortView> query_port(const Device& device, std::uint8_t port) {
  ibv_port_attr reported{};
  if (const int error = ibv_query_port(device.context(), port, &reported); error != 0)
    return fail(Errc::kUnavailable, "cannot query port {}: {}", port, std::strerror(error));
  const auto found = find_gid(device, port, reported.gid_tbl_len);
  if (!found)
    return fail(Errc::kUnavailable, "port {} has no {}", port,
                device.ethernet()
                    ? "link-local GID of RoCE version 2: configure the IPv6 link-local address "
                      "derived from the MAC address on its network device"
                    : "GID");
  PortView view;
  view.tables = {.port = port,
                 .gid_index = found->index,
                 .rate = rate_of(reported),
                 .lmc = device.ethernet() ? std::uint8_t{0} : reported.lmc,
                 .ethernet = device.ethernet(),
                 .netdev = found->netdev};
  fabric::PortAttr& attr = view.attr;
  if (device.ethernet()) attr.link_layer = fabric::LinkLayer::kEthernet;
  attr.gid_prefix = found->gid.prefix();
  attr.guid = found->gid.guid();
  attr.lid = device.ethernet() ? fabric::kOwnLid : reported.lid;
  attr.lmc = view.tables.lmc;
  attr.sm_lid = device.ethernet() ? fabric::kOwnLid : reported.sm_lid;
  attr.sm_sl = device.ethernet() ? std::uint8_t{0} : reported.sm_sl;
  attr.mtu = static_cast<std::uint8_t>(reported.active_mtu);
  attr.rate = view.tables.rate;
  attr.state = state_of(reported.state);
  view.pkeys = read_pkeys(device, port, reported.pkey_tbl_len);
  attr.pkeys = view.pkeys;
  // Removes holes, and entries without a partition.
  std::erase_if(attr.pkeys, [](std::uint16_t pkey) { return (pkey & ~wire::kFullMemberBit) == 0; });
  return view;
}

std::optional<std::uint16_t> find_pkey(std::span<const std::uint16_t> table, std::uint16_t pkey) {
  std::optional<std::uint16_t> found;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if ((table[i] & 0x7fff) == 0 || !wire::same_partition(table[i], pkey)) continue;
    if (!found || table[i] > table[*found]) found = static_cast<std::uint16_t>(i);
  }
  return found;
}

ibv_gid raw_of(const wire::Gid& gid) {
  ibv_gid raw;
  std::memcpy(raw.raw, gid.bytes.data(), sizeof(raw.raw));
  return raw;
}

std::uint8_t static_rate(std::uint8_t path, std::uint8_t port) {
  const unsigned mbps = wire::rate_mbps(path);
  // Verbs use the rate codes of the SA.
  return mbps != 0 && mbps < wire::rate_mbps(port) ? path : std::uint8_t{0};
}

Result<ibv_ah_attr> make_ah_attr(const PortTables& tables, const fabric::AhAttr& to) {
  if (to.sl > 15)
    return fail(Errc::kInvalidArgument, "address handle with SL {}: allowed: 0-15", to.sl);
  if (tables.ethernet && !to.global)
    return fail(
        Errc::kInvalidArgument,
        "address handle to LID {:#06x}: a port of Ethernet link layer requires a destination GID",
        to.dlid);
  if (!tables.ethernet && (to.dlid == 0 || to.dlid == wire::kPermissiveLid))
    return fail(Errc::kInvalidArgument,
                "address handle to LID {:#06x}: not a valid destination LID", to.dlid);
  if (!tables.ethernet && wire::is_multicast_lid(to.dlid) && !(to.global && to.dgid.is_multicast()))
    return fail(Errc::kInvalidArgument, "address handle to MLID {:#06x} without an MGID", to.dlid);

  if (to.src_path_bits >> tables.lmc != 0)
    return fail(Errc::kInvalidArgument,
                "address handle with source path bits {}: the port's LMC is {}", to.src_path_bits,
                tables.lmc);

  ibv_ah_attr attr{};
  attr.port_num = tables.port;
  attr.dlid = tables.ethernet ? std::uint16_t{0} : to.dlid;
  attr.sl = to.sl;
  attr.src_path_bits = to.src_path_bits;
  attr.static_rate = static_rate(to.rate, tables.rate);
  attr.is_global = to.global ? 1 : 0;
  if (to.global) {
    attr.grh.dgid = raw_of(to.dgid);
    attr.grh.flow_label = to.flow_label;
    attr.grh.sgid_index = tables.gid_index;
    attr.grh.hop_limit = to.hop_limit;
    attr.grh.traffic_class = to.tclass;
    // On Ethernet link layer it is the IPv6 hop limit, which must not be 0.
    if (tables.ethernet) attr.grh.hop_limit = std::max<std::uint8_t>(to.hop_limit, 1);
  }
  return attr;
}

}  // namespace ipoib::verbs
