// SPDX-License-Identifier: BSD-3-Clause
#include "tests/flood/rc_hosts.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>

#include "drivers/soft/soft_frame.h"
#include "lib/wire/rc.h"
#include "tests/flood/cm_floods.h"

namespace ipoib::flood {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kIdMask = 0xf'ffff;
/// The node accepts 500 connections a second.
constexpr Duration kPace = 2500us;
constexpr std::uint32_t kMark = 0x7263;  ///< Kind of the marks of ConnectedHosts.
constexpr unsigned kHonest = 20;
constexpr Duration kHonestPace = 1ms;

}  // namespace

void also_on_mad(SimHosts& hosts, std::function<void(unsigned, std::span<const std::byte>)> also) {
  hosts.on_mad = [also = std::move(also), rest = std::move(hosts.on_mad)](
                     unsigned number, std::span<const std::byte> octets) {
    also(number, octets);
    rest(number, octets);
  };
}

Bytes rc_frame(std::uint16_t from, std::uint32_t qpn, wire::Opcode opcode, std::uint32_t psn,
               std::span<const std::byte> payload) {
  constexpr std::size_t kHead = sizeof(wire::Lrh) + sizeof(wire::Bth);
  const std::size_t len = kHead + payload.size() + wire::kIcrcLen;
  Bytes frame(kEthHead + len);
  put<std::uint16_t>(&frame[12], soft::kEtherTypeIba);
  wire::Lrh lrh{};
  lrh.sl_lnh = static_cast<std::uint8_t>(wire::Lnh::kLocal);
  lrh.dlid.set(FloodNode::kLid);
  lrh.resv_pktlen.set(static_cast<std::uint16_t>(len / 4));
  lrh.slid.set(from);
  wire::Bth bth{};
  bth.opcode = static_cast<std::uint8_t>(opcode);
  bth.flags = wire::Bth::kMigReq;
  bth.pkey.set(wire::kDefaultPkey);
  bth.dest_qp.set(qpn);
  bth.psn.set(psn);
  std::memcpy(&frame[kEthHead], &lrh, sizeof(lrh));
  std::memcpy(&frame[kEthHead + sizeof(lrh)], &bth, sizeof(bth));
  std::ranges::copy(payload, frame.begin() + kEthHead + kHead);
  return frame;
}

Bytes rc_answer(std::uint16_t from, std::uint32_t qpn, std::uint8_t syndrome, std::uint32_t psn) {
  const wire::Aeth aeth{.syndrome = syndrome, .msn = wire::Be24{0}};
  return rc_frame(from, qpn, wire::Opcode::kRcAck, psn, wire::bytes_of(aeth));
}

// --- RcConnections ---

RcConnections::RcConnections(FloodNode& node, SimHosts& hosts, Settings settings)
    : node_{node}, hosts_{hosts}, settings_{settings}, next_id_{settings.first_id} {
  also_on_mad(hosts, [this](unsigned number, std::span<const std::byte> octets) {
    on_mad(number, octets);
  });
}

void RcConnections::pass(Duration time) {
  for (const TimePoint end = node_.now() + time; node_.now() < end;) {
    node_.step();
    hosts_.receive();
  }
}

void RcConnections::add(unsigned number, unsigned interface) {
  all_.push_back({.number = number, .interface = interface});
  request(all_.back());
  pass(kPace);
}

/// Requests a connection under a new ID, from a new queue pair.
void RcConnections::request(Connection& c) {
  c.id = next_id_++;
  c.stands = false;
  c.sent = 0;
  c.asked = node_.now();
  by_id_.push_back(static_cast<std::size_t>(&c - all_.data()));
  const Host host{Side::kCable, c.number};
  CablePort name = host.port();
  name.qpn += c.interface << 16;
  wire::CmMad mad = request_of(node_, host.port(), name, c.id);
  auto req = wire::cm_message<wire::CmReq>(mad);
  req.set_mtu(settings_.mtu);
  req.set_rnr_retry(settings_.rnr_retry);
  c.expected = req.starting_psn.host();
  hosts_.send_mad(host, wire::bytes_of(wire::make_cm_mad(c.id, req)));
}

void RcConnections::settle() {
  const auto stand = [this] { return std::ranges::all_of(all_, &Connection::stands); };
  for (int i = 0; i < 100 && !stand(); ++i) {
    pass(100ms);
    renew();
  }
  if (!stand()) throw std::runtime_error("the connections do not stand");
}

void RcConnections::renew() {
  const TimePoint now = node_.now();
  if (now - renewed_ < 100ms) return;
  renewed_ = now;
  for (Connection& c : all_)
    if (!c.stands && now - c.asked > 3s) request(c);
}

