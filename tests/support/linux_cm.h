// SPDX-License-Identifier: BSD-3-Clause
// The messages by which a host of Linux 6.1 asks for a connection and answers its end. They are written
// from the behaviour of ib_ipoib, not by the code that this program has for its own. Source:
// linux-interop.md §4.
#pragma once

#include <cstdint>

#include "lib/wire/cm_mads.h"
#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"
#include "lib/wire/ipoib_cm.h"

namespace ipoib::test {

/// The interface at one end.
struct LinuxEnd {
  std::uint16_t lid;
  wire::LinkAddr address;
};

/// Returns the REQ for an RC connection. `ack_timeout`: a time code.
inline wire::CmReq linux_req(std::uint32_t local_id, std::uint32_t qpn, const LinuxEnd& from,
                             const LinuxEnd& to, unsigned ack_timeout) {
  constexpr std::uint32_t kReceiveMtu = 65'524;
  wire::CmReq req{};
  req.local_id.set(local_id);
  req.service_id.set(wire::ipoib_service_id(wire::ServiceIdForm::kLinux, to.address.qpn.host()));
  req.local_ca_guid.set(from.address.gid.guid());
  req.local_qpn.set(qpn);
  req.responder_resources = 4;
  req.set_remote_timeout(20);
  req.set_local_timeout(20);
  req.set_mtu(4);
  req.set_max_cm_retries(15);
  req.set_srq(true);
  req.pkey.set(wire::kDefaultPkey);
  req.primary.local_lid.set(from.lid);
  req.primary.remote_lid.set(to.lid);
  req.primary.local_gid = from.address.gid;
  req.primary.remote_gid = to.address.gid;
  req.primary.set_subnet_local(true);
  req.primary.set_ack_timeout(ack_timeout);
  wire::set_private(req.private_data,
                    wire::bytes_of(wire::IpoibCmPrivate::of(from.address.qpn.host(), kReceiveMtu)));
  return req;
}

/// Returns the DREP to a DREQ.
inline wire::CmDrep linux_drep(const wire::CmDreq& dreq) {
  return {dreq.remote_id, dreq.local_id, {}};
}

}  // namespace ipoib::test
