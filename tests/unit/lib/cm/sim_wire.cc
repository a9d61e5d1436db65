// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/lib/cm/sim_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ipoib::cm {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kReceiveMtu = 65'524;
constexpr std::uint32_t kFirstQpn = 0x400;

std::uint64_t guid_of(std::uint16_t lid) {
  return 0x0002'c903'00a0'0000ULL + lid;
}
wire::Gid gid_of(std::uint16_t lid) {
  return wire::Gid::of(wire::kDefaultGidPrefix, guid_of(lid));
}

}  // namespace

// --- Node ---

SimNode::SimNode(SimWire& wire, std::uint16_t lid) : wire_{wire}, lid_{lid} {
  start();
}

void SimNode::start() {
  ++incarnation_;
  // A restarted node has its former UD QPN or another one.
  if (ud_qpn_ == 0 || wire_.chance(0.5))
    ud_qpn_ = 0x48 + static_cast<std::uint32_t>(wire_.pick(0x300));
  next_qpn_ = kFirstQpn;
  ManagerConfig config = wire_.config;
  config.ca_guid = guid_of(lid_);
  manager_ = std::make_unique<Manager>(
      [this](const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> octets) {
        wire_.send(lid_, to, octets);
        return Status{};
      },
      config, wire_.random());
  manager_->set_port({gid_of(lid_), lid_, 0});
  if (!manager_->listen(service_id(), *this, private_data())) wire_.wrong("cannot listen");
}

void SimNode::crash() {
  manager_.reset();
  links_.clear();
}

wire::LinkAddr SimNode::address() const {
  return {0, wire::Be24{ud_qpn_}, gid_of(lid_)};
}
std::uint64_t SimNode::service_id() const {
  return wire::ipoib_service_id(wire::ServiceIdForm::kLinux, ud_qpn_);
}
std::vector<std::byte> SimNode::private_data() const {
  const auto said = wire::IpoibCmPrivate::of(ud_qpn_, kReceiveMtu);
  const auto octets = wire::bytes_of(said);
  return {octets.begin(), octets.end()};
}

std::uint32_t SimNode::free_qpn() {
  const auto used = [&](std::uint32_t qpn) {
    return std::ranges::any_of(links_, [&](const auto& l) { return l.second.qpn == qpn; });
  };
  while (used(next_qpn_)) ++next_qpn_;
  return next_qpn_++;
}

void SimNode::want(std::uint16_t peer) {
  SimNode* other = wire_.node(peer);
  if (!alive() || peer == lid_) return;
  const bool there = std::ranges::any_of(links_, [&](const auto& l) {
    const bool counts = wire_.policy == SimPolicy::kOnePerPair || l.second.active;
    return l.second.peer == peer && counts && !l.second.over;
  });
  if (there) return;
  ConnectParams params;
  params.to = {.lid = peer};
  params.service_id = other->service_id();
  params.qpn = free_qpn();
  params.srq = true;
  params.primary.local_lid.set(lid_);
  params.primary.remote_lid.set(peer);
  params.primary.local_gid = gid_of(lid_);
  params.primary.remote_gid = gid_of(peer);
  params.primary.set_subnet_local(true);
  params.primary.set_ack_timeout(11);
  params.lifetime = 10;        // 4 ms
  params.remote_timeout = 16;  // 268 ms
  params.local_timeout = 16;
  params.max_retries = 5;
  params.private_data = private_data();
  const auto handle = manager_->connect(params, *this, wire_.now);
  if (!handle) {
    wire_.wrong("cannot connect: " + handle.error().what);
    return;
  }
  Link& link = links_[*handle];
  link.peer = peer;
  link.active = true;
  link.asked = false;
  link.qpn = params.qpn;
  link.since = wire_.now;
}

/// Ends a connection because this node wants it to end.
void SimNode::drop(Handle handle, Link& link) {
  if (link.over) return;
  link.over = true;
  link.up = false;
  // The connection may have ended already; its event is then queued.
  static_cast<void>(manager_->disconnect(handle, wire_.now));
}

