// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/captured_mads.h"

#include "lib/base/contract.h"
#include "lib/wire/iba.h"
#include "lib/wire/mad.h"

namespace ipoib::verbs {
namespace {

using fabric::CaptureDirection;

/// True for a MAD between this port and itself, which no wire carries.
bool stays_inside(const CaptureView& view, const fabric::MadAddress& other) {
  const std::uint16_t own = view.ethernet ? fabric::kOwnLid : view.lid;
  return fabric::same_port(other, {.lid = own, .gid = view.gid}, view.lmc);
}

/// LRH and GRH of packets to a port.
fabric::AhAttr path_to(const fabric::MadAddress& other) {
  fabric::AhAttr path;
  path.dlid = other.lid;
  path.sl = other.sl;
  path.global = !other.gid.is_zero();
  path.dgid = other.gid;
  return path;
}

}  // namespace

Status CapturedMads::send(const fabric::MadAddress& to,
                          std::span<const std::byte, wire::kMadLen> mad) {
  expects_management();
  auto sent = carrier_().send(to, mad);
  const CaptureView* const view = capture_.view();
  if (!sent || view == nullptr || stays_inside(*view, to)) return sent;
  PacketHead head = view->head_to(path_to(to));
  head.pkey = to.pkey;
  head.dest_qp = to.qpn;
  head.mig_req = false;
  head.datagram = {wire::kGsiQkey, wire::kGsiQpn};
  capture_.copy(*view, head, mad, CaptureDirection::kSent);
  return sent;
}

std::optional<fabric::ReceivedMad> CapturedMads::receive() {
  expects_management();
  auto received = carrier_().receive();
  const CaptureView* const view = capture_.view();
  if (!received || view == nullptr || stays_inside(*view, received->from)) return received;
  PacketHead head = view->head_from(path_to(received->from));
  head.pkey = received->from.pkey;
  head.dest_qp = wire::kGsiQpn;
  head.mig_req = false;
  head.datagram = {wire::kGsiQkey, received->from.qpn};
  capture_.copy(*view, head, received->bytes, CaptureDirection::kReceived);
  return received;
}

}  // namespace ipoib::verbs
