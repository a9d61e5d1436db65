// SPDX-License-Identifier: BSD-3-Clause
#include "tests/flood/cm_floods.h"

#include <memory>
#include <optional>
#include <utility>

#include "lib/wire/ipoib_cm.h"
#include "tests/flood/rc_hosts.h"

namespace ipoib::flood {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kPeerMtu = 65'524;
constexpr std::uint16_t kFirstStranger = 0x8000;
/// Established hosts that request no connection, because honest ones begin with the first.
constexpr unsigned kFirstForger = 400, kForgers = 100;

/// Sends messages in the names of connections that stand.
class Forger {
 public:
  explicit Forger(FloodNode& node) : node_{node} {}
  void send();

 private:
  static constexpr unsigned kLookEvery = 5'000;
  static constexpr unsigned kKinds = 11;

  /// The IDs of both ends, and the queue pair of the node.
  struct Names {
    std::uint32_t peer = 0, node = 0, qpn = 0;
    unsigned number = 0;  ///< The number of the host with the other end.
  };
  void look();
  [[nodiscard]] wire::CmMad message(unsigned kind, const Names& names, const CablePort& port);

  FloodNode& node_;
  std::vector<Names> known_;
  Random random_{8};
  std::uint32_t sent_ = 0;
};

void Forger::look() {
  known_.clear();
  for (const auto& c : node_.faces().view.connections("")) {
    // The ID of a request is in the QPN, and that of a peer is one more than its number.
    Names names{.peer = c.peer_qpn & 0xf'ffff, .node = c.handle, .qpn = c.qpn};
    if (names.peer <= Participants::kEstablished) names.number = names.peer - 1;
    for (const auto& addr : c.neighbours)
      if (const auto host = host_with(addr)) names.number = host->number;
    known_.push_back(names);
  }
}

wire::CmMad Forger::message(unsigned kind, const Names& names, const CablePort& port) {
  const std::uint64_t tid = random_.next();
  const auto of = [&](auto message) {
    message.local_id.set(names.peer);
    message.remote_id.set(names.node);
    return message;
  };
  const auto about = static_cast<wire::CmAbout>(random_.below(3));
  switch (kind) {
    case 0: {
      const Host other{Side::kCable, names.number};
      return request_of(node_, port, other.port(), names.peer);
    }
    case 1: {
      auto rep = of(wire::CmRep{});
      rep.local_qpn.set(0x10'0000 + names.peer);
      return wire::make_cm_mad(tid, rep);
    }
    case 2: return wire::make_cm_mad(tid, of(wire::CmRtu{}));
    case 3: {
      auto rej = of(wire::CmRej{});
      rej.set_about(about);
      rej.reason.set(static_cast<std::uint16_t>(1 + random_.below(33)));
      rej.set_info(wire::bytes_of(wire::Be64{Host{Side::kCable, names.number}.port().gid.guid()}));
      return wire::make_cm_mad(tid, rej);
    }
    case 4: {
      auto dreq = of(wire::CmDreq{});
      dreq.remote_qpn.set(names.qpn);
      return wire::make_cm_mad(tid, dreq);
    }
    case 5: return wire::make_cm_mad(tid, of(wire::CmDrep{}));
    case 6: {
      auto mra = of(wire::CmMra{});
      mra.set_about(about);
      mra.set_service_timeout(31);
      return wire::make_cm_mad(tid, mra);
    }
    case 7: {
      auto lap = of(wire::CmLap{});
      lap.remote_qpn.set(names.qpn);
      lap.local_lid.set(port.lid);
      lap.remote_lid.set(FloodNode::kLid);
      return wire::make_cm_mad(tid, lap);
    }
    case 8: return wire::make_cm_mad(tid, of(wire::CmApr{}));
    case 9: {
      wire::CmSidrReq sidr{};
      sidr.request_id.set(names.peer);
      sidr.service_id.set(wire::ipoib_service_id(wire::ServiceIdForm::kIetf, node_.qpn(0)));
      return wire::make_cm_mad(tid, sidr);
    }
    default: break;
  }
  wire::CmSidrRep sidr{};
  sidr.request_id.set(names.node);
  sidr.qpn.set(names.qpn);
  return wire::make_cm_mad(tid, sidr);
}

void Forger::send() {
  if (sent_ % kLookEvery == 0) look();
  const unsigned kind = sent_++ % kKinds;
  Names names{.peer = static_cast<std::uint32_t>(random_.next()),
              .node = static_cast<std::uint32_t>(random_.next()),
              .qpn = random_.below(0x100'0000),
              .number = random_.below(Participants::kEstablished)};
  if (!known_.empty() && random_.below(4) != 0)
    names = known_[random_.below(static_cast<std::uint32_t>(known_.size()))];
  // A stranger, or a port that the administrator knows.
  CablePort port{static_cast<std::uint16_t>(kFirstStranger + random_.below(1000)), 1, {}};
  if (random_.below(2) != 0)
    port = Host{Side::kCable, kFirstForger + random_.below(kForgers)}.port();
  const wire::CmMad mad = message(kind, names, port);
  node_.give(Side::kCable, mad_frame(port, FloodNode::kLid, wire::bytes_of(mad)));
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

Flood forged_messages(FloodNode& node) {
  return [forger = std::make_shared<Forger>(node)] { forger->send(); };
}

Peers::Peers(FloodNode& node, SimHosts& hosts) : node_{node}, hosts_{hosts}, due_{node.now()} {
  also_on_mad(hosts, [this](unsigned number, std::span<const std::byte> octets) {
    on_mad(number, octets);
  });
}

void Peers::on_mad(unsigned number, std::span<const std::byte> octets) {
  if (const auto dreq = message_of<wire::CmDreq>(octets)) {
    ended_ += dreq->remote_id.host() == number + 1 ? 1 : 0;
    return;
  }
  const auto rep = message_of<wire::CmRep>(octets);
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