void SimNode::use_connections() {
  if (!alive()) return;
  for (auto& [handle, link] : links_) {
    if (!link.up) continue;
    SimNode* other = wire_.node(link.peer);
    if (other->alive() && other->on_packet(lid_, link.peer_qpn, link.qpn))
      link.lost = 0;
    else if (++link.lost >= 3)
      drop(handle, link);
  }
}

bool SimNode::on_packet(std::uint16_t from, std::uint32_t qpn, std::uint32_t from_qpn) {
  for (auto& [handle, link] : links_) {
    if (link.peer != from || link.qpn != qpn || link.over || link.peer_qpn != from_qpn) continue;
    if (!link.active && !link.up) manager_->on_traffic(handle, wire_.now);
    return link.up || !link.active;
  }
  return false;
}

void SimNode::disconnect_one(std::size_t nth) {
  if (links_.empty() || !alive()) return;
  auto it = std::next(links_.begin(), static_cast<std::ptrdiff_t>(nth % links_.size()));
  drop(it->first, it->second);
}

void SimNode::disconnect_all() {
  for (auto& [handle, link] : links_) drop(handle, link);
}

std::size_t SimNode::up_with(std::uint16_t peer) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      links_, [&](const auto& l) { return l.second.peer == peer && l.second.up; }));
}

void SimNode::check_private(std::span<const std::byte> said, std::uint16_t peer,
                            const char* where) {
  const auto data = wire::read<wire::IpoibCmPrivate>(said).value();
  const bool rest = std::ranges::all_of(said.subspan(sizeof(data)),
                                        [](std::byte b) { return b == std::byte{0}; });
  // The QPN is not checked: a restarted peer may have sent the message with its former QPN.
  if (data.reserved != 0 || data.receive_mtu.host() != kReceiveMtu || !rest)
    wire_.wrong(fmt::format("{} of node {} has lost its private data", where, peer));
}

void SimNode::on_request(Handle handle, const wire::CmReq& req, const fabric::MadAddress& from,
                         TimePoint) {
  check_private(req.private_data, from.lid, "REQ");
  Link& link = links_[handle];
  link.peer = from.lid;
  link.peer_qpn = req.local_qpn.host();
  link.since = wire_.now;
  if (!give_way(handle, from.lid)) {
    link.over = true;
    static_cast<void>(manager_->reject(handle, wire::RejReason::kConsumer, wire_.now));
    return;
  }
  decide(handle);
}

/// Ends the node's connections with the peer in favour of the peer's request, and returns true. If
/// requests cross, the addresses decide, and the function returns false if the node's own request
/// wins. A request also counts as crossing if it arrives late and meets a young connection; with an
/// older connection, it comes from a peer that has restarted.
bool SimNode::give_way(Handle handle, std::uint16_t peer) {
  for (auto& [other, link] : links_) {
    if (other == handle || link.peer != peer || link.over) continue;
    if (wire_.policy == SimPolicy::kOnePerDirection && link.active) continue;
    const bool crosses = link.active && (!link.up || wire_.now - link.since < 3s);
    if (crosses && !wire::accepts_crossing(address(), wire_.node(peer)->address())) return false;
    drop(other, link);
  }
  return true;
}

void SimNode::on_reply(Handle handle, const wire::CmRep& rep, TimePoint) {
  const auto it = links_.find(handle);
  if (it == links_.end()) return wire_.wrong("reply to an unknown handle");
  check_private(rep.private_data, it->second.peer, "REP");
  it->second.peer_qpn = rep.local_qpn.host();
  it->second.asked = true;
  decide(handle);
}

