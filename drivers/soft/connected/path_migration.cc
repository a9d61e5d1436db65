// SPDX-License-Identifier: BSD-3-Clause
// Automatic path migration of RC queue pairs. Each end with an alternate path clears MigReq in its
// packets and is armed by a packet of the other end that has it cleared. The end that exhausts its
// retries changes to its alternate path and sets MigReq again, and the other end follows. Source: IBA
// vol 1 §17.2.8.
#include "drivers/soft/connected/connected_port.h"
#include "lib/wire/frame.h"

namespace ipoib::soft {

/// Ignored if the queue has changed its path since management sent the command: an event says so, and
/// that the queue has no further path.
void ConnectedPort::load_alternate(const QueueCommand& command) noexcept {
  SoftConnectedQueue& q = *command.queue;
  if (q.state() == fabric::QueueState::kReadyToSend && q.path.ah == command.in_use)
    q.set_paths(q.path, command.alternate, Migration::kRearm);
  const std::uint32_t taken = q.loads_taken.load(std::memory_order_relaxed) + 1;
  // Pairs with the acquire load of ConnectedControl::trim_handles().
  q.loads_taken.store(taken, std::memory_order_release);
}

/// Changes to the alternate path. False: the queue is not armed.
bool ConnectedPort::migrate(SoftConnectedQueue& q) noexcept {
  if (q.migration() != Migration::kArmed) return false;
  q.set_paths(q.alternate, kNoPath, Migration::kMigrated);
  q.requester.retries_left = q.retry_count;
  q.migrated_unreported = true;
  if (!report_events(q)) mark_ready(q);
  return true;
}

/// Handles a packet that SoftConnectedQueue::off_path() does not let through: it comes over another
/// path, or changes the state of migration. Its ICRC is checked before it can do that.
Drop ConnectedPort::follow(SoftConnectedQueue& q, const ConnectedFrame& f,
                           std::uint8_t flags) noexcept {
  const bool mig_req = (flags & wire::Bth::kMigReq) != 0;
  const bool migrated = mig_req && q.migration() == Migration::kArmed;
  const QueuePath& path = migrated ? q.alternate : q.path;
  if (!path.carries(f.lrh->slid.host(), f.grh)) return Drop::kIbPath;
  if (hca_.icrc && !wire::icrc_is_good(f.bytes.subspan(sizeof(EthHdr), f.end - sizeof(EthHdr))))
    return Drop::kIbIcrc;
  if (migrated)
    static_cast<void>(migrate(q));
  else
    q.set_paths(q.path, q.alternate, Migration::kArmed);
  return Drop::kNone;
}

}  // namespace ipoib::soft
