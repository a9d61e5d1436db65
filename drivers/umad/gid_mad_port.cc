// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/umad/gid_mad_port.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "drivers/umad/mads.h"
#include "lib/base/contract.h"
#include "lib/wire/gid.h"
#include "lib/wire/ipoib.h"
#include "lib/wire/mad.h"

namespace ipoib::umad {
namespace {

/// Arrived MADs that one call of receive() looks at. The others wait in the channel, whose queue is
/// bounded.
constexpr unsigned kArrivalsPerCall = 16;
/// The P_Key table of a port of Ethernet link layer has one entry: Ethernet has VLANs instead.
constexpr std::uint16_t kPkey = wire::kDefaultPkey;

}  // namespace

GidMadPort::GidMadPort(GidMadConfig config, std::unique_ptr<Umad> library)
    : config_{std::move(config)},
      library_{library ? std::move(library) : make_umad()},
      channel_{{.device = config_.device,
                .port = config_.port,
                .agents = connection_agents(),
                .umad = library_.get(),
                .doorbell = config_.doorbell,
                .first_retry = config_.first_retry,
                .max_retry = config_.max_retry,
                .max_queued = config_.max_queued}},
      sender_{[this] { run_sender(); }} {}

GidMadPort::~GidMadPort() {
  {
    const std::lock_guard lock{mutex_};
    stop_ = true;
  }
  changed_.notify_all();
  sender_.join();
}

Status GidMadPort::send(const fabric::MadAddress& to,
                        std::span<const std::byte, wire::kMadLen> mad) {
  expects_management();
  if (!wire::same_partition(to.pkey, kPkey))
    return fail(Errc::kInvalidArgument, "MAD with P_Key {:#06x}; the port has only P_Key 0xffff",
                to.pkey);
  if (to.sl > 15) return fail(Errc::kInvalidArgument, "MAD with SL {}: invalid SL", to.sl);
  if (to.lid == fabric::kOwnLid && to.qpn == wire::kGsiQpn) return send_to_self(to, mad);
  if (to.lid != fabric::kElsewhereLid || to.gid.is_zero() || to.gid.is_multicast())
    return fail(Errc::kInvalidArgument,
                "MAD to LID {:#06x}: a port of Ethernet link layer requires a destination GID",
                to.lid);
  return post({.sl = to.sl, .qpn = to.qpn, .gid = to.gid, .gid_index = config_.gid_index}, mad,
              to.answer_ms);
}

Status GidMadPort::send_to_self(const fabric::MadAddress& to,
                                std::span<const std::byte, wire::kMadLen> mad) {
  if (received_.size() >= config_.max_queued)
    return fail(Errc::kUnavailable, "the queue of MADs of the port to itself is full ({})",
                received_.size());
  ++counters_.local;
  fabric::ReceivedMad& local = received_.emplace_back();
  local.from = {.lid = fabric::kOwnLid, .sl = to.sl, .qpn = wire::kGsiQpn, .pkey = kPkey};
  std::copy(mad.begin(), mad.end(), local.bytes.begin());
  return {};
}

Status GidMadPort::post(const Peer& to, std::span<const std::byte, wire::kMadLen> mad,
                        std::uint32_t answer_ms) {
  if (channel_.session() == 0)
    return fail(Errc::kUnavailable, "MAD to {}: {}", wire::to_string(to.gid), channel_.problem());
  {
    const std::lock_guard lock{mutex_};
    if (outgoing_.size() >= config_.max_queued)
      return fail(Errc::kUnavailable, "MAD to {}: the transmit queue is full ({})",
                  wire::to_string(to.gid), outgoing_.size());
    Outgoing& out = outgoing_.emplace_back(Outgoing{to, {}, answer_ms});
    std::copy(mad.begin(), mad.end(), out.mad.begin());
  }
  changed_.notify_all();
  return {};
}

void GidMadPort::run_sender() {
  pthread_setname_np(pthread_self(), "ipoib-umad-tx");
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !outgoing_.empty(); });
    if (stop_) return;
    const Outgoing out = outgoing_.front();
    outgoing_.pop_front();
    lock.unlock();
    const Status sent = channel_.send(out.to, out.mad, out.answer_ms);
    (sent ? sent_ : send_failed_).add(1);
    lock.lock();
  }
}

std::optional<fabric::ReceivedMad> GidMadPort::receive() {
  expects_management();
  for (unsigned i = 0; i < kArrivalsPerCall && received_.empty(); ++i) {
    const auto arrived = channel_.take();
    if (!arrived) break;
    take(*arrived);
  }
  if (received_.empty()) return std::nullopt;
  fabric::ReceivedMad first = std::move(received_.front());
  received_.pop_front();
  return first;
}

void GidMadPort::take(const Arrived& arrived) {
  ++counters_.received;
  const auto header = wire::read<wire::MadHdr>(arrived.bytes);
  if (header && arrived.status != 0) {
    ++counters_.undeliverable;
  } else if (!header || arrived.from.gid.is_zero()) {
    ++counters_.malformed;
  } else if (is_of_connections(*header)) {
    fabric::ReceivedMad& mad = received_.emplace_back(as_received(arrived, kPkey));
    mad.from.lid = fabric::kElsewhereLid;
  } else {
    ++counters_.unserved;
    if (const auto answer = refusal_of(arrived, *header))
      static_cast<void>(post(arrived.from, *answer, 0));
  }
}

fabric::NamedCounters GidMadPort::counters() const {
  const ChannelCounters& channel = channel_.counters();
  return {{"sent", sent_.get()},
          {"send_failed", send_failed_.get()},
          {"received", counters_.received},
          {"local", counters_.local},
          {"undeliverable", counters_.undeliverable},
          {"malformed", counters_.malformed},
          {"unserved", counters_.unserved},
          {"overflowed", channel.overflowed.get()},
          {"device_opened", channel.opened.get()},
          {"device_lost", channel.lost.get()}};
}

}  // namespace ipoib::umad