void SimNode::decide(Handle handle) {
  const auto decide_now = [this, handle, life = incarnation_] {
    const auto it = links_.find(handle);
    if (life != incarnation_ || !alive() || it == links_.end()) return;
    Link& link = it->second;
    if (link.over || !link.asked) return;
    link.asked = false;
    if (wire_.chance(refusals)) {
      link.over = true;
      static_cast<void>(manager_->reject(handle, wire::RejReason::kNoResources, wire_.now));
      return;
    }
    Status status;
    if (link.active) {
      status = manager_->confirm(handle, wire_.now);
      link.up = status.has_value();
    } else {
      link.qpn = free_qpn();
      AcceptParams params;
      params.qpn = link.qpn;
      params.srq = true;
      params.private_data = private_data();
      status = manager_->accept(handle, params, wire_.now);
    }
    // The connection has ended already; its event is queued.
    if (!status) link.over = true;
  };
  if (dither == Duration{})
    decide_now();
  else
    wire_.at(wire_.now + dither, decide_now);
}

void SimNode::on_established(Handle handle, TimePoint) {
  const auto it = links_.find(handle);
  if (it == links_.end() || it->second.active) return wire_.wrong("established: unknown handle");
  it->second.up = !it->second.over;
}

void SimNode::on_closed(Handle handle, const Closed& closed, TimePoint) {
  const auto it = links_.find(handle);
  if (it == links_.end()) return wire_.wrong("closed: unknown handle");
  if (it->second.closed) wire_.wrong("closed twice");
  it->second.closed = it->second.over = true;
  it->second.up = false;
  const auto why = closed.rej.why();
  const bool consumers = why == wire::RejReason::kConsumer || why == wire::RejReason::kNoResources;
  if (closed.reason == CloseReason::kRejected && consumers)
    check_private(closed.rej.private_data, it->second.peer, "REJ");
}

void SimNode::on_released(Handle handle, TimePoint) {
  const auto it = links_.find(handle);
  if (it == links_.end()) return wire_.wrong("released: unknown handle");
  if (!it->second.over) wire_.wrong("released without an end");
  links_.erase(it);
}

// --- Wire ---

SimNode& SimWire::add_node() {
  nodes.push_back(std::make_unique<SimNode>(*this, static_cast<std::uint16_t>(nodes.size() + 1)));
  return *nodes.back();
}

SimNode* SimWire::node(std::uint16_t lid) {
  return nodes.at(lid - 1U).get();
}

void SimWire::send(std::uint16_t from, const fabric::MadAddress& to,
                   std::span<const std::byte, wire::kMadLen> octets) {
  fabric::ReceivedMad mad;
  mad.from = {.lid = from, .pkey = to.pkey};
  std::ranges::copy(octets, mad.bytes.begin());
  const int copies = (chance(faults.loss) ? 0 : 1) + (chance(faults.duplication) ? 1 : 0);
  for (int i = 0; i < copies; ++i) {
    const auto spread = static_cast<std::uint64_t>((faults.max_delay - faults.min_delay).count());
    const Duration delay =
        faults.min_delay + Duration{static_cast<Duration::rep>(random() % (spread + 1))};
    ++mads;
    at(now + delay, [this, mad, lid = to.lid] {
      SimNode* receiver = node(lid);
      if (!receiver->alive()) return;
      if (!receiver->manager().on_mad(mad, now)) wrong("a MAD cannot be read");
      if (receiver->manager().half_open() > config.max_half_open) wrong("too many half-open");
    });
  }
}

void SimWire::run_until(TimePoint end) {
  const auto next_deadline = [this] {
    std::optional<TimePoint> next;
    for (const auto& n : nodes)
      if (n->alive()) next = earlier(next, n->manager().next_deadline());
    return next;
  };
  run_to(end, next_deadline, [this] {
    for (const auto& n : nodes) {
      if (!n->alive()) continue;
      const auto due = n->manager().next_deadline();
      if (due && *due <= now) n->manager().tick(now);
    }
  });
}

void SimWire::wrong(std::string what) {
  if (violations.size() < 20)
    violations.push_back(fmt::format(
        "at {:.3f} s: {}", std::chrono::duration<double>(now.time_since_epoch()).count(), what));
}

}  // namespace ipoib::cm
