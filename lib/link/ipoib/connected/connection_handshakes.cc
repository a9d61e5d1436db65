// SPDX-License-Identifier: BSD-3-Clause
// Connected mode: requests of this side, and answers to requests of peers. Source:
// draft-ietf-ipoib-connected-mode-03 §3.
#include <algorithm>
#include <utility>

#include "lib/link/ipoib/connected/connection_paths.h"
#include "lib/link/ipoib/connected/connections.h"
#include "lib/wire/smp.h"

namespace ipoib::link {
namespace {

using wire::RejReason;
using wire::ServiceIdForm;

/// A request that arrives this soon after the own connection was established may have crossed it.
constexpr Duration kCrossing = std::chrono::seconds(3);
/// Time that a peer has to send on its first connection after a further request was refused.
constexpr Duration kProof = std::chrono::seconds(3);

constexpr ServiceIdForm other(ServiceIdForm form) {
  return form == ServiceIdForm::kIetf ? ServiceIdForm::kLinux : ServiceIdForm::kIetf;
}

constexpr wire::CmTransport cm_transport(fabric::Transport transport) {
  return transport == fabric::Transport::kRc ? wire::CmTransport::kRc : wire::CmTransport::kUc;
}

}  // namespace

// --- Requests of this side ---

void Connections::look_at(const PeerKey& key, TimePoint now) {
  schedule(key, kNever);
  Peer& p = peers_.at(key);
  if (std::exchange(p.lost_users, false)) {
    for (const cm::Handle handle : std::vector{p.handles}) {
      Connection& c = all_.at(handle);
      if (c.active || !per_direction(p)) close(handle, c, ConnectionEnd::kUnwanted, now);
    }
    return forget_if_idle(key);
  }
  choose(key, now);  // The flags in the peer's address may have changed.
  const auto transport = transport_with(flags_of(p));
  if (!started_ || config_.open == OpenPolicy::kAccept || p.users.empty() || !transport ||
      has_one_to_send(p))
    return;
  if (now < p.retry_at) return schedule(key, p.retry_at);
  if (wanted(p, now))
    if (const auto asked = ask(key, p, *transport, now); !asked) {
      if (asked.error().code != Errc::kUnavailable) return back_off(key, now);
    }
  if (!has_one_to_send(p)) schedule(key, now + kLook);
}

/// Errors: kUnavailable, may succeed a second later; others last longer.
Status Connections::ask(const PeerKey& key, Peer& p, fabric::Transport transport, TimePoint now) {
  const auto path = around_.path_to(key.gid);
  if (!path) return fail(Errc::kUnavailable, "no path");
  cm::ConnectParams params;
  params.to = {.lid = path->attr.dlid, .sl = path->attr.sl, .pkey = pkey_};
  if (path->attr.global) params.to.gid = path->attr.dgid;
  // Without traffic on them, connections would only take turns.
  if (!has_room(params.to, config_.open == OpenPolicy::kTraffic, now)) {
    ++counters_.limited;
    return fail(Errc::kNoResources, "the limit of {} connections is reached",
                config_.max_connections);
  }
  const auto made = create_queue(transport);
  if (!made) {
    ++counters_.no_queue;
    return tl::make_unexpected(made.error());
  }
  fabric::ConnectedQueue& queue = *made->queue;
  params.service_id = wire::ipoib_service_id(p.form, key.qpn);
  params.transport = cm_transport(transport);
  params.qpn = queue.qpn();
  params.starting_psn = random_psn();
  params.srq = true;
  params.retry_count = config_.retry_count;
  params.rnr_retry = config_.rnr_retry;
  params.mtu = path_mtu(path->mtu_code);
  params.primary = path_there(path->attr, key.gid, port_,
                              announced_ack_timeout(config_, path->lifetime, actions_.ack_delay()));
  params.lifetime = path->lifetime;
  params.remote_timeout = params.local_timeout = config_.cm_timeout;
  params.max_retries = config_.cm_retries;
  params.private_data = private_data(kRequestsFrom);
  const auto handle = manager_.connect(params, *this, now);
  if (!handle) {
    actions_.destroy_connected(queue, made->served_by);
    return tl::make_unexpected(handle.error());
  }
  ++counters_.asked;
  add(*handle,
      {.peer = key,
       .queue = &queue,
       .served_by = made->served_by,
       .port = params.to,
       .active = true,
       .psn = params.starting_psn},
      now);
  return {};
}

void Connections::on_reply(cm::Handle handle, const wire::CmRep& rep, TimePoint now) {
  now_ = now;
  const auto it = all_.find(handle);
  if (it == all_.end() || it->second.over) return;
  Connection& c = it->second;
  Peer& p = peers_.at(c.peer);
  const auto said = wire::read<wire::IpoibCmPrivate>(rep.private_data).value();
  const auto path = around_.path_to(c.peer.gid);
  c.peer_qpn = rep.local_qpn.host();
  c.peer_mtu = said.receive_mtu.host();
  c.peer_delay = rep.target_ack_delay();
  const auto ready = [&]() -> Status {
    if (said.ud_qpn.host() != c.peer.qpn || connection_mtu(c) < kLeastMtu)
      return fail(Errc::kInvalidArgument, "private data");
    if (!path) return fail(Errc::kUnavailable, "no path");
    const fabric::ReadyToReceive receive{.peer_qpn = c.peer_qpn,
                                         .path = path->attr,
                                         .path_mtu = path_mtu(path->mtu_code),
                                         .rx_psn = c.psn};
    if (auto status = actions_.set_ready_to_receive(*c.queue, receive); !status) return status;
    return actions_.set_ready_to_send(
        *c.queue,
        {.tx_psn = rep.starting_psn.host(),
         .max_message = c.peer_mtu,
         .retry_count = config_.retry_count,
         .rnr_retry = std::min(rep.rnr_retry(), config_.rnr_retry),
         .ack_timeout = own_ack_timeout(config_, path_ack_timeout(path->lifetime, c.peer_delay))});
  }();
  if (!ready) {
    static_cast<void>(manager_.reject(handle, RejReason::kConsumer, now));
    return finish(c, ConnectionEnd::kRefused, now);
  }
  if (!manager_.confirm(handle, now)) return;  // Already over: the event is queued.
  if (p.form == ServiceIdForm::kLinux) p.linux_habit = true;
  c.path = path->attr;
  c.path_mtu = path_mtu(path->mtu_code);
  connection_up(c, now);
  seek_alternate(handle, c, now);
}

/// A peer that does not know the service ID may know the other one, which is asked for next: at once,
/// if this was the first attempt. A peer that does not listen yet is asked for both in turn.
bool Connections::try_other_service(Peer& p, const cm::Closed& closed) {
  if (closed.reason != cm::CloseReason::kRejected ||
      closed.rej.why() != RejReason::kInvalidServiceId)
    return false;
  p.form = other(p.form);
  return p.failures == 0 && p.form != config_.service_id;
}

void Connections::back_off(const PeerKey& key, TimePoint now) {
  Peer& p = peers_.at(key);
  const auto doubled = config_.backoff_min * (std::int64_t{1} << std::min(p.failures, 20U));
  ++p.failures;
  p.retry_at = now + jitter_.around(std::min<Duration>(doubled, config_.backoff_max), 25);
  schedule(key, p.retry_at);
}

// --- Requests of peers ---

/// A request is believed only if the path to the GID that it names leads to its port. While that is
/// not known, or if the peer may have moved, it waits for the SA.
cm::Admission Connections::admit(const wire::CmReq& req, const fabric::MadAddress& from,
                                 std::optional<TimePoint> waits_since, TimePoint now) {
  using What = cm::Admission::What;
  now_ = now;
  if (fault_of(req, from)) return {.what = What::kReject, .known = false};
  const auto key = key_of(wire::requester(req));
  if (leads_to(key.gid, from) == true) {
    const auto it = peers_.find(key);
    return {.what = What::kAccept, .known = it != peers_.end() && !it->second.users.empty()};
  }
  if (!waits_since || !around_.is_answered(key.gid, *waits_since, now))
    return {.what = What::kWait, .known = false};
  ++(around_.path_to(key.gid) ? counters_.elsewhere : counters_.no_path);
  return {.what = What::kDrop, .known = false};
}

void Connections::on_request(cm::Handle handle, const wire::CmReq& req,
                             const fabric::MadAddress& from, TimePoint now) {
  now_ = now;
  ++counters_.incoming;
  const auto refuse = [&](RejReason reason, std::uint64_t& counter) {
    ++counter;
    static_cast<void>(manager_.reject(handle, reason, now));
  };
  if (const auto fault = fault_of(req, from))
    return refuse(fault->reason, counters_.*fault->counter);
  // The path may have changed since admit().
  const auto key = key_of(wire::requester(req));
  if (leads_to(key.gid, from) != true) return refuse(RejReason::kConsumer, counters_.elsewhere);
  const unsigned queue_pair = queue_pair_of(req.service_id);
  Peer& p = peer(key);
  if (wire::ipoib_service_of(req.service_id.host())->form == ServiceIdForm::kLinux)
    p.linux_habit = true;
  // First, because a request that is refused closes no connection.
  const bool possible = may_add();
  if (possible && keeps_first(handle, key, queue_pair, now))
    refuse(RejReason::kConsumer, counters_.further);
  else if (possible && !give_way(handle, key, queue_pair, now))
    refuse(RejReason::kConsumer, counters_.crossed);
  else if (!possible || !has_room(from, true, now))
    refuse(RejReason::kNoResources, counters_.limited);
  else if (!take(handle, req, queue_pair, from, now))
    refuse(RejReason::kNoResources, counters_.no_queue);
  forget_if_idle(key);
}

/// Returns the fault of a request at one of the link's queue pairs, regardless of its sender; empty:
/// it has none.
std::optional<Connections::Fault> Connections::fault_of(const wire::CmReq& req,
                                                        const fabric::MadAddress& from) const {
  const bool rc = req.transport() == wire::CmTransport::kRc;
  if (rc ? !config_.rc : !config_.uc)
    return Fault{RejReason::kInvalidTransport, &ConnectionCounters::bad_transport};
  const auto said = wire::read<wire::IpoibCmPrivate>(req.private_data).value();
  const auto mtu = wire::connection_ip_mtu(config_.receive_mtu, said.receive_mtu.host());
  const auto requester = wire::requester(req);
  const bool own = std::ranges::any_of(own_addresses_, [&](const wire::LinkAddr& address) {
    return wire::HwAddr{address}.same_interface(requester);
  });
  if (said.ud_qpn.host() <= 1 || mtu < kLeastMtu || own)
    return Fault{RejReason::kConsumer, &ConnectionCounters::bad_private_data};
  const fabric::MadAddress answers_to{.lid = path_back(req.primary, from, port_).dlid};
  if (!fabric::same_port(answers_to, from, port_.lmc))
    return Fault{RejReason::kConsumer, &ConnectionCounters::elsewhere};
  return std::nullopt;
}

std::optional<bool> Connections::leads_to(const wire::Gid& gid,
                                          const fabric::MadAddress& port) const {
  const auto path = around_.path_to(gid);
  if (!path) return std::nullopt;
  fabric::MadAddress there{.lid = path->attr.dlid};
  if (path->attr.global) there.gid = path->attr.dgid;
  return fabric::same_port(there, port, port_.lmc);
}

/// True unless the peer has sent nothing on its connection since a further request was refused for
/// it, some seconds ago: the peer does not have the connection any more, or has no use for it.
bool Connections::is_kept(cm::Handle handle, Connection& c, TimePoint now) {
  static_cast<void>(note_use(handle, c, now));
  const bool refused_since = c.kept_at != TimePoint{} && c.heard_at <= c.kept_at;
  if (!refused_since) c.kept_at = now;
  return now - c.kept_at < kProof;
}

/// True if the policy is to refuse a further request because there is an established connection of
/// the same name. A crossing request is none. If the peer has restarted and lost the connection, the
/// probe ends it, and the next request is accepted. A peer that does not answer the probe, as Linux
/// does not, is refused for kProof.
bool Connections::keeps_first(cm::Handle handle, const PeerKey& key, unsigned queue_pair,
                              TimePoint now) {
  if (config_.pairs != PairPolicy::kFirst) return false;
  const Peer& p = peers_.at(key);
  for (const cm::Handle older : std::vector{p.handles}) {
    Connection& c = all_.at(older);
    if (older == handle || c.over || !c.up || c.queue_pair != queue_pair) continue;
    if (c.active && (per_direction(p) || now - c.since < kCrossing)) continue;
    if (!is_kept(older, c, now)) continue;
    static_cast<void>(
        manager_.probe(older, now));  // It may have ended, with the event still queued.
    return true;
  }
  return false;
}

/// Closes existing connections of the same name in favour of the peer's request. Returns false if the
/// request crossed one of this side, which has priority. A late request crosses a young connection;
/// with an older one it means that the peer has restarted. Source:
/// draft-ietf-ipoib-connected-mode-03 §3.3.
bool Connections::give_way(cm::Handle handle, const PeerKey& key, unsigned queue_pair,
                           TimePoint now) {
  const Peer& p = peers_.at(key);
  for (const cm::Handle older : std::vector{p.handles}) {
    Connection& c = all_.at(older);
    if (older == handle || c.over || c.queue_pair != queue_pair) continue;
    if (c.active && per_direction(p)) continue;
    const bool crosses = c.active && (!c.up || now - c.since < kCrossing);
    if (crosses && !wire::accepts_crossing(own_addresses_[queue_pair], address_of(key)))
      return false;
    if (crosses) ++counters_.crossed;
    close(older, c, ConnectionEnd::kReplaced, now);
  }
  return true;
}

Status Connections::take(cm::Handle handle, const wire::CmReq& req, unsigned queue_pair,
                         const fabric::MadAddress& from, TimePoint now) {
  const bool rc = req.transport() == wire::CmTransport::kRc;
  const auto made = create_queue(rc ? fabric::Transport::kRc : fabric::Transport::kUc);
  if (!made) return tl::make_unexpected(made.error());
  fabric::ConnectedQueue& queue = *made->queue;
  const std::uint32_t psn = random_psn();
  Connection wanted{.peer = key_of(wire::requester(req)),
                    .queue = &queue,
                    .queue_pair = queue_pair,
                    .served_by = made->served_by,
                    .port = from,
                    .psn = psn};
  wanted.path = path_back(req.primary, from, port_);
  auto failover = wire::Failover::kNotSupported;
  if (rc && actions_.takes_alternates() && req.alternate.is_given()) {
    const fabric::AhAttr back = path_back(req.alternate, from, port_);
    const bool usable = !same_way(back, wanted.path) &&
                        fault_of_alternate(wanted, req.alternate) == wire::ApStatus::kLoaded;
    failover = usable ? wire::Failover::kAccepted : wire::Failover::kRejected;
    if (usable)
      wanted.asked = {.path = back,
                      .ack_timeout = own_ack_timeout(config_, req.alternate.ack_timeout())};
  }
  const fabric::ReadyToReceive receive{.peer_qpn = req.local_qpn.host(),
                                       .path = wanted.path,
                                       .path_mtu = path_mtu(req.mtu()),
                                       .rx_psn = psn};
  auto status = actions_.set_ready_to_receive(queue, receive);
  if (status)
    status = manager_.accept(handle,
                             {.qpn = queue.qpn(),
                              .starting_psn = psn,
                              .srq = true,
                              .rnr_retry = config_.rnr_retry,
                              .target_ack_delay = actions_.ack_delay(),
                              .failover = failover,
                              .private_data = private_data(queue_pair)},
                             now);
  if (!status) {
    actions_.destroy_connected(queue, made->served_by);
    return status;
  }
  const auto said = wire::read<wire::IpoibCmPrivate>(req.private_data).value();
  wanted.peer_qpn = receive.peer_qpn;
  wanted.peer_mtu = said.receive_mtu.host();
  Connection& c = add(handle, wanted, now);
  half_open_.emplace(c.serial = next_serial_++, handle);
  c.to_send = {.tx_psn = req.starting_psn.host(),
               .max_message = c.peer_mtu,
               .retry_count = config_.retry_count,
               .rnr_retry = std::min(req.rnr_retry(), config_.rnr_retry),
               .ack_timeout = own_ack_timeout(config_, req.primary.ack_timeout())};
  return {};
}

void Connections::on_established(cm::Handle handle, TimePoint now) {
  now_ = now;
  const auto it = all_.find(handle);
  if (it == all_.end() || it->second.over) return;
  Connection& c = it->second;
  if (!actions_.set_ready_to_send(*c.queue, c.to_send))
    return close(handle, c, ConnectionEnd::kFailed, now);
  connection_up(c, now);
  if (const auto alternate = std::exchange(c.asked, std::nullopt))
    static_cast<void>(load_alternate(c, *alternate));
}

}  // namespace ipoib::link
