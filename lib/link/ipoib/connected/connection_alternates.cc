// SPDX-License-Identifier: BSD-3-Clause
// Alternate paths of connections: the active side asks the SA for a second path and the peer to load
// it, by a LAP. Both devices then change to it by themselves when the path in use fails. Source: IBA
// vol 1 §12.8, §17.2.8.
#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/link/ipoib/connected/connection_paths.h"
#include "lib/link/ipoib/connected/connections.h"

namespace ipoib::link {

using wire::ApStatus;

Connections::Connection* Connections::up_connection(cm::Handle handle) {
  const auto it = all_.find(handle);
  return it == all_.end() || it->second.over || !it->second.up ? nullptr : &it->second;
}

void Connections::seek_alternate(cm::Handle handle, Connection& c, TimePoint now) {
  if (c.queue->transport() != fabric::Transport::kRc || !actions_.takes_alternates()) return;
  if (c.seeking || c.asked || c.settles != kNever) return;
  c.seek_at = now + kSeekInterval * (1U << std::min(c.seeks++, kSeekDoublings));
  c.seeking = around_.second_path_to(
      c.peer.gid, c.path, c.path_mtu,
      [this, handle](const std::optional<PathTable::ReadyPath>& path, TimePoint at) {
        on_second_path(handle, path, at);
      },
      now);
}

void Connections::on_second_path(cm::Handle handle, const std::optional<PathTable::ReadyPath>& path,
                                 TimePoint now) {
  now_ = now;
  Connection* const c = up_connection(handle);
  if (c == nullptr) return;
  c->seeking = false;
  // After a migration meanwhile, the next path is sought when the new one works.
  if (!path || c->settles != kNever) return;
  // The connection has migrated to it meanwhile.
  if (same_way(path->attr, c->path)) return seek_alternate(handle, *c, now);
  const cm::AlternateParams asked{
      .path = path_there(path->attr, c->peer.gid, port_,
                         announced_ack_timeout(config_, path->lifetime, actions_.ack_delay())),
      .remote_timeout = config_.cm_timeout};
  if (!manager_.load_alternate(handle, asked, now)) return;
  c->asked = {
      .path = path->attr,
      .ack_timeout = own_ack_timeout(config_, path_ack_timeout(path->lifetime, c->peer_delay))};
}

/// The peer has loaded its way back first, so that it can follow.
void Connections::on_alternate_answer(cm::Handle handle, std::optional<ApStatus> status,
                                      TimePoint now) {
  now_ = now;
  Connection* const c = up_connection(handle);
  if (c == nullptr || !c->asked) return;
  const fabric::AlternatePath asked = *std::exchange(c->asked, std::nullopt);
  // It may have become the path in use meanwhile, by a LAP of the peer.
  if (status == ApStatus::kLoaded && !same_way(asked.path, c->path) && load_alternate(*c, asked))
    c->seeks = 0;
}

ApStatus Connections::fault_of_alternate(const Connection& c, const wire::CmPath& path) const {
  if (path.remote_gid != port_.gid() || path.local_gid != c.peer.gid) return ApStatus::kGid;
  // A peer in another subnet does not know the LIDs of this one, but may name some.
  const fabric::MadAddress there{.lid = path_back(path, c.port, port_).dlid};
  const bool right = fabric::same_port(there, {.lid = c.port.lid}, port_.lmc) &&
                     (!path.subnet_local() || port_.has_lid(path.remote_lid.host()));
  return right ? ApStatus::kLoaded : ApStatus::kLid;
}

ApStatus Connections::on_alternate(cm::Handle handle, const wire::CmLap& lap, TimePoint now) {
  now_ = now;
  Connection* const c = up_connection(handle);
  if (c == nullptr) return ApStatus::kRejected;
  if (c->queue->transport() != fabric::Transport::kRc || !actions_.takes_alternates())
    return ApStatus::kNotSupported;
  wire::CmPath path{};
  path.local_lid = lap.local_lid;
  path.remote_lid = lap.remote_lid;
  path.local_gid = lap.local_gid;
  path.remote_gid = lap.remote_gid;
  path.flow_rate = wire::CmPath::pack_flow_rate(lap.flow_label(), lap.rate());
  path.tclass = lap.tclass;
  path.hop_limit = lap.hop_limit;
  path.set_sl(lap.sl());
  path.set_subnet_local(lap.subnet_local());
  if (const auto fault = fault_of_alternate(*c, path); fault != ApStatus::kLoaded) return fault;
  const fabric::AhAttr back = path_back(path, c->port, port_);
  if (same_way(back, c->path)) return ApStatus::kDuplicate;
  if (c->loaded == back) return ApStatus::kLoaded;  // The LAP is repeated.
  if (now < c->next_load) return ApStatus::kRejected;
  c->next_load = now + kLoads;
  const fabric::AlternatePath alternate{.path = back,
                                        .ack_timeout = own_ack_timeout(config_, lap.ack_timeout())};
  return load_alternate(*c, alternate) ? ApStatus::kLoaded : ApStatus::kRejected;
}

/// Loads a path into the queue pair. On failure the connection keeps the alternate path that it has.
Status Connections::load_alternate(Connection& c, const fabric::AlternatePath& alternate) {
  auto loaded = actions_.load_alternate(*c.queue, alternate);
  if (loaded) {
    ++counters_.alternates;
    c.loaded = alternate.path;
    return loaded;
  }
  if (const auto suppressed = load_log_.allow(now_))
    log(LogArea::kLink, LogLevel::kWarning,
        "queue pair {:#x}: no alternate path: {} ({} similar events not logged)", c.queue->qpn(),
        loaded.error().what, *suppressed);
  return loaded;
}

/// The path need not be the one that was loaded last: the migration may have come before that load.
void Connections::on_migrated(cm::Handle handle, Connection& c, const fabric::AhAttr& path,
                              TimePoint now) {
  ++counters_.migrations;
  if (const auto suppressed = migration_log_.allow(now))
    log(LogArea::kLink, LogLevel::kNotice,
        "queue pair {:#x}: the path of the connection has failed, its alternate path is in use "
        "({} similar events not logged)",
        c.queue->qpn(), *suppressed);
  c.path = path;
  c.loaded.reset();
  if (!c.active) return;
  c.migrated_at = now;
  c.before.reset();
  settling_.set(handle, c.settles, now + kSettleInterval);
}

/// True if the peer has sent a message on the new path, or acknowledged one that was posted on it. The
/// completion of an earlier message may come late, and its ACK by the former path. A worker counts
/// messages when it polls, so those of the time until the first check may be of the former path, too.
bool Connections::new_path_works(Connection& c) const {
  const auto counters = actions_.info(*c.queue).counters;
  if (!c.before) c.before = {.sent = counters.tx_messages, .received = counters.rx_messages};
  return counters.tx_done > c.before->sent || counters.rx_messages > c.before->received;
}

/// Seeks the next path once the peer has sent or acknowledged a message on the new one. A peer that
/// still has to follow this side could not do so any more if it loaded another path. If there is
/// nothing to acknowledge, the queue pair has not failed in the time of all retries.
void Connections::settle(cm::Handle handle, TimePoint now) {
  Connection& c = all_.at(handle);
  const bool works = new_path_works(c);
  const bool silent = now - c.migrated_at >= longest_silence(config_);
  settling_.set(handle, c.settles, works || silent ? kNever : now + kSettleInterval);
  if (works || silent) seek_alternate(handle, c, now);
}

}  // namespace ipoib::link
