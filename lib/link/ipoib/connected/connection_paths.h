// SPDX-License-Identifier: BSD-3-Clause
// Converts between the paths of CM messages and those of address handles.
#pragma once

#include <cstdint>

#include "lib/fabric/fabric_types.h"
#include "lib/fabric/qp1.h"
#include "lib/wire/cm_mads.h"
#include "lib/wire/smp.h"

namespace ipoib::link {

/// The path back to the requester. A requester in another subnet does not know the LIDs and SLs of
/// this one: those of the router are in the headers. The way back leaves from the LID that the
/// request names, one of this port's.
[[nodiscard]] inline fabric::AhAttr path_back(const wire::CmPath& path,
                                              const fabric::MadAddress& from,
                                              const fabric::PortAttr& port) {
  const std::uint16_t own = path.remote_lid.host();
  const bool has_bits = path.subnet_local() && port.has_lid(own);
  const bool by_headers = path.local_lid.host() == wire::kPermissiveLid;
  return {.dlid = by_headers ? from.lid : path.local_lid.host(),
          .sl = by_headers ? from.sl : path.sl(),
          .rate = path.rate(),
          .src_path_bits = has_bits ? port.path_bits_of(own) : std::uint8_t{0},
          .global = !path.subnet_local(),
          .tclass = path.tclass,
          .hop_limit = path.hop_limit,
          .flow_label = path.flow_label(),
          .dgid = path.local_gid};
}

/// True if packets take the same links on both paths to a port, so that they fail together.
[[nodiscard]] inline bool same_way(const fabric::AhAttr& a, const fabric::AhAttr& b) {
  return a.dlid == b.dlid && a.src_path_bits == b.src_path_bits && a.global == b.global &&
         (!a.global || (a.flow_label == b.flow_label && a.tclass == b.tclass));
}

/// The path to the peer's port as this side names it in a REQ or LAP.
[[nodiscard]] inline wire::CmPath path_there(const fabric::AhAttr& to, const wire::Gid& peer,
                                             const fabric::PortAttr& port,
                                             std::uint8_t ack_timeout) {
  wire::CmPath path{};
  // LIDs of this subnet are not valid in another one.
  path.local_lid.set(to.global ? wire::kPermissiveLid : port.lid_with(to.src_path_bits));
  path.remote_lid.set(to.global ? wire::kPermissiveLid : to.dlid);
  path.local_gid = port.gid();
  path.remote_gid = peer;
  path.flow_rate = wire::CmPath::pack_flow_rate(to.flow_label, to.rate);
  path.tclass = to.tclass;
  path.hop_limit = to.hop_limit;
  path.set_sl(to.sl);
  path.set_subnet_local(!to.global);
  path.set_ack_timeout(ack_timeout);
  return path;
}

}  // namespace ipoib::link