void RcConnections::on_mad(unsigned number, std::span<const std::byte> octets) {
  const auto with = [&](std::uint32_t id) -> Connection* {
    const std::size_t at = id - settings_.first_id;
    if (id < settings_.first_id || at >= by_id_.size()) return nullptr;
    Connection& c = all_[by_id_[at]];
    return c.id == id && c.number == number ? &c : nullptr;
  };
  const Host host{Side::kCable, number};
  if (const auto rep = message_of<wire::CmRep>(octets)) {
    Connection* const c = with(rep->remote_id.host());
    if (c == nullptr) return;
    c->stands = true;
    c->qpn = rep->local_qpn.host();
    c->psn = rep->starting_psn.host();
    const wire::CmRtu rtu{
        .local_id = rep->remote_id, .remote_id = rep->local_id, .private_data = {}};
    hosts_.send_mad(host, wire::bytes_of(wire::make_cm_mad(1, rtu)));
  } else if (const auto dreq = message_of<wire::CmDreq>(octets)) {
    Connection* const c = with(dreq->remote_id.host());
    if (c == nullptr) return;
    ++ended_;
    const wire::CmDrep drep{
        .local_id = dreq->remote_id, .remote_id = dreq->local_id, .private_data = {}};
    hosts_.send_mad(host, wire::bytes_of(wire::make_cm_mad(1, drep)));
    request(*c);
  }
}

RcConnections::Connection* RcConnections::find(const wire::IbaFrame& packet) {
  const std::size_t at =
      (packet.bth.dest_qp.host() & kIdMask) - (settings_.first_id & std::size_t{kIdMask});
  if (at >= by_id_.size()) return nullptr;
  Connection& c = all_[by_id_[at]];
  const Host host{Side::kCable, c.number};
  return host.port().lid == packet.lrh.dlid.host() ? &c : nullptr;
}

// --- ConnectedHosts ---

ConnectedHosts::ConnectedHosts(FloodNode& node, SimHosts& hosts)
    : node_{node}, hosts_{hosts}, connections_{node, hosts, {.first_id = 0x1'0000}} {
  hosts.on_rc = [this, rest = std::move(hosts.on_rc)](const wire::IbaFrame& packet,
                                                      std::span<const std::byte> body) {
    on_rc(packet, body);
    rest(packet, body);
  };
  for (unsigned i = 0; i < kHonest; ++i) {
    const Host host = hosts.add_connected();
    hosts.ask_to_join(host);  // So that the administrator knows its port.
    connections_.add(host.number, 0);
  }
  connections_.settle();
  // The node asks for their addresses, and what they say has them reached by their connections.
  for (unsigned i = 0; i < 4 * kHonest; ++i) {
    send();
    for (int step = 0; step < 200; ++step) {
      node_.step();
      hosts_.receive();
    }
  }
  if (share_.good == 0) throw std::runtime_error("nothing is sent on the connections");
  restart();
}

void ConnectedHosts::restart() {
  share_ = {};
  due_ = node_.now();
}

void ConnectedHosts::send() {
  const auto& all = connections_.all();
  const Host to{Side::kCable, all[at_++ % all.size()].number};
  const Host from{Side::kEthernet, to.number % Participants::kEstablished};
  ++share_.all;
  hosts_.send(from, marked(from.ip(), to.ip(), kMark, to.number, 0, 1000));
}

void ConnectedHosts::step() {
  if (winding_down_) return;
  for (; node_.now() >= due_; due_ += kHonestPace) send();
}

void ConnectedHosts::on_rc(const wire::IbaFrame& packet, std::span<const std::byte> body) {
  RcConnections::Connection* const c = connections_.find(packet);
  if (c == nullptr || packet.bth.opcode != static_cast<std::uint8_t>(wire::Opcode::kRcSendOnly))
    return;
  const std::uint32_t psn = packet.bth.psn.host();
  if (psn == c->expected) {
    c->expected = wire::psn_add(psn, 1);
    const auto mark = mark_of(body.subspan(sizeof(wire::IpoibHdr)));
    share_.good += mark && mark->kind.host() == kMark ? 1 : 0;
  } else if (wire::psn_diff(psn, c->expected) > 0) {
    return;  // One before it was lost; the node repeats both.
  }
  const Host host{Side::kCable, c->number};
  node_.give(Side::kCable, rc_answer(host.port().lid, c->qpn, wire::Aeth::kAckNoCredits, psn));
}

}  // namespace ipoib::flood
