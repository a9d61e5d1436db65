// SPDX-License-Identifier: BSD-3-Clause
#include "tests/flood/cm_floods.h"

#include <optional>
#include <utility>

#include "lib/wire/ipoib_cm.h"
#include "tests/flood/rc_hosts.h"

namespace ipoib::flood {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kPeerMtu = 65'524;
constexpr std::uint16_t kFirstStranger = 0x8000;

/// The reply in a MAD, if it is one.
std::optional<wire::CmRep> reply_of(std::span<const std::byte> octets) {
  wire::CmMad mad;
  if (wire::parse_cm_mad(octets, mad) != wire::CmError::kNone ||
      mad.hdr.attr_id.host() != static_cast<std::uint16_t>(wire::CmAttr::kRep))
    return std::nullopt;
  return wire::cm_message<wire::CmRep>(mad);
}

}  // namespace

wire::CmMad request_of(FloodNode& node, const CablePort& port, const CablePort& name,
                       std::uint32_t id) {
  wire::CmReq req{};
  req.local_id.set(id);
  req.service_id.set(wire::ipoib_service_id(wire::ServiceIdForm::kIetf, node.qpn(0)));
  req.local_ca_guid.set(name.gid.guid());
  req.local_qpn.set(0x10'0000 + (id & 0xf'ffff));
  req.set_remote_timeout(17);
  req.set_local_timeout(17);
  req.set_retry_count(7);
  req.set_rnr_retry(6);
  req.set_mtu(4);
  req.set_max_cm_retries(4);
  req.set_srq(true);
  req.set_transport(wire::CmTransport::kRc);
  req.pkey.set(wire::kDefaultPkey);
  req.primary.local_lid.set(port.lid);
  req.primary.remote_lid.set(FloodNode::kLid);
  req.primary.local_gid = name.gid;
  req.primary.remote_gid = node.faces().view.links()[0].gid;
  req.primary.flow_rate = wire::CmPath::pack_flow_rate(0, 3);
  req.primary.set_subnet_local(true);
  req.primary.set_ack_timeout(12);
  wire::set_private(req.private_data, wire::bytes_of(wire::IpoibCmPrivate::of(name.qpn, kPeerMtu)));
  return wire::make_cm_mad(id, req);
}

Flood requests(FloodNode& node, Names names) {
  const Bytes frame = mad_frame({kFirstStranger, 1, {}}, FloodNode::kLid,
                                wire::bytes_of(request_of(node, {}, {0, 2, gid_of(1)}, 0)));
  return [&node, names, frame, random = Random{6}, id = 0U]() mutable {
    ++id;
    const Host other{Side::kCable, random.below(Participants::kEstablished)};
    const auto stranger = static_cast<std::uint16_t>(kFirstStranger + random.below(1000));
    CablePort port{stranger, 1, {}}, name{};
    switch (names) {
      case Names::kMadeUp: name = {0, 0x10'0000 + id, gid_of(0x80'0000 + id)}; break;
      case Names::kOwn:
        port = other.port();
        name = {0, 0x10'0000 + id, port.gid};
        break;
      case Names::kOfOthers: name = other.port(); break;
    }
    const wire::CmMad mad = request_of(node, port, name, 0x4000'0000 + id);
    node.give(Side::kCable, mad_frame(port, FloodNode::kLid, wire::bytes_of(mad)));
  };
}

Peers::Peers(FloodNode& node, SimHosts& hosts) : node_{node}, hosts_{hosts}, due_{node.now()} {
  also_on_mad(hosts, [this](unsigned number, std::span<const std::byte> octets) {
    on_mad(number, octets);
  });
}

void Peers::on_mad(unsigned number, std::span<const std::byte> octets) {
  const auto rep = reply_of(octets);
  if (!rep) return;
  for (Peer& peer : peers_) {
    if (peer.number != number || rep->remote_id.host() != number + 1) continue;
    if (!std::exchange(peer.answered, true)) peer.answered_at = node_.now();
    const wire::CmRtu rtu{
        .local_id = rep->remote_id, .remote_id = rep->local_id, .private_data = {}};
    hosts_.send_mad({Side::kCable, number}, wire::bytes_of(wire::make_cm_mad(1, rtu)));
  }
}

void Peers::step() {
  const TimePoint now = node_.now();
  if (!winding_down_ && now >= due_ && peers_.size() < Participants::kEstablished) {
    due_ = now + 500ms;
    peers_.push_back({.number = static_cast<unsigned>(peers_.size()), .begin = now});
  }
  for (Peer& peer : peers_) {
    if (peer.answered || now - peer.sent < 1s || now - peer.begin > 5s) continue;
    peer.sent = now;
    const Host host{Side::kCable, peer.number};
    const auto mad = request_of(node_, host.port(), host.port(), peer.number + 1);
    hosts_.send_mad(host, wire::bytes_of(mad));
  }
}

Share Peers::outcome() const {
  Share share;
  for (const Peer& peer : peers_) {
    ++share.all;
    share.good += peer.answered && peer.answered_at - peer.begin <= 5s ? 1 : 0;
  }
  return share;
}

}  // namespace ipoib::flood
